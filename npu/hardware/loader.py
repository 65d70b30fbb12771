"""Loads a hardware variant: overlays from files and arguments, `extends`, named sections, validation.

A description is a mapping with the fields of `Variant`. `extends: <name or path>` starts from another one, and what the file
says is laid over it key by key; an empty mapping replaces what was there. `system`, `memory_mode` and `cpu` may be a name, a
path, or a mapping of fields, which may have an `extends` of its own. What a caller chooses or sets is laid over by the same
rules, so that nothing is said of a file that does not hold for an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from npu.errors import ConfigError
from npu.hardware.board import BOARD, board_of
from npu.hardware.build import build_record
from npu.hardware.document import read_document
from npu.hardware.origin import ArgumentOrigin, FileOrigin, ValueOrigin
from npu.hardware.overlay import Description, Overlay
from npu.hardware.shipped import SECTION_FOLDERS, find_section, find_variant, is_shipped
from npu.hardware.validate import check_variant
from npu.hardware.variant import Variant

MAX_EXTENDS = 8
"""Longest chain of `extends`."""

Find = Callable[[str | Path, ValueOrigin | None, str], Path]
"""The file that a key of an origin, or a caller, asks for."""

Chain = tuple[Path, ...]
"""Files whose `extends` led here."""


def read_variant(
    name_or_path: str | Path,
    *,
    memory_mode: str | Path | None = None,
    system: str | Path | None = None,
    cpu: str | Path | None = None,
) -> Variant:
    """The variant of a shipped name (`ethos-u55-128`) or of a YAML file, validated.

    `memory_mode`, `system` and `cpu` replace that section by a shipped one (`Shared_Sram`, `Ethos_U55_High_End_Embedded`,
    `cortex-m55`; case and Vela's prefix do not matter) or by a file. Raises ConfigError naming file, key, value and limit.
    """
    return build_variant(describe(name_or_path, chosen_sections(memory_mode=memory_mode, system=system, cpu=cpu)))


def chosen_sections(**sections: str | Path | None) -> list[Overlay]:
    """An overlay for each section that a caller chooses."""
    return [
        Overlay({section: choice}, ArgumentOrigin(section, (section,)))
        for section, choice in sections.items()
        if choice is not None
    ]


def describe(base: str | Path | Overlay, overlays: Iterable[Overlay] = ()) -> Description:
    """A description by name, path or contents, with everything that it extends, and overlays laid over it in order."""
    if isinstance(base, Overlay):
        description, name = _resolve(base, _find_variant, ()), base.origin.where(())
    else:
        path = find_variant(base)
        description, name = _resolve_file(path, _find_variant, ()), path.stem
    description.values.setdefault("name", name)
    for overlay in overlays:
        _lay_over(description, overlay)
    return description


def build_variant(description: Description) -> Variant:
    """The validated variant. ConfigError tells the origin of the value at fault."""
    values = dict(description.values)
    board_of(description)
    values.pop(BOARD, None)
    variant = build_record(Variant, values, (), description.where)

    def where(key: str) -> str:
        path = tuple(key.split("."))
        origin = description.origin_of(path)
        if isinstance(origin, FileOrigin) and is_shipped(origin.path):  # which contradicts nothing by itself
            origin = description.last
        return (origin or description.last).where(path)

    check_variant(variant, where)
    return variant


def _resolve_file(path: Path, find: Find, chain: Chain) -> Description:
    return _resolve(Overlay(read_document(path), FileOrigin(path)), find, (*chain, path.resolve()))


def _resolve(overlay: Overlay, find: Find, chain: Chain) -> Description:
    """What an overlay extends, with the overlay laid over it."""
    values, origin = dict(overlay.values), overlay.origin
    description = _base(values.pop("extends", None), origin, find, chain)
    if find is _find_variant:
        description.drop("name")
        _lay_over(description, Overlay(values, origin))
    else:
        description.lay_over(Overlay(values, origin))
    return description


def _base(extends: Any, origin: ValueOrigin, find: Find, chain: Chain) -> Description:
    """What `extends` names, or nothing."""
    if extends is None:
        return Description(origin, origin)
    if not isinstance(extends, str):
        raise _refused_extends(origin, f"be the name or path of a description, got {extends!r}")
    if len(chain) > MAX_EXTENDS:
        raise _refused_extends(origin, f"not be a chain longer than {MAX_EXTENDS} files")
    path = find(extends, origin, "extends")
    if path.resolve() in chain:
        loop = " -> ".join(file.name for file in (*chain, path))
        raise _refused_extends(origin, f"not lead back to itself, got {loop}")
    description = _resolve_file(path, find, chain)
    description.base = origin
    return description


def _refused_extends(origin: ValueOrigin, what: str) -> ConfigError:
    return ConfigError(f"{origin.where(('extends',))}: must {what}")


def _lay_over(description: Description, overlay: Overlay) -> None:
    """Lay an overlay over a variant. Sections that are names, or extend a named one, are loaded first."""
    values = dict(overlay.values)
    for section in SECTION_FOLDERS:
        value = values.get(section)
        if isinstance(value, str | Path):
            description.insert(section, _section(section, value, overlay.origin, section))
            del values[section]
        elif isinstance(value, dict) and "extends" in value:
            base, key = value["extends"], f"{section}.extends"
            if not isinstance(base, str | Path):
                raise ConfigError(f"{overlay.origin.where((section, 'extends'))}: must be a name or path, got {base!r}")
            description.insert(section, _section(section, base, overlay.origin, key))
            values[section] = {name: inner for name, inner in value.items() if name != "extends"}
            if not values[section]:
                del values[section]
    description.lay_over(Overlay(values, overlay.origin))


def _section(section: str, name: str | Path, asked_by: ValueOrigin, key: str) -> Description:
    """The section that `key` of an origin asks for by name."""

    def find(other: str | Path, origin: ValueOrigin | None, its_key: str) -> Path:
        return find_section(section, other, asked_by=origin, key=its_key)

    return _resolve_file(find(name, asked_by, key), find, ())


def _find_variant(name: str | Path, asked_by: ValueOrigin | None, _key: str) -> Path:
    return find_variant(name, asked_by=asked_by)
