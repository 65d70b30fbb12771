"""Windows far wider than their map: results as LiteRT's, in the memory of the map."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import XnnpackOptions, default_options
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.single_ops import op_model, tensor

MEMORY_BYTES = 32 << 20
F32 = DType.FLOAT32


def _convolution(kind: str, dtype: DType, dilation: int, *, kernel: tuple[int, int] = (3, 3), channels: int = 2) -> Model:
    values = np.random.default_rng(1).integers(-128, 128, (*kernel, channels))
    shape = (1, *kernel, channels)
    weights = tensor(shape, DType.INT8 if dtype is not F32 else F32, data=values.reshape(shape), scale=0.02)
    summed = {DType.INT16: DType.INT64, F32: F32}.get(dtype, DType.INT32)
    bias = replace(tensor((channels if kind == "DEPTHWISE_CONV_2D" else 1,), summed, data=3), quantization=None)
    options = at.DepthwiseConv2DOptions if kind == "DEPTHWISE_CONV_2D" else at.Conv2DOptions
    chosen = options(Padding.SAME, 1, 1, dilation_h_factor=dilation, dilation_w_factor=dilation)
    if isinstance(chosen, at.DepthwiseConv2DOptions):
        chosen = replace(chosen, depth_multiplier=1)
    ifm = tensor((1, 5, 4, channels), dtype, zero_point=-3 if dtype is DType.INT8 else 0)
    return op_model(kind, [ifm, weights, bias], [tensor((1, 5, 4, bias.shape[0]), dtype, scale=0.9)], chosen)


def _transposed(stride: int) -> Model:
    shape = tensor((4,), DType.INT32, data=[1, stride + 1, 2, 3], scale=None)
    weights = tensor((3, 1, 1, 2), data=np.arange(6).reshape(3, 1, 1, 2), scale=0.1)
    options = at.TransposeConvOptions(Padding.SAME, 1, stride)
    return op_model(
        "TRANSPOSE_CONV", [shape, weights, tensor((1, 2, 2, 2), zero_point=5)], [tensor((1, stride + 1, 2, 3))], options
    )


CASES = {
    "two taps reach across": _convolution("CONV_2D", DType.INT8, 3),
    "only the middle": _convolution("CONV_2D", DType.INT8, 32767),
    "only the middle of floats": _convolution("CONV_2D", F32, 32767),
    "only the middle of 16 bits": _convolution("CONV_2D", DType.INT16, 6000),
    "even kernel, nothing reaches": _convolution("CONV_2D", DType.INT8, 6000, kernel=(2, 2)),
    "many channels": _convolution("CONV_2D", F32, 6000, channels=32),
    "each channel": _convolution("DEPTHWISE_CONV_2D", DType.INT8, 32767),
    "each channel of floats": _convolution("DEPTHWISE_CONV_2D", F32, 32767),
    "strides of a transposed one": _transposed(4095),
}


DELEGATES: dict[str, XnnpackOptions | None] = {
    "reference": None,
    "xnnpack": replace(default_options(), qs8=True),
    "fp16": replace(default_options(), force_fp16=True),
}


def _result(content: bytes, options: XnnpackOptions | None) -> tuple[np.ndarray, int]:
    """The output, and the most memory that was in use."""
    tracemalloc.start()
    interpreter = CpuInterpreter(model_content=content)
    if options is not None:
        interpreter.modify_graph_with_delegate(XnnpackDelegate(options))
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), random_inputs(content, 7), strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), peak


@pytest.mark.parametrize("delegate", DELEGATES)
@pytest.mark.parametrize("name", CASES)
def test_a_window_wider_than_its_map_needs_no_more_memory_than_the_map(name: str, delegate: str) -> None:
    content = write_model(CASES[name])
    found, peak = _result(content, DELEGATES[delegate])
    assert peak < MEMORY_BYTES
    tolerance = {"reference": (0, 0), "xnnpack": (1e-6, 1), "fp16": (0.01, 1)}[delegate]
    np.testing.assert_allclose(found, run_reference(content, random_inputs(content, 7))[0], *tolerance)
