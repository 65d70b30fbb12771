"""Text out of files made plain; the only place that knows which characters steer a terminal or break a line."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text of a file without characters that steer a terminal or break a line; each becomes its escape."""
    return "".join(character if character.isprintable() else character.encode("unicode_escape").decode() for character in text)
