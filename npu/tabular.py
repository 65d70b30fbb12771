"""Results that are a table: as records, as a DataFrame, and as what a notebook shows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from npu import extras

if TYPE_CHECKING:
    import pandas

Record = dict[str, Any]
"""One row: a value, or None, by the name of its column."""

_MOST_ROWS = 200
"""Of a table in a notebook."""


class Tabular(ABC):
    """A result with one row for each operator or stretch of time."""

    __slots__ = ()

    @abstractmethod
    def records(self) -> list[Record]:
        """The rows, all with the same columns. Cycles are ticks of the NPU's clock, sizes bytes."""

    @abstractmethod
    def headline(self) -> str:
        """What the rows are of, and what they sum to, in a line."""

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a DataFrame. UserError without pandas, which the extra `sweep` installs."""
        made: pandas.DataFrame = extras.load("pandas", "sweep").DataFrame(self.records())
        return made

    def _repr_html_(self) -> str:
        """The table, as IPython and notebooks ask for it."""
        from html import escape

        rows = self.records()
        columns = [name for name in (rows[0] if rows else ()) if any(row[name] not in (None, "") for row in rows)]
        head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in columns)
        body = "".join(f"<tr>{''.join(_cell(row[name], escape) for name in columns)}</tr>" for row in rows[:_MOST_ROWS])
        more = f"<p>and {len(rows) - _MOST_ROWS} more rows</p>" if len(rows) > _MOST_ROWS else ""
        return (
            f"<p><b>{escape(self.headline())}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
        )


def _cell(value: Any, escape: Callable[[str], str]) -> str:
    if isinstance(value, bool) or value is None or not isinstance(value, int | float):
        return f'<td style="text-align:left">{escape("" if value is None else str(value))}</td>'
    return f'<td style="text-align:right">{f"{value:,}" if isinstance(value, int) else f"{value:.3g}"}</td>'


def as_ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers with runs written as first-last."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
