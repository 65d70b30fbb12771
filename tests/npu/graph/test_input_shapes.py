"""Models for other input shapes, against what LiteRT gives after resize_tensor_input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import npu
from npu.cli.main import main
from npu.errors import ModelError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.input_shapes import with_input_shapes
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder

I8 = DType.INT8
SAME = at.Conv2DOptions(at.Padding.SAME, 2, 2)


def open_model(signature: tuple[int, ...] = (1, -1, -1, 3), *, flat: bool = False) -> bytes:
    """A convolution, a pool and a mean over an image of open height and width."""
    random, b = np.random.default_rng(3), ModelBuilder()
    x = b.input((1, 1, 1, 3), I8, scale=0.02, zero_point=3, shape_signature=signature, name="image")
    weights = b.constant(random.integers(-90, 90, (8, 3, 3, 3)).astype(np.int8), scale=0.01)
    bias = b.constant(random.integers(-900, 900, 8).astype(np.int32), scale=0.0002)
    x = b.op("CONV_2D", [x, weights, bias], (1, 1, 1, 8), I8, 0.05, 1, attributes=SAME, shape_signature=(1, -1, -1, 8))
    x = b.op("RELU", [x], (1, 1, 1, 8), I8, 0.05, 1, shape_signature=(1, -1, -1, 8))
    if flat:
        x = b.op("RESHAPE", [x, b.constant(np.array([1, 8], np.int32))], (1, 8), I8, 0.05, 1)
    else:
        x = b.op("MEAN", [x, b.constant(np.array([1, 2], np.int32))], (1, 8), I8, 0.03, attributes=at.ReducerOptions())
    b.output(x)
    return b.build()


def test_a_model_of_open_size_is_compiled_for_the_shape_that_is_given_and_equals_litert(tmp_path: Path) -> None:
    model, shape = open_model(), (1, 20, 14, 3)
    compiled = npu.compile(model, input_shapes={"image": shape})
    assert compiled.compiled_model.partitions != ()
    compiled.save(tmp_path / "made.tflite")
    image = np.random.default_rng(1).integers(-128, 128, shape).astype(np.int8)
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    (ours,) = npu.run(compiled.content, [image]).outputs
    assert np.array_equal(ours, interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def test_a_model_of_open_size_is_refused_without_a_shape_and_says_how_to_give_one() -> None:
    message = re.escape("input 'image': must have a shape to compile for, got [1, -1, -1, 3]; give it one")
    with pytest.raises(ModelError, match=message):
        npu.compile(open_model())


def test_an_open_batch_is_one() -> None:
    assert npu.compile(open_model((-1, 1, 1, 3))).compiled_model is not None


WRONG: dict[str, tuple[bytes, dict[str, tuple[int, ...]], str]] = {
    "name": (open_model(), {"picture": (1, 2, 2, 3)}, "names must be image, got 'picture'"),
    "channels": (open_model(), {"image": (1, 2, 2, 4)}, "must have a shape that fits [1, -1, -1, 3], got [1, 2, 2, 4]"),
    "rank": (open_model(), {"image": (2, 2, 3)}, "must have a shape that fits [1, -1, -1, 3], got [2, 2, 3]"),
    "fixed shapes inside": (open_model(flat=True), {"image": (1, 8, 8, 3)}, "RESHAPE (op 2): new shape must hold 128 elements"),
}


@pytest.mark.parametrize("case", WRONG)
def test_shapes_that_do_not_fit_are_refused(case: str) -> None:
    model, shapes, message = WRONG[case]
    with pytest.raises(ModelError, match=re.escape(message)):
        with_input_shapes(read_model(model), shapes)


def test_the_command_takes_shapes_of_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "model.tflite", tmp_path / "made.tflite"
    source.write_bytes(open_model())
    assert main(["compile", str(source), "-o", str(made), "--input-shape", "image=1,16,16,3"]) == 0
    graph = read_model(made).graphs[0]
    assert graph.tensors[graph.inputs[0]].shape == (1, 16, 16, 3)
    with pytest.raises(SystemExit):
        main(["compile", str(source), "-o", str(made), "--input-shape", "1,16,16,3"])
    assert "must be NAME=N,H,W,C" in capsys.readouterr().err
