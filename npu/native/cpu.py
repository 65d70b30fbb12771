"""The kinds of CPU that libraries are made for."""

from __future__ import annotations

import functools
import os
import sys
from contextlib import suppress

from npu.errors import UserError
from npu.records import dataclass

X86_64, AARCH64 = "x86_64", "aarch64"
PLATFORM = sys.platform
_SYSTEMS = {"darwin": "apple-darwin-elf", "win32": "pc-windows-msvc-elf"}
"""How LLVM names a system: how functions of its C library are called. Objects are ELF files on all, as numba's are."""
_LINUX = "unknown-linux-gnu"
_MACHINES = {"arm64": AARCH64, "amd64": X86_64}
"""Other names of machines."""
_AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd")


@dataclass(frozen=True, slots=True)
class CpuTier:
    """What LLVM makes code for, and which features of a CPU that code needs."""

    name: str
    machine: str
    cpu: str
    needs: tuple[str, ...] = ()
    """As LLVM names them; those of `cpu` and more."""
    tuning: str = ""
    """Features that only say how code is made."""

    @property
    def triple(self) -> str:
        """The machine and the system of this process, as LLVM names them."""
        return f"{self.machine}-{_SYSTEMS.get(PLATFORM, _LINUX)}"

    @property
    def features(self) -> str:
        """For LLVM's target machine."""
        return ",".join([*(f"+{name}" for name in self.needs), *filter(None, [self.tuning])])

    @property
    def has_dot_product(self) -> bool:
        """Whether four products of bytes are added to each lane by one instruction (vpdpbusd, sdot)."""
        return "avx512vnni" in self.needs or self.has_signed_dot_product

    @property
    def has_signed_dot_product(self) -> bool:
        """Whether that instruction takes signed bytes alone (sdot)."""
        return "dotprod" in self.needs

    @property
    def has_byte_masks(self) -> bool:
        """Whether vectors have 64 bytes, of which masks choose."""
        return "avx512bw" in self.needs

    @property
    def lanes(self) -> int:
        """Lanes of 32 bits in a vector register."""
        return 16 if self.has_byte_masks else 8 if "avx2" in self.needs else 4

    @property
    def wide_registers(self) -> int:
        """How many vectors of 16 such lanes all registers hold."""
        return (32 if self.has_byte_masks or self.machine == AARCH64 else 16) * self.lanes // 16

    @property
    def packed_lanes(self) -> int:
        """Lanes of 32 bits in the vectors that instructions pack with saturation (packssdw, packsswb); 0 without any."""
        return self.lanes if self.machine == X86_64 else 0


_V3 = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
TIERS = (
    CpuTier("vnni", X86_64, "x86-64-v4", (*_V3, *_AVX512, "avx512vnni"), "-prefer-256-bit"),
    CpuTier("avx512", X86_64, "x86-64-v4", (*_V3, *_AVX512), "-prefer-256-bit"),
    CpuTier("avx2", X86_64, "x86-64-v3", _V3),
    CpuTier("x86-64", X86_64, "x86-64"),
    CpuTier("dotprod", AARCH64, "generic", ("dotprod",)),
    CpuTier("aarch64", AARCH64, "generic"),
)
"""Fastest first, for each machine."""
_forced: list[CpuTier] = []


def named(name: str) -> CpuTier:
    """A tier by name. Raises UserError."""
    for tier in TIERS:
        if tier.name == name:
            return tier
    raise UserError(f"a CPU must be one of {', '.join(tier.name for tier in TIERS)}, got {name!r}")


def usable() -> list[CpuTier]:
    """The tiers whose code this CPU runs, fastest first."""
    machine, features = this_machine(), _features()
    return [tier for tier in TIERS if tier.machine == machine and features.issuperset(tier.needs)]


def this_machine() -> str:
    """The machine of this process, by LLVM's name."""
    name = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")  # Windows
    return _MACHINES.get(name.lower(), name.lower())


_NAMES_OF_LINUX = {"abm": "lzcnt", "bmi1": "bmi", "avx512_vnni": "avx512vnni", "asimddp": "dotprod"}
"""Where Linux calls a feature differently from LLVM."""


def _features() -> frozenset[str]:
    """What this CPU and its system can do, by LLVM's names: as Linux says it, since asking LLVM takes a tenth of a command."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith(("flags", "Features")):  # of x86-64, of aarch64
                return frozenset(_NAMES_OF_LINUX.get(name, name) for name in line.split())
    import llvmlite.binding as llvm

    return frozenset(name for name, has in llvm.get_host_cpu_features().items() if has)


def use(tier: CpuTier) -> None:
    """Make libraries for this tier, which need not be this CPU's; before any kernel is imported."""
    _forced[:] = [tier]
    current.cache_clear()


def is_making() -> bool:
    """Whether this process makes libraries: what only compiled functions call need not be imported in others."""
    return bool(_forced)


@functools.cache
def current() -> CpuTier:
    """The tier whose libraries are used and made: the fastest of this CPU, or NPULAB_CPU. Raises UserError."""
    if _forced:
        return _forced[0]
    tiers, name = usable(), os.environ.get("NPULAB_CPU")
    if name and named(name) not in tiers:
        raise UserError(f"NPULAB_CPU must be one that this CPU can be ({', '.join(tier.name for tier in tiers)}), got {name!r}")
    if not tiers:
        raise UserError("kernels must be compiled for x86-64 or aarch64, got another CPU")
    return named(name) if name else tiers[0]
