"""Maps that several steps make, and maps that are read upscaled, in stripes: joins, borders, phases, enlargements."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.ir import Program
from npu.compiler.stripes import Overlap, in_stripes
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, Padding
from npu.graph.dtype import DType
from npu.hardware.choice import Hardware
from npu.toolchain.session import Session

from tests.naive.chains import chains_around
from tests.naive.steps import execute
from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import lowered

I8 = DType.INT8
RANDOM = np.random.default_rng(4)


class Decoder:
    """A convolution of a small map, and what makes larger ones of it; `x` is the newest map."""

    def __init__(self, extent: int, depth: int) -> None:
        self.b = ModelBuilder()
        self.x = self.b.input((1, extent, extent, 3), I8, scale=0.05, zero_point=-3)
        self.convolution(depth)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.b.tensors[self.x].shape

    def made(self, kind: str, inputs: list[int], shape: tuple[int, ...], options: Attributes) -> Decoder:
        self.x = self.b.op(kind, inputs, shape, I8, 0.05, -3, attributes=options)
        return self

    def weights(self, depth: int, extent: int) -> int:
        values = RANDOM.integers(-90, 90, (depth, extent, extent, self.shape[3]), np.int8)
        return self.b.constant(values, scale=[0.004] * depth, zero_point=[0] * depth)

    def convolution(self, depth: int, *, valid: bool = False) -> Decoder:
        bias = self.b.constant(
            RANDOM.integers(-900, 900, depth).astype(np.int32), scale=[0.0002] * depth, zero_point=[0] * depth
        )
        height, width = (extent - 2 * valid for extent in self.shape[1:3])
        options = at.Conv2DOptions(Padding.VALID if valid else Padding.SAME, 1, 1)
        return self.made("CONV_2D", [self.x, self.weights(depth, 3), bias], (1, height, width, depth), options)

    def enlarged(self, kind: str, options: Attributes) -> Decoder:
        _, height, width, depth = self.shape
        size = self.b.constant(np.array([2 * height, 2 * width], np.int32))
        return self.made(kind, [self.x, size], (1, 2 * height, 2 * width, depth), options)

    def transposed(self, depth: int, extent: int) -> Decoder:
        _, height, width, _ = self.shape
        shape = (1, 2 * height, 2 * width, depth)
        inputs = [self.b.constant(np.array(shape, np.int32)), self.weights(depth, extent), self.x]
        return self.made("TRANSPOSE_CONV", inputs, shape, at.TransposeConvOptions(Padding.SAME, 2, 2))

    def padded(self) -> Decoder:
        _, height, width, depth = self.shape
        amounts = self.b.constant(np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32))
        return self.made("PAD", [self.x, amounts], (1, height + 3, width + 3, depth), at.PadOptions())

    def joined(self) -> Decoder:
        """The map beside what two convolutions make of it."""
        first, (_, height, width, depth) = self.x, self.shape
        self.convolution(8).convolution(8)
        return self.made("CONCATENATION", [first, self.x], (1, height, width, depth + 8), at.ConcatenationOptions(3))

    def built(self) -> bytes:
        self.b.output(self.x)
        return self.b.build()


BILINEAR, CENTRES, NEAREST = (
    ("RESIZE_BILINEAR", at.ResizeBilinearOptions(False, False)),
    ("RESIZE_BILINEAR", at.ResizeBilinearOptions(False, True)),
    ("RESIZE_NEAREST_NEIGHBOR", at.ResizeNearestNeighborOptions(False, False)),
)


def networks(extent: int, depth: int) -> dict[str, Decoder]:
    """Each with a convolution in front of what is looked at and one behind it."""
    kinds = {"corners": BILINEAR, "centres": CENTRES, "nearest": NEAREST}
    made = {name: Decoder(extent, depth).enlarged(*kind).convolution(2) for name, kind in kinds.items()}
    made |= {f"transposed {size}": Decoder(extent, depth).transposed(depth, size).convolution(2) for size in (2, 3, 4)}
    made["borders"] = Decoder(extent, depth).padded().convolution(2, valid=True)
    made["join"] = Decoder(extent, depth).joined().convolution(2)
    made["all"] = Decoder(extent, depth).joined().enlarged(*CENTRES).padded().convolution(8).transposed(8, 2).convolution(2)
    return made


@pytest.mark.parametrize("name", networks(9, 8))
def test_stripes_of_maps_that_are_made_in_parts_give_the_same_elements(name: str) -> None:
    made = networks(9, 8)[name]
    made.b.output(made.x)
    whole = lowered(made.b.graph())
    given = {0: RANDOM.integers(-128, 128, (9, 9, 3), np.int8)}
    expected = execute(whole, given)[made.x]
    tried = 0
    for first, last in chains_around(whole.steps, len(whole.steps) - 1, has_branches=True):
        for count in (2, 3, 5, 8):
            stripes = in_stripes(whole.steps[first : last + 1], count, Overlap.KEPT)
            steps = (*whole.steps[:first], *(stripes or ()), *whole.steps[last + 1 :])
            found = execute(Program(steps, whole.inputs, whole.outputs), given)[made.x]
            np.testing.assert_array_equal(found, expected, err_msg=f"{first} to {last} in {count}")
            tried += 1
    assert tried >= 4


@pytest.mark.parametrize("target", ["ethos-u55-128", pytest.param("ethos-u65-256", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", networks(24, 32))
def test_maps_of_parts_fit_a_smaller_arena(name: str, target: str) -> None:
    content = networks(24, 32)[name].built()
    usage = npu.compile(content, target).compiled_model.usage
    limit = (usage.fast_bytes or usage.arena_bytes) * 7 // 10
    compiled = npu.compile(content, session=Session(Hardware(target, arena_cache_bytes=limit)))
    usage = compiled.compiled_model.usage
    assert (usage.fast_bytes or usage.arena_bytes) <= limit
    assert all(not op.violations for op in compiled.compiled_model.placement.ops)
    inputs = random_inputs(content, 5)
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, run_reference(content, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
