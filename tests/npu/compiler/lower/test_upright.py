"""Dilated convolutions over a sequence, written with SPACE_TO_BATCH_ND: on a map of rows nothing moves."""

from __future__ import annotations

import numpy as np
import pytest

from npu.compiler.ir import ConvolutionStep
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.graph import Graph

from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch, random_inputs

DEPTH, OUTPUTS = 5, 5


def dilated(
    length: int,
    block: int,
    *,
    pad: tuple[int, int] = (0, 0),
    taps: int = 3,
    own: tuple[int, int] = (0, 0),
    axis: int = 2,
    scheme: Padding = Padding.VALID,
    depthwise: bool = False,
    views: bool = True,
    outputs: str = "result",
) -> Graph:
    """RELU, PAD, phases, convolution, phases, RELU: `own` is what SPACE_TO_BATCH_ND pads, its end is cropped behind."""
    s = Sketch(np.random.default_rng(5))
    rank = [1, 1] if not views else [1]
    place = axis if not views else 1

    def shaped(extent: int, depth: int, batch: int = 1) -> tuple[int, ...]:
        whole = [batch, *rank, depth]
        whole[place] = extent
        return tuple(whole)

    def phases(kind: str, x: int, shape: tuple[int, ...], pairs: tuple[int, int]) -> int:
        blocks, amounts = ([1, 1], [[0, 0], [0, 0]]) if not views else ([1], [[0, 0]])
        blocks[place - 1], amounts[place - 1] = block, list(pairs)
        options = at.SpaceToBatchNDOptions() if kind[0] == "S" else at.BatchToSpaceNDOptions()
        like = s.tensors[x].quantization
        assert like is not None
        return s.op(kind, [x, s.numbers(blocks), s.numbers(amounts)], [s.tensor(shape, like.scale, like.zero_point)], options)

    x = s.op("RELU", [s.input(shaped(length, DEPTH), 0.1, 3)], [s.tensor(shaped(length, DEPTH), 0.1, 3)])
    if pad != (0, 0):
        amounts = [[0, 0] for _ in shaped(0, 0)]
        amounts[place] = list(pad)
        x = s.op("PAD", [x, s.numbers(amounts)], [s.tensor(shaped(length + sum(pad), DEPTH), 0.1, 3)], at.PadOptions())
    part = (length + sum(pad) + sum(own)) // block
    x = phases("SPACE_TO_BATCH_ND", x, shaped(part, DEPTH, block), own)
    cut = x
    flat = [block, 1, 1, DEPTH]
    flat[axis] = part
    if views:
        x = s.op("EXPAND_DIMS", [x, s.numbers(3 - axis)], [s.tensor(tuple(flat), 0.1, 3)])
    kernel = [1, 1]
    kernel[axis - 1] = taps
    w = s.weights((1, *kernel, DEPTH) if depthwise else (OUTPUTS, *kernel, DEPTH), 3 if depthwise else 0, per_channel=True)
    made = part if scheme is Padding.SAME else part - taps + 1
    flat[axis], flat[3] = made, OUTPUTS
    inputs, y = [x, w, s.bias(x, w, OUTPUTS, 1000)], [s.tensor(tuple(flat), 0.3, -4)]
    if depthwise:
        x = s.op("DEPTHWISE_CONV_2D", inputs, y, at.DepthwiseConv2DOptions(scheme, 1, 1, 1, FusedActivation.NONE))
    else:
        x = s.op("CONV_2D", inputs, y, at.Conv2DOptions(scheme, 1, 1, FusedActivation.NONE))
    result = made * block - own[1]
    if views:
        shape = shaped(made, OUTPUTS, block)
        x = s.op("RESHAPE", [x, s.numbers(shape)], [s.tensor(shape, 0.3, -4)], at.ReshapeOptions(list(shape)))
    x = phases("BATCH_TO_SPACE_ND", x, shaped(result, OUTPUTS), (0, own[1]))
    z = s.op("RELU", [x], [s.tensor(shaped(result, OUTPUTS), 0.2, -100)])
    return s.graph([z] if outputs == "result" else [z, cut])


CASES = {
    "nothing is padded": (dilated(24, 2), True),
    "a causal sequence": (dilated(24, 4, pad=(8, 0)), True),
    "what is padded is no whole row": (dilated(24, 4, pad=(5, 3)), True),
    "the sequence is no whole row": (dilated(21, 4, pad=(8, 0), own=(0, 3)), True),
    "phases pad by themselves": (dilated(24, 4, own=(4, 4)), True),
    "phases pad no whole row": (dilated(22, 4, own=(4, 2)), True),
    "several taps": (dilated(60, 3, pad=(12, 0), taps=5), True),
    "along the rows": (dilated(24, 4, pad=(8, 0), axis=1), True),
    "depthwise": (dilated(24, 4, pad=(8, 0), depthwise=True), True),
    "the convolution pads": (dilated(24, 4, scheme=Padding.SAME), True),
    "images of one row": (dilated(24, 4, pad=(8, 0), views=False), True),
    "images of one column": (dilated(24, 4, pad=(8, 0), views=False, axis=1), True),
    "images of one row that phases crop": (dilated(22, 4, pad=(8, 0), own=(0, 2), views=False), False),
    "phases are read elsewhere, too": (dilated(24, 4, pad=(8, 0), outputs="phases"), False),
}


@pytest.mark.parametrize("case", CASES)
def test_a_dilated_convolution_over_a_sequence_is_exact_and_stands_upright(case: str) -> None:
    graph, is_upright = CASES[case]
    assert_exact(graph, random_inputs(graph, 1), case)
    (convolution,) = (step for step in lowered(graph).steps if isinstance(step, ConvolutionStep))
    assert (convolution.kernel.height > convolution.kernel.width) == is_upright


@pytest.mark.parametrize("case", ["nothing is padded", "a causal sequence", "images of one row"])
def test_nothing_moves_around_it(case: str) -> None:
    assert len(lowered(CASES[case][0]).steps) <= 4


def test_nobody_sees_what_is_between() -> None:
    graph = CASES["a causal sequence"][0]
    assert [tensor for tensor, _ in lowered(graph).outputs] == list(graph.outputs)
