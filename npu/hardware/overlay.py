"""A description under construction: mappings laid over each other, with the origin of every value."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from npu.hardware.document import Document
from npu.hardware.origin import KeyPath, ValueOrigin
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Overlay:
    """What one file or argument says of a description."""

    values: Document
    origin: ValueOrigin


@dataclass
class Description:
    """Overlays merged so far: `values`, and by key the origin of each.

    `base` is the origin of the file or mapping that was asked for, `last` that of what was laid over it last.
    """

    base: ValueOrigin
    last: ValueOrigin
    values: Document = field(default_factory=dict)
    origins: dict[KeyPath, ValueOrigin] = field(default_factory=dict)

    def lay_over(self, overlay: Overlay) -> None:
        """Put the values of an overlay over those that are there, key by key; an empty mapping replaces what was there."""
        self.last = overlay.origin
        self._lay_over(self.values, overlay.values, overlay.origin, ())

    def _lay_over(self, target: Document, values: Document, origin: ValueOrigin, key: KeyPath) -> None:
        for name, value in values.items():
            here = (*key, name)
            if isinstance(value, dict) and value and isinstance(target.get(name), dict):
                self._lay_over(target[name], value, origin, here)
                continue
            target[name] = _copy(value)
            self._forget_below(here)
            self.origins[here] = origin

    def insert(self, section: str, part: Description) -> None:
        """Put the description of a section in place of whatever stood there."""
        self.values[section] = part.values
        self._forget_below((section,))
        self.origins[section,] = part.base.at(section)
        self.origins |= {(section, *key): origin.at(section) for key, origin in part.origins.items()}

    def drop(self, *names: str) -> None:
        """Take values away that hold for what was there before only."""
        for name in names:
            self.values.pop(name, None)
            self._forget_below((name,))

    def origin_of(self, key: KeyPath) -> ValueOrigin | None:
        """The origin of a key, or of the nearest key above it; None if nothing gives them."""
        lengths = range(len(key), 0, -1)
        return next((self.origins[key[:length]] for length in lengths if key[:length] in self.origins), None)

    def where(self, key: KeyPath) -> str:
        """For messages: a key with its place."""
        return (self.origin_of(key) or self.base).where(key)

    def _forget_below(self, key: KeyPath) -> None:
        self.origins = {known: origin for known, origin in self.origins.items() if known[: len(key)] != key}


def _copy(value: Any) -> Any:
    return {name: _copy(inner) for name, inner in value.items()} if isinstance(value, dict) else value
