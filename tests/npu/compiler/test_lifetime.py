"""What is still read after the last operation keeps its memory, whatever is computed in place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import npu
from npu.compiler import stripes as cutting
from npu.compiler.allocate import LiveRange, round_up
from npu.compiler.ir import ElementwiseStep, PoolingStep, Program, Storage, View
from npu.compiler.layout import choose_layouts, views
from npu.compiler.lifetime import PlanNode, Sharing, buffer_of, share_in_place, trace_lifetimes
from npu.compiler.lower.geometry import laid_out
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.isa.operations import INT8, ElementwiseMode, IfmPadding, KernelWindow, Layout, PoolingMode, Scale
from npu.records import replace
from npu.tflite.reader import read_model

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

SHAPE = (1, 6, 5, 8)
LAST: dict[str, Attributes | None] = {
    "ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions(), "MAXIMUM": None, "MINIMUM": None,
}  # fmt: skip


def features_and_result(kind: str, *, chained: bool = False) -> bytes:
    """A convolution whose map is an output, and an operator on it and the input whose result is the last output."""
    b = ModelBuilder()
    x = b.input(SHAPE, DType.INT8, scale=0.05)
    weights = b.constant(np.random.default_rng(1).integers(-127, 128, (8, 1, 1, 8)).astype(np.int8), scale=0.01)
    bias = b.constant(np.zeros(8, np.int32), scale=0.05 * 0.01)
    options = at.Conv2DOptions(Padding.SAME, 1, 1)
    y = b.op("CONV_2D", [x, weights, bias], SHAPE, DType.INT8, 0.05, attributes=options)
    z = b.op(kind, [y, x], SHAPE, DType.INT8, 0.05, attributes=LAST[kind])
    b.output(y, z)
    if chained:
        b.output(b.op(kind, [z, y], SHAPE, DType.INT8, 0.05, attributes=LAST[kind]))
    return b.build()


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("kind", LAST)
def test_an_output_that_the_last_operator_reads_is_not_overwritten(kind: str, target: str, chained: bool) -> None:
    content = features_and_result(kind, chained=chained)
    compiled = npu.compile(content, target=target).content
    assert [op.name for op in read_model(compiled).graphs[0].ops] == ["ethos-u"]
    inputs = random_inputs(content, 2)
    for ours, theirs in zip(npu.run(compiled, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def in_stripes(cut: int, *, reads_again: bool = False, other_rows: bool = False) -> tuple[Program, Storage, Storage]:
    """A map, and its sum with itself made in two stripes at row `cut`; with a third step that reads the map's last row."""
    source, result = (Storage(name, (8, 3, 16), INT8) for name in ("source", "result"))
    given, last = Storage("in", (8, 3, 16), INT8, 0, True), Storage("out", (1, 3, 16), INT8, 1, True)

    def rows(storage: Storage, start: int, end: int) -> View:
        return replace(View.whole(storage), offset=(start, 0, 0), shape=(end - start, 3, 16))

    def add(start: int, end: int) -> ElementwiseStep:
        shift = 1 if other_rows and end < 8 else 0
        ifm, ofm = rows(source, start + shift, end + shift), rows(result, start, end)
        return ElementwiseStep(source=0, ifm=ifm, ifm2=ifm, ofm=ofm, minimum=-128, maximum=127, mode=ElementwiseMode.ADD)

    def copy(ifm: View, ofm: View) -> PoolingStep:
        return PoolingStep(source=0, ifm=ifm, ofm=ofm, minimum=-128, maximum=127, mode=PoolingMode.AVERAGE, scale=Scale(1, 0))

    between = [copy(rows(source, cut - 1, cut), View.whole(last))] if reads_again else []
    steps = [copy(View.whole(given), View.whole(source)), add(0, cut), *between, add(cut, 8)]
    return Program((*steps, copy(rows(result, 7, 8), View.whole(last))), ((0, given),), ((1, last),)), source, result


