"""TRANSPOSE: which operations it becomes, that views with gaps and long axes are moved right, and when gathering pays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from npu.compiler.ir import ConvolutionStep, PoolingStep, Program
from npu.compiler.layout import choose_layouts
from npu.compiler.lower.partition import lower_partition
from npu.compiler.lower.transpose import MoveCost, axis_pitches
from npu.graph import attributes as at
from npu.graph.ethos_u import Region
from npu.graph.graph import Graph, Model
from npu.graph.permutation import moved_axes
from npu.hardware.catalogue import load_variant
from npu.isa.operations import Layout, OfmTranspose, Pooling
from npu.tflite.writer import write_model

from tests.support.ethos_u85 import exact_operations
from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch, random_inputs

Shape = tuple[int, ...]


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(5))


def permuted(s: Sketch, x: int, order: Shape) -> int:
    y = s.tensor(tuple(s.shape(x)[axis] for axis in order), s.scale_of(x), s.zero_point_of(x))
    return s.op("TRANSPOSE", [x, s.numbers(order)], [y], at.TransposeOptions())


def single(shape: Shape, order: Shape) -> Graph:
    s = sketch()
    return s.graph([permuted(s, s.input(shape, 0.1, 3), order)])


def kinds(program: Program) -> dict[str, int]:
    return dict(Counter(type(step).__name__.removesuffix("Step") for step in program.steps))


STEPS: dict[str, tuple[Shape, Shape, dict[str, int]]] = {
    "rows and columns": ((24, 2, 784), (1, 0, 2), {"Pooling": 1}),
    "a batch of rows and columns": ((3, 5, 7, 8), (0, 2, 1, 3), {"Pooling": 3}),
    "channels to the front": ((1, 28, 28, 48), (0, 3, 1, 2), {"Convolution": 98}),
    "channels to the back": ((1, 24, 28, 28), (0, 2, 3, 1), {"Convolution": 3}),
    "three channels to the back": ((1, 3, 40, 40), (0, 2, 3, 1), {"Convolution": 1}),
    "three channels to the front": ((1, 112, 112, 3), (0, 3, 1, 2), {"Pooling": 1}),
    "shuffled channels": ((1, 28, 28, 2, 24), (0, 1, 2, 4, 3), {"Convolution": 1}),
    "shuffled channels of many rows": ((300, 300, 3, 2), (0, 1, 3, 2), {"Convolution": 2}),
    "all axes the other way round": ((2, 3, 4, 5, 6, 7), (5, 4, 3, 2, 1, 0), {"Pooling": 120}),
    "nothing to an output": ((1, 5, 1, 7), (2, 1, 0, 3), {"Pooling": 1}),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_permutation_takes_few_operations(case: str) -> None:
    shape, order, expected = STEPS[case]
    graph = single(shape, order)
    assert kinds(lowered(graph)) == expected
    assert_exact(graph, random_inputs(graph, 1), case)


@pytest.mark.parametrize(
    ("shape", "order"),
    [((1, 300, 300, 2), (0, 3, 1, 2)), ((2, 300, 300), (1, 2, 0)), ((2, 3, 300, 300), (1, 0, 2, 3))],
)
def test_more_than_the_registers_say_is_moved_in_pieces(shape: Shape, order: Shape) -> None:
    s = sketch()
    flat = s.input((int(np.prod(shape)) // 1000, 1000), 0.1, 3)
    x = s.tensor(shape, 0.1, 3)
    s.op("RESHAPE", [flat, s.numbers(shape)], [x], at.ReshapeOptions(shape))
    graph = s.graph([permuted(s, x, order)])
    assert_exact(graph, random_inputs(graph, 1))


def behind_a_split(axis: int) -> Graph:
    """Both halves of a map, one from the middle of memory that goes on."""
    s = sketch()
    x = s.input((2, 4, 6, 8), 0.1, 3)
    half = tuple(n // 2 if i == axis else n for i, n in enumerate(s.shape(x)))
    parts = [s.tensor(half, 0.1, 3) for _ in range(2)]
    s.op("SPLIT", [s.numbers(axis), x], parts, at.SplitOptions(2))  # type: ignore[arg-type]
    return s.graph(
        [permuted(s, parts[0], (0, 3, 1, 2)), permuted(s, parts[1], (0, 2, 1, 3)), permuted(s, parts[1], (3, 2, 0, 1))]
    )


def in_front_of_a_join(axis: int) -> Graph:
    s = sketch()
    parts = [permuted(s, s.input((1, 5, 6, 7), 0.1, 3), (0, 3, 1, 2)), permuted(s, s.input((1, 5, 7, 6), 0.1, 3), (0, 2, 1, 3))]
    assert s.shape(parts[0]) == s.shape(parts[1]) == (1, 7, 5, 6)
    shape = tuple(n * 2 if i == axis else n for i, n in enumerate((1, 7, 5, 6)))
    return s.graph([s.op("CONCATENATION", parts, [s.tensor(shape, 0.1, 3)], at.ConcatenationOptions(axis))])


def last_channel_alone() -> Graph:
    """Every third byte of a map: nothing is contiguous in the source."""
    s = sketch()
    x = s.input((1, 6, 7, 3), 0.1, 3)
    part = s.tensor((1, 6, 7, 1), 0.1, 3)
    s.op("SLICE", [x, s.numbers((0, 0, 0, 2)), s.numbers((1, 6, 7, 1))], [part], at.SliceOptions())
    return s.graph([permuted(s, part, (3, 2, 0, 1))])


def of_a_constant() -> Graph:
    s = sketch()
    x = s.input((1, 4, 3, 2), 0.1, 3)
    fixed = s.add((1, 2, 3, 4), 0.1, 3, s.rng.integers(-128, 128, (1, 2, 3, 4), np.int8))
    turned = permuted(s, fixed, (0, 3, 2, 1))
    return s.graph([s.op("ADD", [x, turned], [s.tensor((1, 4, 3, 2), 0.2, 3)], at.AddOptions())])


def shuffled() -> Graph:
    """The shuffle of channels between two reshapes to an output, and there and back again."""
    s = sketch()
    x = s.input((1, 5, 5, 24), 0.1, 3)
    grouped = s.tensor((1, 25, 2, 12), 0.1, 3)
    s.op("RESHAPE", [x, s.numbers((1, 25, 2, 12))], [grouped], at.ReshapeOptions((1, 25, 2, 12)))
    mixed = permuted(s, grouped, (0, 1, 3, 2))
    back = s.tensor((1, 5, 5, 24), 0.1, 3)
    s.op("RESHAPE", [mixed, s.numbers((1, 5, 5, 24))], [back], at.ReshapeOptions((1, 5, 5, 24)))
    return s.graph([back, permuted(s, permuted(s, x, (0, 3, 1, 2)), (0, 2, 3, 1))])


GRAPHS: dict[str, Callable[[], Graph]] = {
    "halves of a batch": lambda: behind_a_split(0),
    "halves of rows": lambda: behind_a_split(1),
    "halves of columns": lambda: behind_a_split(2),
    "halves of channels": lambda: behind_a_split(3),
    "joined along rows": lambda: in_front_of_a_join(1),
    "joined along columns": lambda: in_front_of_a_join(2),
    "joined along channels": lambda: in_front_of_a_join(3),
    "last channel alone": last_channel_alone,
    "constant": of_a_constant,
    "shuffle": shuffled,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_views_of_other_tensors_are_permuted_right(name: str) -> None:
    graph = GRAPHS[name]()
    assert_exact(graph, random_inputs(graph, 2), name)


def test_what_a_permutation_writes_in_another_order_is_no_brick_and_nothing_else_changes() -> None:
    s = sketch()
    x = s.input((1, 8, 8, 16), 0.1, 3)

    def larger(y: int) -> int:
        return s.op("MAXIMUM", [y, y], [s.tensor((1, 8, 8, 16), 0.1, 3)])

    program = lowered(s.graph([larger(larger(permuted(s, larger(larger(x)), (0, 2, 1, 3))))]))
    layouts = choose_layouts(program.steps)
    found = [layouts[step.ofm.storage] for step in program.steps]
    assert found == [Layout.NHCWB16, Layout.NHCWB16, Layout.NHWC, Layout.NHCWB16, Layout.NHWC]


def test_axes_of_a_view_have_the_pitches_of_its_rows_and_columns() -> None:
    (step,) = lowered(single((1, 2, 3, 4), (0, 1, 2, 3))).steps
    assert axis_pitches((5, 2, 3, 4), step.ifm) == [24, 12, 4, 1]
    assert axis_pitches((3, 4), step.ifm) == [4, 1]
    assert axis_pitches((4,), step.ifm) == [1]


STORED: dict[str, tuple[Shape, Shape, OfmTranspose]] = {
    "rows and columns of few channels": ((1, 30, 100, 4), (0, 2, 1, 3), OfmTranspose.WHC),
    "rows and columns of many channels": ((1, 2, 50, 1000), (0, 2, 1, 3), OfmTranspose.HWC),
    "batches of rows and columns": ((3, 40, 20, 2), (0, 2, 1, 3), OfmTranspose.WHC),
    "rows that are many maps": ((54, 96, 2, 2, 3), (0, 2, 1, 3, 4), OfmTranspose.HWC),
    "channels to the front": ((1, 28, 28, 48), (0, 3, 1, 2), OfmTranspose.HCW),
    "channels to the back": ((1, 48, 28, 28), (0, 2, 3, 1), OfmTranspose.HCW),
    "shuffled channels": ((1, 28, 28, 2, 24), (0, 1, 2, 4, 3), OfmTranspose.HCW),
}


@pytest.mark.parametrize("case", STORED)
def test_ethos_u85_stores_a_permutation_in_its_order_where_that_costs_least(case: str) -> None:
    shape, order, expected = STORED[case]
    operations = exact_operations(write_model(Model((single(shape, order),))), "ethos-u85-256")
    stored = {one.options.transpose for one in operations if one.options is not None}
    assert stored - {OfmTranspose.HWC} == {expected} - {OfmTranspose.HWC}  # there may be a copy besides


COPIES, MIXED = (0, 0), (0, 48)
WAYS: dict[str, tuple[Shape, Shape, dict[str, tuple[int, int]]]] = {
    "many columns": ((784, 48), (1, 0), {"ethos-u55-32": (8, 0), "ethos-u55-128": (8, 0), "ethos-u65-512": (8, 0)}),
    "few columns": ((12544, 3), (1, 0), dict.fromkeys(("ethos-u55-32", "ethos-u55-128", "ethos-u65-512"), COPIES)),
    "more rows than may be gathered": ((65536, 16), (1, 0), dict.fromkeys(("ethos-u55-32", "ethos-u65-512"), COPIES)),
    "rows that stay together": ((24, 2, 784), (1, 0, 2), dict.fromkeys(("ethos-u55-32", "ethos-u65-512"), COPIES)),
    "channels": ((784, 2, 24), (0, 2, 1), {"ethos-u55-32": MIXED, "ethos-u55-128": MIXED, "ethos-u65-512": MIXED}),
    "more channels than change places": ((49, 2, 300), (0, 2, 1), {"ethos-u55-128": (8, 0), "ethos-u65-512": (8, 0)}),
}
"""Rows that are gathered and channels that change places on each target."""


@pytest.mark.parametrize("case", WAYS)
def test_the_way_that_costs_least_is_taken(case: str) -> None:
    shape, order, expected = WAYS[case]
    ways = {target: MoveCost(load_variant(target), is_far=False).best(moved_axes(shape, order)) for target in expected}
    assert {target: (way.taps, len(way.channels)) for target, way in ways.items()} == expected


def test_far_memory_makes_longer_runs_worth_their_weights() -> None:
    axes, variant = moved_axes((784, 48), (1, 0)), load_variant("ethos-u65-256")
    assert [MoveCost(variant, is_far).best(axes).taps for is_far in (False, True)] == [8, 16]


def test_few_channels_behind_a_fast_memory_are_moved_on_a_copy_in_it() -> None:
    """There single elements are worth no gathers, of which it would take 452."""
    copy, move = exact_operations(write_model(Model((single((1, 85, 85, 8), (0, 3, 1, 2)),))), "ethos-u65-256")
    assert (copy.ofm.region, move.ifm.region, move.ofm.region) == (Region.FAST, Region.FAST, Region.ARENA)
    assert isinstance(move, Pooling)


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-256", "ethos-u65-512"])
def test_every_gather_has_one_tap_of_1_for_each_channel(target: str) -> None:
    graph = single((1, 24, 28, 28), (0, 2, 3, 1))
    for step in lower_partition(graph, [0], load_variant(target)).steps:
        assert isinstance(step, ConvolutionStep)
        channels, taps = step.weights.values.shape[:2]
        assert channels == taps == step.ofm.shape[2] == step.kernel.height
        np.testing.assert_array_equal(step.weights.values.reshape(channels, taps), np.eye(taps))


def test_a_permutation_that_moves_nothing_inside_a_job_takes_no_operation() -> None:
    s = sketch()
    x = permuted(s, s.op("RELU", [s.input((1, 6, 1, 8), 0.1, 3)], [s.tensor((1, 6, 1, 8), 0.1, 3)]), (2, 1, 0, 3))
    steps = lowered(s.graph([s.op("RELU6", [x], [s.tensor((1, 6, 1, 8), 0.1, 3)])])).steps
    assert [step.source for step in steps] == [0, 2]
    assert all(isinstance(step, PoolingStep) for step in steps)
