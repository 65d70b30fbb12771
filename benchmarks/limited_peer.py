"""XNNPACK without what a CPU has beyond AVX2, for comparisons of kernels of that kind: LiteRT has no option for it.

What it finds of the CPU is in a structure of its library (`cpuinfo_isa`, a byte a feature), in which what goes beyond AVX2 is
cleared before the first interpreter is made. Where features are was read from the code that decides (`init_hardware_config`) of
one version, and is compared with what the system says of the CPU.
"""

from __future__ import annotations

import ctypes
import re
import struct
from importlib.metadata import version
from pathlib import Path

import ai_edge_litert.interpreter as peer

_VERSION, _BYTES = "2.3.0", 0x56
_FIRST = 0x16
_FEATURES = (
    *("avx", "avx_vnni", "fma", "fma4", "xop", "f16c", "avx2"),
    *("avx512f", "avx512pf", "avx512er", "avx512cd", "avx512dq", "avx512bw", "avx512vl"),
)
"""In the order of their bytes from `_FIRST` on, as Linux calls them; all bytes after these are of later ones."""
_AVX2_FLAG = 7
"""Bit of what XNNPACK concludes; flags of later features are above it."""


def limit_to_avx2() -> None:
    """Clear what comes after AVX2, once in a process, before any interpreter."""
    if version("ai-edge-litert") != _VERSION:
        raise SystemExit(f"XNNPACK can be limited in ai-edge-litert {_VERSION}, got {version('ai-edge-litert')}")
    library = next(Path(peer.__file__).parent.glob("libpywrap_litert_common.so"))
    symbols, base = _symbols(library.read_bytes()), _base(library)
    ctypes.CFUNCTYPE(ctypes.c_bool)(base + symbols["cpuinfo_initialize"])()
    found = (ctypes.c_ubyte * _BYTES).from_address(base + symbols["cpuinfo_isa"])
    known = set(re.findall(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0].split())
    for at, feature in enumerate(_FEATURES, _FIRST):
        if found[at] != (feature in known):
            raise SystemExit(f"XNNPACK can be limited where its feature {at:#x} is {feature}, got {found[at]}")
    if not found[_place("avx2")]:
        raise SystemExit("XNNPACK can be limited to AVX2 on a CPU that has it")
    for at in (_place("avx_vnni"), *range(_place("avx512f"), _BYTES)):
        found[at] = 0
    configured = ctypes.CFUNCTYPE(ctypes.c_void_p)(base + symbols["xnn_init_hardware_config"])()
    flags = ctypes.c_uint64.from_address(configured + 8).value
    if flags >> _AVX2_FLAG != 1:
        raise SystemExit(f"XNNPACK must find AVX2 and nothing beyond, got flags {flags:#x}")


def _place(feature: str) -> int:
    return _FIRST + _FEATURES.index(feature)


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
