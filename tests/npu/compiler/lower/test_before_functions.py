"""Operators with functions of one value behind them, which are fused where that can be, are exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npu
from npu.api import verify
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.operator_cases import CASES as CASES_OF_CPU
from tests.support.operator_placement import REASONS
from tests.support.vela_operators import CPU_ONLY, VELA_CASES, with_shapes

CASES = {
    **{name: build for name, build in VELA_CASES.items() if name not in CPU_ONLY and name not in REASONS},
    **{name: CASES_OF_CPU[name] for name in ("DEPTH_TO_SPACE-int8", "SPACE_TO_DEPTH-int8")},
}
UNDEFINED = {"ELU-int8", "MUL-int32", "RSQRT-int16", "SUM-int8", "SUM-int16", "SUM-uint8"}
"""Cases without a reference kernel, or with one that wraps or refuses their inputs, or gives other values in every run."""
EIGHT_BITS = (DType.INT8, DType.UINT8)

Function = Callable[[Tensor], tuple[Op, Tensor] | None]
"""An operator of tensor 0 that makes tensor 1, and what that is; None if LiteRT has none of the type."""


def _rescaled(tensor: Tensor, factor: float, dtype: DType | None = None) -> Tensor:
    assert tensor.quantization is not None
    scale = np.asarray(tensor.quantization.scales * np.float32(factor), np.float32)
    point = {None: tensor.quantization.zero_point, DType.UINT8: 100}.get(dtype, 0)
    return replace(tensor, dtype=dtype or tensor.dtype, quantization=Quantization(scale, np.array([point])))


def _clamped(tensor: Tensor) -> tuple[Op, Tensor]:
    return Op("RELU6", (0,), (1,)), tensor


def _rectified(tensor: Tensor) -> tuple[Op, Tensor]:
    return Op("RELU", (0,), (1,)), _rescaled(tensor, 1.3)


def _leaky(tensor: Tensor) -> tuple[Op, Tensor]:
    return Op("LEAKY_RELU", (0,), (1,), at.LeakyReluOptions(0.2)), _rescaled(tensor, 1.0)


def _narrowed(tensor: Tensor) -> tuple[Op, Tensor] | None:
    """As int8, and its absolute value."""
    return Op("QUANTIZE", (0,), (1,), at.QuantizeOptions()), _rescaled(tensor, 1.7, DType.INT8)


def _looked_up(tensor: Tensor) -> tuple[Op, Tensor] | None:
    if tensor.dtype not in EIGHT_BITS:
        return None
    point = -128 if tensor.dtype is DType.INT8 else 0
    return Op("LOGISTIC", (0,), (1,)), replace(
        tensor, quantization=Quantization(np.array([1 / 256], np.float32), np.array([point]))
    )


FUNCTIONS: dict[str, tuple[Function, ...]] = {
    "clamp": (_clamped,),
    "other scale": (_rectified,),
    "slope": (_leaky,),
    "table": (_looked_up,),
    "clamp, slope": (_clamped, _leaky),
    "slope, clamp": (_leaky, _clamped),
    "other type, slope": (_narrowed, _leaky),
}


def behind(graph: Graph, functions: tuple[Function, ...]) -> Graph | None:
    """The graph with the functions behind its first output; None where one of them cannot be."""
    tensors, ops, last = list(graph.tensors), list(graph.ops), graph.outputs[0]
    for function in functions:
        source = tensors[last]
        if source.quantization is None or source.dtype not in (*EIGHT_BITS, DType.INT16):
            return None
        made = function(source)
        if made is None:
            return None
        tensors.append(replace(made[1], name=f"function {len(tensors)}", is_variable=False))
        ops.append(replace(made[0], inputs=(last,), outputs=(len(tensors) - 1,)))
        last = len(tensors) - 1
    return replace(graph, tensors=tuple(tensors), ops=tuple(ops), outputs=(last, *graph.outputs[1:]))


def _marked(name: str) -> Any:
    is_quick = name.endswith(("-int8", "-int16"))
    return name if is_quick else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [_marked(name) for name in sorted(CASES.keys() - UNDEFINED)])
def test_an_operator_before_functions_is_exact(name: str) -> None:
    for seed, functions in enumerate(FUNCTIONS.values()):
        model = read_model(with_shapes(CASES[name](np.random.default_rng([4, seed]))))
        graph = behind(model.graphs[0], functions)
        if graph is None:
            continue
        content = write_model(Model((graph,)))
        inputs = random_inputs(content, seed)
        compiled = npu.compile(content, target="ethos-u55-128").content
        found = npu.run(compiled, inputs).outputs
        for ours, theirs in zip(found, run_reference(content, inputs, fully_connected="npu"), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert not is_compiled(read_model(compiled)) or not verify(compiled)
