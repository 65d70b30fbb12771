"""Slices of constants: where scale records and weight streams of each family lie in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.compiler.block_config import BlockChoice
from npu.compiler.ir import ConvolutionStep, StepWeights, Storage, View
from npu.compiler.weights import Constants
from npu.hardware.catalogue import load_variant
from npu.isa.families import family_of
from npu.isa.operations import INT8, INT16, Block, ElementType, KernelWindow, Scale, ShramLayout, Traversal
from npu.isa.weight_stream.use import WeightUse

UBLOCKS = {"ethos-u55-128": None, "ethos-u65-512": None, "ethos-u85-128": Block(1, 2, 8), "ethos-u85-1024": Block(2, 2, 32)}
STREAMS = {"ethos-u55-128": (1, 1), "ethos-u65-512": (2, 2), "ethos-u85-128": (1, 1), "ethos-u85-1024": (1, 4)}
"""Blocks of scale records, and weight streams."""
KERNEL = KernelWindow(3, 2, 2, 1)


def step_of(element: ElementType = INT8, kernel: KernelWindow = KERNEL) -> ConvolutionStep:
    values = np.random.default_rng(4).integers(-127, 128, (48, 3, 2, 20)).astype(np.int16)
    made = StepWeights.unbiased(values, Scale(20_000, 24))
    weights = StepWeights(values=values, biases=np.arange(48) - 7, scales=made.scales, shifts=made.shifts)
    ifm, ofm = (View.whole(Storage(name, (10, 10, depth), element)) for name, depth in (("in", 20), ("out", 48)))
    return ConvolutionStep(source=0, ifm=ifm, ofm=ofm, minimum=-128, maximum=127, kernel=kernel, weights=weights)


def choice_of(target: str) -> BlockChoice:
    return BlockChoice(Block(4, 4, 32), ShramLayout(0, 0), Traversal.PART_KERNEL_FIRST, 1.0, UBLOCKS[target])


@pytest.mark.parametrize("element", [INT8, INT16], ids=str)
@pytest.mark.parametrize("target", UBLOCKS)
def test_a_slice_has_all_records_and_all_streams(target: str, element: ElementType) -> None:
    variant, step, choice = load_variant(target), step_of(element), choice_of(target)
    family, constants = family_of(variant.accelerator.product), Constants(load_variant(target))
    constants.add(bytes(48))
    own = constants.add_weights(step.weights, slice(5, 46), choice, step, is_depthwise=False)
    data = constants.data()[own.offset : own.offset + own.bytes]
    assert (len(own.scales), len(own.weights)) == STREAMS[target]
    for block, (at, size) in enumerate(own.scales):
        expected = step.weights.biases[5 + block : 46 : len(own.scales)]
        biases, scales, _ = family.scales.decode(data[at : at + size], len(expected), element.bits)
        np.testing.assert_array_equal(biases, expected)
        assert set(scales.tolist()) == {20_000}
    use = WeightUse(
        kernel=KERNEL, block_depth=32, traversal=choice.traversal, is_depthwise=False, ifm_bits=element.bits,
        cores=variant.accelerator.cores, ublock=choice.ublock,
    )  # fmt: skip
    streams = [data[at : at + size] for at, size in own.weights]
    decoded = family.weights.decode(variant.accelerator, use, (41, 3, 2, 20), streams)
    np.testing.assert_array_equal(decoded, step.weights.values[5:46])
    assert sum(size for _, size in (*own.scales, *own.weights)) == own.bytes


@pytest.mark.parametrize(("target", "is_shared"), [("ethos-u55-128", True), ("ethos-u85-1024", False)])
def test_strides_and_micro_blocks_order_weights_where_one_is_chosen(target: str, *, is_shared: bool) -> None:
    constants, step, choice = Constants(load_variant(target)), step_of(), choice_of(target)
    strided = replace(step, kernel=KernelWindow(3, 2, 1, 1))
    one, other = (constants.add_weights(step.weights, slice(0, 48), choice, own, is_depthwise=False) for own in (step, strided))
    assert (one == other) is is_shared
    if choice.ublock is not None:
        another = replace(choice, ublock=Block(2, 4, 16))
        assert constants.add_weights(step.weights, slice(0, 48), another, step, is_depthwise=False) not in (one, other)
