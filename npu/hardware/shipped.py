"""The only place that knows where the shipped descriptions lie and how their names are spelt.

In a wheel they are package data at `npu/_configs`; in a checkout they are the top-level `configs` folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from npu.errors import ConfigError
from npu.hardware.origin import ValueOrigin

SECTION_FOLDERS = {"system": "systems", "memory_mode": "memory-modes", "cpu": "cpus"}
"""Section of a variant that may be given by name, and the folder of its descriptions."""

EXAMPLES_FOLDER = "examples"
"""Folder of the what-if variants; `examples/NAME` is a target like any other."""
BOARDS_FOLDER = "boards"
"""Folder of the boards; `boards/NAME` is a target like any other."""

_SUFFIXES = (".yaml", ".yml")
_EXTENDABLE = (*_SUFFIXES, ".json")


_PACKAGE = Path(__file__).resolve().parents[1]


def configs_folder() -> Path:
    """The folder of the shipped descriptions."""
    packaged = _PACKAGE / "_configs"
    return packaged if packaged.is_dir() else _PACKAGE.parent / "configs"


def is_shipped(path: Path) -> bool:
    """Whether a file is one of the shipped descriptions."""
    return path.is_relative_to(configs_folder())


def list_variants() -> tuple[str, ...]:
    """Names of the shipped variants, smallest array first."""
    return tuple(sorted(_stems("."), key=_natural))


def list_examples() -> tuple[str, ...]:
    """Names of the shipped what-if variants: documented examples of changed hardware, not products."""
    return _stems(EXAMPLES_FOLDER)


def list_boards() -> tuple[str, ...]:
    """Names of the shipped boards, those too whose NPU is not modelled."""
    return _stems(BOARDS_FOLDER)


def board_target(name: str) -> str:
    """The target that is meant by the name of a board, or by the path of a YAML file."""
    return name if is_path(name) else f"{BOARDS_FOLDER}/{name}"


def list_section(section: str) -> tuple[str, ...]:
    """Names of the shipped systems, memory modes or CPUs; `section` is a key of `SECTION_FOLDERS`."""
    return _stems(SECTION_FOLDERS[section])


def find_variant(name: str | Path, *, asked_by: ValueOrigin | None = None) -> Path:
    """The file of a variant given by shipped name, by `examples/NAME` or `boards/NAME`, or by path.

    Relative paths start beside `asked_by`, whose `extends` gives the name.
    """
    folder, _, stem = str(name).partition("/")
    if not isinstance(name, Path) and folder in (EXAMPLES_FOLDER, BOARDS_FOLDER) and stem in _stems(folder):
        return configs_folder() / folder / f"{stem}.yaml"
    if not isinstance(name, Path) and folder == BOARDS_FOLDER and not is_path(stem):
        return configs_folder() / folder / f"{_match(stem, list_boards(), lambda: 'board: ')}.yaml"
    if is_path(name):
        return _existing(Path(name), asked_by, "extends", "targets", list_variants())
    names = list_variants()
    stem = _match(str(name), names, lambda: _prefix(asked_by, "extends") or "target: ")
    return configs_folder() / f"{stem}.yaml"


def find_section(section: str, name: str | Path, *, asked_by: ValueOrigin | None = None, key: str = "extends") -> Path:
    """The file of a system, memory mode or CPU given by name (also in Vela's spelling) or by path.

    Relative paths start beside `asked_by`, whose `key` gives the name.
    """
    if is_path(name):
        return _existing(Path(name), asked_by, key, f"names of {section}", list_section(section))
    names = list_section(section)
    stem = _match(str(name), names, lambda: _prefix(asked_by, key) or f"{section}: ")
    return configs_folder() / SECTION_FOLDERS[section] / f"{stem}.yaml"


def closest(word: str, words: Iterable[str]) -> str:
    """A "did you mean" clause for an error message, empty if nothing is near."""
    import difflib  # for what is refused

    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f" (did you mean '{near[0]}'?)" if near else ""


def is_path(name: str | Path) -> bool:
    """Whether a description is asked for by path, not by name; `examples/NAME` counts as a path."""
    return isinstance(name, Path) or name.lower().endswith(_SUFFIXES) or "/" in name or "\\" in name


def _stems(folder: str) -> tuple[str, ...]:
    names = os.listdir(configs_folder() / folder)
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def _prefix(asked_by: ValueOrigin | None, key: str) -> str:
    return "" if asked_by is None else f"{asked_by.where(tuple(key.split('.')))}: "


def _existing(path: Path, asked_by: ValueOrigin | None, key: str, what: str, names: tuple[str, ...]) -> Path:
    """The file at a path. One that a description asks for must look like a description: messages quote what they read."""
    full = asked_by.folder / path if asked_by is not None else path
    if asked_by is not None and path.suffix.lower() not in _EXTENDABLE:
        problem = f", whose name ends in {', '.join(_EXTENDABLE)}; shipped {what} are {', '.join(names)}"
    elif os.path.isfile(full):  # never raises, unlike Path.is_file
        return full
    elif os.path.isdir(full):
        problem = ", got a folder"
    elif os.path.exists(full):
        problem = ", got a device or pipe; save it to a file first"
    else:
        problem = f", but there is no such file; shipped {what} are {', '.join(names)}"
    raise ConfigError(f"{_prefix(asked_by, key)}{path}: must be a YAML file with a hardware description{problem}")


def _match(name: str, names: tuple[str, ...], prefix: Callable[[], str]) -> str:
    keys = {_key(known): known for known in names}
    exact = {known.lower(): known for known in names}
    plain = name.strip().lower().replace("_", "-")
    result = exact.get(plain) or keys.get(_key(name))
    if result is None:
        known = f"{prefix()}must be one of {', '.join(names)}, or the path of a YAML file, got {name!r}"
        raise ConfigError(known + closest(plain, names))
    return result


def _key(name: str) -> str:
    """Spelling without case, separators and Vela's product prefix, for systems; variants keep theirs by exact match."""
    text = name.strip().lower().replace("-", "_")
    product, number, rest = text[:7], text[7:9], text[9:]
    is_product = product == "ethos_u" and number.isdecimal() and rest[:1] == "_" and "a" <= rest[1:2] <= "z"
    return (rest if is_product else text).replace("_", "")


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    parts = [(is_number, "".join(part)) for is_number, part in groupby(name, str.isdecimal)]
    return tuple((is_number, int(part) if is_number else 0, part) for is_number, part in parts)
