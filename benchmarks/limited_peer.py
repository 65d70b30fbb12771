"""XNNPACK without what a CPU has beyond AVX2, for comparisons of kernels of that kind: LiteRT has no option for it.

What it finds of the CPU is in a structure of its library (`cpuinfo_isa`), in which the later features are cleared before the
first interpreter is made. Where they are was read from the code that decides (`init_hardware_config`) of one version.
"""

from __future__ import annotations

import ctypes
import struct
from importlib.metadata import version
from pathlib import Path

import ai_edge_litert.interpreter as peer

_VERSION, _BYTES = "2.3.0", 0x56
_FIRST, _KEPT, _AVX512 = 0x1E, (0x21, 0x22, 0x23), 0x29
"""Bytes after AVX; of these FMA, F16C and AVX2, without which AVX2 is not used; and AVX-512, which must be there at first."""


def limit_to_avx2() -> None:
    """Clear what comes after AVX2, once in a process, before any interpreter."""
    if version("ai-edge-litert") != _VERSION:
        raise SystemExit(f"XNNPACK can be limited in ai-edge-litert {_VERSION}, got {version('ai-edge-litert')}")
    library = next(Path(peer.__file__).parent.glob("libpywrap_litert_common.so"))
    symbols, base = _symbols(library.read_bytes()), _base(library)
    ctypes.CFUNCTYPE(ctypes.c_bool)(base + symbols["cpuinfo_initialize"])()
    found = (ctypes.c_ubyte * _BYTES).from_address(base + symbols["cpuinfo_isa"])
    if not all(found[k] for k in (*_KEPT, _AVX512)):
        raise SystemExit("XNNPACK can be limited to AVX2 on a CPU with AVX-512")
    for k in set(range(_FIRST, _BYTES)) - set(_KEPT):
        found[k] = 0


def _base(library: Path) -> int:
    """Where a library of this process begins in memory."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return int(next(line for line in lines if line.endswith(str(library.resolve()))).split("-")[0], 16)


def _symbols(content: bytes) -> dict[str, int]:
    """Addresses of the symbols of an ELF file, from its beginning."""
    (start,) = struct.unpack_from("<Q", content, 0x28)
    size, count = struct.unpack_from("<HH", content, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, start + k * size) for k in range(count)]
    table = next(section for section in sections if section[1] == 2)
    names = sections[table[6]][4]
    symbols = {}
    for at in range(table[4], table[4] + table[5], 24):
        name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", content, at)
        symbols[content[names + name : content.index(b"\0", names + name)].decode()] = value
    return symbols
