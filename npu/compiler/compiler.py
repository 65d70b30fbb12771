"""From a model and a placement to a compiled model: the composition of the compiler's parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npu.compiler.block_config import BlockChooser
from npu.compiler.cascade import fit_budget
from npu.compiler.compiled import Compiled, CompiledPartition, Usage
from npu.compiler.container import NpuJob, Rebuilt, rebuild_graph, rebuild_model
from npu.compiler.emit import Addresses, emit_operations
from npu.compiler.ir import Step, Storage
from npu.compiler.layout import choose_layouts
from npu.compiler.lifetime import Node
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.compiler.memory import MemoryPlan, arena_budget, plan_memory, staging_reserve, step_rooms
from npu.compiler.refused import without_refused
from npu.compiler.schedule import Job, make_jobs
from npu.compiler.weights import Constants
from npu.errors import CompileError
from npu.graph.ethos_u import CUSTOM_CODE, Region, is_compiled, is_npu_job
from npu.graph.graph import Graph, Model
from npu.graph.idle import without_idle_jobs
from npu.graph.partition import ORDERED_KINDS, partition_nodes
from npu.graph.placement import MEMORY_ARENA, OpPlacement, Placement, Violation
from npu.hardware.variant import Variant
from npu.isa.encode import encode
from npu.isa.operations import Layout
from npu.isa.payload import build_payload
from npu.progress import Progress


def compile_model(model: Model, placement: Placement, variant: Variant, *, progress: Progress | None = None) -> Compiled:
    """The model with each NPU partition of `placement` replaced by one `ethos-u` operator for `variant`.

    Operators of the placement that cannot be lowered or do not fit the memory go to the CPU; the result's placement says why.
    A placement without NPU operators gives the model back unchanged. Same input, same bytes. CompileError if the placement
    does not fit the model.
    """
    _check(model, placement)
    report = progress or _silent
    chooser = BlockChooser(variant)
    honoured, constants, drafts = _honour(model, placement, chooser, report)
    if not drafts:
        return _unchanged(model, honoured)
    compiled = _assemble(model, honoured, drafts, constants, variant)
    report("compile", len(model.graphs), len(model.graphs))
    return compiled


def _unchanged(model: Model, placement: Placement) -> Compiled:
    """The result of a compilation with nothing for the NPU."""
    sources = {index: index for index in range(len(model.graphs[0].ops))}
    return Compiled(model, model, placement, (), Usage(0, 0, 0, 0, _cpu_constant_bytes(model)), sources)


def _honour(
    model: Model, placement: Placement, chooser: BlockChooser, report: Progress
) -> tuple[Placement, Constants, list[_Draft]]:
    """Drafts of all graphs, and the placement after the CPU got what cannot be lowered, does not fit or computes nothing."""
    while True:
        placement = without_idle_jobs(model, placement)
        constants = Constants(chooser.variant)
        drafts: list[_Draft] = []
        if not any(placement.npu_indices(number) for number in range(len(model.graphs))):
            return placement, constants, drafts
        try:
            for number, graph in enumerate(model.graphs):
                report("compile", number, len(model.graphs))
                start = (sum(draft.plan.arena_bytes for draft in drafts), sum(draft.plan.fast_bytes for draft in drafts))
                drafts.append(_draft(graph, placement.npu_indices(number), chooser, constants, start))
        except LoweringError as error:
            placement = without_refused(model, placement, chooser.variant, len(drafts), error)
            continue
        amended = _without_misfits(placement, drafts, chooser.variant)
        if amended is placement:
            return placement, constants, drafts
        placement = amended


def _without_misfits(placement: Placement, drafts: Sequence[_Draft], variant: Variant) -> Placement:
    """The placement with the operators on the CPU at whose steps the live feature maps exceed the arena's budget."""
    budget = arena_budget(variant)
    misfits: dict[tuple[int, int], int] = {}
    for number, draft in enumerate(drafts):
        for row, start in zip(draft.jobs, draft.plan.starts, strict=False):
            for event, job in enumerate(row, start):
                live = draft.plan.feature_bytes[event]
                if live > budget:
                    key = (number, job.step.source)
                    misfits[key] = max(misfits.get(key, 0), live)
    if not misfits:
        return placement
    ops = tuple(
        replace(op, violations=(*op.violations, _misfit(op, misfits[op.graph, op.index], budget, variant)))
        if (op.graph, op.index) in misfits
        else op
        for op in placement.ops
    )
    return replace(placement, ops=ops)


def _misfit(op: OpPlacement, live: int, budget: int, variant: Variant) -> Violation:
    message = (
        f"{op.kind} needs {live} bytes of feature maps at a time, and cutting them in stripes does not bring that to the "
        f"{budget} bytes which {variant.memory_mode.name} gives the arena"
    )
    return Violation(MEMORY_ARENA, message, f"<= {budget} bytes", f"{live} bytes", "use a larger arena or smaller maps")


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """A graph with everything decided: `jobs[i]` are those of node i, empty for a CPU operator."""

    graph: Graph
    nodes: Sequence[Node]
    jobs: Sequence[Sequence[Job]]
    layouts: dict[Storage, Layout]
    plan: MemoryPlan


