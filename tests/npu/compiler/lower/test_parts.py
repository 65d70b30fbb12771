"""Operators whose steps need much memory in between work on parts of a map where there is no room, and give the same."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import npu
from npu.compiler.compiled import CompiledModel
from npu.compiler.ir import PoolingStep
from npu.compiler.lower.geometry import Box
from npu.compiler.lower.parts import boxes_of
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.choice import Hardware
from npu.isa.operations import Pooling, PoolingMode
from npu.toolchain.session import Session

from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

ROWS, POSITIONS = (1, 40, 30, 16), (1, 2, 700, 16)
"""Parts are whole rows of the one, and pieces of rows of the other. SQUARED_DIFFERENCE is in stripes if a row has room."""


def softmax(shape: tuple[int, ...], dtype: DType) -> bytes:
    b, scales = ModelBuilder(), {DType.INT8: (1 / 256, -128), DType.UINT8: (1 / 256, 0), DType.INT16: (1 / 32768, 0)}
    x = b.input(shape, dtype, scale=0.0002 if dtype is DType.INT16 else 0.1)
    b.output(b.op("SOFTMAX", [x], shape, dtype, *scales[dtype], attributes=at.SoftmaxOptions(1.0)))
    return b.build()


def arg_max(shape: tuple[int, ...], dtype: DType) -> bytes:
    b = ModelBuilder()
    x, axis = b.input(shape, dtype, scale=0.1), b.constant(np.array([len(shape) - 1], np.int32))
    b.output(b.op("ARG_MAX", [x, axis], shape[:-1], DType.INT32, None, attributes=at.ArgMaxOptions(DType.INT32)))
    return b.build()


def squared_difference(shape: tuple[int, ...], other: tuple[int, ...]) -> bytes:
    b = ModelBuilder()
    x, y = b.input(shape, DType.INT8, scale=0.1, zero_point=3), b.input(other, DType.INT8, scale=0.07, zero_point=-9)
    b.output(b.op("SQUARED_DIFFERENCE", [x, y], shape, DType.INT8, 1.7, -128, attributes=at.SquaredDifferenceOptions()))
    return b.build()


MODELS = {
    **{f"SOFTMAX {dtype} {shape}": softmax(shape, dtype) for dtype in (DType.INT8, DType.INT16) for shape in (ROWS, POSITIONS)},
    f"SOFTMAX {DType.UINT8} {ROWS}": softmax(ROWS, DType.UINT8),
    **{f"ARG_MAX {shape}": arg_max(shape, DType.INT8) for shape in (ROWS, POSITIONS, (2, 20, 30, 16))},
    **{
        f"SQUARED_DIFFERENCE {shape} {other}": squared_difference(shape, other)
        for shape, others in (
            ((1, 1, 700, 16), ((1, 1, 700, 16), (1, 1, 1, 16), (1, 1, 700, 1))),
            ((3, 1, 700, 16), ((1, 1, 1, 16), (3, 1, 700, 1), (1, 1, 700, 16), (3, 1, 1, 16))),
        )
        for other in others
    },
}


def compiled(content: bytes, session: Session) -> CompiledModel:
    """The compiled model, with nothing on the CPU, whose file has given what LiteRT's reference does."""
    result = npu.compile(content, session=session)
    assert not any(op.violations for op in result.compiled_model.placement.ops)
    inputs = random_inputs(content, 5)
    for ours, theirs in zip(
        npu.run(result.content, inputs, session=session).outputs, run_reference(content, inputs), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        assert len(np.unique(theirs)) > 3
    return result.compiled_model


def steps(model: CompiledModel) -> int:
    (partition,) = model.partitions
    return len(partition.program.steps)


@pytest.mark.parametrize("target", ["ethos-u55-64", "ethos-u65-256"])
@pytest.mark.parametrize("name", MODELS)
def test_what_works_in_parts_takes_less_memory_and_gives_the_same(name: str, target: str) -> None:
    whole, small = (compiled(MODELS[name], Session(Hardware(target), goal=goal)) for goal in ("performance", "size"))
    assert steps(small) > steps(whole)
    taken, least = (model.usage.fast_bytes or model.usage.arena_bytes for model in (whole, small))
    assert least < taken


@pytest.mark.parametrize("name", MODELS)
def test_a_limit_that_maps_between_exceed_leaves_the_operator_on_the_npu(name: str) -> None:
    """Its tensors take almost all of the limit."""
    whole = compiled(MODELS[name], Session(Hardware("ethos-u55-128")))
    limit = (tensor_bytes(whole) + whole.usage.arena_bytes) // 2
    small = compiled(MODELS[name], Session(Hardware("ethos-u55-128", arena_cache_bytes=limit)))
    assert small.usage.arena_bytes <= limit < whole.usage.arena_bytes


def test_there_are_few_parts_even_if_the_tensors_exceed_the_limit() -> None:
    content = softmax((1, 40, 40, 64), DType.INT8)
    session = Session(Hardware("ethos-u55-128", arena_cache_bytes=16_384))
    assert steps(compiled(content, session)) <= 20 * 29


def test_a_result_that_is_written_last_leaves_its_room_until_then() -> None:
    net = Layers(1)
    x = net.conv(net.input(40, 10, 16), 100, 1)
    content = net.finish(net.conv(net.softmax(x), 4, 1))
    made = compiled(content, Session(Hardware("ethos-u85-256")))
    (partition,) = made.partitions
    sums = [one for one in partition.operations if isinstance(one, Pooling) and one.mode is PoolingMode.REDUCE_SUM]
    assert [one.ofm.height * one.ofm.width for one in sums] == [400]
    assert 300 * 1024 < made.usage.fast_bytes <= 384 * 1024


def test_maps_of_few_elements_are_worked_on_at_once() -> None:
    content = softmax((1, 8, 16, 16), DType.INT8)
    whole, small = (compiled(content, Session(Hardware("ethos-u55-128"), goal=goal)) for goal in ("performance", "size"))
    assert steps(small) == steps(whole)


@pytest.mark.parametrize(("most", "expected"), [
    (100, [Box((0, 0, 0), (5, 10, 3))]),
    (49, [Box((0, 0, 0), (3, 10, 3)), Box((3, 0, 0), (2, 10, 3))]),
    (19, [Box((row, 0, 0), (1, 10, 3)) for row in range(5)]),
    (9, [Box((row, column, 0), (1, 5, 3)) for row in range(5) for column in (0, 5)]),
    (4, [Box((row, column, 0), (1, min(4, 10 - column), 3)) for row in range(5) for column in (0, 4, 8)]),
])  # fmt: skip
def test_boxes_are_as_few_as_there_can_be_and_about_equal(most: int, expected: list[Box]) -> None:
    found = boxes_of((5, 10, 3), most)
    assert found == expected
    assert sum(math.prod(part.shape) for part in found) == 5 * 10 * 3


def test_for_size_maps_may_take_what_other_operators_take_in_stripes() -> None:
    """Half of the largest two tensors, 131,072 bytes: what lies between the steps of SOFTMAX finds room in that at once."""
    b = ModelBuilder()
    x = b.input((1, 64, 64, 16), DType.INT8, scale=0.1)
    x = b.op("RELU", [x], (1, 64, 64, 16), DType.INT8, 0.1, 0)
    pool = at.Pool2DOptions(at.Padding.VALID, 4, 4, 4, 4, at.FusedActivation.NONE)
    x = b.op("AVERAGE_POOL_2D", [x], (1, 16, 16, 16), DType.INT8, 0.1, 0, attributes=pool)
    b.output(b.op("SOFTMAX", [x], (1, 16, 16, 16), DType.INT8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0)))
    content, alone = b.build(), softmax((1, 16, 16, 16), DType.INT8)
    session = Session(Hardware("ethos-u55-128"), goal="size")
    assert sums(compiled(content, session)) == 1
    assert sums(compiled(alone, session)) > 1


