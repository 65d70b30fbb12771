"""Results of points, kept one by one in a file as they come, so that nothing is lost when a sweep is interrupted.

A line is the key of a point (of everything that its result depends on) and the result, as JSON. Lines are only ever added: a
process that is killed leaves at most one that is not whole, which is forgotten.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TextIO

from npu.errors import UserError
from npu.explore.point import RESULTS, TEXTS, PointRow


class Journal:
    """What is known of points by key. Without a path it is kept in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.results: dict[str, PointRow] = {}
        self._file: TextIO | None = None
        if path is not None:
            self.results = _read(path)

    def add(self, key: str, row: PointRow) -> None:
        """Keep a result, on disk before this returns."""
        self.results[key] = row
        if self.path is not None:
            if self._file is None:
                self._file = _opened(self.path)
            self._file.write(json.dumps({"key": key, "result": row}) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file, if anything was written."""
        if self._file is not None:
            self._file.close()


def _read(path: Path) -> dict[str, PointRow]:
    if not path.exists():
        return {}
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _refused(path, str(error)) from error
    lines = content.split("\n")[:-1]
    rows = {}
    for number, line in enumerate(lines, 1):
        try:
            entry: dict[str, Any] = json.loads(line)
            rows[str(entry["key"])] = {name: _value(name, entry["result"][name]) for name in RESULTS}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _refused(path, f"line {number}") from error
    return rows


def _value(name: str, value: Any) -> Any:
    """A result, ValueError for one that no sweep writes."""
    if value is not None and not isinstance(value, str if name in TEXTS else int | float):
        raise ValueError(name)
    return value


def _opened(path: Path) -> TextIO:
    """The file, ready for the next line: what follows the last whole line is cut off."""
    try:
        path.touch()
        content = path.read_bytes()
        if (whole := content.rfind(b"\n") + 1) != len(content):
            with path.open("r+b") as file:
                file.truncate(whole)
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error


def _refused(path: Path, got: str) -> UserError:
    return UserError(f"{path}: must be a journal of npu sweep that can be read and written, got {got}; remove it to begin anew")
