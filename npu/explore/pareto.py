"""Which rows of a table no other row beats in everything that counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu.errors import UserError
from npu.explore.point import PointRow


def pareto_rows(rows: Sequence[PointRow], *smallest: str, largest: Sequence[str] = ()) -> list[int]:
    """Numbers of the rows on the front, by the first column; rows without a value in a column are not on it."""
    columns = (*smallest, *largest)
    if not columns:
        raise UserError("pareto: must be given at least one column")
    for name in columns:
        if rows and name not in rows[0]:
            raise UserError(f"pareto: columns must be among {', '.join(rows[0])}, got {name!r}")
    scores = {
        number: tuple(-row[name] if name in largest else row[name] for name in columns)
        for number, row in enumerate(rows)
        if all(isinstance(row[name], int | float) and row[name] == row[name] for name in columns)
    }
    front: list[int] = []
    for number in sorted(scores, key=lambda number: (scores[number], number)):
        if not any(_beats(scores[other], scores[number]) for other in front):
            front.append(number)
    return front


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether a row is nowhere worse and somewhere better. In sorted order only earlier rows can beat a later one."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def pareto(frame: Any, *smallest: str, largest: Sequence[str] = ()) -> Any:
    """The rows of a data frame on the Pareto front of the named columns, by the first of them."""
    rows = (
        frame[[*dict.fromkeys((*smallest, *largest))]].astype(object).to_dict("records")
        if _has(frame, smallest, largest)
        else []
    )
    return frame.iloc[pareto_rows(rows, *smallest, largest=largest)]


def _has(frame: Any, smallest: Sequence[str], largest: Sequence[str]) -> bool:
    for name in (*smallest, *largest):
        if name not in frame.columns:
            raise UserError(f"pareto: columns must be among {', '.join(map(str, frame.columns))}, got {name!r}")
    return True