@pytest.mark.parametrize(("target", "copies"), [("ethos-u55-128", 0), ("ethos-u65-256", 1)])
def test_a_part_is_read_where_it_lies_or_brought_nearer(target: str, copies: int) -> None:
    """A part of the input for the largest value of each row; the fast memory of Ethos-U65 is the NPU's alone."""
    model = npu.compile(softmax(ROWS, DType.INT8), target, optimise="size").compiled_model
    assert sums(model) > 1
    assert pools(model, PoolingMode.AVERAGE) == copies * sums(model)


def test_maps_between_stay_in_a_cache_for_the_npu_alone() -> None:
    """All of them would take four times the input, in the memory behind the cache."""
    model = compiled(softmax((1, 200, 200, 8), DType.INT8), Session(Hardware("ethos-u65-256")))
    assert model.usage.arena_bytes < 1.1 * tensor_bytes(model)


def test_squared_difference_is_cut_in_stripes_if_a_row_has_room() -> None:
    """Stripes of a row or two take less than parts."""
    model = npu.compile(squared_difference(ROWS, ROWS), "ethos-u55-128", optimise="size").compiled_model
    assert model.usage.arena_bytes < 1.3 * tensor_bytes(model)


@pytest.mark.parametrize(("make", "depth"), [(softmax, 3), (arg_max, 16)])
def test_a_map_that_is_longer_than_the_registers_can_say_takes_much_less_than_two_of_half_its_positions(
    make: Callable[[tuple[int, ...], DType], bytes], depth: int
) -> None:
    """It is worked on in two parts, even where there is room for all."""
    models = [npu.compile(make((1, rows, depth), DType.INT8), "ethos-u55-128").compiled_model for rows in (35_001, 70_001)]
    half, whole = (model.usage.arena_bytes for model in models)
    assert whole < 1.7 * half