def _silent(_what: str, _done: int, _total: int) -> None:
    """No progress display."""


def _check(model: Model, placement: Placement) -> None:
    expected = [(number, index) for number, graph in enumerate(model.graphs) for index in range(len(graph.ops))]
    given = [(op.graph, op.index) for op in placement.ops]
    if given != expected:
        raise CompileError(f"placement: must decide on all {len(expected)} operators in order, got {len(given)} decisions")
    if is_compiled(model):
        raise CompileError(f"model: must be a plain TFLite model, got one that holds compiled {CUSTOM_CODE} operators")


def _draft(
    graph: Graph, accepted: Sequence[int], chooser: BlockChooser, constants: Constants, start: tuple[int, int]
) -> _Draft:
    variant = chooser.variant
    nodes = fit_budget(graph, _nodes(graph, accepted, variant), arena_budget(variant))
    if variant.memory_mode.has_separate_cache:
        nodes = fit_budget(graph, nodes, variant.memory_mode.arena_cache_bytes - staging_reserve(variant), hidden_only=True)
    steps: list[Step] = [step for node in nodes if node.program for step in node.program.steps]
    layouts = choose_layouts(steps)
    rooms = step_rooms(graph, nodes, layouts, variant)
    jobs = [
        make_jobs(node.program.steps, room, layouts, chooser, constants) if node.program else []
        for node, room in zip(nodes, rooms, strict=True)
    ]
    plan = plan_memory(graph, nodes, jobs, layouts, variant, arena_start=start[0], fast_start=start[1])
    return _Draft(graph, nodes, jobs, layouts, plan)


def _nodes(graph: Graph, accepted: Sequence[int], variant: Variant) -> list[Node]:
    """The graph's operators in execution order, those of an NPU partition together."""
    ordered = [index for index, op in enumerate(graph.ops) if op.kind in ORDERED_KINDS]
    subsets = partition_nodes([(op.inputs, op.outputs) for op in graph.ops], accepted, graph.outputs, ordered=ordered)
    nodes: list[Node] = []
    for subset in subsets:
        if subset.delegated:
            nodes.append(Node(subset.nodes, lower_partition(graph, subset.nodes, variant)))
        else:
            nodes += [Node((index,)) for index in subset.nodes]
    return nodes


def _assemble(model: Model, placement: Placement, drafts: Sequence[_Draft], constants: Constants, variant: Variant) -> Compiled:
    emitted = [
        [_partition(draft, number, node, constants, variant) for node in range(len(draft.nodes))]
        for number, draft in enumerate(drafts)
    ]
    arena = sum(draft.plan.arena_bytes for draft in drafts)
    fast = sum(draft.plan.fast_bytes for draft in drafts)
    separate = variant.memory_mode.has_separate_cache
    rebuilt: list[Rebuilt] = []
    partitions: list[CompiledPartition] = []
    for draft, row in zip(drafts, emitted, strict=True):
        order = [
            node.ops[0] if one is None else NpuJob(one.program, one.payload) for node, one in zip(draft.nodes, row, strict=True)
        ]
        offsets = {
            item: place.offset
            for item, place in draft.plan.places.items()
            if isinstance(item, int) and place.region == Region.ARENA
        }
        new = rebuild_graph(draft.graph, order, constants.data(), arena, fast if separate else None, offsets)
        rebuilt.append(new)
        own = [one for one in row if one is not None]
        partitions += [one.at(index) for one, index in zip(own, new.jobs, strict=True)]
    compiled = rebuild_model(model, rebuilt)
    streams = sum(len(partition.payload) for partition in partitions)
    usage = Usage(arena, fast, constants.size, streams, _cpu_constant_bytes(compiled))
    return Compiled(compiled, model, placement, tuple(partitions), usage, rebuilt[0].cpu_source_of)


def _partition(draft: _Draft, number: int, index: int, constants: Constants, variant: Variant) -> CompiledPartition | None:
    """Node `index` of graph `number` as a compiled partition without its final place, None for a CPU operator."""
    node, plan = draft.nodes[index], draft.plan
    if node.program is None:
        return None
    addresses = Addresses(plan.places, draft.layouts, plan.transfers[index], plan.buffers[index], plan.starts[index])
    operations, sources = emit_operations(draft.jobs[index], addresses, constants, variant)
    return CompiledPartition(
        graph=number,
        ops=node.ops,
        op_index=-1,
        program=node.program,
        operations=tuple(operations),
        source_of=tuple(sources),
        payload=build_payload(encode(operations, variant), variant),
    )


def _cpu_constant_bytes(model: Model) -> int:
    """Bytes of the constants that operators on the CPU read."""
    total = 0
    for graph in model.graphs:
        read = {tensor for op in graph.ops if not is_npu_job(op) for tensor in op.inputs if tensor >= 0}
        constants = (graph.tensors[tensor].data for tensor in sorted(read))
        total += sum(data.nbytes for data in constants if data is not None)
    return total
