"""Signatures that cannot be called: converters left tensors of old inputs and outputs in them; the model runs all the same."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph.dtype import DType
from npu.runtime.misuse import InterpreterValueError
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder


def stale() -> bytes:
    """A network with uint8 ends whose signature names the int8 tensors inside."""
    b = ModelBuilder()
    image = b.input((1, 4, 4, 8), DType.UINT8, scale=0.02, zero_point=128, name="image")
    inner = b.op("QUANTIZE", [image], (1, 4, 4, 8), DType.INT8, 0.02, 0)
    summed = b.op("ADD", [inner, inner], (1, 4, 4, 8), DType.INT8, 0.04, 0)
    b.output(b.op("QUANTIZE", [summed], (1, 4, 4, 8), DType.UINT8, 0.04, 128))
    b.signature("serving", {"image": inner}, {"scores": summed})
    return b.build()


def test_the_model_runs_and_its_compiled_file_has_no_such_signature() -> None:
    content = stale()
    compiled = npu.compile(content, target="ethos-u55-128")
    assert read_model(compiled.content).signatures == ()
    expected = "signature 'serving' cannot be called and is left out of the compiled file"
    assert any(expected in note for note in compiled.report.notes or ())
    assert any(expected in note for note in npu.check_report(content, target="ethos-u55-128").notes)
    inputs = [np.arange(128, dtype=np.uint8).reshape(1, 4, 4, 8)]
    plain = npu.Interpreter(model_content=content)
    plain.allocate_tensors()
    plain.set_tensor(plain.get_input_details()[0]["index"], inputs[0])
    plain.invoke()
    outputs = npu.run(content, inputs, target="ethos-u55-128").outputs
    assert np.array_equal(outputs[0], plain.get_tensor(plain.get_output_details()[0]["index"]))


def test_it_is_listed_and_refused_when_called() -> None:
    interpreter = npu.Interpreter(model_content=stale())
    assert interpreter.get_signature_list() == {"serving": {"inputs": ["image"], "outputs": ["scores"]}}
    with pytest.raises(InterpreterValueError, match="'serving' cannot be called: input 'image' must be among the inputs"):
        interpreter.get_signature_runner("serving")


def test_a_signature_must_name_every_input() -> None:
    b = ModelBuilder()
    a, c = (b.input((1, 4), DType.INT8, scale=0.1, name=name) for name in "ac")
    b.output(b.op("ADD", [a, c], (1, 4), DType.INT8, 0.2, 0))
    b.signature("half", {"a": a}, {})
    with pytest.raises(InterpreterValueError, match="input tensor 1 of its subgraph must have a name"):
        npu.Interpreter(model_content=b.build()).get_signature_runner("half")
