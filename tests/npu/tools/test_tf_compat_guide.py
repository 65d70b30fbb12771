"""The rows of the compatibility guide as `npu tf-compat` shows them, every condition written out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npu.cli.main import main
from npu.graph.dtype import DType
from npu.tflite.reader import read_model
from npu.tools.tf_compat import judge

from tests.support.builder import ModelBuilder

# id -> operation, what its condition must say (nothing: no condition), the TFLite operator
MAPPED = {
    "T-C-1": ("batch_to_space_nd", ("rank 4", "no crops"), "BATCH_TO_SPACE_ND"),
    "T-C-2": ("exp", (), "EXP"),
    "T-C-3": ("fake_quant*", ("ranges",), "FAKE_QUANT"),
    "T-C-4": ("matmul", ("second argument constant", "no transposition"), "FULLY_CONNECTED"),
    "T-C-5": ("nn.avg_pool", (), "AVERAGE_POOL_2D"),
    "T-C-6": ("nn.conv2d", ("filter constant",), "CONV_2D"),
    "T-C-7": ("nn.depthwise_conv2d", ("filter constant", "rate [1,1]"), "DEPTHWISE_CONV_2D"),
    "T-C-8": ("nn.l2_normalize", ("last dimension",), "L2_NORMALIZATION"),
    "T-C-9": ("nn.local_response_normalization", (), "LOCAL_RESPONSE_NORMALIZATION"),
    "T-C-10": ("nn.log_softmax", ("axis not given",), "LOG_SOFTMAX"),
    "T-C-11": ("nn.max_pool", (), "MAX_POOL_2D"),
    "T-C-12": ("nn.softmax", ("rank 2", "last axis"), "SOFTMAX"),
    "T-C-13": ("nn.top_k", (), "TOPK_V2"),
    "T-C-14": ("one_hot", (), "ONE_HOT"),
    "T-C-15": ("pad", ("neither mode nor constant_values",), "PAD"),
    "T-C-16": ("reduce_mean", ("no reduction_indices",), "MEAN"),
    "T-C-17": ("reshape", (), "RESHAPE"),
    "T-C-18": ("sigmoid", (), "LOGISTIC"),
    "T-C-19": ("space_to_batch_nd", ("rank 4",), "SPACE_TO_BATCH_ND"),
    "T-C-20": ("space_to_depth", (), "SPACE_TO_DEPTH"),
    "T-C-21": ("split", ("num not given", "num_or_size_splits a scalar count"), "SPLIT"),
    "T-C-22": ("squeeze", ("axis not given",), "SQUEEZE"),
    "T-C-23": ("squared_difference", (), "SQUARED_DIFFERENCE"),
    "T-C-24": ("strided_slice", ("neither ellipsis_mask nor new_axis_mask",), "STRIDED_SLICE"),
    "T-C-25": ("transpose", ("no conjugate",), "TRANSPOSE"),
}
REMOVED = {  # in the guide's order, and the TFLite operator that is left where one exists today
    "add": "ADD", "check_numerics": "", "constant": "", "div": "DIV", "divide": "DIV",
    "fake_quant_with_min_max_args": "FAKE_QUANT", "fake_quant_with_min_max_vars": "FAKE_QUANT",
    "identity": "", "maximum": "MAXIMUM", "minimum": "MINIMUM", "multiply": "MUL",
    "no_op": "", "placeholder": "", "placeholder_with_default": "", "realdiv": "DIV", "reduce_max": "REDUCE_MAX",
    "reduce_min": "REDUCE_MIN", "reduce_sum": "SUM", "rsqrt": "RSQRT", "shape": "SHAPE", "sqrt": "SQRT", "square": "SQUARE",
    "subtract": "SUB", "tile": "TILE", "nn.batch_norm_with_global_normalization": "", "nn.bias_add": "ADD",
    "nn.fused_batch_norm": "", "nn.relu": "RELU", "nn.relu6": "RELU6",
}  # fmt: skip
UNSUPPORTED = {"depth_to_space": "DEPTH_TO_SPACE", "image.resize_bilinear": "RESIZE_BILINEAR", "tanh": "TANH"}


def rows(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["tf-compat", "--format", "json"]) == 0
    return {row["id"]: row for row in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("identifier", [pytest.param(value, marks=pytest.mark.seed(value)) for value in MAPPED])
def test_a_mapped_operation_has_the_guide_s_condition(identifier: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, condition, operator = MAPPED[identifier]
    row = rows(capsys)[identifier]
    assert (row["operation"], row["guide_status"], row["operators"]) == (f"tf.{name}", "mapped", [operator])
    assert bool(row["note"]) is bool(condition)
    assert all(part in row["note"] for part in condition)


REMOVED_IDS = {f"T-R-{number}": item for number, item in enumerate(REMOVED.items(), 1)}


@pytest.mark.parametrize("identifier", [pytest.param(value, marks=pytest.mark.seed(value)) for value in REMOVED_IDS])
def test_a_removed_operation_says_what_becomes_of_it(identifier: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, operator = REMOVED_IDS[identifier]
    row = rows(capsys)[identifier]
    assert (row["operation"], row["guide_status"], row["operators"]) == (
        f"tf.{name}",
        "removed",
        [operator] if operator else [],
    )
    assert row["note"]


@pytest.mark.parametrize(
    ("number", "name"), [pytest.param(n, name, marks=pytest.mark.seed(f"T-U-{n}")) for n, name in enumerate(UNSUPPORTED, 1)]
)
def test_an_unsupported_operation_has_an_operator_today(number: int, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = rows(capsys)[f"T-U-{number}"]
    assert (row["operation"], row["guide_status"], row["operators"]) == (f"tf.{name}", "unsupported", [UNSUPPORTED[name]])


def test_there_are_no_other_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(rows(capsys)) == {*MAPPED, *REMOVED_IDS, "T-U-1", "T-U-2", "T-U-3"}


# An operation of the guide that survived as a TensorFlow operator has no equivalent, whatever its name


SURVIVORS = {"identity": "Identity", "check_numerics": "CheckNumerics", "no_op": "NoOp", "placeholder": "Placeholder",
             "nn.fused_batch_norm": "FusedBatchNorm", "constant": "Const", "nn.bias_add": "BiasAdd"}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.seed(f"T-R-{list(REMOVED).index(n) + 1}")) for n in SURVIVORS]
)
def test_a_tensorflow_operation_that_survived_is_not_convertible(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    b.output(b.op("CUSTOM", [x], (1, 4), DType.FLOAT32, custom_code=f"Flex{SURVIVORS[name]}"))
    path = tmp_path / "flex.tflite"
    path.write_bytes(b.build())
    assert [value.is_convertible for value in judge(read_model(path))] == [False]
    assert main(["tf-compat", "--model", str(path)]) == 3
    assert f"TensorFlow operation {SURVIVORS[name]} survived" in capsys.readouterr().out
