"""GATHER of constant indices on the NPU: exact, in few operations, and no operation where it is a slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import npu
from npu.compiler.goal import Goal
from npu.compiler.ir import Program
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.errors import ModelError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model
from npu.graph.placement import Device
from npu.hardware.catalogue import load_variant
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import assert_exact, lowered, ways_of
from tests.support.random_graphs import Sketch, convolved
from tests.support.random_graphs import random_inputs as random_arrays

Shape = tuple[int, ...]
TARGETS = (
    "ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-128", "ethos-u85-256", "ethos-u85-2048",
)  # fmt: skip
TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.INT32)


def by_turns(extent: int, groups: int = 2) -> list[int]:
    """The shuffle of channels: one of every group by turns."""
    shuffled: list[int] = np.arange(extent).reshape(groups, -1).T.reshape(-1).tolist()
    return shuffled


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(5))


def taken(s: Sketch, x: int, indices: Any, axis: int) -> int:
    shape, numbers = s.shape(x), np.array(indices)
    made = (*shape[: axis % len(shape)], *numbers.shape, *shape[axis % len(shape) + 1 :])
    return s.op("GATHER", [x, s.numbers(numbers)], [s.tensor(made, 0.1, 3)], at.GatherOptions(axis))


def alone(shape: Shape, axis: int, indices: Any, *, inside: bool = False) -> Graph:
    """The operator alone, or between two RELU, whose maps the compiler may lay out as it likes."""
    s = sketch()
    x = s.input(shape, 0.1, 3)
    x = s.op("RELU", [x], [s.tensor(shape, 0.1, 3)]) if inside else x
    y = taken(s, x, indices, axis)
    return s.graph([s.op("RELU", [y], [s.tensor(s.shape(y), 0.1, 3)]) if inside else y])


def kinds(program: Program) -> dict[str, int]:
    return dict(Counter(type(step).__name__.removesuffix("Step") for step in program.steps))


def cheapest(graph: Graph, target: str = "ethos-u55-128") -> Program:
    """As the compiler lowers the graph: of several ways it takes the one that costs least."""
    variant = load_variant(target)
    return lower_partition(graph, range(len(graph.ops)), variant, estimates=ways_of(variant))


BACKWARDS = list(range(16))[::-1]
STEPS: dict[str, tuple[Shape, int, Any, dict[str, int]]] = {
    "groups of maps by turns": ((1, 24, 14, 14), 1, by_turns(24), {"Pooling": 2}),
    "groups of channels by turns": ((1, 14, 14, 24), 3, by_turns(24, 4), {"Convolution": 1}),
    "groups of columns by turns": ((1, 14, 24, 16), 2, by_turns(24), {"Pooling": 2}),
    "groups of more channels than are multiplied": ((1, 3, 3, 960), 3, by_turns(960), {"Pooling": 2}),
    "batches by turns": ((6, 5, 5, 8), 0, by_turns(6), {"Pooling": 2}),
    "maps of a batch by turns": ((2, 6, 5, 5, 8), 1, by_turns(6), {"Pooling": 2}),
    "pieces of channels": ((1, 28, 28, 64), -1, [*range(16), *range(32, 48), *range(16, 32)], {"Pooling": 3}),
    "channels backwards": ((1, 8, 8, 16), -1, BACKWARDS, {"Convolution": 1}),
    "columns of few channels backwards": ((1, 16, 16, 3), 2, BACKWARDS, {"Convolution": 1}),
    "rows backwards": ((1, 16, 16, 16), 1, BACKWARDS, {"Pooling": 16}),
    "every one twice": ((1, 8, 8, 16), 1, [0, 0, 1, 1, 2, 2], {"Pooling": 2}),
    "rows of a table": ((50, 64), 0, [[3, 7], [1, 40]], {"Pooling": 2}),
    "one to an output": ((2, 8, 6, 5), 1, 3, {"Pooling": 1}),
    "all to an output": ((2, 8, 6), 1, range(8), {"Pooling": 1}),
    "every third to an output": ((1, 8, 6, 5), 1, [1, 4, 7], {"Pooling": 1}),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_gather_takes_few_operations(case: str) -> None:
    shape, axis, indices, expected = STEPS[case]
    graph = alone(shape, axis, indices)
    assert kinds(cheapest(graph)) == expected
    assert_exact(graph, random_arrays(graph, 1), case)


NOTHING: dict[str, tuple[Shape, int, Any]] = {
    "all": ((1, 8, 6, 5), 1, range(8)),
    "one": ((2, 1, 24, 14, 14), 0, 1),
    "neighbours": ((1, 8, 6, 5), -1, [1, 2, 3]),
    "neighbours in rows": ((1, 8, 6, 5), 1, [[1, 2], [3, 4]]),
    "every second row": ((1, 8, 6, 16), 1, [0, 2, 4, 6]),
    "every third column": ((1, 8, 7, 16), 2, [0, 3, 6]),
}


@pytest.mark.parametrize("case", NOTHING)
def test_what_is_a_slice_is_read_where_it_lies(case: str) -> None:
    graph = alone(*NOTHING[case], inside=True)
    assert {step.source for step in lowered(graph).steps} == {0, 2}
    assert_exact(graph, random_arrays(graph, 1), case)


def joined(axis: int, places: Any) -> Graph:
    """Into a join of two, and read by a convolution."""
    s = sketch()
    x = convolved(s, s.input((1, 8, 8, 8), 0.1, 3), 1, 16)
    scale, zero_point = s.scale_of(x), s.zero_point_of(x)
    numbers = np.array(places)
    shape = tuple(len(numbers) if other == axis else extent for other, extent in enumerate(s.shape(x)))
    y = s.op("GATHER", [x, s.numbers(numbers)], [s.tensor(shape, scale, zero_point)], at.GatherOptions(axis))
    whole = tuple(extent + (len(numbers) if other == axis else 0) for other, extent in enumerate(s.shape(x)))
    z = s.op("CONCATENATION", [y, x], [s.tensor(whole, scale, zero_point)], at.ConcatenationOptions(axis))
    return s.graph([convolved(s, z, 3, 8)])


def behind_a_slice(axis: int, places: Any) -> Graph:
    """Of one of two halves, which lies among the other's elements."""
    s = sketch()
    x = s.input((1, 8, 8, 16), 0.1, 3)
    parts = [s.tensor((1, 8, 8, 8), 0.1, 3) for _ in range(2)]
    s.op("SPLIT", [s.numbers(3), x], parts, at.SplitOptions(2))
    return s.graph([taken(s, parts[1], places, axis), taken(s, parts[0], places, axis)])


