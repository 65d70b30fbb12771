"""The only place that writes text to the terminal, and that knows how wide it is and which characters it may get.

Names in models and of files may hold anything, also sequences that steer a terminal. They are shown as escapes: by
`npu.plain.printable` where text is laid out, and by `say` in whatever is left.
"""

from __future__ import annotations

import io
import os
import re
import sys
from pathlib import Path

from npu.errors import UserError
from npu.plain import printable

PIPE_WIDTH = 8192
"""Columns of a pipe or file, where nobody says COLUMNS: names are kept whole for the programs that read them."""
WIDEST_TEXT = 120
"""Columns of sentences, however wide the table above them is."""
WIDEST_FILLED = 100
"""Columns up to which shorter cells of a column are filled up with spaces. What is longer sticks out: a converter's name can
have two thousand characters, and would make every line as long."""
NARROWEST = 40
"""Columns below which nothing is laid out."""

_STEERING = "(\x1b\\[[0-9;]*m)|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
"""A colour (kept on a terminal that shows colours), or a character that is no text."""

_ASCII = {ord("─"): "-", ord("…"): "~", ord("±"): "+-"}
"""What stands for the signs of this project's own texts where the terminal has none of them."""


def _encodes(encoding: str | None, text: str) -> bool:
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def say(text: str) -> None:
    """Write to standard output at once. UserError if it does not take the text; BrokenPipeError if nobody reads it."""
    shown, keeps_colour = text, is_coloured()
    if not text.replace("\n", "").isprintable():
        shown = re.sub(_STEERING, lambda match: match[0] if keeps_colour and match[1] else printable(match[0]), text)
    if not _encodes(sys.stdout.encoding, "".join(map(chr, _ASCII))):
        shown = shown.translate(_ASCII)
    try:
        sys.stdout.write(shown)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_output()
        raise
    except OSError as error:
        _forget_output()
        raise UserError(f"standard output: must take the result, got {error.strerror or error}") from error


def _forget_output() -> None:
    """Let what could not be written vanish, which Python would try again, and complain about, at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def width_for(output: Path | None) -> int:
    """Columns to lay text out for: the terminal's, or in files and pipes as many as names take."""
    is_terminal = output is None and sys.stdout.isatty()
    return max(_said_columns() or _terminal_columns() or (80 if is_terminal else PIPE_WIDTH), NARROWEST)


def _said_columns() -> int:
    """COLUMNS, or 0 where it is no number. As shutil has it, whose import costs every command three milliseconds."""
    columns = os.environ.get("COLUMNS", "")
    return max(int(columns), 0) if columns.isdecimal() else 0


def _terminal_columns() -> int:
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (ValueError, OSError):  # closed, or no terminal
        return 0


def is_coloured() -> bool:
    """Whether standard output shows colours: a terminal whose user has not said NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def prepare_streams() -> None:
    """Make standard output and error fit for any text: in any encoding, and where the caller has closed them."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")