def owner_of_result(program: Program, result: Storage, layouts: dict[Storage, Layout]) -> object:
    tensors = (Tensor("in", (8, 3, 16), DType.INT8), Tensor("out", (1, 3, 16), DType.INT8))
    graph = Graph("g", tensors, (Op("CUSTOM", (0,), (1,)),), (0,), (1,))
    nodes = [PlanNode((0,), program)]
    lifetimes = trace_lifetimes(graph, nodes, [program.steps], layouts)
    return share_in_place(lifetimes, nodes, [program.steps], layouts).owner[result]


def test_a_map_made_in_stripes_replaces_the_operand_row_by_row() -> None:
    program, source, result = in_stripes(5)
    assert owner_of_result(program, result, choose_layouts(program.steps)) is source


@pytest.mark.parametrize("options", [{"reads_again": True}, {"other_rows": True}], ids=["read again", "other rows"])
def test_a_row_that_is_still_needed_is_not_replaced(options: dict[str, bool]) -> None:
    program, _, result = in_stripes(5, **options)
    assert owner_of_result(program, result, choose_layouts(program.steps)) is result


def test_rows_of_another_layout_are_not_replaced() -> None:
    program, source, result = in_stripes(5)
    layouts = {**choose_layouts(program.steps), source: Layout.NHWC, result: Layout.NHCWB16}
    assert owner_of_result(program, result, layouts) is result


def test_a_variable_keeps_its_memory_from_the_first_operator_to_the_last() -> None:
    """It is read again by the next run, whoever touches it within one."""
    b = ModelBuilder()
    x, state = b.input((1, 16), DType.FLOAT32), b.variable((1, 16), DType.FLOAT32)
    first = b.op("ABS", [x], (1, 16), DType.FLOAT32)
    middle = b.op("ADD", [first, state], (1, 16), DType.FLOAT32, attributes=at.AddOptions())
    last = b.op("NEG", [middle], (1, 16), DType.FLOAT32)
    b.output(last)
    found = trace_lifetimes(b.graph(), [PlanNode((index,)) for index in range(3)], [[], [], []], {})
    assert found.spans[state] == LiveRange(64, 0, 2)
    assert found.spans[first] == LiveRange(64, 0, 1)
    assert found.lasting == {state, last}


