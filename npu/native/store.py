"""Libraries as files: where they lie, and that each is whole and made for what asks for it.

A file is a line of JSON with what it was made for, then the object. One that is truncated, foreign or made for something else
counts as missing.
"""

from __future__ import annotations

import functools
import json
import os
import zlib
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path

from npu.native.cpu import CpuTier
from npu.native.sources import digest, search_path

FORMAT = 2
SHIPPED = Path(__file__).parent / "libraries"
"""What a wheel brings."""


def header(group: str, tier: CpuTier) -> dict[str, object]:
    """What a library must have been made for."""
    return {"npulab kernels": FORMAT, "group": group, "tier": tier.name, "sources": digest(group)}


def encode(group: str, tier: CpuTier, code: bytes) -> bytes:
    """The content of a file."""
    head = {**header(group, tier), "object": zlib.crc32(code)}
    return json.dumps(head).encode() + b"\n" + code


def decode(group: str, tier: CpuTier, content: bytes) -> bytes | None:
    """The object, or None if a file is not what it should be."""
    line, _, code = content.partition(b"\n")
    expected, _, _ = encode(group, tier, code).partition(b"\n")
    return code if line == expected else None


def shipped_path(group: str, tier: CpuTier) -> Path:
    """Where a wheel has a library."""
    return SHIPPED / f"{group}-{tier.name}.kernels"


def cache_path(group: str, tier: CpuTier) -> Path:
    """Where a library is kept that was made here, by its content and by what made it."""
    return cache_folder() / f"{group}-{tier.name}-{digest(group)[:16]}-{_makers()}.kernels"


def cache_folder() -> Path:
    """NPULAB_CACHE_DIR, or npulab in the user's folder for caches."""
    named = os.environ.get("NPULAB_CACHE_DIR")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(os.path.expanduser("~")) / ".cache") / "npulab"


@functools.cache
def _makers() -> str:
    """The versions of numba and llvmlite that are installed, found without importing them."""
    return "-".join(_version(name) for name in ("numba", "llvmlite"))


def _version(package: str) -> str:
    spec = PathFinder.find_spec(package, search_path())
    if spec is None or spec.origin is None:
        return "none"
    start, end = f"{package}-", ".dist-info"
    names = os.listdir(os.path.dirname(os.path.dirname(spec.origin)))  # `glob` takes three times as long
    return next((name[len(start) : -len(end)] for name in names if name.startswith(start) and name.endswith(end)), "unknown")


def find(group: str, tier: CpuTier) -> tuple[bytes, Path] | None:
    """The object of a group and its file: what the wheel brings, or what was made here."""
    for path in (shipped_path, cache_path):
        place = path(group, tier)
        with suppress(OSError):
            code = decode(group, tier, place.read_bytes())
            if code is not None:
                return code, place
    return None


def keep(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all, whoever else does so at the same time. Raises OSError."""
    import tempfile  # only where a library is made

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
