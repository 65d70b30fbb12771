"""docs/delegates.md: its code runs as printed, and the names in it exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter, load_delegate
from npu.tools.registrar import default_parameters, providers, unregister_delegate_provider
from npu.tools.runner import open_runner

from tests.support.builder import ModelBuilder

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "delegates.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
X = np.array([[10, 20, 30, 40]], np.float32)
C = np.array([[1, 2, 3, 4]], np.float32)


def _model(kinds: list[str], dtype: DType = DType.FLOAT32, activation: at.FusedActivation = at.FusedActivation.NONE) -> bytes:
    b = ModelBuilder()
    y = b.input((1, 4), dtype)
    c = b.constant(C.astype(dtype.numpy))
    options = {"ADD": at.AddOptions, "SUB": at.SubOptions, "MUL": at.MulOptions}
    for kind in kinds:
        y = b.op(kind, [y, c], (1, 4), dtype, attributes=options[kind](fused_activation_function=activation))
    b.output(y)
    return b.build()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The names that the page's code defines, run from top to bottom."""
    path = tmp_path_factory.mktemp("page") / "model.tflite"
    path.write_bytes(_model(["ADD", "SUB", "MUL", "ADD"]))
    names: dict[str, Any] = {"model_path": path, "print": lambda *words: None}
    exec("\n".join(BLOCKS), names)
    yield names
    unregister_delegate_provider("MyDelegate")


@pytest.mark.seed("D-S-11", "D-C-2")
def test_the_tutorial_runs_as_printed(page: dict[str, Any]) -> None:
    np.testing.assert_array_equal(page["result"], X * C + C)
    assert [step["replaces"] for step in page["interpreter"].execution_plan()] == [[0, 1], [], [3]]


@pytest.mark.seed("D-S-11", "D-S-12")
@pytest.mark.parametrize(
    "content",
    [_model(["ADD"], DType.INT32), _model(["ADD"], activation=at.FusedActivation.RELU), _model(["MUL"])],
    ids=["integers", "fused activation", "other operator"],
)
def test_the_delegate_of_the_tutorial_leaves_the_rest_to_the_cpu(page: dict[str, Any], content: bytes) -> None:
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[page["MyDelegate"]()])
    assert [step["delegate"] for step in interpreter.execution_plan()] == [None]


@pytest.mark.seed("D-S-10")
def test_the_delegate_of_the_tutorial_refuses_to_broadcast(page: dict[str, Any]) -> None:
    b = ModelBuilder()
    x, y = b.input((2, 4), DType.FLOAT32), b.input((1, 4), DType.FLOAT32)
    b.output(b.op("ADD", [x, y], (2, 4), DType.FLOAT32, attributes=at.AddOptions()))
    interpreter = CpuInterpreter(model_content=b.build(), experimental_delegates=[page["MyDelegate"]()])
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterError, match="DELEGATE_ERROR: MyDelegate: both inputs must have as many elements"):
        interpreter.invoke()


@pytest.mark.seed("D-O-1", "D-O-4")
def test_the_provider_of_the_page_is_in_the_registrar(page: dict[str, Any], tmp_path: Path) -> None:
    assert "MyDelegate" in [provider.name() for provider in providers()]
    path = tmp_path / "model.tflite"
    path.write_bytes(_model(["ADD"]))
    parameters = default_parameters()
    parameters.set("use_my_delegate", True)
    session = open_runner(path, parameters)
    assert session.log == ("use MyDelegate: True",)
    assert [step["delegate"] for step in session.interpreter.execution_plan()] == ["MyDelegate"]


@pytest.mark.seed("D-X-1", "D-X-2")
def test_the_plugin_of_the_page_loads_from_a_file(page: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "my_plugin.py"
    path.write_text("\n".join((BLOCKS[0], BLOCKS[1], BLOCKS[4])))
    assert load_delegate(path).name() == "MyDelegate"
    with pytest.raises(ValueError, match="MyDelegate has no option 'speed'"):
        load_delegate(path, {"speed": 1})


@pytest.mark.seed("D-C-10", "D-O-10", "D-X-7", "D-P-2")
@pytest.mark.parametrize(
    "sentence",
    ["is experimental and may change", "must be rebuilt to\nlink a delegate statically", "harder to set up in automated\ntests",
     "no nightly builds"],
)  # fmt: skip
def test_the_page_says_what_the_interface_promises(sentence: str) -> None:
    assert sentence in PAGE


def test_files_that_the_page_names_exist() -> None:
    for name in re.findall(r"`((?:npu|sim|tests)/[\w/.]+)`", PAGE):
        assert (ROOT / name).exists(), name
