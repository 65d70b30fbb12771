"""What must hold of the state between two passes, as a table of checks: `verify_state` is an observer of the passes.

A check yields one sentence per defect. That a state breaks a rule is a fault of the compiler, never of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import is_

from npu.compiler.ir import (
    ConvolutionStep,
    ElementwiseStep,
    GatherStep,
    PoolingStep,
    ProductStep,
    Program,
    ResizeStep,
    ReverseStep,
    Step,
    Storage,
    TransposeStep,
    View,
    WindowStep,
)
from npu.compiler.layout import lies_alike, reads, views
from npu.compiler.memory import RegionOffset
from npu.compiler.staging import Transfer
from npu.compiler.state import GraphState, State
from npu.errors import CompileError, StreamError, UserError
from npu.graph.graph import Graph
from npu.graph.verify import verify
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import Layout, PoolingMode, Stop, ifm_plane
from npu.layouts import BRICK_DEPTH, MapShape

StateInvariant = Callable[[GraphState, Variant], Iterator[str]]


def verify_state(name: str, state: State) -> None:
    """CompileError for the first rule that a graph breaks after pass `name`, of `CHECKS` or of its streams."""
    ChangeVerifier()(name, state)


class ChangeVerifier:
    """`verify_state` as an observer that looks only at what a pass has changed since it looked last."""

    def __init__(self) -> None:
        self._sound: dict[tuple[int, StateInvariant], tuple[object, ...]] = {}
        """What each check has read of each graph."""

    def __call__(self, name: str, state: State) -> None:
        for number, graph in enumerate(state.graphs):
            for check, fields in CHECKS.items():
                held = (state.variant, *(getattr(graph, field) for field in fields))
                known = self._sound.get((number, check), ())
                if len(known) == len(held) and all(map(is_, known, held)):
                    continue
                for defect in check(graph, state.variant):
                    raise CompileError(
                        f"after {name}: graph {number}: {defect}; this is a fault of the compiler, please report it"
                    )
                self._sound[number, check] = held


def _nodes(state: GraphState, _: Variant) -> Iterator[str]:
    """Every operator that runs is in one node, any other in one at most, and those that make its inputs are not behind it."""
    if not state.nodes:
        return
    ops = [index for node in state.nodes for index in node.ops]
    left = state.graph.unneeded - set(ops)
    if sorted((*ops, *left)) != list(range(len(state.graph.ops))):
        yield f"nodes: must hold each of {len(state.graph.ops)} operators once, got {ops}"
    yield from _order(state.graph, ops)


def _order(graph: Graph, ops: list[int]) -> Iterator[str]:
    computed = {tensor for op in graph.ops for tensor in op.outputs}
    made: set[int] = set()
    for index in ops:
        for tensor in () if index in graph.unneeded else graph.ops[index].inputs:
            if tensor in computed and tensor not in made and not graph.tensors[tensor].is_variable:
                yield f"operator {index}: must run after the one that makes tensor {tensor}"
        made.update(graph.ops[index].outputs)


def _programs(state: GraphState, variant: Variant) -> Iterator[str]:
    repeats_both = family_of(variant.accelerator.product).repeats_both_operands
    for number, node in enumerate(state.nodes):
        if node.program is None:
            continue
        written = {storage for _, storage in node.program.inputs}
        for position, step in enumerate(node.program.steps):
            for defect in _step(step, written, repeats_both=repeats_both):
                yield f"node {number} step {position}: {defect}"
            if step.source not in node.ops:
                yield f"node {number} step {position}: must belong to one of its operators, got {step.source}"
            written.add(step.ofm.storage)
        yield from (f"node {number}: {defect}" for defect in _outputs(node.program, written))


def _outputs(program: Program, written: set[Storage]) -> Iterator[str]:
    for tensor, storage in program.outputs:
        if storage not in written:
            yield f"tensor {tensor}: must be written by a step"


def _step(step: Step, written: set[Storage], *, repeats_both: bool) -> Iterator[str]:
    for view in views(step):
        yield from _view(view)
    for view in reads(step):
        if view.storage.data is None and view.storage not in written:
            yield f"{view.storage.name!r} must be written before it is read"
    if step.ofm.storage.data is not None:
        yield f"{step.ofm.storage.name!r} must not be written, it is constant"
    if isinstance(step, ElementwiseStep):
        yield from _elementwise(step, repeats_both=repeats_both)
    if isinstance(step, WindowStep):
        yield from _window(step)
    if isinstance(step, ResizeStep):
        yield from _resize(step)
    if isinstance(step, ProductStep):
        yield from _product(step)
    if isinstance(step, GatherStep):
        yield from _gather(step)
    if isinstance(step, ReverseStep) and step.ofm.shape != step.ifm.shape:
        yield f"OFM must have the extent {step.ifm.shape}, got {step.ofm.shape}"
    if isinstance(step, TransposeStep):
        stored = tuple([step.ifm.shape[axis] for axis in step.order.axes])
        if step.ofm.shape != stored:
            yield f"OFM must have the extent {stored}, got {step.ofm.shape}"


def _view(view: View) -> Iterator[str]:
    size = view.storage.bytes // view.element.bytes
    if view.storage.is_rolling and view.row_places:
        yield from _rolling(view, *view.row_places)
        view = replace(view, shape=(1, *view.shape[1:]))
    low = any(offset < 0 or extent < 1 for offset, extent in zip(view.offset, view.shape, strict=True))
    last = view.offset[2] + view.shape[2] - 1
    last += sum(
        (offset + extent - 1) * pitch
        for offset, extent, pitch in zip(view.offset[:2], view.shape[:2], view.pitches, strict=True)
    )
    if low or last >= size:
        yield f"box {view.offset} of extent {view.shape} must lie in {view.storage.name!r} of {view.storage.shape}"
    if view.element.bits not in (view.storage.element.bits, 2 * view.storage.element.bits):
        yield f"elements of {view.storage.name!r} must have {view.storage.element.bits} bits or twice, got {view.element.bits}"


def _rolling(view: View, first: int, apart: int) -> Iterator[str]:
    """Rows of a rolling buffer may go on at its first one, which keeps them apart and meets none of them again."""
    rows, last = view.storage.shape[0], first + (view.shape[0] - 1) * apart
    if last >= rows and (last >= rows + first or rows % apart):
        yield f"rows {first} to {last} by {apart} must lie once in the {rows} rows of {view.storage.name!r}"


def _elementwise(step: ElementwiseStep, *, repeats_both: bool) -> Iterator[str]:
    full = step.ofm.shape
    if step.ifm.shape != full and not (repeats_both and _is_repeated(step.ifm, full)):
        yield f"IFM must be of the OFM's extent {full}, got {step.ifm.shape}"
    if (step.ifm2 is not None) + (step.scalar is not None) != (0 if step.mode.is_unary else 1):
        yield f"{step.mode.name} must have IFM2 or a scalar unless unary"
    if step.ifm2 is not None and not _is_repeated(step.ifm2, full):
        yield f"IFM2 must be of the OFM's extent {full} or 1, got {step.ifm2.shape}"


def _is_repeated(view: View, full: MapShape) -> bool:
    """Whether an operand has the extent of the result, or is repeated, along every axis."""
    return all(own in (1, extent) for own, extent in zip(view.shape, full, strict=True))


def _window(step: WindowStep) -> Iterator[str]:
    needed = ifm_plane(*step.ofm.shape[:2], step.kernel, step.padding, step.upscale)
    if not all(0 < need <= extent for need, extent in zip(needed, step.ifm.shape[:2], strict=True)):
        yield f"IFM must have at least {needed} rows and columns for its kernel and padding, got {step.ifm.shape[:2]}"
    if isinstance(step, ConvolutionStep):
        depths = (step.ofm.shape[2], 1 if step.is_depthwise else step.ifm.shape[2])
        got = (step.weights.values.shape[0], step.weights.values.shape[3])
        if got != depths:
            yield f"weights must have {depths} channels of OFM and IFM, got {got}"
    if isinstance(step, PoolingStep) and step.mode is not PoolingMode.REDUCE_SUM and step.ifm.shape[2] != step.ofm.shape[2]:
        yield f"IFM depth must be the OFM's {step.ofm.shape[2]}, got {step.ifm.shape[2]}"


def _product(step: ProductStep) -> Iterator[str]:
    if step.ifm.shape[:2] != step.ofm.shape[:2]:
        yield f"IFM must have the rows and columns of the OFM {step.ofm.shape[:2]}, got {step.ifm.shape[:2]}"
    if step.ifm2.shape != (needed := (1, step.ofm.shape[2], step.ifm.shape[2])):
        yield f"IFM2 must have the extent {needed}, got {step.ifm2.shape}"


def _gather(step: GatherStep) -> Iterator[str]:
    rows, columns, depth = step.ofm.shape
    if (step.ifm.shape[0], step.ifm.shape[2]) != (rows, depth) or step.ifm2.shape != (rows, columns, 1):
        needed = f"IFM must have {rows} rows of {depth} channels, IFM2 {columns} numbers for each"
        yield f"{needed}, got {step.ifm.shape} and {step.ifm2.shape}"


def _resize(step: ResizeStep) -> Iterator[str]:
    if step.ifm.shape[2] != step.ofm.shape[2]:
        yield f"IFM depth must be the OFM's {step.ofm.shape[2]}, got {step.ifm.shape[2]}"
    for name, places in (("rows", step.y), ("columns", step.x)):
        if not places.has_registers:
            yield f"places of {name} must have registers, got {places}"


def _layouts(state: GraphState, _: Variant) -> Iterator[str]:
    """Bricks only where others that see the storage see no difference, and every view of it begins at a brick."""
    if not state.layouts:
        return
    for node in state.nodes:
        for view in (view for step in node.steps for view in views(step)):
            layout = state.layouts.get(view.storage)
            if layout is None:
                yield f"{view.storage.name!r} must have a layout"
            is_bricked = view.full == view.storage.shape and view.offset[2] % BRICK_DEPTH == 0 and view.pitch is None
            is_plain = not (is_bricked or view.fills_storage) or (view.storage.is_boundary and not lies_alike(view.storage))
            if layout is Layout.NHCWB16 and is_plain:
                yield f"{view.storage.name!r} must be NHWC for what reads or writes it"


def _jobs(state: GraphState, _: Variant) -> Iterator[str]:
    """The jobs of a node compute every channel of every step once, in order."""
    for number, (node, row) in enumerate(zip(state.nodes, state.jobs, strict=False)):
        expected = [step.ofm.shape for step in node.program.steps] if node.program else []
        computed: list[tuple[int, int, int]] = []
        for job in row:
            if job.channel == 0:
                computed.append((*job.step.ofm.shape[:2], 0))
            if not computed or computed[-1][2] != job.channel:
                yield f"node {number}: a job must begin at the channel where the one before ended, got {job.channel}"
                return
            computed[-1] = (*computed[-1][:2], job.channel + job.depth)
        if computed != expected:
            yield f"node {number}: jobs must compute {expected}, got {computed}"


def _memory(state: GraphState, _: Variant) -> Iterator[str]:
    """Copies are there before they are read, and do not overlap each other while they are."""
    plan = state.memory
    if plan is None:
        return
    for number, (row, places) in enumerate(zip(plan.transfers, plan.buffers, strict=True)):
        unread: list[tuple[Transfer, RegionOffset]] = []
        for transfer, place in zip(row, places, strict=True):
            if not transfer.issue <= transfer.use <= transfer.last:
                yield f"node {number}: a copy must be issued before its use, got {transfer}"
            unread = [(other, elsewhere) for other, elsewhere in unread if other.last >= transfer.issue]
            for other, elsewhere in unread:
                is_below = elsewhere.offset + other.constants.bytes <= place.offset
                if not is_below and place.offset + transfer.constants.bytes > elsewhere.offset:
                    yield f"node {number}: a copy must not overwrite one that is still read: {transfer} and {other}"
            unread.append((transfer, place))


def _streams(state: GraphState, variant: Variant) -> Iterator[str]:
    check = family_of(variant.accelerator.product).check
    for number, stream in enumerate(state.streams):
        if stream is None:
            continue
        if not isinstance(stream.operations[-1], Stop) or len(stream.operations) != len(stream.sources):
            yield f"node {number}: operations must end with Stop, and have a source each"
        for index, operation in enumerate(stream.operations):
            try:
                check(operation, variant)
            except StreamError as error:
                yield f"node {number} operation {index}: {error}"


def _rebuilt(state: GraphState, _: Variant) -> Iterator[str]:
    if state.rebuilt is not None:
        try:
            verify(state.rebuilt.graph)
        except UserError as error:
            yield str(error)


CHECKS: dict[StateInvariant, tuple[str, ...]] = {
    _nodes: ("graph", "nodes"),
    _programs: ("nodes",),
    _layouts: ("nodes", "layouts"),
    _jobs: ("nodes", "jobs"),
    _memory: ("memory",),
    _rebuilt: ("rebuilt",),
    _streams: ("streams",),
}
"""Checks, with the fields of a graph's state that they read; each passes as long as the state has nothing of it."""
