"""What `npu check --strict` finds is what LiteRT refuses and the interpreter here runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.strict import departures
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.litert import run_reference
from tests.support.operator_cases import F32, I8, I32, I64, U8, In, ints, model

MAP = In((1, 4, 4, 2), I8, 0.1)
WEIGHTS = In((3, 1, 1, 2), I8, 0.1, data=np.ones((3, 1, 1, 2)))
FLAT = In((3, 2), I8, 0.1, data=np.ones((3, 2)))
OUT = In((1,), I8, 0.1)
RELU6 = FusedActivation.RELU6


def convolution(bias: In | None, *, stride: int = 1, dilation: int = 1, dtype: DType = I8) -> bytes:
    options = at.Conv2DOptions(Padding.SAME, stride, 1, FusedActivation.NONE, dilation, 1)
    return model(
        "CONV_2D", [replace(one, dtype=dtype) for one in (MAP, WEIGHTS)] + [bias], [replace(OUT, dtype=dtype)], options
    )


def bias(zero_point: int = 0) -> In:
    return In((3,), I32, 0.01, zero_point, data=np.zeros(3))


def wrong_dimension() -> bytes:
    plain = read_model(model("ABS", [MAP], [OUT]))
    (graph,) = plain.graphs
    quantization = replace(graph.tensors[0].quantization, axis=7)  # type: ignore[type-var]
    tensors = (replace(graph.tensors[0], quantization=quantization), *graph.tensors[1:])
    return write_model(replace(plain, graphs=(replace(graph, tensors=tensors),)))


DEPARTURES: dict[str, tuple[Callable[[], bytes], str]] = {
    "activation of a join": (
        lambda: model("CONCATENATION", [MAP, MAP], [OUT], at.ConcatenationOptions(3, RELU6)),
        "CONCATENATION (op 0): fused activation must be NONE, got RELU6",
    ),
    "activation of a norm": (
        lambda: model("L2_NORMALIZATION", [In((2, 3), F32)], [In((1,), F32)], at.L2NormOptions(RELU6)),
        "L2_NORMALIZATION (op 0): fused activation must be NONE, got RELU6",
    ),
    "no bias": (lambda: convolution(None), "CONV_2D (op 0): bias must be given, it is absent"),
    "bias off centre": (lambda: convolution(bias(5)), "zero point of the bias must be 0, got [5]"),
    "scale of a bias": (
        lambda: model(
            "FULLY_CONNECTED",
            [In((1, 2), I8, 0.1), FLAT, In((3,), I32, 0.0121, data=np.zeros(3))],
            [OUT],
            at.FullyConnectedOptions(),
        ),
        "scale of the bias must be within 2% of the output's 0.1 of input times weights, 0.01, got 0.0121",
    ),
    "scale of a bias of a convolution of uint8": (
        lambda: convolution(In((3,), I32, 0.0121, data=np.zeros(3)), dtype=U8),
        "CONV_2D (op 0): scale of the bias must be within 2%",
    ),
    "stride": (lambda: convolution(bias(), stride=1 << 15), "stride_w must be at most 32767, got 32768"),
    "dilation": (lambda: convolution(bias(), dilation=1 << 15), "dilation_w_factor must be at most 32767, got 32768"),
    "type of indices": (
        lambda: model("ARG_MAX", [MAP, ints([1])], [In((1,), I64)], at.ArgMaxOptions()),
        "ARG_MAX (op 0): output_type must be int32 or int64, got float32",
    ),
    "type of a shape": (lambda: model("SHAPE", [MAP], [In((1,), I32)], at.ShapeOptions()), "out_type must be int32 or int64"),
    "narrow range": (
        lambda: model("FAKE_QUANT", [In((4,), F32)], [In((4,), F32)], at.FakeQuantOptions(-1.0, 1.0, 8, narrow_range=True)),
        "FAKE_QUANT (op 0): narrow_range must be false, got true",
    ),
    "scale of a sigmoid": (lambda: model("LOGISTIC", [MAP], [OUT]), "output must have the scale 0.00390625, got 0.1"),
    "quantized dimension": (wrong_dimension, "tensor 0 't0': quantized dimension must be in [0, 4), got 7"),
}


@pytest.mark.parametrize("case", DEPARTURES)
def test_what_is_found_runs_here_and_not_in_litert(case: str) -> None:
    build, message = DEPARTURES[case]
    content = build()
    (found,) = departures(read_model(content))
    assert message in found
    inputs = [np.zeros(tensor.shape, tensor.dtype.numpy) for tensor in read_model(content).graphs[0].tensors[:1]]
    interpreter = CpuInterpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.invoke()
    count = len(interpreter.get_input_details())
    with pytest.raises((RuntimeError, ValueError)):
        run_reference(content, inputs * count)


def test_a_usual_model_has_no_departures() -> None:
    for scale in (0.01, 0.0119):
        assert not list(departures(read_model(convolution(In((3,), I32, scale, data=np.zeros(3)), dtype=U8))))
    assert not list(departures(read_model(convolution(bias()))))
