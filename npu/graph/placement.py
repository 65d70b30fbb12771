"""Where each operator runs and why: the value that the checker returns and the compiler takes."""

from __future__ import annotations

from enum import Enum

from npu.records import dataclass
from npu.tabular import Record, Tabular

MEMORY_ARENA, LOWERING = "MEMORY-ARENA", "LOWERING"
"""Rules that show only when a model is compiled: its feature maps fit the arena, and the compiler lowers it."""
CONSISTENCY = "CONSISTENCY"
"""Rule that every profile of this compiler has: what the file declares is what TFLite's kernels compute."""


class Device(Enum):
    """What executes an operator."""

    NPU = "npu"
    CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Violation:
    """One limit that an operator breaks. `limit` and `value` are texts fit for a table cell; `message` is a sentence."""

    rule: str
    message: str
    limit: str
    value: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class OpPlacement:
    """Decision for operator `index` of subgraph `graph`; NPU exactly when there is no violation."""

    graph: int
    index: int
    kind: str
    name: str
    violations: tuple[Violation, ...] = ()

    @property
    def device(self) -> Device:
        return Device.CPU if self.violations else Device.NPU

    @property
    def lacks_memory(self) -> bool:
        """Whether it runs on the CPU because the arena is too small."""
        return any(violation.rule == MEMORY_ARENA for violation in self.violations)


@dataclass(frozen=True, slots=True)
class Placement(Tabular):
    """Decisions for every operator of a model, in the order (graph, index)."""

    profile: str
    ops: tuple[OpPlacement, ...]

    def records(self) -> list[Record]:
        """One row for each operator, with every limit that it breaks."""
        return [
            {
                "graph": op.graph,
                "operator": op.index,
                "type": op.kind,
                "name": op.name,
                "placement": op.device.value,
                "rules": ", ".join(violation.rule for violation in op.violations),
                "reason": " ".join(violation.message for violation in op.violations),
            }
            for op in self.ops
        ]

    def headline(self) -> str:
        """How many operators run on the NPU."""
        on_npu = sum(op.device is Device.NPU for op in self.ops)
        return f"{on_npu} of {len(self.ops)} operators on the NPU (profile {self.profile})"

    def by_index(self, graph: int = 0) -> dict[int, OpPlacement]:
        """The decisions for the operators of one subgraph."""
        return {op.index: op for op in self.ops if op.graph == graph}

    def npu_indices(self, graph: int = 0) -> tuple[int, ...]:
        """Indices of the operators of `graph` that run on the NPU."""
        return tuple(op.index for op in self.ops if op.graph == graph and op.device is Device.NPU)
