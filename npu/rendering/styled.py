"""Text with colours, and tables of it: the only place that writes the sequences by which a terminal shows them.

rich draws progress bars and the tools' tables: importing it takes longer than most results take to lay out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from npu.records import dataclass
from npu.rendering.terminal import WIDEST_FILLED

Alignment = Literal["right", "left"]
_CODES = {"bold": 1, "italic": 3, "red": 31, "green": 32, "yellow": 33}
_GAP = "   "
"""Between the columns of a table."""
_LEAST_FOLDED = 20


def columns_of(text: str) -> int:
    """The columns that text takes in a terminal, where East Asian characters take two and accents none."""
    if text.isascii():
        return len(text)
    import unicodedata  # a library of its own, for few texts

    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


class StyledText:
    """A line whose parts have styles: `bold`, `italic` or a colour, or none."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self._parts: list[tuple[str, str]] = []
        self._style = style
        self.append(text)

    def append(self, text: str, style: str = "") -> None:
        """Add a part. Without a style of its own it has that of the line."""
        self._parts.append((text, style or self._style))

    @property
    def plain(self) -> str:
        """The line without styles."""
        return "".join(text for text, _ in self._parts)

    @property
    def columns(self) -> int:
        """The columns that it takes in a terminal."""
        return columns_of(self.plain)

    def drawn(self, *, colour: bool) -> str:
        """The line for a terminal that shows colours, or as it is."""
        return "".join(
            f"\x1b[{_CODES[style]}m{text}\x1b[0m" if colour and style and text else text for text, style in self._parts
        )


@dataclass(frozen=True, slots=True)
class ColumnStyle:
    """How a column of a table is drawn. One that `folds` its cells takes no more than the room that the others leave."""

    title: str
    side: Alignment = "left"
    limit: int | None = None
    """The columns of the terminal that it may take."""
    folds: bool = False


class TextTable:
    """Rows below a head and a line, for a terminal of some width."""

    def __init__(self, columns: Iterable[ColumnStyle]) -> None:
        self._columns = list(columns)
        self._rows: list[list[StyledText]] = []

    def add_row(self, *cells: str | StyledText) -> None:
        """Add a row, with a cell for every column."""
        self._rows.append([cell if isinstance(cell, StyledText) else StyledText(cell) for cell in cells])

    def lines(self, width: int, *, colour: bool) -> list[str]:
        """The table between two empty lines."""
        widths = self._widths(width)
        head = self._line([StyledText(column.title, "bold") for column in self._columns], widths, colour=colour)
        rule = " " + "─" * (sum(min(size, WIDEST_FILLED) for size in widths) + len(_GAP) * (len(widths) - 1))
        rows = [self._line(part, widths, colour=colour) for row in self._rows for part in self._folded(row, widths)]
        return ["", head, rule, *rows, ""]

    def _widths(self, width: int) -> list[int]:
        """The columns of the terminal for each column: what it needs, but the widest give way where that is too much."""
        cells = zip(*self._rows, strict=True) if self._rows else [()] * len(self._columns)
        sizes = [
            min(max([columns_of(column.title), *(cell.columns for cell in held)]), column.limit or width)
            for column, held in zip(self._columns, cells, strict=True)
        ]
        room = width - len(_GAP) * (len(sizes) - 1) - 2
        for at, column in enumerate(self._columns):
            if column.folds:
                sizes[at] = min(sizes[at], max(room - (sum(sizes) - sizes[at]), _LEAST_FOLDED))
        while sum(sizes) > room and max(sizes) > 1:
            sizes[sizes.index(max(sizes))] -= 1
        return sizes

    def _folded(self, row: list[StyledText], widths: list[int]) -> list[list[StyledText]]:
        """The lines of a row: more than one if a cell must be folded."""
        at = next((at for at, column in enumerate(self._columns) if column.folds), None)
        if at is None:
            return [row]
        import textwrap  # most commands fold nothing

        first, *others = textwrap.wrap(row[at].plain, widths[at], break_on_hyphens=False) or [""]
        empty = [StyledText() for _ in row]
        return [
            [*row[:at], StyledText(first), *row[at + 1 :]],
            *([*empty[:at], StyledText(line), *empty[at + 1 :]] for line in others),
        ]

    def _line(self, cells: list[StyledText], widths: list[int], *, colour: bool) -> str:
        drawn = (
            _padded(cell, column.side, size, colour=colour)
            for cell, column, size in zip(cells, self._columns, widths, strict=True)
        )
        return (" " + _GAP.join(drawn)).rstrip()


def _padded(cell: StyledText, side: Alignment, size: int, *, colour: bool) -> str:
    if cell.columns > size:
        return _cut(cell.plain, size)
    gap = " " * (min(size, WIDEST_FILLED) - cell.columns)
    return gap + cell.drawn(colour=colour) if side == "right" else cell.drawn(colour=colour) + gap


def _cut(text: str, size: int) -> str:
    """The beginning of text that is too long, with a sign that it is."""
    while columns_of(text) >= size:
        text = text[:-1]
    return text + "…" + " " * (size - columns_of(text) - 1)
