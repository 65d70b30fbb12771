"""What the operation guide says of types, broadcasting, and operators that it calls not ready."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.registry import OPERATORS
from npu.tools.tf_compat import ALIASES

from tests.support.builder import ModelBuilder
from tests.support.coverage_table import requirements
from tests.support.interpreters import run
from tests.support.litert import run_reference

GUIDE = [row.id.removeprefix("T-") for row in requirements() if row.id.startswith("T-") and row.id.count("-") == 1]
_WITHOUT_FLOAT = {"LOGICAL_OR"}
_ALSO_UINT8 = {
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LOGISTIC", "MAX_POOL_2D",
    "MEAN", "MUL", "PAD", "RELU", "RELU6", "RESHAPE", "SOFTMAX", "SPLIT", "STRIDED_SLICE", "TRANSPOSE",
}  # fmt: skip


def _run(content: bytes, *inputs: np.ndarray) -> list[np.ndarray]:
    return run(CpuInterpreter(model_content=content), inputs)


@pytest.mark.seed("T-Y-1")
@pytest.mark.parametrize("name", GUIDE)
def test_operators_of_the_guide_take_float_and_most_networks_also_uint8(name: str) -> None:
    words = {word.strip("*?") for pattern in OPERATORS[ALIASES.get(name, name)].types for word in pattern.split()}
    codes = {code for word in words for code in word.split("|")}
    assert codes & {"f32", "any"} or name in _WITHOUT_FLOAT
    assert codes & {"u8", "any"} or name not in _ALSO_UINT8


@pytest.mark.seed("T-Y-2")
def test_ranges_recorded_by_fake_quantization_are_applied_as_the_file_holds_them() -> None:
    b = ModelBuilder()
    x = b.input((5,), DType.FLOAT32)
    options = at.FakeQuantOptions(min=-1.0, max=1.0, num_bits=8)
    b.output(b.op("FAKE_QUANT", [x], (5,), DType.FLOAT32, attributes=options))
    values = np.array([-2, -0.3, 0, 0.301, 9], np.float32)
    content = b.build()
    (expected,) = run_reference(content, [values])
    np.testing.assert_array_equal(_run(content, values)[0], expected)


@pytest.mark.seed("T-Y-4")
@pytest.mark.parametrize("kind", ["ADD", "MUL", "SUB", "DIV"])
@pytest.mark.parametrize(("left", "right"), [((2, 3, 4), (4,)), ((2, 1, 4), (1, 3, 1)), ((3, 4), (2, 3, 4)), ((2, 3), ())])
def test_arithmetic_broadcasts(kind: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    options = {"ADD": at.AddOptions(), "MUL": at.MulOptions(), "SUB": at.SubOptions(), "DIV": at.DivOptions()}[kind]
    b = ModelBuilder()
    x, y = b.input(left, DType.FLOAT32), b.input(right, DType.FLOAT32)
    b.output(b.op(kind, [x, y], np.broadcast_shapes(left, right), DType.FLOAT32, attributes=options))
    content = b.build()
    generator = np.random.default_rng(0)
    values = [generator.uniform(1, 2, shape).astype(np.float32) for shape in (left, right)]
    (expected,) = run_reference(content, values)
    np.testing.assert_array_equal(_run(content, *values)[0], expected)


@pytest.mark.seed("T-Y-3")
def test_maps_are_height_width_channels() -> None:
    b = ModelBuilder()
    x = b.input((1, 2, 4, 1), DType.FLOAT32)
    options = at.Pool2DOptions(padding=at.Padding.VALID, stride_h=1, stride_w=2, filter_height=1, filter_width=2)
    b.output(b.op("MAX_POOL_2D", [x], (1, 2, 2, 1), DType.FLOAT32, attributes=options))
    values = np.arange(8, dtype=np.float32).reshape(1, 2, 4, 1)
    assert _run(b.build(), values)[0].ravel().tolist() == [1, 3, 5, 7]


@pytest.mark.seed("T-N-3")
def test_call_runs_another_subgraph() -> None:
    callee = ModelBuilder("callee")
    p, q = callee.input((1, 2), DType.FLOAT32), callee.input((1, 2), DType.FLOAT32)
    callee.output(callee.op("SUB", [p, q], (1, 2), DType.FLOAT32, attributes=at.SubOptions()))
    b = ModelBuilder()
    x, y = b.input((1, 2), DType.FLOAT32), b.input((1, 2), DType.FLOAT32)
    index = b.subgraph(callee)
    once = b.op("CALL", [x, y], (1, 2), DType.FLOAT32, attributes=at.CallOptions(subgraph=index))
    b.output(b.op("CALL", [once, y], (1, 2), DType.FLOAT32, attributes=at.CallOptions(subgraph=index)))
    values = np.array([[10, 20]], np.float32), np.array([[1, 2]], np.float32)
    np.testing.assert_array_equal(_run(b.build(), *values)[0], [[8, 16]])


def _detection(options: dict[str, Any], dtype: DType = DType.FLOAT32) -> bytes:
    most = 8 * options["max_classes_per_detection"]
    scale = {} if dtype is DType.FLOAT32 else {"scale": 0.03, "zero_point": 128}
    scores = {} if dtype is DType.FLOAT32 else {"scale": 1 / 256, "zero_point": 0}
    b = ModelBuilder()
    boxes, classes = b.input((1, 60, 4), dtype, **scale), b.input((1, 60, 4), dtype, **scores)
    places = np.random.default_rng(9).uniform(0.1, 0.9, (60, 4))
    if dtype is DType.FLOAT32:
        anchors = b.constant(places.astype(np.float32))
    else:
        anchors = b.constant((places * 256).astype(np.uint8), scale=1 / 256, zero_point=2)
    outputs = [b.tensor(shape, DType.FLOAT32) for shape in ((1, most, 4), (1, most), (1, most), (1,))]
    b.multi_op(
        "CUSTOM", [boxes, classes, anchors], outputs,
        custom_code="TFLite_Detection_PostProcess", custom_options=bytes(flexbuffers.Dumps(options)),
    )  # fmt: skip
    for output in outputs:
        b.output(output)
    return b.build()


DETECTION = {
    "max_detections": 8, "max_classes_per_detection": 1, "num_classes": 3, "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


@pytest.mark.seed("T-N-3")
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8])
@pytest.mark.parametrize(
    "change",
    [
        {},
        {"nms_score_threshold": 0.97},
        {"max_classes_per_detection": 2},
        {"max_classes_per_detection": 3},
        {"use_regular_nms": True},
        {"use_regular_nms": True, "detections_per_class": 3, "nms_score_threshold": 0.6},
    ],
)
def test_detections_are_those_of_the_reference(dtype: DType, change: dict[str, Any]) -> None:
    """The scores are full of ties, whose order is part of the answer."""
    options = {**DETECTION, **change}
    content = _detection(options, dtype)
    for seed in range(4):
        generator = np.random.default_rng(seed)
        if dtype is DType.FLOAT32:
            drawn = generator.normal(0, 3, (1, 60, 4)), generator.integers(0, 16, (1, 60, 4)) / 16 + seed % 2 * 1e-3
            inputs = [values.astype(np.float32) for values in drawn]
        else:
            inputs = [generator.integers(0, 256, (1, 60, 4), np.uint8) for _ in range(2)]
        expected, ours = run_reference(content, inputs), _run(content, *inputs)
        assert ours[3].tolist() == expected[3].tolist()
        count = int(expected[3][0]) * (1 if options.get("use_regular_nms") else options["max_classes_per_detection"])
        for theirs, mine in zip(expected[:3], ours[:3], strict=True):
            np.testing.assert_array_equal(mine[:, :count], theirs[:, :count])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_classes_per_detection": 4}, "must be at most 3"),
        ({"use_regular_nms": True, "detections_per_class": -1}, "sizes must be positive"),
        ({"y_scale": 0.0}, "scales not zero"),
        ({"num_classes": 9}, r"inputs must be \[1, n, 4\]"),
        ({"max_detections": "many"}, "must be a complete flexbuffer map"),
    ],
)
def test_wrong_options_of_detections_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        _run(_detection({**DETECTION, **change}))
