"""How operations are executed: which kernels, with what prepared constants. The tiers give identical bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from enum import Enum

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.isa.decode import Decoded
from npu.isa.operations import Convolution, DepthwiseConvolution, Elementwise, Operation, Pooling
from npu.native.cpu import current
from npu.records import dataclass
from sim.functional import execute
from sim.functional.fast import make_row
from sim.functional.kernels import rows as r
from sim.functional.kernels.run import run
from sim.functional.kernels.values import NUMBERS, zeroed
from sim.functional.packing import Row, pack_constants
from sim.functional.weights import Constants, decode_constants, source_ranges
from sim.memory import Memory


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
    numbers: np.void | None = None
    constants: Constants | None = None
    source: list[npt.NDArray[np.uint8]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Plan:
    """A sequence of operations for memories of one shape."""

    steps: list[Step]
    rows: npt.NDArray[np.void]
    """`rows.ROW` of each step, what the kernels see."""
    sums: npt.NDArray[np.uint8]
    """What rows with SUM use one after the other."""
    tier: Tier


def best_tier() -> Tier:
    """The fastest tier that this CPU has kernels for."""
    return Tier.VNNI if current().has_dot_product else Tier.PORTABLE


def check_step(decoded: Decoded, memory: Memory, tier: Tier) -> Step:
    """Check an operation against a memory's shape and prepare it. Raises SimulationError."""
    execute.check(decoded.operation, memory)
    row = Row()
    if tier is not Tier.GENERAL:
        row = make_row(decoded.operation, memory)
    return Step(decoded.operation, describe(decoded), decoded.command_index, row)


def describe(decoded: Decoded) -> str:
    """Where an operation stands and what it is, for messages."""
    return f"{decoded.place} ({type(decoded.operation).__name__})"


def make_plan(steps: Sequence[Step], tier: Tier) -> Plan:
    """Join prepared operations."""
    table = np.frombuffer(bytearray().join(step.row.numbers.tobytes() for step in steps), r.ROW)
    for step, numbers in zip(steps, table, strict=True):
        step.row.numbers = numbers
    sums = np.empty(max((step.row.sums_bytes for step in steps), default=0), np.uint8)
    for step in steps:
        if step.row.sums_bytes > 0:
            step.row.numbers["sums"] = sums.ctypes.data
    return Plan(list(steps), table, sums, tier)


def run_plan(plan: Plan, memory: Memory, first: int = 0, last: int | None = None) -> None:
    """Execute operations first..last-1 (all by default) on a memory of the shape they were made for."""
    end = len(plan.steps) if last is None else last
    rows = plan.rows[:end]
    index = first
    while index < end:
        if plan.tier is not Tier.GENERAL:
            index = run(rows, memory.bases, index, plan.tier is Tier.VNNI)
            if index == end:
                return
        index += _run_step(plan.steps[index], memory)


def _run_step(step: Step, memory: Memory) -> int:
    """Execute one operation that the fast kernels left, or prepare it for them; how many operations are done (0 or 1)."""
    operation = step.operation
    if not isinstance(operation, Convolution | DepthwiseConvolution):
        if step.numbers is None and isinstance(operation, Pooling | Elementwise):
            step.numbers = execute.prepare(operation, memory.arithmetic, zeroed(NUMBERS)[0])
        execute.execute_checked(operation, memory, step.numbers)
        return 1
    constants = _constants(step, memory)
    if step.row.kind != r.GENERAL and step.row.numbers["checks"] == 0:
        pack_constants(step.row, operation, constants, step.source)
        if step.row.numbers["kind"] != r.GENERAL:
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
        step.row.numbers["checks"] = 0
    return step.constants
