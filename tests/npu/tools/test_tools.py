"""benchmark, inference-diff and tf-compat: numbers against written-out ones, output formats, exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from npu.cli.main import main
from npu.errors import UserError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.delegate import SimpleDelegate, Status
from npu.runtime.dummy import DummyDelegate, DummyKernel, DummyOptions
from npu.tflite.reader import read_model
from npu.tools.benchmark import measure
from npu.tools.inference_diff import compare
from npu.tools.parameters import ToolParameters
from npu.tools.providers.dummy import DummyDelegateProvider
from npu.tools.registrar import default_parameters, register_delegate_provider, unregister_delegate_provider
from npu.tools.statistics import summarize
from npu.tools.tf_compat import ALIASES, NOT_READY, OPERATIONS, GuideStatus, find_operations, judge

from tests.support.builder import ModelBuilder

SHAPE = (1, 4)


def _chain(kinds: list[str], offset: float = 0.0) -> bytes:
    b = ModelBuilder()
    y = b.input(SHAPE, DType.FLOAT32, name="x")
    c = b.constant(np.array([[1, 2, 3, 4]], np.float32) + np.float32(offset))
    options = {"ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions()}
    for position, kind in enumerate(kinds):
        y = b.op(kind, [y, c], SHAPE, DType.FLOAT32, attributes=options[kind], name=f"step{position}")
    b.output(y)
    return b.build()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(_chain(["ADD", "MUL", "SUB", "MUL", "ADD"]))
    return path


class _WrongKernel(DummyKernel):
    """Right but for the outputs of SUB, which get 0.5 too much."""

    def eval(self, context, node):  # type: ignore[no-untyped-def]
        for index, step in zip(self._nodes, self._steps, strict=True):
            step()
            inner, registration = context.get_node_and_registration(index)
            if registration.builtin_code == "SUB":
                context.tensors[inner.outputs[0]].array[...] += np.float32(0.5)
        return Status.OK


class _Wrong(DummyDelegate):
    def create_delegate_kernel_interface(self) -> _WrongKernel:
        return _WrongKernel(self.options)


@pytest.fixture
def wrong() -> object:
    """Parameters that ask for a delegate whose SUB is wrong."""

    class Provider(DummyDelegateProvider):
        def name(self) -> str:
            return "Wrong"

        def default_parameters(self) -> ToolParameters:
            parameters = ToolParameters()
            parameters.add("use_wrong", False)
            return parameters

        def create_flags(self, parameters):  # type: ignore[no-untyped-def]
            return []

        def log_parameters(self, parameters: ToolParameters) -> list[str]:
            return []

        def create_delegate(self, parameters: ToolParameters) -> SimpleDelegate | None:  # type: ignore[override]
            return _Wrong(DummyOptions()) if parameters.get("use_wrong", bool) else None

    register_delegate_provider(Provider)
    parameters = default_parameters()
    parameters.set("use_wrong", True)
    yield parameters
    unregister_delegate_provider("Wrong")


@pytest.mark.seed("D-B-1")
def test_statistics_are_those_of_the_numbers() -> None:
    assert summarize([4.0, 2.0, 6.0]).row() == pytest.approx(
        {"count": 3, "first": 4.0, "min": 2.0, "max": 6.0, "mean": 4.0, "std": (8 / 3) ** 0.5,
         "p50": 4.0, "p90": 5.6, "p95": 5.8, "p99": 5.96}
    )  # fmt: skip


@pytest.mark.seed("D-B-1", "D-B-2")
def test_a_benchmark_counts_runs_and_operators(model: Path) -> None:
    done: list[tuple[int, int]] = []
    result = measure(model, runs=4, warm_up_runs=2, is_profiled=True, progress=lambda what, i, n: done.append((i, n)))
    assert result.runs.count == 4
    assert result.warm_up is not None
    assert result.warm_up.count == 2
    assert [operator.kind for operator in result.operators] == ["ADD", "MUL", "SUB", "MUL", "ADD"]
    assert all(operator.milliseconds.count == 4 for operator in result.operators)
    assert sum(operator.share for operator in result.operators) == pytest.approx(1)
    assert result.runs.min <= result.runs.mean <= result.runs.max
    assert result.peak_bytes > 1 << 20
    assert done == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.seed("D-B-2", "X-E-9", "D-C-6", "D-C-7")
def test_benchmark_prints_both_executors_and_writes_csv(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "times.csv"
    arguments = ["benchmark", str(model), "--num-runs", "3", "--profile", "--compare", "--csv", str(table)]
    assert main([*arguments, "--use_dummy_delegate", "--dummy_allowed_builtins", "ADD,SUB"]) == 0
    text = capsys.readouterr().out
    assert "model.tflite, 1 thread" in text
    assert "DummyDelegate: 3 of 5 nodes in 3 partitions, 9 tensors cross its border, split by MUL" in text
    assert "without delegates" in text
    assert "peak memory" in text
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["kind"] for row in rows] == ["model", "DummyDelegate", "MUL", "DummyDelegate", "MUL", "DummyDelegate"]
    assert all(row["count"] == "3" for row in rows)


@pytest.mark.seed("D-B-1", "D-B-2")
def test_benchmark_as_json(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(model), "--num-runs", "2", "--warmup-runs", "0", "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["runs_ms"]["count"] == 2
    assert {"first", "min", "max", "mean", "std", "p50", "p99"} <= set(row["runs_ms"])
    assert row["warm_up_ms"] is None


@pytest.mark.seed("D-I-1", "D-I-2")
def test_two_equal_interpreters_do_not_differ(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inference-diff", str(model), "--num-runs", "3", "--use_dummy_delegate", "--bisect"]) == 0
    text = capsys.readouterr().out
    assert "0 of 12" in text
    assert "all outputs are equal" in text
    assert "median latency: reference" in text


def test_a_model_without_outputs_is_not_said_to_be_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = ModelBuilder()
    b.op("ABS", [b.input((1, 4), DType.FLOAT32)], (1, 4), DType.FLOAT32)
    path = tmp_path / "model.tflite"
    path.write_bytes(b.build())
    assert main(["inference-diff", str(path), "--num-runs", "1"]) == 0
    text = capsys.readouterr().out
    assert "nothing was compared: the model has no outputs" in text
    assert "equal" not in text
    assert main(["inference-diff", str(path), "--num-runs", "1", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["equal"] is False


@pytest.mark.seed("D-I-2", "D-I-3")
def test_another_file_is_compared_element_by_element(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(_chain(["ADD", "MUL", "SUB", "MUL", "ADD"], offset=1.0))
    x = np.array([[1, 1, 1, 1]], np.float32)
    result = compare(model, default_parameters(), other, inputs=[x], is_bisected=True)
    c, d = np.array([1, 2, 3, 4.0]), np.array([2, 3, 4, 5.0])
    expected = np.abs((((1 + c) * c - c) * c + c) - (((1 + d) * d - d) * d + d))
    (output,) = result.outputs
    assert (output.elements, output.differing) == (4, 4)
    assert (output.max, output.min) == (expected.max(), expected.min())
    assert (output.mean, output.std) == pytest.approx((expected.mean(), expected.std()))
    assert result.first is not None
    assert (result.first.node, result.first.kind, result.first.max) == (0, "ADD", 1.0)


@pytest.mark.seed("D-I-3")
def test_bisection_finds_the_wrong_operator_inside_a_partition(model: Path, wrong: ToolParameters) -> None:
    result = compare(model, wrong, runs=1, is_bisected=True)
    assert not result.is_equal
    assert result.first is not None
    assert (result.first.node, result.first.kind, result.first.executor, result.first.max) == (2, "SUB", "DummyDelegate", 0.5)


@pytest.mark.seed("D-I-1", "D-I-2")
def test_a_difference_beyond_the_tolerance_fails(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.tflite"
    other.write_bytes(_chain(["ADD", "MUL", "SUB", "MUL", "ADD"], offset=1.0))
    arguments = ["inference-diff", str(model), "--test-model", str(other), "--num-runs", "1", "--format", "json"]
    assert main(arguments) == 3
    assert json.loads(capsys.readouterr().out)["equal"] is False
    assert main([*arguments, "--tolerance", "1e9"]) == 0


def test_models_with_other_outputs_are_refused(model: Path, tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input((1, 5), DType.FLOAT32)
    b.output(b.op("ABS", [x], (1, 5), DType.FLOAT32))
    other = tmp_path / "other.tflite"
    other.write_bytes(b.build())
    with pytest.raises(UserError, match="inputs of both models must have the same shapes and types"):
        compare(model, default_parameters(), other)


@pytest.mark.seed("D-I-3", "D-K-1")
def test_a_compiled_model_is_compared_with_its_original(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 8), DType.INT8, scale=0.1, zero_point=-3)
    b.output(b.op("RELU", [x], (1, 4, 4, 8), DType.INT8, scale=0.1, zero_point=-3))
    path = tmp_path / "relu.tflite"
    path.write_bytes(b.build())
    parameters = default_parameters()
    parameters.set("use_npu", True)
    result = compare(path, parameters, runs=2, is_bisected=True)
    assert result.is_equal
    assert result.log[0] == "use simulated NPU: True, default target"
    assert result.log[1].startswith("EthosUDelegate: 1 of 1 node in 1 partition, ")


@pytest.mark.seed(*(row.id for row in OPERATIONS))
@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.id)
def test_operations_of_the_guide_have_operators_that_run_here(row) -> None:  # type: ignore[no-untyped-def]
    assert row.runs_here
    assert row.operators or row.status is GuideStatus.REMOVED
    assert row.note or row.status is GuideStatus.MAPPED
    assert find_operations([f"tf.{row.name.removesuffix('*')}"]) == (row,)


def test_the_guide_has_25_mapped_29_removed_and_3_unsupported_operations() -> None:
    counts = {status: sum(row.status is status for row in OPERATIONS) for status in GuideStatus}
    assert counts == {GuideStatus.MAPPED: 25, GuideStatus.REMOVED: 29, GuideStatus.UNSUPPORTED: 3}
    assert len(NOT_READY) == 13
    assert ALIASES == {"CONV_2D_TRANSPOSE": "TRANSPOSE_CONV", "TOP_K": "TOPK_V2"}


@pytest.mark.seed("T-C-7", "T-U-3")
def test_tf_compat_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tf-compat", "tf.nn.depthwise_conv2d", "tanh"]) == 0
    text = capsys.readouterr().out
    assert "filter constant, rate [1,1]" in text
    assert "unsupported" in text
    assert main(["tf-compat", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 57
    assert main(["tf-compat", "nn.conv9d"]) == 1
    assert "must be one that the guide names" in capsys.readouterr().err
    assert main(["tf-compat", "--format", "md", "exp"]) == 0
    assert "| tf.exp | mapped |" in capsys.readouterr().out


@pytest.mark.seed("T-R-2", "T-N-4")
def test_what_survived_without_an_equivalent_is_not_convertible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    y = b.op("CUSTOM", [x], (1, 4), DType.FLOAT32, custom_code="FlexCheckNumerics")
    b.output(b.op("CUSTOM", [y], (1, 4), DType.FLOAT32, custom_code="Mine"))
    content = b.build()
    found = judge(read_model(content))
    assert [(item.index, item.is_convertible) for item in found] == [(0, False), (1, True)]
    path = tmp_path / "flex.tflite"
    path.write_bytes(content)
    assert main(["tf-compat", "--model", str(path)]) == 3
    assert "not convertible: TensorFlow operation CheckNumerics survived" in capsys.readouterr().out
    path.write_bytes(_chain(["ADD"]))
    assert main(["tf-compat", "--model", str(path)]) == 0
    assert "every operator has a TFLite equivalent" in capsys.readouterr().out
    assert main(["tf-compat", "--model", str(path), "exp"]) == 1


@pytest.mark.seed("D-B-2", "X-P-1")
def test_shares_are_of_steps_and_operators_inside_a_delegate_are_parts_of_them(model: Path) -> None:
    parameters = default_parameters()
    parameters.set("use_xnnpack", True)
    result = measure(model, parameters, runs=2, is_profiled=True)
    steps = [operator for operator in result.operators if operator.is_step]
    parts = [operator for operator in result.operators if not operator.is_step]
    assert sum(step.share for step in steps) == pytest.approx(1)
    assert [step.kind for step in steps] == ["XnnpackDelegate"]
    assert len(parts) == 5
    assert {part.inside for part in parts} == {steps[0].node}
    assert sum(part.share for part in parts) < 1


@pytest.mark.seed("D-B-1", "D-B-2", "D-I-2")
@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", ["benchmark --profile --compare", "inference-diff"])
def test_numbers_and_words_are_whole_in_a_narrow_terminal(
    model: Path, columns: int, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    tool, *flags = command.split()
    allowed = ["--use_dummy_delegate", "--dummy_allowed_builtins", "ADD,SUB"]
    assert main([tool, str(model), "--num-runs", "2", *flags, *allowed]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= columns
    rows = [line.split() for line in text.splitlines() if line.strip()]
    names = [row[0] for row in rows]
    if tool == "benchmark":
        assert {"count", "first", "min", "max", "mean", "std", "p50", "p90", "p95", "p99"} <= set(names)
        assert all(len(row) == 5 for row in rows if row[0] in ("count", "p50"))
        assert [row[1] for row in rows if row[0] in ("1", "3") and len(row) == 5] == ["MUL", "MUL"]
    assert any(line.startswith("DummyDelegate: 3 of 5 nodes in 3 partitions,") for line in text.splitlines())


@pytest.mark.seed("D-C-6")
def test_a_delegate_that_took_nothing_is_named(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(model), "--num-runs", "1", "--external_delegate_path", "ethos-u"]) == 0
    assert "EthosUDelegate: none of 5 nodes\n" in capsys.readouterr().out


@pytest.mark.seed("D-I-3")
def test_operators_that_a_compiled_file_does_not_keep_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for addend in (1, 5):
        b = ModelBuilder()
        quantization = {"scale": 0.1, "zero_point": 0}
        x = b.input((1, 4, 4, 8), DType.INT8, **quantization)
        c = b.constant(np.full((1, 1, 1, 8), addend, np.int8), **quantization)
        y = b.op("ADD", [x, c], (1, 4, 4, 8), DType.INT8, attributes=at.AddOptions(), **quantization)
        y = b.op("RELU", [y], (1, 4, 4, 8), DType.INT8, **quantization)
        b.output(b.op("MAXIMUM", [y, c], (1, 4, 4, 8), DType.INT8, **quantization))
        paths.append(tmp_path / f"{addend}.tflite")
        paths[-1].write_bytes(b.build())
    arguments = ["inference-diff", str(paths[0]), "--test-model", str(paths[1]), "--num-runs", "2", "--bisect"]
    assert main(arguments) == 3
    text = capsys.readouterr().out
    assert "first difference: ADD (op 0) on CPU" in text
    assert "cannot be compared" not in text
    assert main([*arguments, "--use_npu"]) == 3
    text = capsys.readouterr().out
    assert "first difference: MAXIMUM (op 2) on EthosUDelegate" in text
    assert "the 2 operators before it cannot be compared" in text
