"""Applications written for LiteRT run unchanged but for the import, and print the same."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.recurrent_cases import STATEFUL
from tests.support.shared import shared_models

FOLDER = Path(__file__).with_name("applications")
F32, I8 = DType.FLOAT32, DType.INT8


def _printed(script: str, model: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> str:
    path = FOLDER / f"{script}.py"
    source = path.read_text(encoding="utf-8")
    assert source.count("from ai_edge_litert.interpreter import ") == 1
    source = source.replace("from ai_edge_litert.interpreter import ", f"from {package} import ")
    monkeypatch.setattr(sys, "argv", [str(path), str(model)])
    text = io.StringIO()
    with contextlib.redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LiteRT warns of experimental arguments
        exec(compile(source, str(path), "exec"), {"__name__": "__main__"})
    return text.getvalue()


def _two_inputs() -> bytes:
    b = ModelBuilder()
    x = b.input((1, 4), F32, name="x", shape_signature=(-1, 4))
    y = b.input((1, 4), F32, name="y", shape_signature=(-1, 4))
    total = b.op("ADD", [x, y], (1, 4), F32, name="total", attributes=at.AddOptions())
    product = b.op("MUL", [total, y], (1, 4), F32, name="product", attributes=at.MulOptions())
    b.output(product, total)
    b.signature("both", {"a": x, "b": y}, {"sum": total, "product": product})
    return b.build()


def _classifier() -> bytes:
    rng = np.random.default_rng(0)
    b = ModelBuilder()
    x = b.input((1, 8, 8, 3), I8, scale=1 / 128, zero_point=-3, name="image")
    weights = b.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8), scale=[0.01, 0.02, 0.03, 0.04], name="kernel")
    bias = b.constant(rng.integers(-99, 99, 4).astype(np.int32), scale=[s / 128 for s in (0.01, 0.02, 0.03, 0.04)])
    options = at.Conv2DOptions(at.Padding.SAME, 1, 1, at.FusedActivation.RELU)
    y = b.op("CONV_2D", [x, weights, bias], (1, 8, 8, 4), I8, 0.05, -128, attributes=options)
    z = b.op("MEAN", [y, b.constant(np.array([1, 2], np.int32))], (1, 4), I8, 0.05, -128, attributes=at.ReducerOptions())
    b.output(b.op("SOFTMAX", [z], (1, 4), I8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0)))
    b.signature("serving_default", {"image": x}, {"scores": b.outputs[0]})
    return b.build()


BUILT = {
    "two inputs": _two_inputs,
    "classifier": _classifier,
    "cell": lambda: STATEFUL["UNIDIRECTIONAL_SEQUENCE_LSTM-int8"](np.random.default_rng(5)),
}
RUNS = {
    "batches": ["two inputs"],
    "classify": ["classifier", "mlperf_kws_int8", "mobilenet_v1_025_128_uint8", "mlperf_resnet8_int8"],
    "describe": ["two inputs", "classifier", "mlperf_vww_int8", "rnnoise_int8", "kwt1_float"],
    "guide": ["two inputs", "classifier", "mlperf_kws_int8", "mlperf_resnet8_int8"],
    "mistakes": ["two inputs"],
    "signatures": ["two inputs", "classifier", "two_signatures_a8w8"],
    "streaming": ["cell", "rnnoise_int8", "okay_nabu_stream_int8", "mnist_lstm_int8", "dtln_int8"],
}


def _cases() -> list[Any]:
    pairs = [(script, name) for script, names in RUNS.items() for name in names]
    return [pytest.param(s, n, id=f"{s}, {n}") for s, n in pairs if n in BUILT or n in shared_models()]


@pytest.mark.filterwarnings("ignore:Exception ignored in. <function Delegate.__del__")  # LiteRT's, without its library
@pytest.mark.parametrize(("script", "name"), _cases())
def test_an_application_prints_the_same_after_changing_the_import(
    script: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(BUILT[name]() if name in BUILT else shared_models()[name].read_bytes())
    expected = _printed(script, path, "ai_edge_litert.interpreter", monkeypatch)
    assert _printed(script, path, "npu", monkeypatch).splitlines() == expected.splitlines()
    assert expected