def of_another_gather() -> Graph:
    s = sketch()
    x = taken(s, s.input((1, 8, 8, 16), 0.1, 3), [1, 3, 5, 7], 1)
    return s.graph([taken(s, taken(s, x, [7, 0, 1], 2), by_turns(16), 3)])


def between_convolutions(axis: int, indices: Any) -> Graph:
    s = sketch()
    x = convolved(s, s.input((1, 12, 12, 8), 0.1, 3), 3, 24)
    shape = tuple(len(indices) if other == axis else extent for other, extent in enumerate(s.shape(x)))
    made = s.tensor(shape, s.scale_of(x), s.zero_point_of(x))
    y = s.op("GATHER", [x, s.numbers(indices)], [made], at.GatherOptions(axis))
    return s.graph([convolved(s, y, 3, 16)])


PLACES = {"pieces": [4, 5, 6, 0, 1], "by turns": by_turns(8), "neighbours": [2, 3, 4], "every second": [1, 3, 5]}
GRAPHS: dict[str, Callable[[], Graph]] = {
    **{
        f"{name} of axis {axis} {where.__name__}": lambda where=where, axis=axis, places=places: where(axis, places)
        for where in (joined, behind_a_slice, between_convolutions)
        for axis in (1, 2, 3)
        for name, places in PLACES.items()
    },
    "shuffled between convolutions": lambda: between_convolutions(3, by_turns(24)),
    "of another one": of_another_gather,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_what_stands_around_it_may_lie_anywhere(name: str) -> None:
    graph = GRAPHS[name]()
    assert_exact(graph, random_arrays(graph, 2), name)


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("name", ["joined", "behind_a_slice", "between_convolutions"])
def test_networks_are_exact_on_every_target(name: str, number: int) -> None:
    target = TARGETS[(number * 3 + len(name)) % len(TARGETS)]
    where = {"joined": joined, "behind_a_slice": behind_a_slice, "between_convolutions": between_convolutions}[name]
    check(write_model(Model((where(number + 1, PLACES["by turns"]),))), target)


def check(content: bytes, target: str, goal: Goal = Goal.PERFORMANCE) -> None:
    """All of the model is on the NPU, gives what LiteRT's reference gives, and nothing in the streams is found fault with."""
    compiled = npu.compile(content, target, optimise=goal)
    assert {op.device for op in compiled.compiled_model.placement.ops} == {Device.NPU}
    inputs = random_inputs(content, 3)
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    assert npu.verify(compiled.content) == []


def model_of(shape: Shape, axis: int, indices: npt.NDArray[Any], dtype: DType) -> bytes:
    """Of maps of any type; those of 32 bits are plain numbers."""
    b = ModelBuilder()
    quantization: tuple[float | None, int] = (None, 0) if dtype is DType.INT32 else (0.1, 0 if dtype is DType.INT16 else 3)
    x = b.input(shape, dtype, scale=quantization[0], zero_point=quantization[1])
    made = (*shape[:axis], *indices.shape, *shape[axis + 1 :])
    attributes = at.GatherOptions(axis)
    x = x if dtype is DType.INT32 else b.op("RELU", [x], shape, dtype, *quantization)
    b.output(b.op("GATHER", [x, b.constant(indices)], made, dtype, *quantization, attributes=attributes))
    return b.build()


def random_indices(rng: np.random.Generator, extent: int) -> npt.NDArray[Any]:
    size: Any = [(), (int(rng.integers(1, 12)),), (2, 3)][int(rng.integers(3))]
    indices = [
        rng.integers(0, extent, size),
        np.arange(int(rng.integers(extent)), extent, int(rng.integers(1, 4))),
        rng.permutation(extent)[:32],
        np.array(by_turns(extent, next(groups for groups in (3, 2, 1) if extent % groups == 0))),
    ][int(rng.integers(4))]
    return indices.astype((np.int16, np.int32, np.int64)[int(rng.integers(3))])


def check_random(count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(count):
        shape = tuple(int(extent) for extent in rng.integers(1, 8, int(rng.integers(1, 6))))
        shape = (*shape[:-1], int(rng.choice([1, 3, 16, 24, 100])))
        axis = int(rng.integers(len(shape)))
        content = model_of(shape, axis, random_indices(rng, shape[axis]), TYPES[number % 4])
        check(content, TARGETS[number % len(TARGETS)], list(Goal)[number % 2])


def test_random_ones_are_exact_on_every_target() -> None:
    check_random(28, 7)


@pytest.mark.slow
def test_many_random_ones_are_exact_on_every_target() -> None:
    check_random(300, 8)


def test_longer_maps_than_the_registers_say_are_moved_in_pieces() -> None:
    s = sketch()
    flat = s.input((700, 300), 0.1, 3)
    x = s.tensor((70000, 3), 0.1, 3)
    s.op("RESHAPE", [flat, s.numbers((70000, 3))], [x], at.ReshapeOptions((70000, 3)))
    graph = s.graph([taken(s, x, [2, 0, 1], 1)])
    assert_exact(graph, random_arrays(graph, 1))
    assert {type(step).__name__ for step in cheapest(graph).steps} == {"ConvolutionStep"}


def test_more_than_are_copied_in_time_stay_on_the_cpu_and_say_why() -> None:
    content = write_model(Model((alone((1, 1, 100), 2, list(range(100))[::-1], inside=True),)))
    (violation,) = npu.check(content).ops[1].violations
    assert violation.rule == "N-GATHER-4"
    assert violation.message == (
        "evenly spaced parts of the indices must be at most 32, or at most 1024 of 16 elements each on average, got parts, "
        "elements [100,100]"
    )


REFUSED: dict[str, tuple[Any, int, str]] = {
    "too many": ([[*range(1025)][::-1]], 0, "evenly spaced parts of the indices must be at most 1024, got more"),
    "batches": ([[1, 2, 3]], 1, "batch dimensions must be 0, got 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_placement_that_no_checker_gives_is_refused(case: str) -> None:
    indices, batch, message = REFUSED[case]
    s = sketch()
    numbers = np.array(indices)
    y = s.tensor((1, *numbers.shape[batch:], 3), 0.1, 3)
    x = s.input((1, 1025, 3), 0.1, 3)
    graph = s.graph([s.op("GATHER", [x, s.numbers(numbers)], [y], at.GatherOptions(1, batch))])
    with pytest.raises(LoweringError, match=message):
        lowered(graph)


@pytest.mark.parametrize(("index", "what"), [(4, "got 4 to 4"), (-1, "got -1 to -1")])
def test_indices_outside_are_refused_as_litert_refuses_them(index: int, what: str) -> None:
    content = write_model(Model((alone((1, 4, 5, 6), 1, [index]),)))
    with pytest.raises(RuntimeError, match="gather index out of bounds"):
        run_reference(content, random_inputs(content, 1))
    for refuse in (npu.check, npu.compile):
        with pytest.raises(ModelError, match=rf"indices must be in \[0, 4\), {what}"):
            refuse(content)
