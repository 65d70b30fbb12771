"""Striped chains compute what whole ones do, and need less memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from npu.compiler.cascade import fit_cache, fit_least, plans_within
from npu.compiler.cut_rows import CascadeSearch
from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Program, Step, StepWeights, Storage, View
from npu.compiler.layout import feature_map
from npu.compiler.lifetime import PlanNode
from npu.compiler.lower.geometry import laid_out
from npu.compiler.peaks import map_peaks
from npu.compiler.price import Draft
from npu.compiler.stripes import Overlap, in_stripes
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.isa.operations import (
    INT8,
    ElementwiseMode,
    IfmPadding,
    KernelWindow,
    Layout,
    OperandScaling,
    PoolingMode,
    Rounding,
    Scale,
)
from npu.records import replace

from tests.naive.steps import execute

RANDOM = np.random.default_rng(3)


def within(graph: Graph, nodes: list[PlanNode], budget: int) -> list[PlanNode]:
    """The plan that is found first."""
    return next(plans_within(graph, nodes, max(budget, map_peaks(graph, nodes).visible)))


def least(graph: Graph, nodes: list[PlanNode], cycles: Callable[[Sequence[Step]], float]) -> list[PlanNode]:
    """The plan for SIZE where flash costs nothing and is read at once."""

    def draft(made: Sequence[PlanNode]) -> Draft:
        return Draft(sum(cycles(node.steps) for node in made), peak(list(made)), 1)

    return list(fit_least(graph, nodes, map_peaks(graph, nodes).visible, draft, bytes_per_cycle=math.inf))


def cut_chain(
    steps: Sequence[Step], first: int, last: int, stripes: int, overlap: Overlap = Overlap.MADE_AGAIN
) -> tuple[Step, ...] | None:
    """The steps with [first, last] in stripes."""
    striped = in_stripes(steps[first : last + 1], stripes, overlap)
    return None if striped is None else (*steps[:first], *striped, *steps[last + 1 :])


def convolution(ifm: View, ofm: View, kernel: KernelWindow, padding: IfmPadding, *, depthwise: bool = False) -> ConvolutionStep:
    depth = ofm.shape[2]
    shape = (depth, kernel.height, kernel.width, 1 if depthwise else ifm.shape[2])
    weights = StepWeights(
        values=RANDOM.integers(-128, 128, shape).astype(np.int16),
        biases=RANDOM.integers(-900, 900, depth),
        scales=np.full(depth, 1 << 30, np.uint32),
        shifts=np.full(depth, 38, np.uint8),
    )
    return ConvolutionStep(
        source=0,
        ifm=ifm,
        ofm=ofm,
        minimum=-128,
        maximum=127,
        kernel=kernel,
        padding=padding,
        weights=weights,
        is_depthwise=depthwise,
    )


def program() -> Program:
    """1x1 convolution, 3x3 depthwise of stride 2, max pool, sum with another map: 23 rows in, 10 out."""
    maps = [Storage(name, shape, INT8) for name, shape in (("a", (23, 9, 8)), ("b", (12, 5, 8)), ("c", (10, 5, 8)))]
    source = Storage("in", (23, 9, 4), INT8, 0, True)
    other = Storage("other", (10, 5, 8), INT8, 1, True)
    result = Storage("out", (10, 5, 8), INT8, 2, True)
    a, b, c = (View.whole(storage, zero_point) for storage, zero_point in zip(maps, (3, -7, -7), strict=True))
    steps: list[Step] = [
        convolution(View.whole(source, 5), a, KernelWindow(), IfmPadding()),
        convolution(a, b, KernelWindow(3, 3, 2, 2), IfmPadding(1, 1, 1, 1), depthwise=True),
        PoolingStep(
            source=0, ifm=b, ofm=c, minimum=-128, maximum=127, mode=PoolingMode.MAX, kernel=KernelWindow(3, 1), scale=Scale()
        ),
        ElementwiseStep(
            source=0,
            ifm=c,
            ifm2=View.whole(other),
            ofm=View.whole(result),
            minimum=-128,
            maximum=127,
            mode=ElementwiseMode.ADD,
            scale=Scale(1 << 14, 30),
            operand_scaling=OperandScaling.BOTH_16,
            opa_scale=Scale(1 << 15, 0),
            opb_scale=1 << 15,
            rounding=Rounding.DOUBLE,
        ),
    ]
    return Program(tuple(steps), ((0, source), (1, other)), ((2, result),))


def inputs() -> dict[int, np.ndarray]:
    return {0: RANDOM.integers(-128, 128, (23, 9, 4), np.int8), 1: RANDOM.integers(-128, 128, (10, 5, 8), np.int8)}


@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("stripes", [2, 3, 5, 10])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (1, 2), (0, 2), (0, 3), (2, 3)])
def test_a_chain_in_stripes_gives_the_same_elements(first: int, last: int, stripes: int, overlap: Overlap) -> None:
    whole = program()
    steps = cut_chain(whole.steps, first, last, stripes, overlap)
    assert steps is not None
    assert len(steps) > len(whole.steps)
    given = inputs()
    expected = execute(whole, given)[2]
    assert np.unique(expected).size > 50
    np.testing.assert_array_equal(execute(Program(steps, whole.inputs, whole.outputs), given)[2], expected)


KEPT = (Overlap.KEPT, Overlap.KEPT_AHEAD)


@pytest.mark.parametrize("overlap", KEPT)
@pytest.mark.parametrize("stripes", [2, 3, 5, 10])
def test_every_row_is_made_once_with_rolling_buffers(stripes: int, overlap: Overlap) -> None:
    whole = program().steps
    steps = cut_chain(whole, 0, 3, stripes, overlap)
    assert steps is not None
    for step in whole[:3]:
        parts = [part for part in steps if part.ofm.storage.name == f"{step.ofm.storage.name} rolling"]
        assert sum(part.ofm.shape[0] for part in parts) <= step.ofm.shape[0]
        assert parts[0].ofm.storage.shape[0] < step.ofm.shape[0]


def deep_chain(maps: int) -> list[Step]:
    """Convolutions of 3x3, one behind the other, on 32 rows."""
    views = [View.whole(Storage(f"x{number}", (32, 6, 8), INT8)) for number in range(maps + 1)]
    border = IfmPadding(1, 1, 1, 1)
    return [convolution(ifm, ofm, KernelWindow(3, 3), border) for ifm, ofm in pairwise(views)]


@pytest.mark.parametrize("maps", [3, 6, 9])
def test_steps_that_come_ahead_of_the_first_stripe_need_buffers_of_few_rows(maps: int) -> None:
    chain = deep_chain(maps)
    for stripes in (8, 16, 32):
        rows = 32 // stripes
        kept, ahead = (in_stripes(chain, stripes, overlap) for overlap in KEPT)
        assert kept is not None
        assert ahead is not None
        heights = [{step.ofm.storage.name: step.ofm.storage.shape[0] for step in made[:-1]} for made in (kept, ahead)]
        assert heights[0]["x1 rolling"] == rows + maps - 1  # the first stripe's rows and one more for every map behind
        assert {height for name, height in heights[1].items() if "rolling" in name} == {rows + 2}
        assert max(step.ofm.shape[0] for step in ahead) <= rows + 1
        whole = Program(tuple(chain), ((0, chain[0].ifm.storage),), ((1, chain[-1].ofm.storage),))
        given = {0: RANDOM.integers(-128, 128, (32, 6, 8), np.int8)}
        expected = execute(whole, given)[1]
        assert np.unique(expected).size > 50
        np.testing.assert_array_equal(execute(Program(ahead, whole.inputs, whole.outputs), given)[1], expected)


def copied(ifm: View, ofm: View) -> Step:
    return PoolingStep(source=0, ifm=ifm, ofm=ofm, minimum=-128, maximum=127, mode=PoolingMode.MAX, scale=Scale())


@pytest.mark.parametrize("overlap", Overlap)
def test_stripes_of_rows_in_the_rolling_buffer_of_an_earlier_cascade_go_on_at_its_first_row(overlap: Overlap) -> None:
    buffer, whole = Storage("b", (3, 5, 8), INT8, is_rolling=True), View.whole(Storage("x", (3, 5, 8), INT8))
    between, rows = View.whole(Storage("y", (3, 5, 8), INT8)), View(buffer, buffer.shape, (2, 0, 0), (3, 5, 8), INT8)
    written = in_stripes([copied(whole, between), copied(between, rows)], 3, overlap)
    read = in_stripes([copied(rows, between), copied(between, whole)], 3, overlap)
    assert [step.ofm.offset for step in written or () if step.ofm.storage is buffer] == [(2, 0, 0), (0, 0, 0), (1, 0, 0)]
    assert [step.ifm.offset for step in read or () if step.ifm.storage is buffer] == [(2, 0, 0), (0, 0, 0), (1, 0, 0)]


@pytest.mark.parametrize("layout", list(Layout))
def test_a_box_that_goes_on_at_the_first_row_has_two_tiles(layout: Layout) -> None:
    buffer = Storage("b", (5, 3, 16), INT8, is_rolling=True)
    fm = feature_map(View(buffer, buffer.shape, (3, 0, 0), (4, 3, 16), INT8), layout, 1, 960)
    assert (fm.tile_height_0, fm.height) == (2, 4)
    assert fm.addresses == (960 + 3 * 48, 0, 960, 0)


def test_a_box_within_a_rolling_buffer_has_one_tile() -> None:
    buffer = Storage("b", (5, 3, 16), INT8, is_rolling=True)
    fm = feature_map(View(buffer, buffer.shape, (1, 0, 0), (4, 3, 16), INT8), Layout.NHWC, 1, 960)
    assert (fm.tile_height_0, fm.addresses) == (4, (960 + 48, 0, 0, 0))


def test_more_stripes_than_rows_are_refused() -> None:
    assert cut_chain(program().steps, 0, 3, 11) is None


def addition(ifm: View, ifm2: View, ofm: View) -> ElementwiseStep:
    return ElementwiseStep(
        source=0, ifm=ifm, ifm2=ifm2, ofm=ofm, minimum=-128, maximum=127, mode=ElementwiseMode.ADD, scale=Scale(1 << 14, 30),
        operand_scaling=OperandScaling.BOTH_16, opa_scale=Scale(1 << 15, 0), opb_scale=1 << 15, rounding=Rounding.DOUBLE,
    )  # fmt: skip


def residual_blocks() -> Program:
    """Two blocks whose branches meet in a sum: past two 3x3 convolutions, and with a convolution of stride 2 on both sides."""
    source, result = Storage("in", (24, 9, 4), INT8, 0, True), Storage("out", (12, 5, 8), INT8, 2, True)
    a, b, c, d = (View.whole(Storage(name, (24, 9, 8), INT8), 3) for name in "abcd")
    e, f = (View.whole(Storage(name, (12, 5, 8), INT8), -7) for name in "ef")
    around = IfmPadding(1, 1, 1, 1)
    steps: list[Step] = [
        convolution(View.whole(source, 5), a, KernelWindow(), IfmPadding()),
        convolution(a, b, KernelWindow(3, 3), around),
        convolution(b, c, KernelWindow(3, 3), around),
        addition(a, c, d),
        convolution(d, e, KernelWindow(3, 3, 2, 2), IfmPadding(1, 1, 0, 1)),
        convolution(d, f, KernelWindow(1, 1, 2, 2), IfmPadding()),
        addition(e, f, View.whole(result)),
    ]
    return Program(tuple(steps), ((0, source),), ((2, result),))


@pytest.mark.parametrize("overlap", KEPT)
@pytest.mark.parametrize("stripes", [2, 3, 5, 12])
@pytest.mark.parametrize(("first", "last"), [(0, 3), (1, 3), (0, 6), (3, 6), (4, 6)])
def test_branches_that_meet_in_a_chain_give_the_same_elements_and_make_every_row_once(
    first: int, last: int, stripes: int, overlap: Overlap
) -> None:
    whole = residual_blocks()
    steps = cut_chain(whole.steps, first, last, stripes, overlap)
    assert steps is not None
    given = {0: RANDOM.integers(-128, 128, (24, 9, 4), np.int8)}
    expected = execute(whole, given)[2]
    assert np.unique(expected).size > 50
    np.testing.assert_array_equal(execute(Program(steps, whole.inputs, whole.outputs), given)[2], expected)
    for step in whole.steps[first:last]:
        parts = [part for part in steps if part.ofm.storage.name == f"{step.ofm.storage.name} rolling"]
        assert sum(part.ofm.shape[0] for part in parts) <= step.ofm.shape[0]


def test_a_chain_takes_in_those_before_it_that_do_not_meet_the_budget_alone() -> None:
    tensors = tuple(Tensor(f"t{i}", shape, DType.INT8) for i, shape in enumerate(((24, 9, 4), (1,), (12, 5, 8))))
    small, whole = Graph("g", tensors, (Op("CUSTOM", (0,), (2,)),), (0,), (2,)), residual_blocks()
    (after,) = within(small, [PlanNode((0,), whole)], 3600)
    assert after.program is not None
    assert peak([after]) <= 3600 < 24 * 9 * (4 + 8 + 8)
    given = {0: RANDOM.integers(-128, 128, (24, 9, 4), np.int8)}
    np.testing.assert_array_equal(execute(after.program, given)[2], execute(whole, given)[2])


def graph() -> Graph:
    tensors = tuple(Tensor(f"t{i}", shape, DType.INT8) for i, shape in enumerate(((23, 9, 4), (10, 5, 8), (10, 5, 8))))
    return Graph("g", tensors, (Op("CUSTOM", (0, 1), (2,)),), (0, 1), (2,))


def peak(nodes: list[PlanNode]) -> int:
    """Worst sum of live storages, counted step by step from first to last use."""
    steps = [step for node in nodes for step in node.steps]
    uses: dict[Storage, list[int]] = {}
    for index, step in enumerate(steps):
        extra = [step.ifm2] if isinstance(step, ElementwiseStep) and step.ifm2 else []
        for view in (step.ifm, step.ofm, *extra):
            uses.setdefault(view.storage, []).append(index)
    for storage in uses:
        if storage.tensor in (0, 1):
            uses[storage].append(0)
    return max(sum(s.bytes for s, when in uses.items() if min(when) <= i <= max(when)) for i in range(len(steps)))


def test_a_budget_is_met_by_cutting_and_the_result_is_the_same() -> None:
    whole = program()
    before = [PlanNode((0,), whole)]
    assert peak(before) > 2800
    after = within(graph(), before, 2200)
    assert peak(after) <= 2200 + 10 * 5 * 8  # the sum takes the place of what is added, row by row
    given = inputs()
    assert after[0].program is not None
    np.testing.assert_array_equal(execute(after[0].program, given)[2], execute(whole, given)[2])


def test_a_budget_that_is_met_already_changes_nothing() -> None:
    nodes = [PlanNode((0,), program())]
    assert within(graph(), nodes, 100_000) == nodes


def rows_made(nodes: list[PlanNode]) -> int:
    return sum(step.ofm.shape[0] for node in nodes for step in node.steps)


def long_chain(convolutions: int = 6, rows: int = 24) -> Program:
    """A 1x1, a 3x3 and more 1x1 convolutions between two small maps: rolling buffers of all of them are live together."""
    source, result = Storage("in", (rows, 4, 1), INT8, 0, True), Storage("out", (rows, 4, 1), INT8, 1, True)
    between = [Storage(f"map{i}", (rows, 4, 16), INT8) for i in range(convolutions - 1)]
    maps = [View.whole(storage) for storage in (source, *between, result)]
    steps = [convolution(ifm, ofm, KernelWindow(), IfmPadding()) for ifm, ofm in pairwise(maps)]
    steps[1] = convolution(maps[1], maps[2], KernelWindow(3, 3), IfmPadding(1, 1, 1, 1))
    return Program(tuple(steps), ((0, source),), ((1, result),))


def folded() -> Program:
    """Convolutions whose input is seen with two columns as one: of stride 2 that reads a tensor, and of what that made."""
    source, result = Storage("in", (24, 8, 3), INT8, 0, True), Storage("out", (12, 2, 8), INT8, 1, True)
    between, narrow = Storage("between", (12, 4, 8), INT8), Storage("narrow", (12, 2, 8), INT8)
    maps = [View.whole(storage) for storage in (between, narrow, result)]
    steps = [
        convolution(laid_out(ifm, (0, 0), shape, pitch), ofm, kernel, padding)
        for ifm, shape, pitch, ofm, kernel, padding in (
            (View.whole(source), (24, 4, 6), (24, 6), maps[0], KernelWindow(3, 2, 2, 1), IfmPadding(1, 1, 0, 0)),
            (maps[0], (12, 2, 16), (32, 16), maps[1], KernelWindow(3, 2), IfmPadding(1, 1, 1, 0)),
        )
    ]
    steps.append(convolution(maps[1], maps[2], KernelWindow(), IfmPadding()))
    return Program(tuple(steps), ((0, source),), ((1, result),))


def test_rows_are_made_twice_where_no_other_memory_holds_them_only() -> None:
    tensors = tuple(Tensor(f"t{i}", (24, 4, 1), DType.INT8) for i in range(2))
    small, whole = Graph("g", tensors, (Op("CUSTOM", (0,), (1,)),), (0,), (1,)), [PlanNode((0,), long_chain())]
    assert rows_made(within(small, whole, 500)) > rows_made(whole)
    in_cache = fit_cache(small, whole, 300)
    assert in_cache != whole
    assert rows_made(in_cache) == rows_made(whole)


def test_a_little_more_than_the_least_memory_is_taken_where_it_halves_the_cycles() -> None:
    tensors = tuple(Tensor(f"t{i}", (24, 4, 1), DType.INT8) for i in range(2))
    small, whole = Graph("g", tensors, (Op("CUSTOM", (0,), (1,)),), (0,), (1,)), [PlanNode((0,), long_chain())]
    smallest, chosen = (
        within(small, whole, 0),
        least(small, whole, lambda steps: sum(step.ofm.shape[0] for step in steps) ** 4),
    )
    cheap = least(small, whole, lambda steps: 1.0)
    assert peak(smallest) <= peak(cheap) < peak(chosen) <= 1.5 * peak(cheap)
    assert rows_made(chosen) < rows_made(smallest)


def test_plans_that_would_take_too_much_memory_at_any_cycles_are_not_priced() -> None:
    tensors = tuple(Tensor(f"t{i}", (24, 4, 1), DType.INT8) for i in range(2))
    small, whole = Graph("g", tensors, (Op("CUSTOM", (0,), (1,)),), (0,), (1,)), [PlanNode((0,), long_chain())]
    priced: dict[bool, list[int]] = {True: [], False: []}

    def cycles(steps: Sequence[Step], *, are_alike: bool) -> float:
        priced[are_alike].append(len(steps))
        return 1.0 if are_alike else float(len(steps) ** 4)

    for are_alike in priced:
        least(small, whole, partial(cycles, are_alike=are_alike))
    assert priced[True][0] == priced[False][0] == len(long_chain().steps)
    assert len(priced[True]) < len(priced[False])


def test_branches_that_meet_again_are_cut_where_that_saves_memory_and_costs_no_cycles() -> None:
    tensors = tuple(Tensor(f"t{i}", shape, DType.INT8) for i, shape in enumerate(((24, 9, 4), (1,), (12, 5, 8))))
    small, whole = Graph("g", tensors, (Op("CUSTOM", (0,), (2,)),), (0,), (2,)), residual_blocks()
    lines = CascadeSearch(small, [PlanNode((0,), whole)], (2, 3, 4, 6, 8, 12, 16, 24, 32))

    def cycles(steps: Sequence[Step]) -> float:
        return float(sum(step.ofm.shape[0] for step in steps))

    (node,) = least(small, [PlanNode((0,), whole)], cycles)
    assert node.program is not None
    assert peak([node]) < 0.955 * lines.start.peak
    assert cycles(node.program.steps) <= cycles(whole.steps)
    given = {0: RANDOM.integers(-128, 128, (24, 9, 4), np.int8)}
    np.testing.assert_array_equal(execute(node.program, given)[2], execute(whole, given)[2])
    (dear,) = least(small, [PlanNode((0,), whole)], lambda steps: 2.0 ** len(steps))
    assert dear.program is not None
    assert len(dear.program.steps) < len(node.program.steps)


def test_a_cache_that_holds_no_stripes_costs_few_commands_where_flash_counts() -> None:
    """As many rows as stripes are only for fewer cycles."""
    rows = 160
    tensors = tuple(Tensor(f"t{i}", (rows, 4, 1), DType.INT8) for i in range(2))
    small = Graph("g", tensors, (Op("CUSTOM", (0,), (1,)),), (0,), (1,))
    many, few = (
        fit_cache(small, [PlanNode((0,), long_chain(3, rows))], 64, saves_flash=saves_flash) for saves_flash in (False, True)
    )
    steps = [len(node.program.steps) for (node,) in (many, few) if node.program]
    assert steps[0] > 2 * steps[1]
    assert peak(few) <= 1.5 * peak(many)


def squeeze_and_excite() -> Program:
    """A map, its mean as 1x1, a 1x1 convolution of that, the product of the two, broadcast, and one more convolution."""
    source, result = Storage("in", (16, 9, 2), INT8, 0, True), Storage("out", (16, 9, 2), INT8, 2, True)
    product, kept = View.whole(Storage("product", (16, 9, 8), INT8), 1), Storage("kept", (16, 9, 8), INT8, 1, True)
    a = View.whole(Storage("a", (16, 9, 8), INT8), 3)
    mean, gate = (View.whole(Storage(name, (1, 1, 8), INT8), -5) for name in ("mean", "gate"))
    pool = {"minimum": -128, "maximum": 127, "scale": Scale(1 << 24, 31)}
    steps: list[Step] = [
        convolution(View.whole(source, 5), a, KernelWindow(3, 3), IfmPadding(1, 1, 1, 1)),
        PoolingStep(source=0, ifm=a, ofm=mean, mode=PoolingMode.AVERAGE, kernel=KernelWindow(16, 9), **pool),  # type: ignore[arg-type]
        convolution(mean, gate, KernelWindow(), IfmPadding()),
        ElementwiseStep(
            source=0, ifm=a, ifm2=gate, ofm=product, minimum=-128, maximum=127, mode=ElementwiseMode.MUL,
            scale=Scale(1 << 24, 31), rounding=Rounding.DOUBLE,
        ),
        convolution(product, View.whole(result), KernelWindow(), IfmPadding()),
        PoolingStep(source=0, ifm=a, ofm=View.whole(kept), mode=PoolingMode.MAX, minimum=-128, maximum=127, scale=Scale()),
    ]  # fmt: skip
    return Program(tuple(steps), ((0, source),), ((2, result), (1, kept)))


def test_a_broadcast_row_is_not_made_in_stripes() -> None:
    whole = squeeze_and_excite()
    (after,) = fit_cache(graph(), [PlanNode((0,), whole)], 1500)
    assert after.program is not None
    assert len(after.program.steps) > len(whole.steps)
    assert all(view.shape[0] > 0 and view.offset[0] >= 0 for step in after.program.steps for view in (step.ifm, step.ofm))
    given = {0: RANDOM.integers(-128, 128, (16, 9, 2), np.int8)}
    np.testing.assert_array_equal(execute(after.program, given)[2], execute(whole, given)[2])


def two_peaks() -> Program:
    """Residual blocks with a wide map in front of them and behind, which stripes make smaller one by one."""
    middle, result = residual_blocks(), Storage("end", (12, 5, 2), INT8, 2, True)
    narrow, first = View.whole(Storage("narrow", (24, 9, 4), INT8), 5), middle.steps[0]
    source, wide = (View.whole(Storage(name, (24, 9, depth), INT8, *rest), 5) for name, depth, *rest in _ENDS)
    last = View.whole(Storage("last", (12, 5, 8), INT8), -7)
    behind = View.whole(Storage("behind", (12, 5, 96), INT8), 1)
    assert isinstance(first, ConvolutionStep)
    steps: list[Step] = [
        convolution(source, wide, KernelWindow(3, 3), IfmPadding(1, 1, 1, 1)),
        convolution(wide, narrow, KernelWindow(), IfmPadding()),
        replace(first, ifm=narrow),
        *middle.steps[1:-1],
        replace(middle.steps[-1], ofm=last),
        convolution(last, behind, KernelWindow(), IfmPadding()),
        convolution(behind, View.whole(result), KernelWindow(), IfmPadding()),
    ]
    return Program(tuple(steps), ((0, source.storage),), ((2, result),))


_ENDS = (("in", 4, 0, True), ("wide", 40))


def test_another_cascade_does_not_hide_the_peak_of_the_one_before() -> None:
    """Wherever in it that is: else cascades that lower nothing are chosen again and again."""
    tensors, tried = tuple(Tensor(f"t{i}", (24, 9, 4), DType.INT8) for i in range(3)), 0
    small = Graph("g", tensors, (Op("CUSTOM", (0,), (2,)),), (0,), (2,))
    search = CascadeSearch(small, [PlanNode((0,), two_peaks())], (2, 3, 4, 6), has_branches=True)
    for budget in range(0, search.start.peak, 200):
        plan, peak = search.next(search.start, budget), search.start.peak
        while plan is not None:
            assert plan.peak <= peak
            tried += len(plan.cuts) > 1
            plan, peak = search.next(plan, budget), plan.peak
    assert tried
