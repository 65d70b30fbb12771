"""Seeded random chains beyond int8 alone: functions that are fused into one another, uint8 throughout, uint8 at the ends.

`function_chains` are int8 chains with functions of one value between their links; `as_uint8` is the same graph in uint8;
`with_uint8_ends` puts a QUANTIZE from and to uint8 around a graph, as models that were converted for images have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Quantization, Tensor

from tests.support.random_graphs import LINKS_AND_PERMUTATIONS, Case, Sketch, chains

Link = Callable[[Sketch, int], int]
SHARED: dict[str, Callable[[Sketch], Attributes | None]] = {
    "GELU": lambda s: at.GeluOptions(s.chance(0.5)),
    "HARD_SWISH": lambda s: at.HardSwishOptions(),
    "LEAKY_RELU": lambda s: at.LeakyReluOptions(float(s.rng.uniform(-0.5, 1.5))),
    "QUANTIZE": lambda s: at.QuantizeOptions(),
    "RELU": lambda s: None,
    "RELU6": lambda s: None,
    "RELU_N1_TO_1": lambda s: None,
}
"""Functions that int8 and uint8 have, with options."""
SIGNED: dict[str, Callable[[Sketch], Attributes | None]] = {**SHARED, "ABS": lambda s: None, "EXP": lambda s: at.ExpOptions()}


def function(s: Sketch, ifm: int, kinds: dict[str, Callable[[Sketch], Attributes | None]] = SIGNED) -> int:
    """One to three functions of one value in a row."""
    for _ in range(s.pick((1, 1, 2, 3))):
        kind = s.pick(tuple(kinds))
        scale = float(np.float32(s.scale_of(ifm) * 2.0 ** s.rng.uniform(-1, 1)))
        same = kind.startswith("RELU") and s.chance(0.5)
        ofm = s.tensor(s.shape(ifm), s.scale_of(ifm) if same else scale, s.zero_point_of(ifm) if same else None)
        ifm = s.op(kind, [ifm], [ofm], kinds[kind](s))
    return ifm


def prelu(s: Sketch, ifm: int) -> int:
    """PRELU with a slope for each channel."""
    shape, scale = s.shape(ifm), s.scale_of(ifm)
    slopes = s.add(
        (1, 1, shape[3]), 0.01, s.zero_point() if s.chance(0.3) else 0, s.rng.integers(-128, 128, (1, 1, shape[3]), np.int8)
    )
    ofm = s.tensor(shape, scale if s.chance(0.5) else scale * 0.8, s.zero_point_of(ifm) if s.chance(0.5) else None)
    return s.op("PRELU", [ifm, slopes], [ofm])


def function_chains(count: int, seed: int = 0, *, is_unsigned: bool = False) -> list[Case]:
    """`count` int8 chains in which every other link is a function; only such as uint8 has, too, if `is_unsigned`."""
    kinds = SHARED if is_unsigned else SIGNED

    def made(s: Sketch, ifm: int) -> int:
        return function(s, ifm, kinds)

    return chains(count, seed, (*LINKS_AND_PERMUTATIONS, *(made, made, prelu) * (len(LINKS_AND_PERMUTATIONS) // 3)))


def as_uint8(graph: Graph) -> Graph:
    """The same graph with uint8 in place of int8, weights with one scale."""
    tensors = list(graph.tensors)
    for op in graph.ops:
        if op.kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            _one_scale(tensors, op)
    return replace(graph, tensors=tuple(_unsigned(tensor) for tensor in tensors))


def _one_scale(tensors: list[Tensor], op: Op) -> None:
    ifm, weights, bias = (tensors[index] for index in op.inputs[:3])
    assert ifm.quantization is not None
    assert weights.quantization is not None
    scale = weights.quantization.scales[:1]
    product = np.float32(ifm.quantization.scale) * scale
    tensors[op.inputs[1]] = replace(weights, quantization=Quantization(scale, np.zeros(1, np.int64), 0))
    tensors[op.inputs[2]] = replace(bias, quantization=Quantization(product.astype(np.float32), np.zeros(1, np.int64), 0))


def _unsigned(tensor: Tensor) -> Tensor:
    if tensor.dtype is not DType.INT8:
        return tensor
    quantization = tensor.quantization
    if quantization is not None:
        quantization = replace(quantization, zero_points=quantization.zero_points + 128)
    data = None if tensor.data is None else (tensor.data.astype(np.int16) + 128).astype(np.uint8)
    return replace(tensor, dtype=DType.UINT8, quantization=quantization, data=data)


def with_uint8_ends(graph: Graph) -> Graph:
    """The graph behind a QUANTIZE from uint8 and before others to uint8, of the same real values."""
    tensors, before, after = list(graph.tensors), [], []

    def outside(index: int) -> int:
        tensors.append(replace(_unsigned(graph.tensors[index]), name=f"outside {index}"))
        return len(tensors) - 1

    inputs, outputs = tuple(map(outside, graph.inputs)), tuple(map(outside, graph.outputs))
    before = [
        Op("QUANTIZE", (end,), (index,), at.QuantizeOptions(), 2) for end, index in zip(inputs, graph.inputs, strict=True)
    ]
    after = [
        Op("QUANTIZE", (index,), (end,), at.QuantizeOptions(), 2) for end, index in zip(outputs, graph.outputs, strict=True)
    ]
    return replace(graph, tensors=tuple(tensors), ops=(*before, *graph.ops, *after), inputs=inputs, outputs=outputs)
