"""Loads a hardware variant: YAML files, `extends`, named sections, validation. The only way to make a `Variant` from files.

A description is a mapping with the fields of `Variant`. `extends: <name or path>` starts from another one, and what the file
says is laid over it key by key; an empty mapping replaces what was there. `system`, `memory_mode` and `cpu` may be a name, a
path, or a mapping of fields, which may have an `extends` of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npu.errors import ConfigError
from npu.hardware.build import build_record
from npu.hardware.document import Document, place_in, read_document
from npu.hardware.shipped import SECTION_FOLDERS, find_section, find_variant
from npu.hardware.validate import check_variant
from npu.hardware.variant import Variant

MAX_EXTENDS = 8
"""Longest chain of `extends`."""

Find = Callable[[str | Path, Path | None], Path]
Key = tuple[str, ...]


@dataclass
class _Merged:
    """A description under construction, and which file set each key."""

    values: Document = field(default_factory=dict)
    origins: dict[Key, Path] = field(default_factory=dict)

    def lay_over(self, overlay: Document, path: Path, key: Key = ()) -> None:
        """Lays a mapping over the values under `key`."""
        target = self._at(key)
        for name, value in overlay.items():
            here = (*key, name)
            if isinstance(value, dict) and value and isinstance(target.get(name), dict):
                self.lay_over(value, path, here)
                continue
            target[name] = _copy(value)
            self.origins = {known: file for known, file in self.origins.items() if known[: len(here)] != here}
            self.origins[here] = path

    def insert(self, section: str, part: _Merged) -> None:
        """Puts a resolved section in place of whatever stood there."""
        self.values[section] = part.values
        self.origins = {key: file for key, file in self.origins.items() if key[:1] != (section,)}
        self.origins.update({(section, *key): file for key, file in part.origins.items()})

    def locate(self, key: Key, fallback: Path) -> str:
        """The file that set `key`, or the nearest key above it, and the line."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.origins:
                return _line_in(self.origins[key[:length]], key)
        return str(fallback)

    def _at(self, key: Key) -> Document:
        values = self.values
        for name in key:
            values = values[name]
        return values


def read_variant(
    name_or_path: str | Path, *, memory_mode: str | None = None, system: str | None = None, cpu: str | None = None
) -> Variant:
    """The variant of a shipped name (`ethos-u55-128`) or of a YAML file, validated.

    `memory_mode`, `system` and `cpu` replace that section by a shipped one (`Shared_Sram`, `Ethos_U55_High_End_Embedded`,
    `cortex-m55`; case and Vela's prefix do not matter) or by a file. Raises ConfigError naming file, key, value and limit.
    """
    path = find_variant(name_or_path)
    merged = _resolve(path, _find_variant, ())
    for section, choice in (("memory_mode", memory_mode), ("system", system), ("cpu", cpu)):
        if choice is not None:
            merged.insert(section, _resolve_section(section, choice, None, section))
    merged.values["name"] = merged.values.get("name", path.stem)
    variant = build_record(Variant, merged.values, (), lambda key: merged.locate(key, path))
    check_variant(variant, lambda key: f"{_line_in(path, tuple(key.split('.')))}: {key}")
    return variant


def _line_in(path: Path, key: Key) -> str:
    """A file and the line of a key of a variant in it; the file of a section has keys without the section."""
    place = place_in(path, key)
    return place if place != str(path) else place_in(path, key[1:])


def _resolve(path: Path, find: Find, chain: tuple[Path, ...]) -> _Merged:
    """The description in a file with everything that it extends; sections of a variant become mappings."""
    document = read_document(path)
    merged = _start(document.pop("extends", None), path, find, chain)
    if find is _find_variant:
        merged.values.pop("name", None)
        merged.values.pop("accuracy", None)
        _resolve_sections(document, merged, path)
    merged.lay_over(document, path)
    return merged


def _start(base: Any, path: Path, find: Find, chain: tuple[Path, ...]) -> _Merged:
    """What `extends` names, or nothing."""
    chain = (*chain, path.resolve())
    if base is None:
        return _Merged()
    if not isinstance(base, str):
        raise _refused_base(path, f"must be the name or path of a description, got {base!r}")
    if len(chain) > MAX_EXTENDS:
        raise _refused_base(path, f"must not be a chain longer than {MAX_EXTENDS} files")
    found = find(base, path)
    if found.resolve() in chain:
        loop = " -> ".join(file.name for file in (*chain, found))
        raise _refused_base(path, f"must not lead back to itself, got {loop}")
    return _resolve(found, find, chain)


def _refused_base(path: Path, reason: str) -> ConfigError:
    return ConfigError(f"{place_in(path, ('extends',))}: extends: {reason}")


def _resolve_sections(document: Document, merged: _Merged, path: Path) -> None:
    """Loads the sections that are names, or that extend a named one, so that only plain mappings are left to merge."""
    for section in SECTION_FOLDERS:
        value = document.get(section)
        if isinstance(value, str):
            merged.insert(section, _resolve_section(section, value, path, section))
            del document[section]
        elif isinstance(value, dict) and "extends" in value:
            base = value.pop("extends")
            if not isinstance(base, str):
                where = place_in(path, (section, "extends"))
                raise ConfigError(f"{where}: {section}.extends: must be a name or path, got {base!r}")
            merged.insert(section, _resolve_section(section, base, path, f"{section}.extends"))
            if not value:
                del document[section]


def _resolve_section(section: str, name: str, asked_by: Path | None, key: str) -> _Merged:
    """The section that `key` of a file, or a caller, asks for by name."""

    def find(other: str | Path, file: Path | None) -> Path:
        return find_section(section, other, asked_by=file)

    return _resolve(find_section(section, name, asked_by=asked_by, key=key), find, ())


def _find_variant(name: str | Path, asked_by: Path | None) -> Path:
    return find_variant(name, asked_by=asked_by)


def _copy(value: Any) -> Any:
    return {name: _copy(item) for name, item in value.items()} if isinstance(value, dict) else value
