"""What the terminal's tables and summaries are made of: columns that fit, folded lines, short names and figures."""

from __future__ import annotations

from collections.abc import Mapping

from npu.plain import printable
from npu.rendering.styled import Alignment, ColumnStyle, StyledText, TextTable
from npu.rendering.terminal import WIDEST_TEXT, is_coloured


def count(number: int) -> str:
    """A count with a metric prefix: 1234567 gives 1.23M."""
    for limit, suffix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{suffix}"
    return str(number) if number else ""


def kib(size: int | None) -> str:
    """Bytes as KiB with one decimal."""
    return "" if not size else f"{size / 1024:,.1f} KiB"


def short(name: str, limit: int = 28) -> str:
    """The telling end of a long tensor name; of the names that converters join by semicolons, that of the first."""
    if len(name) > limit:
        name = name.partition(";")[0]
    return name if len(name) <= limit else "…" + name[-(limit - 1) :]


def wrapped(text: str, width: int, first: str, following: str) -> list[str]:
    """Lines of at most `width` columns, the first and the following ones with their indents."""
    import textwrap  # most commands fold nothing

    return textwrap.wrap(
        text, min(width, WIDEST_TEXT), initial_indent=first, subsequent_indent=following, break_on_hyphens=False
    )


def titled(columns: Mapping[str, Alignment], *, folded: str | None = None) -> TextTable:
    """A table of columns with the side that their cells keep to; the one that is `folded` has the room that they leave."""
    held = [ColumnStyle(title, side) for title, side in columns.items()]
    return TextTable([*held, ColumnStyle(folded, folds=True)] if folded else held)


def fitted(
    names: list[str], rows: list[list[StyledText]], width: int, *, flexible: str, expendable: tuple[str, ...]
) -> tuple[list[str], list[list[StyledText]]]:
    """The table without as many of its expendable columns, in that order, as it takes to fit `width`."""
    for dropped in expendable:
        if _fixed_width(names, rows, flexible=flexible) <= width:
            break
        position = names.index(dropped)
        names = names[:position] + names[position + 1 :]
        rows = [row[:position] + row[position + 1 :] for row in rows]
    return names, rows


def _fixed_width(names: list[str], rows: list[list[StyledText]], *, flexible: str) -> int:
    """Columns that the table needs when its flexible column is as narrow as its name."""
    widths = [
        max([len(name), *(cell.columns for cell in cells)]) if name != flexible else len(name)
        for name, cells in zip(names, zip(*rows, strict=True), strict=False)
    ]
    return sum(widths) + 3 * (len(names) - 1) + 2


def room_of(names: list[str], rows: list[list[StyledText]], width: int, *, flexible: str) -> int:
    """Columns that are left for the flexible column."""
    return max(len(flexible), width - _fixed_width(names, rows, flexible=flexible) + len(flexible))


def make_table(names: list[str], rows: list[list[StyledText]], width: int, *, flexible: str, right: set[str]) -> TextTable:
    """A table for `width` columns whose columns keep their full width, but for one that shrinks."""
    room = room_of(names, rows, width, flexible=flexible)
    table = TextTable(
        ColumnStyle(name, "right" if name in right else "left", room if name == flexible else None) for name in names
    )
    for row in rows:
        table.add_row(*row)
    return table


def framed(width: int, title: str, table: TextTable, summary: str) -> str:
    """A table between its title and a summary, for `width` columns; in colour where the terminal shows colours."""
    colour = is_coloured()
    head = [StyledText(line, "bold").drawn(colour=colour) for line in folded(printable(title), width)]
    return (
        "\n".join(
            [*head, *table.lines(width, colour=colour), *(line for text in summary.split("\n") for line in folded(text, width))]
        )
        + "\n"
    )


def folded(text: str, width: int) -> list[str]:
    """Lines of at most `width` columns."""
    return [text] if len(text) <= width else wrapped(text, width, "", "")
