"""From a model and a placement to a compiled model: runs the passes and says what they yielded."""

from __future__ import annotations

from npu.compiler.block_config import BlockChooser
from npu.compiler.compiled import CompiledModel, CompiledPartition, Usage
from npu.compiler.container import NO_BYTES, rebuild_graph, rebuild_model
from npu.compiler.goal import Goal
from npu.compiler.memory_map import memory_map
from npu.compiler.pipeline import Observer, pass_names, run_passes
from npu.compiler.state import GraphState, State, initial_state
from npu.errors import CompileError
from npu.graph.consistency import defects_of, require_runnable, without_inconsistent
from npu.graph.ethos_u import CUSTOM_CODE, is_compiled, is_npu_job
from npu.graph.graph import Graph, Model
from npu.graph.placement import Placement
from npu.isa.weight_stream.encode import Encoder
from npu.numerics.lstm_gates import LstmGates
from npu.progress import Progress


def compile_model(
    model: Model,
    placement: Placement,
    chooser: BlockChooser,
    *,
    goal: Goal = Goal.PERFORMANCE,
    lstm_gates: LstmGates = LstmGates.EXACT,
    progress: Progress | None = None,
    observers: tuple[Observer, ...] = (),
    encoder: Encoder | None = None,
) -> CompiledModel:
    """The model with each NPU partition of `placement` replaced by one `ethos-u` operator for the variant of `chooser`.

    Operators of the placement that cannot be lowered or do not fit the memory go to the CPU; the result's placement says why.
    A placement without NPU operators gives the model back, without the operators that need not run. Same input, same bytes.
    CompileError if the placement does not fit the model, ModelError for an operator that no kernel runs. `observers` see the
    state after every pass.
    A `chooser` that has chosen blocks before knows them. With another `encoder` of weights the result can be timed, not run.
    """
    _check(model, placement)
    defects = defects_of(model)
    require_runnable(model, defects)
    if progress is not None:
        observers = (*observers, _progress_of(progress))
    placement = without_inconsistent(placement, defects)
    state = initial_state(model, placement, chooser, encoder, goal, progress, lstm_gates)
    state = run_passes(state, observers)
    return _compiled(state) if state.has_work else _without_jobs(model, state.placement)


def _progress_of(report: Progress) -> Observer:
    names = pass_names()
    return lambda name, _state: report("compile", names.index(name) + 1, len(names))


def _without_jobs(model: Model, placement: Placement) -> CompiledModel:
    """The result of a compilation with nothing for the NPU: the model itself, if all of its operators are needed."""
    made, sources = model, {index: index for index in range(len(model.graphs[0].ops))}
    if any(graph.unneeded for graph in model.graphs):
        rebuilt = [rebuild_graph(graph, _needed(graph), NO_BYTES, 0, None, {}) for graph in model.graphs]
        made, sources = rebuild_model(model, rebuilt), dict(rebuilt[0].cpu_source_of)
    return CompiledModel(made, model, placement, (), Usage(0, 0, 0, 0, _cpu_constant_bytes(made)), sources)


def _needed(graph: Graph) -> list[int]:
    return [index for index in range(len(graph.ops)) if index not in graph.unneeded]


def _check(model: Model, placement: Placement) -> None:
    expected = [(number, index) for number, graph in enumerate(model.graphs) for index in range(len(graph.ops))]
    given = [(op.graph, op.index) for op in placement.ops]
    if given != expected:
        raise CompileError(f"placement: must decide on all {len(expected)} operators in order, got {len(given)} decisions")
    if is_compiled(model):
        raise CompileError(f"model: must be a plain TFLite model, got one that holds compiled {CUSTOM_CODE} operators")


def _compiled(state: State) -> CompiledModel:
    rebuilt = [graph.rebuilt for graph in state.graphs if graph.rebuilt is not None]
    compiled = rebuild_model(state.model, rebuilt)
    partitions = tuple(one for number, graph in enumerate(state.graphs) for one in _partitions(number, graph))
    usage = Usage(
        arena_bytes=max(graph.planned.arena_end for graph in state.graphs),
        fast_bytes=max(graph.planned.fast_end for graph in state.graphs),
        read_only_bytes=state.constants.size,
        command_stream_bytes=sum(len(partition.payload) for partition in partitions),
        cpu_constant_bytes=_cpu_constant_bytes(compiled),
    )
    return CompiledModel(compiled, state.model, state.placement, partitions, usage, rebuilt[0].cpu_source_of, memory_map(state))


def _partitions(number: int, state: GraphState) -> list[CompiledPartition]:
    """The partitions of graph `number`, each at its operator of the rebuilt graph."""
    assert state.rebuilt is not None
    places = iter(state.rebuilt.jobs)
    return [
        CompiledPartition(
            graph=number,
            ops=node.ops,
            op_index=next(places),
            program=node.program,
            operations=stream.operations,
            source_of=stream.sources,
            payload=stream.payload,
            stream=stream.encoded,
        )
        for node, stream in zip(state.nodes, state.streams, strict=True)
        if node.program is not None and stream is not None and stream.encoded is not None
    ]


def _cpu_constant_bytes(model: Model) -> int:
    """Bytes of the constants that operators on the CPU read."""
    total = 0
    for graph in model.graphs:
        read = {tensor for op in graph.ops if not is_npu_job(op) for tensor in op.inputs if tensor >= 0}
        constants = (graph.tensors[tensor].data for tensor in sorted(read))
        total += sum(data.nbytes for data in constants if data is not None)
    return total
