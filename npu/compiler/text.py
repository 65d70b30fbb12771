"""The state of a compilation as text, for people and for golden files: the only place that knows this format.

Storages are numbered `%0`, `%1` in the order in which steps mention them. A view is its storage, with `[rows, columns,
channels]` and the shape that these count in where it is not all of it. What no pass has decided yet is not written.
"""

from __future__ import annotations

from collections.abc import Iterator

from npu.compiler.ir import (
    ConvolutionStep,
    ElementwiseStep,
    GatherStep,
    PoolingStep,
    ProductStep,
    ResizeStep,
    ReverseStep,
    Step,
    Storage,
    TransposeStep,
    View,
    WindowStep,
)
from npu.compiler.jobs import Job
from npu.compiler.layout import views
from npu.compiler.lifetime import LogicalBuffer, PlanNode, buffer_of
from npu.compiler.memory import MemoryPlan, RegionOffset
from npu.compiler.state import GraphState, NodeStream, State
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph
from npu.isa.operations import ClipRange, KernelWindow, Upscale
from npu.isa.summary import summarise


def state_text(state: State) -> str:
    """All graphs of the state, and what was refused."""
    lines = [line for number, graph in enumerate(state.graphs) for line in _graph(number, graph)]
    lines += [f"refused: graph {one.graph} operator {one.op}: {one.violation.message}" for one in state.refusals]
    return "\n".join(lines) + "\n"


def _graph(number: int, state: GraphState) -> Iterator[str]:
    yield f"graph {number} {state.graph.name!r}"
    names = _names(state)
    for storage, name in names.items():
        yield f"  {name} = {_storage(storage, state)}"
    if state.memory is not None:
        yield from _tensors(state.memory, state.graph)
    for index, node in enumerate(state.nodes):
        yield f"  node {index}: {_node(node, state.graph)}"
        yield from (f"    {line}" for line in _work(index, node, state, names))
    if state.memory is not None:
        yield f"  arena {state.memory.arena_bytes} bytes, fast {state.memory.fast_bytes} bytes"


def _names(state: GraphState) -> dict[Storage, str]:
    storages = dict.fromkeys(view.storage for step in state.steps for view in views(step))
    return {storage: f"%{number}" for number, storage in enumerate(storages)}


def _storage(storage: Storage, state: GraphState) -> str:
    parts = [f"{storage.element} {_shape(storage.shape)} {storage.name!r}"]
    if storage.data is not None:
        parts.append("constant")
    if storage.is_boundary:
        parts.append(f"tensor {storage.tensor}")
    if storage in state.layouts:
        parts.append(state.layouts[storage].name)
    if state.memory is not None and storage.data is None and buffer_of(storage) in state.memory.places:
        parts.append(_place(state.memory.places[buffer_of(storage)]))
    return " ".join(parts)


def _tensors(plan: MemoryPlan, graph: Graph) -> Iterator[str]:
    """Tensors that the CPU or the application sees."""
    tensors = {tensor: place for tensor, place in plan.places.items() if _is_tensor(tensor)}
    for tensor, place in sorted(tensors.items(), key=lambda pair: str(pair[0]).zfill(8)):
        assert isinstance(tensor, int)
        yield f"  tensor {tensor} {graph.tensors[tensor].name!r} {_place(place)}"


def _is_tensor(buffer: LogicalBuffer) -> bool:
    return isinstance(buffer, int)


def _place(place: RegionOffset) -> str:
    return f"at {Region(place.region).name.lower()}+{place.offset}"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _node(node: PlanNode, graph: Graph) -> str:
    kinds = " ".join(f"{index}:{graph.ops[index].name}" for index in node.ops)
    return f"{'npu' if node.is_npu else 'cpu'} {kinds}"


def _work(index: int, node: PlanNode, state: GraphState, names: dict[Storage, str]) -> Iterator[str]:
    """The furthest that the node has come: steps, jobs or operations."""
    stream = state.streams[index] if state.streams else None
    if stream is not None:
        yield from _stream(stream)
    elif state.jobs:
        yield from _jobs(index, state, names)
    elif node.program is not None:
        yield from (_step(step, names) for step in node.program.steps)


def _stream(stream: NodeStream) -> Iterator[str]:
    for operation, source in zip(stream.operations, stream.sources, strict=True):
        yield f"op {source}: {summarise(operation)}"
    if stream.payload:
        yield f"payload {len(stream.payload)} bytes"