def chain_in_stripes(height: int, result_depth: int, stripes: int, *, is_folded: bool = False) -> Program:
    """An input of 4 channels, 3x3 and stride 2, then 1x1, to an output of `result_depth`, in stripes.

    `is_folded`: two columns of the input are one.
    """
    source, between = Storage("in", (height, 6, 4), INT8, 0, True), Storage("between", (height // 2, 3, 8), INT8)
    result = Storage("out", (height // 2, 3, result_depth), INT8, 1, True)
    chain = [
        PoolingStep(
            source=0, ifm=View.whole(ifm), ofm=View.whole(ofm), minimum=-128, maximum=127, mode=PoolingMode.MAX, kernel=kernel,
            padding=padding,
        )
        for ifm, ofm, kernel, padding in (
            (source, between, KernelWindow(3, 3, 2, 2), IfmPadding(1, 1, 0, 0)),
            (between, result, KernelWindow(), IfmPadding()),
        )
    ]  # fmt: skip
    if is_folded:
        pairs = laid_out(chain[0].ifm, (0, 0), (height, 3, 8), (24, 8))
        chain[0] = replace(chain[0], ifm=pairs, kernel=KernelWindow(3, 2, 2, 1))
    steps = cutting.in_stripes(chain, stripes, cutting.Overlap.KEPT)
    assert steps is not None
    return Program(steps, ((0, source),), ((1, result),))


def shared_in_stripes(
    height: int, result_depth: int, stripes: int, *, has_leads: bool = False, is_folded: bool = False
) -> Sharing:
    """What shares memory in such a chain."""
    program = chain_in_stripes(height, result_depth, stripes, is_folded=is_folded)
    ends = program.inputs[0][1], program.outputs[0][1]
    tensors = tuple(Tensor(s.name, s.shape, DType.INT8) for s in ends)
    small = Graph("g", tensors, (Op("CUSTOM", (0,), (1,)),), (0,), (1,))
    nodes, layouts = [PlanNode((0,), program)], dict.fromkeys(ends, Layout.NHWC)
    layouts |= {view.storage: Layout.NHWC for step in program.steps for view in views(step)}
    lifetimes = trace_lifetimes(small, nodes, [program.steps], layouts)
    return share_in_place(lifetimes, nodes, [program.steps], layouts, has_leads=has_leads)


@pytest.mark.parametrize("is_folded", [False, True])
@pytest.mark.parametrize(("result_depth", "is_shared"), [(8, True), (16, False)])
def test_a_result_in_stripes_takes_the_place_of_rows_that_were_read(
    result_depth: int, *, is_shared: bool, is_folded: bool
) -> None:
    """Two rows of the input are 48 bytes: a row of the output may be no longer, less the row that two stripes read."""
    assert (shared_in_stripes(24, result_depth, 4, is_folded=is_folded).owner[1] == 0) is is_shared


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_longer_result_begins_in_front_of_the_rows_that_were_read(*, is_folded: bool) -> None:
    """Three rows of the output are 144 bytes, as six of the input are, of which the next stripe reads the last again."""
    sharing = shared_in_stripes(24, 16, 4, has_leads=True, is_folded=is_folded)
    assert sharing.owner[0] == sharing.owner[1]
    assert (sharing.starts[1], sharing.starts[0]) == (0, round_up(24))


def test_a_result_that_saves_less_than_is_kept_longer_has_memory_of_its_own() -> None:
    """It is four times as large as the input, which would be in use as long."""
    sharing = shared_in_stripes(24, 64, 4, has_leads=True)
    assert sharing.owner[0] != sharing.owner[1]


def written_and_read(program: Program, sharing: Sharing) -> int:
    """Rows that the steps find as they were written, row by row in memory, and how many: AssertionError for any other."""
    memory, rows = dict[int, tuple[Storage, int]](), 0

    def places(view: View) -> Iterator[tuple[int, tuple[Storage, int]]]:
        row_bytes = view.storage.bytes // view.storage.shape[0]
        begin = sharing.starts[buffer_of(view.storage)]
        assert view.row_places is not None
        first, apart = view.row_places
        for row in range(first, first + view.shape[0] * apart, apart):
            for byte in range(begin + row * row_bytes, begin + (row + 1) * row_bytes):
                yield byte, (view.storage, row)

    ends = {storage: sharing.owner[buffer_of(storage)] for storage in (program.inputs[0][1], program.outputs[0][1])}
    memory.update(places(View.whole(program.inputs[0][1])))
    for step in program.steps:
        if step.ifm.storage in ends:
            for byte, held in places(step.ifm):
                assert memory[byte] == held
                rows += 1
        if step.ofm.storage in ends:
            memory.update(places(step.ofm))
    for byte, held in places(View.whole(program.outputs[0][1])):
        assert memory[byte] == held
    return rows


@pytest.mark.parametrize("stripes", [2, 3, 4, 6, 12])
@pytest.mark.parametrize("depth", [4, 8, 12, 16, 24, 32])
@pytest.mark.parametrize("height", [24, 26, 40])
@pytest.mark.parametrize("is_folded", [False, True])
def test_no_row_is_written_over_that_a_stripe_still_reads(height: int, depth: int, stripes: int, *, is_folded: bool) -> None:
    sharing = shared_in_stripes(height, depth, stripes, has_leads=True, is_folded=is_folded)
    if sharing.owner[0] == sharing.owner[1]:
        assert written_and_read(chain_in_stripes(height, depth, stripes, is_folded=is_folded), sharing) > height * 24


@pytest.mark.parametrize("kind", ["HARD_SWISH", "QUANTIZE", "RELU"])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256"])
def test_a_result_of_single_elements_takes_the_place_of_its_operand(kind: str, target: str) -> None:
    net = Layers(1)
    x = net.input(20, 21, 24)
    content = net.finish(net.table(kind, x) if kind == "HARD_SWISH" else net.make(kind, [x], net.shape(x), scale=0.05))
    compiled = npu.compile(content, target, optimise="size")
    assert compiled.compiled_model.usage.arena_bytes == 20 * 21 * 24
    inputs = random_inputs(content, 3)
    np.testing.assert_array_equal(npu.run(compiled.content, inputs).outputs[0], run_reference(content, inputs)[0])
