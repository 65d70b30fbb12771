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


FRAME = 50


def padded_model() -> bytes:
    """A signal of open length, padded to whole frames by as much as the model computes of its shape in floats, then layers."""
    random, b = np.random.default_rng(4), ModelBuilder()
    x = b.input((1, 1), I8, scale=0.02, zero_point=3, shape_signature=(1, -1), name="signal")

    def whole(value: int, shape: tuple[int, ...] = ()) -> int:
        return b.constant(np.full(shape, value, np.int32))

    def real(value: float) -> int:
        return b.constant(np.array(value, np.float32))

    sizes = b.op("SHAPE", [x], (2,), DType.INT32, attributes=at.ShapeOptions(DType.INT32))
    picked = at.StridedSliceOptions(shrink_axis_mask=1)
    size = b.op("STRIDED_SLICE", [sizes, whole(1, (1,)), whole(2, (1,)), whole(1, (1,))], (), DType.INT32, attributes=picked)
    exact = b.op("CAST", [size], (), DType.FLOAT32, attributes=at.CastOptions(DType.INT32, DType.FLOAT32))
    frames = b.op("MUL", [exact, real(1 / FRAME)], (), DType.FLOAT32, attributes=at.MulOptions())
    frames = b.op("ADD", [frames, real(0.99)], (), DType.FLOAT32, attributes=at.AddOptions())
    frames = b.op("FLOOR", [frames], (), DType.FLOAT32)
    frames = b.op("CAST", [frames], (), DType.INT32, attributes=at.CastOptions(DType.FLOAT32, DType.INT32))
    needed = b.op("MUL", [frames, whole(FRAME)], (), DType.INT32, attributes=at.MulOptions())
    missing = b.op("SUB", [needed, size], (), DType.INT32, attributes=at.SubOptions())
    row = b.op("PACK", [whole(0), missing], (2,), DType.INT32, attributes=at.PackOptions(2, 0))
    rows = b.op("PACK", [b.constant(np.zeros(2, np.int32)), row], (2, 2), DType.INT32, attributes=at.PackOptions(2, 0))
    x = b.op("PAD", [x, rows], (1, 1), I8, 0.02, 3, shape_signature=(1, -1))
    weights = b.constant(random.integers(-90, 90, (8, 2 * FRAME)).astype(np.int8), scale=0.01)
    bias = b.constant(random.integers(-900, 900, 8).astype(np.int32), scale=0.0002)
    b.output(b.op("FULLY_CONNECTED", [x, weights, bias], (1, 8), I8, 0.2, 1, attributes=at.FullyConnectedOptions()))
    return b.build()


@pytest.mark.parametrize("size", [51, 77, 100])
def test_sizes_that_a_model_computes_of_its_shapes_are_known_before_it_runs(size: int) -> None:
    model, signal = padded_model(), np.random.default_rng(size).integers(-128, 128, (1, size)).astype(np.int8)
    compiled = npu.compile(model, input_shapes={"signal": (1, size)})
    assert compiled.compiled_model.partitions != ()
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], (1, size))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], signal)
    interpreter.invoke()
    (ours,) = npu.run(compiled.content, [signal]).outputs
    assert np.array_equal(ours, interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.mark.parametrize("size", [7, 130])
def test_a_size_of_which_a_model_computes_wrong_ones_is_refused(size: int) -> None:
    message = f"FULLY_CONNECTED (op 12): input elements must be a multiple of the filter's 100, got {-(-size // FRAME) * FRAME}"
    with pytest.raises(ModelError, match=re.escape(message)):
        npu.compile(padded_model(), input_shapes={"signal": (1, size)})


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
