"""Steps that work element by element give the same in every shape, and get the one that blocks fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.compiler.ir import ElementwiseStep, PoolingStep, Program, Step, Storage, View
from npu.compiler.pointwise import shapes_to_try, with_shape
from npu.graph.graph import Graph, Model, Op
from npu.isa.operations import INT8, Elementwise, ElementwiseMode, KernelWindow, Layout, Pooling, PoolingMode, Scale
from npu.layouts import MapShape
from npu.tflite.writer import write_model

from tests.naive.steps import execute
from tests.support.single_ops import tensor
from tests.support.vela_differences import lstm

SHAPE = (1, 57, 91)
BRICKED = (1, 57, 32)


def maps(shape: MapShape) -> tuple[View, View, View]:
    a, b, c = (View.whole(Storage(name, shape, INT8, number, True), 3) for number, name in enumerate("abc"))
    return a, b, c


def total(shape: MapShape) -> ElementwiseStep:
    a, b, c = maps(shape)
    return ElementwiseStep(
        source=0, ifm=a, ifm2=b, ofm=c, minimum=-128, maximum=127, mode=ElementwiseMode.MIN, scale=Scale(1, 0)
    )


def copy(shape: MapShape) -> PoolingStep:
    a, _, c = maps(shape)
    return PoolingStep(source=0, ifm=a, ofm=c, minimum=-100, maximum=90, mode=PoolingMode.AVERAGE, scale=Scale(1 << 30, 30))


def layouts(step: Step, layout: Layout) -> dict[Storage, Layout]:
    views = (step.ifm, step.ofm, *([step.ifm2] if isinstance(step, ElementwiseStep) and step.ifm2 else []))
    return dict.fromkeys((view.storage for view in views), layout)


@pytest.mark.parametrize("make", [total, copy], ids=["elementwise", "copy"])
def test_every_shape_gives_the_same_elements(make: Callable[[MapShape], Step]) -> None:
    step = make(SHAPE)
    random = np.random.default_rng(1)
    given = {0: random.integers(-128, 128, SHAPE, np.int8), 1: random.integers(-128, 128, SHAPE, np.int8)}
    read = [step.ifm, *([step.ifm2] if isinstance(step, ElementwiseStep) and step.ifm2 else [])]
    inputs, outputs = tuple((number, view.storage) for number, view in enumerate(read)), ((2, step.ofm.storage),)
    expected = execute(Program((step,), inputs, outputs), given)[2]
    shapes = list(shapes_to_try(step, layouts(step, Layout.NHWC)))
    assert shapes
    for shape in shapes:
        changed = Program((with_shape(step, shape),), inputs, outputs)
        np.testing.assert_array_equal(execute(changed, given)[2].reshape(-1), expected.reshape(-1))


def test_a_part_of_a_map_keeps_its_place() -> None:
    whole = Storage("whole", (4, 6, 10), INT8)
    part = replace(View.whole(whole), offset=(2, 0, 0), shape=(1, 6, 10))
    step = replace(copy((1, 6, 10)), ifm=part)
    changed = with_shape(step, (2, 3, 10))
    assert (changed.ifm.offset, changed.ifm.full, changed.ofm.offset) == ((0, 0, 120), (2, 3, 10), (0, 0, 0))


def test_bricks_of_whole_maps_only() -> None:
    step = total(BRICKED)
    shapes = list(shapes_to_try(step, layouts(step, Layout.NHCWB16)))
    assert shapes
    assert all(depth % 16 == 0 for _, _, depth in shapes)
    assert not list(shapes_to_try(total(SHAPE), layouts(total(SHAPE), Layout.NHCWB16) | layouts(step, Layout.NHCWB16)))
    mixed = layouts(step, Layout.NHCWB16) | {step.ofm.storage: Layout.NHWC}
    assert not list(shapes_to_try(step, mixed))


def narrow(view: View) -> View:
    return replace(view, shape=(1, 1, SHAPE[2]))


DEPENDENT: dict[str, Step] = {
    "window": replace(copy(SHAPE), kernel=KernelWindow(1, 2)),
    "sum of channels": replace(copy(SHAPE), mode=PoolingMode.REDUCE_SUM),
    "broadcast": replace(total(SHAPE), ifm2=narrow(maps(SHAPE)[1])),
    "box": replace(copy(SHAPE), ifm=replace(maps((1, 57, 95))[0], shape=SHAPE)),
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_other_steps_keep_their_shape(name: str) -> None:
    step = DEPENDENT[name]
    assert not list(shapes_to_try(step, layouts(step, Layout.NHWC)))


def test_a_narrow_map_is_computed_as_a_wide_one() -> None:
    """One column leaves half of the micro-blocks of 2x2 idle, four channels half of what is left."""
    tensors = (tensor((1083, 1, 4), scale=0.1), tensor((1083, 1, 4), scale=1 / 256, zero_point=-128))
    model = Model((Graph("main", tensors, (Op("QUANTIZE", (0,), (1,)),), (0,), (1,)),))
    (partition,) = npu.compile(write_model(model), target="ethos-u55-256").compiled_model.partitions
    (kernel,) = (operation for operation in partition.operations if isinstance(operation, Pooling))
    assert kernel.ofm.width * kernel.ofm.depth > 4


def test_steps_in_a_row_have_one_shape() -> None:
    """Of a cell's gates some steps alone are faster as a map: all do as they do, or they as the rest."""
    (partition,) = npu.compile(lstm(1, steps=1, features=256, units=128), target="ethos-u55-128").compiled_model.partitions
    kernels = [operation.ofm for operation in partition.operations if isinstance(operation, (Pooling, Elementwise))]
    shapes = [(ofm.height, ofm.width, ofm.depth) for ofm in kernels if ofm.height * ofm.width * ofm.depth == 3 * 128]
    changes = sum(before != after for before, after in itertools.pairwise(shapes))
    assert len(shapes) > 30
    assert changes < 4
