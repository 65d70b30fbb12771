"""LLVM modules to an object file for one tier, which is refused if it needs anything but the C library."""

# mypy: allow-untyped-calls

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from npu.native.cpu import CpuTier

_REAL = (
    *("exp", "exp2", "expm1", "log", "log2", "pow", "tanh", "sin", "cos", "sincos", "erf", "erfc"),
    *("floor", "ceil", "rint", "trunc", "round", "nearbyint", "fma", "ldexp"),
)
_MEMORY = ("malloc", "free", "memcpy", "memmove", "memset", "memcmp", "bcmp")
_THREADS = ("syscall", "sched_yield", "SwitchToThread")
C_LIBRARY = frozenset([*_MEMORY, *_THREADS, "__chkstk", *_REAL, *(f"{name}f" for name in _REAL)])
"""What an object may leave to the process that loads it: names that every C library has.

For threads that wait, Linux has futexes by `syscall`, macOS sched_yield, and Windows SwitchToThread; and __chkstk before large
frames.
"""
_ARRAYS = """
%header = type { i64, ptr, ptr, ptr, i64, ptr }
declare ptr @malloc(i64)
declare void @free(ptr)
define ptr @NRT_MemInfo_alloc_aligned(i64 %bytes, i32 %alignment) {
  %total = add i64 %bytes, 128
  %whole = call ptr @malloc(i64 %total)
  %failed = icmp eq ptr %whole, null
  br i1 %failed, label %none, label %some
none:
  ret ptr null
some:
  %word = ptrtoint ptr %whole to i64
  %after = add i64 %word, 127
  %aligned = and i64 %after, -64
  %data = inttoptr i64 %aligned to ptr
  store i64 1, ptr %whole
  %place = getelementptr %header, ptr %whole, i32 0, i32 3
  store ptr %data, ptr %place
  %size = getelementptr %header, ptr %whole, i32 0, i32 4
  store i64 %bytes, ptr %size
  ret ptr %whole
}
define void @NRT_MemInfo_call_dtor(ptr %whole) {
  call void @free(ptr %whole)
  ret void
}
"""
"""Arrays that kernels make for themselves, as numba's reference counts expect them: a header with the count and the address of
the data, both in one piece of memory, with the data at the next multiple of 64 bytes."""


class Optimisation(NamedTuple):
    """How hard LLVM tries."""

    level: int = 3
    has_vectors: bool = True
    """Whether loops become vector code."""


ALL = Optimisation()
OF_GROUP = {"npu.compiler.kernels": Optimisation(1, has_vectors=False), "npu.isa.weight_stream.kernels": Optimisation(1)}
"""Groups whose code gets no faster by more: compilations, and encoding and decoding of weights, measured one with the other."""


class Unlinkable(Exception):
    """Code that must not become a library."""


def target_machine(tier: CpuTier) -> Any:
    """LLVM's code generator for a tier."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(tier.triple)
    return target.create_target_machine(cpu=tier.cpu, features=tier.features, opt=3, reloc="pic", codemodel="small")


def make_object(modules: Iterable[str], entries: list[str], tier: CpuTier, how: Optimisation = ALL) -> bytes:
    """Link modules, optimise all of them together and emit an object whose only public symbols are `entries`."""
    machine = target_machine(tier)
    whole = llvm.parse_assembly(_for_tier(_ARRAYS, tier, machine))
    for text in modules:
        whole.link_in(llvm.parse_assembly(_for_tier(text, tier, machine)))
    whole.data_layout = str(machine.target_data)
    _hide(whole, frozenset(entries))
    whole.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=how.level)
    options.loop_vectorization = options.slp_vectorization = options.loop_interleaving = how.has_vectors
    options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.add_refprune_pass()
    passes.run(whole, builder)
    code: bytes = machine.emit_object(whole)
    check_symbols(code)
    return code


def _for_tier(text: str, tier: CpuTier, machine: Any) -> str:
    kept = [line for line in text.splitlines() if not line.startswith(("target triple", "target datalayout"))]
    return "\n".join([f'target triple = "{tier.triple}"', f'target datalayout = "{machine.target_data}"', *kept])


def _hide(module: Any, entries: frozenset[str]) -> None:
    """What is not an entry is for the optimiser to inline, change and drop."""
    for value in [*module.functions, *module.global_variables]:
        if not value.is_declaration and value.name not in entries:
            value.linkage = "internal"


def check_symbols(code: bytes) -> None:
    """Raise Refused if an object needs anything but the C library."""
    foreign = undefined_symbols(code) - C_LIBRARY
    if foreign:
        raise Unlinkable(f"kernels must call nothing but the C library, got {', '.join(sorted(foreign))}")


def undefined_symbols(code: bytes) -> frozenset[str]:
    """What a 64-bit little-endian ELF object leaves to be found elsewhere."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise Unlinkable("an object must be a 64-bit little-endian ELF file")
    (start,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * k) for k in range(count)]
    names = set()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = sections[link][4]
        for at in range(offset + 24, offset + size, 24):
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            if section == 0:  # SHN_UNDEF
                first = strings + name
                names.add(code[first : code.index(b"\0", first)].decode())
    return frozenset(names)
