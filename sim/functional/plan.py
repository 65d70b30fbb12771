"""How an operation is executed: which kernels, with what prepared constants. The tiers give identical bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError
from npu.isa.decode import Decoded
from npu.isa.operations import Convolution, DepthwiseConvolution, Operation
from sim.functional import execute
from sim.functional.weights import Constants, decode_constants, source_ranges
from sim.memory import Memory


class Tier(Enum):
    """Sets of kernels, fastest first: 8-bit dot-product instructions, compiled loops, general 64-bit loops."""

    VNNI = "vnni"
    PORTABLE = "portable"
    GENERAL = "general"


@dataclass(slots=True, eq=False)
class Plan:
    """One operation with what was prepared for it. Weights are decoded when first needed, and again if their bytes change."""

    operation: Operation
    where: str
    constants: Constants | None = None
    source: list[npt.NDArray[np.uint8]] = field(default_factory=list)


def best_tier() -> Tier:
    """The fastest tier of this CPU."""
    return Tier.GENERAL


def make_plan(decoded: Decoded, memory: Memory, tier: Tier) -> Plan:
    """Check an operation against a memory's shape and prepare it. Raises SimulationError."""
    execute.check(decoded.operation, memory)
    return Plan(decoded.operation, f"command {decoded.command_index} ({type(decoded.operation).__name__})")


def run_plans(plans: Sequence[Plan], memory: Memory) -> None:
    """Execute plans in order on a memory of the shape they were made for."""
    for plan in plans:
        operation = plan.operation
        if isinstance(operation, Convolution | DepthwiseConvolution):
            execute.execute_convolution(operation, _constants(plan, memory), memory)
        else:
            execute.execute_checked(operation, memory)


def _constants(plan: Plan, memory: Memory) -> Constants:
    operation = plan.operation
    assert isinstance(operation, Convolution | DepthwiseConvolution)
    views = [memory.view(part.region, part.address, part.length_bytes) for part in source_ranges(operation)]
    unchanged = plan.constants is not None and all(map(np.array_equal, views, plan.source))
    if not unchanged:
        try:
            plan.constants = decode_constants(operation, memory)
        except SimulationError as error:
            raise SimulationError(f"{plan.where}: {error}") from error
        plan.source = [view.copy() for view in views]
    assert plan.constants is not None
    return plan.constants