def test_a_limit_is_met_for_size_too_where_maps_between_may_take_as_much_as_the_tensors() -> None:
    """A third of what lies between are numbers of rows."""
    session = Session(Hardware("ethos-u55-128", arena_cache_bytes=120_000), goal="size")
    model = npu.compile(softmax((1, 100, 100, 4), DType.INT8), session=session).compiled_model
    assert not any(op.violations for op in model.placement.ops)
    assert tensor_bytes(model) == 80_000
    assert model.usage.arena_bytes <= 120_000


def test_views_of_a_tensor_leave_the_room_that_it_leaves() -> None:
    """The input is needed later, too; the maps between have room beside that and the result, and no more."""
    b, flat = ModelBuilder(), (1, 256, 16)
    x = b.input((1, 16, 16, 16), DType.INT8, scale=0.1)
    y = b.op("RESHAPE", [x], flat, DType.INT8, 0.1, attributes=at.ReshapeOptions(flat))
    y = b.op("SOFTMAX", [y], flat, DType.INT8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0))
    y = b.op("RESHAPE", [y], (1, 16, 16, 16), DType.INT8, 1 / 256, -128, attributes=at.ReshapeOptions((1, 16, 16, 16)))
    b.output(b.op("ADD", [x, y], (1, 16, 16, 16), DType.INT8, 0.1, attributes=at.AddOptions()))
    limit = 2 * 4096 + 256 * (8 * 16 + 16)
    assert sums(compiled(b.build(), Session(Hardware("ethos-u55-128", arena_cache_bytes=limit)))) == 1


def test_a_result_that_is_made_inside_a_join_leaves_the_room_that_the_join_leaves() -> None:
    """Both inputs and all of the joined result are there from the first operator on: four maps of 16 KiB."""
    b, shape, limit = ModelBuilder(), (1, 32, 32, 16), 90_000
    inputs = [b.input(shape, DType.INT8, scale=0.1) for _ in range(2)]
    shares = [b.op("SOFTMAX", [x], shape, DType.INT8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0)) for x in inputs]
    joined = b.op("CONCATENATION", shares, (2, 32, 32, 16), DType.INT8, 1 / 256, -128, attributes=at.ConcatenationOptions(0))
    b.output(joined)
    model = compiled(b.build(), Session(Hardware("ethos-u55-128", arena_cache_bytes=limit)))
    assert model.usage.arena_bytes <= limit


def tensor_bytes(model: CompiledModel) -> int:
    return sum(tensor.bytes for tensor in model.source.graphs[0].tensors)


def pools(model: CompiledModel, mode: PoolingMode) -> int:
    (partition,) = model.partitions
    return sum(isinstance(step, PoolingStep) and step.mode is mode for step in partition.program.steps)


def sums(model: CompiledModel) -> int:
    """How many parts of a map SOFTMAX works on."""
    return pools(model, PoolingMode.REDUCE_SUM)
