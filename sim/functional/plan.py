"""How operations are executed: which kernels, with what prepared constants. The tiers give identical bytes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from types import ModuleType

import llvmlite.binding as llvm
import numba as nb
import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.isa.decode import Decoded
from npu.isa.operations import Convolution, DepthwiseConvolution, Elementwise, Operation, Pooling
from sim.functional import execute
from sim.functional.fast import make_row
from sim.functional.kernels import rows as r
from sim.functional.kernels import values
from sim.functional.kernels.raw import address_of
from sim.functional.kernels.vectors import combine
from sim.functional.packing import Row, pack_constants
from sim.functional.weights import Constants, decode_constants, source_ranges
from sim.memory import Memory

_FINISH_SUMS = -1
_ARGUMENTS = (nb.int64[::1], nb.int64[::1])
_FEATURES = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")


class Tier(Enum):
    """Sets of kernels, fastest first: 8-bit dot-product instructions, vectors of any CPU, general 64-bit loops."""

    VNNI = "vnni"
    PORTABLE = "portable"
    GENERAL = "general"


@dataclass(slots=True, eq=False)
class Step:
    """One operation with what was prepared for it."""

    operation: Operation
    where: str
    command: int
    row: Row
    numbers: npt.NDArray[np.int64] | None = None
    constants: Constants | None = None
    source: list[npt.NDArray[np.uint8]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Plan:
    """A sequence of operations for memories of one shape."""

    steps: list[Step]
    rows: npt.NDArray[np.int64]
    """int64 (steps, ROW_LENGTH), what the kernels see."""
    sums: npt.NDArray[np.uint8]
    """What rows with SUM use one after the other."""
    is_fast: bool


@functools.cache
def best_tier() -> Tier:
    """The fastest tier of this CPU, as LLVM reports its features."""
    features = llvm.get_host_cpu_features()
    return Tier.VNNI if all(features.get(name, False) for name in _FEATURES) else Tier.PORTABLE


def check_step(decoded: Decoded, memory: Memory, tier: Tier) -> Step:
    """Check an operation against a memory's shape and prepare it. Raises SimulationError."""
    execute.check(decoded.operation, memory)
    row = Row(np.zeros(r.ROW_LENGTH, np.int64))
    if tier is not Tier.GENERAL:
        row = make_row(decoded.operation, memory)
    return Step(decoded.operation, describe(decoded), decoded.command_index, row)


def describe(decoded: Decoded) -> str:
    """Where an operation stands and what it is, for messages."""
    return f"{decoded.place} ({type(decoded.operation).__name__})"


def make_plan(steps: Sequence[Step], tier: Tier) -> Plan:
    """Join prepared operations."""
    if tier is not Tier.GENERAL:
        _convolutions(tier)
    table = np.zeros((len(steps), r.ROW_LENGTH), np.int64)
    for row, step in zip(table, steps, strict=True):
        row[:] = step.row.numbers
        row[r.ENTRY] = _entry(step.row.kind, tier)
        step.row.numbers = row
    sums = np.empty(max((step.row.sums_bytes for step in steps), default=0), np.uint8)
    for step in steps:
        if step.row.sums_bytes > 0:
            step.row.numbers[r.SUMS], step.row.numbers[r.SUMS_ENTRY] = sums.ctypes.data, _entry(_FINISH_SUMS, tier)
    return Plan(list(steps), table, sums, is_fast=tier is not Tier.GENERAL)


@functools.cache
def _convolutions(tier: Tier) -> ModuleType:
    """The kernels that differ from tier to tier; imported only where the CPU can run them."""
    return import_module(f"sim.functional.kernels.{tier.value}")


@functools.cache
def _entry(kind: int, tier: Tier) -> int:
    """Machine address of the kernel for rows of a kind, 0 if they need none; compiled only where a row needs it."""
    if kind in (r.CONVOLUTION, r.DEPTHWISE):
        kernels = _convolutions(tier)
        return address_of(kernels.convolve if kind == r.CONVOLUTION else kernels.convolve_depthwise, *_ARGUMENTS)
    functions = {
        r.ELEMENTWISE: combine,
        r.VALUES: values.execute,
        r.COPY: r.copy_row,
        _FINISH_SUMS: values.finish_sums,
    }
    return address_of(functions[kind], *_ARGUMENTS) if kind in functions else 0


def run_plan(plan: Plan, memory: Memory, first: int = 0, last: int | None = None) -> None:
    """Execute operations first..last-1 (all by default) on a memory of the shape they were made for."""
    end = len(plan.steps) if last is None else last
    rows = plan.rows[:end]
    index = first
    while index < end:
        if plan.is_fast:
            index = int(r.run(rows, memory.bases, index))
            if index == end:
                return
        index += _run_step(plan.steps[index], memory)


def _run_step(step: Step, memory: Memory) -> int:
    """Execute one operation that the fast kernels left, or prepare it for them; how many operations are done (0 or 1)."""
    operation = step.operation
    if not isinstance(operation, Convolution | DepthwiseConvolution):
        if step.numbers is None and isinstance(operation, Pooling | Elementwise):
            step.numbers = execute.prepare(operation)
        execute.execute_checked(operation, memory, step.numbers)
        return 1
    constants = _constants(step, memory)
    if step.row.kind != r.GENERAL and step.row.numbers[r.CHECKS] == 0:
        pack_constants(step.row, operation, constants, step.source)
        if step.row.numbers[r.KIND] != r.GENERAL:
            return 0
    execute.execute_convolution(operation, constants, memory)
    return 1


def _constants(step: Step, memory: Memory) -> Constants:
    operation = step.operation
    assert isinstance(operation, Convolution | DepthwiseConvolution)
    views = [memory.view(part.region, part.address, part.length_bytes) for part in source_ranges(operation)]
    if step.constants is None or not all(map(np.array_equal, views, step.source)):
        try:
            step.constants = decode_constants(operation, memory)
        except SimulationError as error:
            raise error.at(step.where, command=step.command) from error
        step.source = [view.copy() for view in views]
        step.row.numbers[r.CHECKS] = 0
    return step.constants
