"""What the compiler decides for a model, as one line: what can be read at a glance, then digests in the order of the passes.

The first column that differs names who decides otherwise: `steps` are what operators were lowered to, `shapes` what became of
the steps until blocks are chosen, `jobs` blocks, slices of channels and estimated cycles, `plan` addresses and copies, `map`
the memory map, `words` the driver payloads, `constants` weight streams, scale records and tables, `file` the model around them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import groupby

from npu.compiler.block_config import BlockChooser
from npu.compiler.compiled import CompiledModel
from npu.compiler.compiler import compile_model
from npu.compiler.goal import Goal
from npu.compiler.lower.table import LOWERED
from npu.compiler.state import State
from npu.compiler.text import state_text
from npu.errors import UserError
from npu.graph.ethos_u import is_npu_job
from npu.graph.graph import Model
from npu.graph.placement import OpPlacement, Placement, Violation
from npu.isa.operations import KernelOperation
from npu.tflite.writer import write_model

_DIGESTED = {"lower_partitions": "steps", "reshape_pointwise": "shapes", "schedule_jobs": "jobs", "plan_memory": "plan"}
"""Passes whose text is digested, and the column's name."""
_CPU = (Violation("TEST", "no lowering", "-", "-"),)
_BLOCKS = 4
"""Blocks that are written out; the digests hold all."""


def decisions(model: Model, chooser: BlockChooser, goal: Goal = Goal.PERFORMANCE) -> str:
    """The line of a model; the error of one that is refused."""
    digests: dict[str, str] = {}

    def observe(name: str, state: State) -> None:
        if name in _DIGESTED:
            digests[_DIGESTED[name]] = digest(state_text(state) + _estimates(state))

    try:
        compiled = compile_model(model, _everywhere(model), chooser, goal=goal, observers=(observe,))
    except UserError as error:
        return f"refused: {error}"
    digests |= {"map": digest(str(compiled.memory)), **_contents(compiled)}
    columns = [*_glance(compiled), "|", *(f"{name} {value}" for name, value in digests.items())]
    return " ".join(columns)


def _everywhere(model: Model) -> Placement:
    """Everything on the NPU for which the compiler has a lowering at all: it refuses what it cannot lower."""
    ops = ((number, index, op) for number, graph in enumerate(model.graphs) for index, op in enumerate(graph.ops))
    made = (OpPlacement(number, index, op.kind, op.name, () if op.kind in LOWERED else _CPU) for number, index, op in ops)
    return Placement("everything", tuple(made))


def digest(content: str | bytes) -> str:
    """A few letters that stand for it."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()[:6]


def _estimates(state: State) -> str:
    """What the text does not say of jobs."""
    jobs = (job for graph in state.graphs for row in graph.jobs for job in row)
    return " ".join(f"{job.cycles:.9g} {job.choice.traversal} {job.choice.shram} {job.accumulator}" for job in jobs)


def _glance(compiled: CompiledModel) -> Iterator[str]:
    ops, usage = compiled.placement.ops, compiled.usage
    operations = [operation for part in compiled.partitions for operation in part.operations]
    blocks = [operation.block for operation in operations if isinstance(operation, KernelOperation)]
    runs = [f"{block.height}x{block.width}x{block.depth}*{len(list(run))}" for block, run in groupby(blocks)]
    yield f"npu {sum(not op.violations for op in ops)}/{len(ops)} operations {len(operations)}"
    yield " ".join([*runs[:_BLOCKS], *["..."] * (len(runs) > _BLOCKS)])
    yield f"arena {usage.arena_bytes} fast {usage.fast_bytes}"
    yield f"constants {usage.read_only_bytes} stream {usage.command_stream_bytes}"


def _contents(compiled: CompiledModel) -> dict[str, str]:
    jobs = [op for graph in compiled.model.graphs for op in graph.ops if is_npu_job(op)]
    constants = [] if not jobs else [compiled.model.graphs[0].tensors[jobs[0].inputs[1]].data]
    reasons = [violation.message for op in compiled.placement.ops for violation in op.violations]
    return {
        "words": digest(b"".join(part.payload for part in compiled.partitions)),
        "constants": digest(b"".join(data.tobytes() for data in constants if data is not None)),
        "file": digest(write_model(compiled.model) + str(reasons).encode()),
    }
