"""Custom operators that are registered by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.runtime.custom import CustomOperator, register_custom_operator, unregister_custom_operator
from npu.runtime.delegate import Context, Node, Status
from npu.runtime.interpreter import CpuInterpreter

from tests.support.builder import ModelBuilder
from tests.support.delegates import run

ROOT = Path(__file__).parents[3]


@pytest.mark.seed("T-N-3")
def test_custom_operators_run_by_name() -> None:
    b = ModelBuilder()
    x = b.input((2, 3), DType.FLOAT32)
    b.output(b.op("CUSTOM", [x], (1,), DType.FLOAT32, custom_code="double-it", custom_options=b"\x02"))
    content = b.build()
    with pytest.raises(
        InterpreterError, match=r"custom operator 'double-it'.*must have a registered kernel or be taken by a delegate"
    ):
        CpuInterpreter(model_content=content).allocate_tensors()

    def prepare(context: Context, node: Node) -> Status:
        context.resize_tensor(node.outputs[0], context.tensors[node.inputs[0]].shape)
        return Status.OK

    def invoke(context: Context, node: Node) -> Status:
        context.tensors[node.outputs[0]].array[...] = context.tensors[node.inputs[0]].array * node.user_data
        return Status.OK

    register_custom_operator("double-it", CustomOperator(invoke, prepare, lambda context, options: options[0]))
    try:
        with pytest.raises(InterpreterError, match="must be registered once"):
            register_custom_operator("double-it", CustomOperator(invoke))
        result = run(CpuInterpreter(model_content=content), np.ones((2, 3), np.float32))
    finally:
        unregister_custom_operator("double-it")
    np.testing.assert_array_equal(result, np.full((2, 3), 2, np.float32))
    with pytest.raises(InterpreterError, match="must be registered before it is removed"):
        unregister_custom_operator("double-it")


OPERATORS = """
from npu import CustomOperator, register_custom_operator
from npu.runtime.delegate import Status

def invoke(context, node):
    context.tensors[node.outputs[0]].array[...] = context.tensors[node.inputs[0]].array + 1
    return Status.OK

register_custom_operator("{name}", CustomOperator(invoke))
"""


def one_custom(name: str) -> bytes:
    b = ModelBuilder()
    b.output(b.op("CUSTOM", [b.input((2,), DType.FLOAT32)], (2,), DType.FLOAT32, custom_code=name))
    return b.build()


def test_an_interpreter_has_custom_operators_of_its_own() -> None:
    def invoke(context: Context, node: Node) -> Status:
        context.tensors[node.outputs[0]].array[...] = 7
        return Status.OK

    content = one_custom("seven")
    interpreter = npu.InterpreterWithCustomOps(
        custom_op_registerers=[lambda resolver: resolver.add_custom("seven", CustomOperator(invoke))], model_content=content
    )
    np.testing.assert_array_equal(run(interpreter, np.zeros(2, np.float32)), [7, 7])
    details = interpreter._get_op_details(0)
    assert (details["op_name"], interpreter._get_ops_details()[0]["op_name"]) == ("seven", "seven")
    with pytest.raises(InterpreterError, match="must have a registered kernel"):
        npu.Interpreter(model_content=content).allocate_tensors()
    with pytest.raises(InterpreterError, match=r"op_index must be in \[0, 1\), got 1"):
        interpreter._get_op_details(1)


def test_registerers_are_functions() -> None:
    with pytest.raises(InterpreterError, match="must be functions that take a resolver, got 'RegisterSeven'"):
        npu.InterpreterWithCustomOps(["RegisterSeven"], model_content=one_custom("seven"))  # type: ignore[list-item]


@pytest.mark.parametrize("arguments", [["run"], ["inference-diff", "--num-runs", "3", "--workers", "2"]], ids=" ".join)
def test_a_command_needs_custom_operators(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.tflite").write_bytes(one_custom("nobody's"))
    assert main([*arguments, str(tmp_path / "model.tflite")]) == 1
    assert "must have a registered kernel" in capsys.readouterr().err


def test_a_command_imports_custom_operators(tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(one_custom("add-one"))
    (tmp_path / "operators.py").write_text(OPERATORS.format(name="add-one"))
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    given = ["run", "model.tflite", "--input", "x.npy", "--output-dir", "out"]
    assert command([*given, "--custom-ops", "operators.py"], tmp_path).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out/output_0.npy"), [2, 3])
    given = ["inference-diff", "model.tflite", "--num-runs", "3", "--workers", "2"]
    assert command([*given, "--custom-ops", "operators.py"], tmp_path).returncode == 0


@pytest.mark.parametrize("source", ["nowhere.py", "no_such_module", "broken.py"])
def test_a_module_that_cannot_be_imported_is_named(source: str, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(one_custom("add-one"))
    (tmp_path / "broken.py").write_text("1 / 0")
    ran = command(["run", "model.tflite", "--custom-ops", source], tmp_path)
    assert (ran.returncode, ran.stderr.startswith(f"npu: error: custom operators '{source}': must be a module")) == (1, True)


def command(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-m", "npu", *arguments]
    return subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=False)
