"""What the machine code of a library depends on: its modules and the modules of this project that they import."""

from __future__ import annotations

import functools
import os
import sys
from itertools import pairwise
from pathlib import Path

from npu.digests import blake2b

ROOT = Path(__file__).parents[2]
"""Holds the packages, in a checkout and where a wheel is installed."""
GROUPS = (
    "npu.numerics",
    "npu.machine.kernels",
    "npu.isa.weight_stream.kernels",
    "npu.compiler.kernels",
    "npu.runtime.kernels",
    "npu.runtime.xnnpack.kernels",
    "npu.tools.kernels",
    "sim.functional.kernels",
    "sim.timing.kernels",
)
"""The packages whose kernels become a library each."""
_CODE = ("npu.native.compile", "npu.native.cpu", "npu.native.link")
_ABOUT_FILES = (
    "npu.digests",
    "npu.errors",
    *(f"npu.native.{name}" for name in ("library", "load", "make", "makers", "requests", "sources", "store")),
)
"""These find, keep and load code, and have no part in what it is; nor has the wording of errors."""
PACKAGES = ("npu", "sim", "constraints")
"""The top of everything that is installed."""


def search_path() -> list[str]:
    """Where modules are found, but for the current folder, in which anybody's files may lie."""
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    return [entry for entry in sys.path if os.path.isabs(entry) and os.path.normpath(entry) != here]


def group_of(module: str) -> str:
    """The group that a module belongs to."""
    for group in GROUPS:
        if f"{module}.".startswith(f"{group}."):
            return group
    raise LookupError(f"kernels must be declared in {', '.join(GROUPS)}, got {module}")


def modules_of(group: str) -> list[str]:
    """The modules of a group, by name."""
    names = os.listdir(ROOT.joinpath(*group.split(".")))
    return sorted(f"{group}.{name.removesuffix('.py')}" for name in names if name.endswith(".py") and name != "__init__.py")


@functools.cache
def files_of(group: str) -> dict[str, bytes]:
    """The source of every module that a group depends on, by name in order."""
    files: dict[str, bytes] = {}
    waiting = [*modules_of(group), *_CODE]
    while waiting:
        module = waiting.pop()
        if module not in files and module not in _ABOUT_FILES and (read := _read(module)) is not None:
            files[module], imported = read
            waiting.extend(imported)
    return dict(sorted(files.items()))


@functools.cache
def _read(module: str) -> tuple[bytes, list[str]] | None:
    """The source of a module and what it imports, None if there is no such module."""
    place = os.path.join(ROOT, *module.split("."))
    for path in (f"{place}.py", os.path.join(place, "__init__.py")):
        if module in PACKAGES or not os.path.isfile(path):
            continue
        with open(path, "rb") as file:
            source = file.read()
        return source, _imported(source)
    return None


def _imported(source: bytes) -> list[str]:
    """Modules that a source names; a name that is imported from a package may be a module as well."""
    names: list[str] = []
    pieces = source.split(b"import ")  # regular expressions for it take longer to compile than all else
    for before, after in pairwise(pieces):
        words = before[before.rfind(b"\n") + 1 :].split()
        if not words:
            names += [name.decode().rstrip(",") for name in after.split(maxsplit=1)[:1]]
        elif words[0] == b"from" and len(words) == 2:
            base = words[1].decode()
            names.append(base)
            if base.startswith(PACKAGES) and _is_package(base):
                imported = after[1 : after.find(b")")] if after.startswith(b"(") else after[: after.find(b"\n")]
                names += [f"{base}.{name}" for name in imported.decode().replace(",", " ").split()]
    return [name for name in names if name.startswith(PACKAGES)]


@functools.cache
def _is_package(module: str) -> bool:
    return os.path.isdir(os.path.join(ROOT, *module.split(".")))


@functools.cache
def digest(group: str) -> str:
    """Changes with every source that a group depends on."""
    content = blake2b(digest_size=32)
    for module, source in files_of(group).items():
        content.update(f"{module} {len(source)}\n".encode())
        content.update(source)
    return content.hexdigest()
