"""Text out of files made plain; the only place that knows which characters steer a terminal or break a line."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How text begins that spreadsheets take for a formula."""


def printable(text: str) -> str:
    """Text of a file without characters that steer a terminal or break a line; each becomes its escape."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in text)


def shortened(text: str, longest: int) -> str:
    """Text of at most `longest` characters: of a longer one the start, which says where, and the end, which says what to do."""
    if len(text) <= longest:
        return text
    left_out = f" [... {len(text) - longest:,} characters ...] "
    start = longest * 2 // 3
    return text[:start] + left_out + text[len(text) - (longest - start - len(left_out)) :]


def cell(value: object) -> object:
    """A value for a table that other programs open: text that a spreadsheet would compute is marked as text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