def _jobs(index: int, state: GraphState, names: dict[Storage, str]) -> Iterator[str]:
    plan = state.memory
    for event, job in enumerate(state.jobs[index], plan.starts[index] if plan else 0):
        if plan is not None:
            for transfer, place in zip(plan.transfers[index], plan.buffers[index], strict=True):
                if transfer.issue == event:
                    yield f"copy constants+{transfer.constants.offset} {transfer.constants.bytes} bytes {_place(place)}"
        yield f"{_step(job.step, names)}; {_job(job)}"


def _job(job: Job) -> str:
    block = job.choice.block
    parts = [f"block {block.height}x{block.width}x{block.depth}"]
    if job.depth != job.step.ofm.shape[2]:
        parts.append(f"channels {job.channel}:{job.channel + job.depth}")
    if job.constants is not None:
        staged = "staged" if job.is_staged else "in place"
        parts.append(f"constants+{job.constants.offset} {job.constants.bytes} bytes {staged}")
    if job.table is not None:
        parts.append(f"table constants+{job.table}")
    return " ".join(parts)


def _step(step: Step, names: dict[Storage, str]) -> str:
    operands = [_view(step.ifm, names)]
    if step.ifm2 is not None:
        operands.append(_view(step.ifm2, names))
    if isinstance(step, ElementwiseStep):
        if step.scalar is not None:
            operands.append(f"{step.scalar} zero point {step.scalar_zero_point}")
        if step.is_reversed:
            operands.reverse()
    details = [*_kind_details(step), *_output_details(step)]
    return f"op {step.source}: {_view(step.ofm, names)} = {_kind(step)}({', '.join(operands)}) {' '.join(details)}"


def _kind(step: Step) -> str:
    if isinstance(step, ConvolutionStep):
        return "depthwise" if step.is_depthwise else "conv"
    if isinstance(step, ProductStep | TransposeStep | ReverseStep | GatherStep):
        return type(step).__name__.removesuffix("Step").lower()
    if isinstance(step, ResizeStep):
        return f"{step.mode.name.lower()}_resize"
    assert isinstance(step, PoolingStep | ElementwiseStep)
    return f"{step.mode.name.lower()}_pool" if isinstance(step, PoolingStep) else step.mode.name.lower()


def _view(view: View, names: dict[Storage, str]) -> str:
    parts = [names[view.storage]]
    if not view.is_whole:
        box = (f"{start}:{start + size}" for start, size in zip(view.offset, view.shape, strict=True))
        parts.append(f"[{', '.join(box)}]")
        if view.full != view.storage.shape:
            parts.append(f" of {_shape(view.full)}")
    if view.pitch is not None:
        parts.append(f" pitch {_shape(view.pitch)}")
    if view.element != view.storage.element:
        parts.append(f" as {view.element}")
    if view.zero_point:
        parts.append(f" zero point {view.zero_point}")
    return "".join(parts)


def _kind_details(step: Step) -> Iterator[str]:
    if isinstance(step, ElementwiseStep) and step.mode.scales_operands:
        yield f"{step.operand_scaling.name} {step.opa_scale.scale}>>{step.opa_scale.shift} {step.opb_scale}"
    if isinstance(step, ElementwiseStep) and step.positive is not None:
        yield f"positive {step.positive.scale}>>{step.positive.shift}"
    if isinstance(step, WindowStep):
        yield from _window_details(step)
    if isinstance(step, ResizeStep):
        yield from (f"{name} {one.step}/{one.scale} from {one.offset}" for name, one in (("rows", step.y), ("columns", step.x)))
    if isinstance(step, ConvolutionStep):
        yield f"weights {_shape(step.weights.values.shape)}"


def _window_details(step: WindowStep) -> Iterator[str]:
    kernel, padding = step.kernel, step.padding
    if kernel != KernelWindow():
        yield f"kernel {kernel.height}x{kernel.width}"
    if (kernel.stride_y, kernel.stride_x) != (1, 1):
        yield f"stride {kernel.stride_y}x{kernel.stride_x}"
    if (kernel.dilation_y, kernel.dilation_x) != (1, 1):
        yield f"dilation {kernel.dilation_y}x{kernel.dilation_x}"
    if not padding.is_none:
        yield f"padding {padding.top},{padding.left},{padding.bottom},{padding.right}"
    if step.upscale is not Upscale.NONE:
        yield f"upscale {step.upscale.name}"


def _output_details(step: Step) -> Iterator[str]:
    yield "scale per channel or count" if step.scale is None else f"scale {step.scale.scale}>>{step.scale.shift}"
    yield step.rounding.name
    yield f"clamp {step.minimum}:{step.maximum}"
    if step.clip_range is not ClipRange.OFM_PRECISION:
        yield step.clip_range.name
    if step.lut is not None:
        yield f"table of {step.lut.size} bytes"
    if step.function is not None:
        yield step.function
