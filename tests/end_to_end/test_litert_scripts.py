"""Scripts written for LiteRT print the same after nothing but their import is changed."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples" / "interpreter"
THEIRS, OURS = "from ai_edge_litert.interpreter import", "from npu import"


def _dense() -> bytes:
    """(batch, 3) times (3, 2), with a batch that may change."""
    b = ModelBuilder()
    x = b.input((1, 3), DType.FLOAT32, shape_signature=(-1, 3))
    weights = b.constant(np.array([[1, 2, 3], [-1, 0, 0.5]], np.float32))
    bias = b.constant(np.array([10, 20], np.float32))
    y = b.op("FULLY_CONNECTED", [x, weights, bias], (1, 2), DType.FLOAT32, attributes=at.FullyConnectedOptions())
    b.output(b.op("RELU", [y], (1, 2), DType.FLOAT32))
    return b.build()


def _signatures() -> bytes:
    b = ModelBuilder()
    x, y = b.input((2, 2), DType.FLOAT32, name="left"), b.input((2, 2), DType.FLOAT32, name="right")
    total = b.op("ADD", [x, y], (2, 2), DType.FLOAT32, attributes=at.AddOptions())
    product = b.op("MUL", [x, total], (2, 2), DType.FLOAT32, attributes=at.MulOptions())
    b.output(total)
    b.output(product)
    b.signature("combine", {"a": x, "b": y}, {"sum": total, "scaled": product})
    return b.build()


def _where() -> bytes:
    b = ModelBuilder()
    x = b.input((3, 4), DType.BOOL)
    b.output(b.op("WHERE", [x], (1, 2), DType.INT64))
    return b.build()


def _printed(script: str, arguments: list[str], *, is_ours: bool, monkeypatch: pytest.MonkeyPatch) -> str:
    source = (SCRIPTS / script).read_text(encoding="utf-8")
    assert source.count(THEIRS) == 1
    if is_ours:
        source = source.replace(THEIRS, OURS)
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    buffer = io.StringIO()
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(buffer):
        exec(compile(source, script, "exec"), names)
    return buffer.getvalue()


CASES = {
    "resize": ("resize.py", _dense),
    "signatures": ("signatures.py", _signatures),
    "dynamic": ("dynamic.py", _where),
}


@pytest.mark.parametrize("name", CASES)
def test_a_script_prints_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, build = CASES[name]
    path = tmp_path / "model.tflite"
    path.write_bytes(build())
    expected = _printed(script, [str(path)], is_ours=False, monkeypatch=monkeypatch)
    assert len(expected.splitlines()) >= 3
    assert _printed(script, [str(path)], is_ours=True, monkeypatch=monkeypatch) == expected


@pytest.mark.parametrize("digit", [0, 3, 9])
def test_the_classification_script_prints_the_same(digit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [str(ROOT / "examples" / "digits.tflite"), str(ROOT / "examples" / f"digit_{digit}.npy")]
    expected = _printed("classify.py", arguments, is_ours=False, monkeypatch=monkeypatch)
    assert _printed("classify.py", arguments, is_ours=True, monkeypatch=monkeypatch) == expected
    assert expected.startswith(f"{digit} ")


def test_every_script_is_run() -> None:
    assert {path.name for path in SCRIPTS.glob("*.py")} == {script for script, _ in CASES.values()} | {"classify.py"}
