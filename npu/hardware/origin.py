"""Where values of a hardware description come from, for messages and relative paths: a file and a line, or an argument."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from npu.hardware.document import place_in
from npu.records import dataclass

if TYPE_CHECKING:
    from typing import Self

KeyPath = tuple[str, ...]
"""A dotted key of a description, in its parts."""


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """A YAML file. One of a section alone has its keys without the name of the section, which is `prefix`."""

    path: Path
    prefix: KeyPath = ()

    @property
    def folder(self) -> Path:
        """Where relative paths in it start."""
        return self.path.parent

    def at(self, section: str) -> Self:
        """The same origin of keys that now stand below a section."""
        return replace(self, prefix=(section, *self.prefix))

    def place(self, key: KeyPath) -> str:
        """The file, and the line of a key or of the innermost mapping around it that the file has."""
        return place_in(self.path, key[len(self.prefix) :])

    def where(self, key: KeyPath) -> str:
        """File, line and dotted key."""
        return ": ".join(part for part in (self.place(key), ".".join(key)) if part)


@dataclass(frozen=True, slots=True)
class ArgumentOrigin:
    """An argument of the caller or of the command line, `name`; `key` is the key that it sets, if it sets but one."""

    name: str
    key: KeyPath = ()

    @property
    def folder(self) -> Path:
        """Where relative paths in it start."""
        return Path()

    def at(self, _section: str) -> Self:
        """An argument names keys as they stand in the whole description."""
        return self

    def where(self, key: KeyPath) -> str:
        """The argument and the dotted key, once."""
        return self.name if key == self.key or not key else f"{self.name}: {'.'.join(key)}"


ValueOrigin = FileOrigin | ArgumentOrigin
