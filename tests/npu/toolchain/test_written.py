"""Compile makes nothing that cannot run: models with a fault that each verb answers with an error of the user's kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.errors import UserError
from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

I8, F32 = DType.INT8, DType.FLOAT32
MAP = (1, 4, 4, 2)
RELU6 = at.FusedActivation.RELU6


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def one(
    kind: str,
    inputs: Sequence[Any],
    shape: Sequence[int],
    options: at.Attributes | None = None,
    *,
    dtype: DType = I8,
    scale: float | None = 0.1,
    made: DType | None = None,
    made_scale: float | None = None,
) -> bytes:
    """A model of one operator; tuples are maps, arrays are constants."""
    b = ModelBuilder()
    given = [b.input(x, dtype, scale=scale) if isinstance(x, tuple) else b.constant(x) for x in inputs]
    b.output(b.op(kind, given, shape, made or dtype, scale=made_scale or scale, attributes=options))
    return b.build()


def pieces(kind: str, inputs: Sequence[Any], options: at.Attributes) -> bytes:
    """A split of a scalar in two."""
    b = ModelBuilder()
    given = [b.input(x, F32) if isinstance(x, tuple) else b.constant(x) for x in inputs]
    made = [b.tensor((), F32) for _ in range(2)]
    b.multi_op(kind, given, made, attributes=options)
    b.output(*made)
    return b.build()


def convolution(options: at.Attributes | None, *, scale: float | None = 0.1, weight_scale: float | None = 0.1) -> bytes:
    b = ModelBuilder()
    x = b.input(MAP, I8, scale=scale)
    weights = b.constant(np.ones((2, 3, 3, 2), np.int8), scale=weight_scale)
    bias = b.constant(np.zeros(2, np.int32))
    b.output(b.op("CONV_2D", [x, weights, bias], MAP, I8, scale=scale, attributes=options))
    return b.build()


def shape_of_nothing() -> bytes:
    b = ModelBuilder()
    x = b.input((2,), F32)
    b.op("SHAPE", [], (1,), DType.INT32)
    b.output(b.op("ABS", [x], (2,), F32))
    return b.build()


def reverse_beside_the_npu() -> bytes:
    b = ModelBuilder()
    x, scalar = b.input(MAP, I8, scale=0.1), b.input((), I8, scale=0.1)
    b.output(b.op("RELU", [x], MAP, I8, scale=0.1))
    b.output(b.op("REVERSE_V2", [scalar, b.constant(np.zeros(0, np.float32))], (), I8, scale=0.1))
    return b.build()


SCALAR: Sequence[Any] = ((), ints(0))
SAME = at.Conv2DOptions(at.Padding.SAME, 1, 1)
POOL = at.Pool2DOptions(at.Padding.SAME, 1, 1, 1, 1, RELU6)
COMPLEX = np.array([1 + 2j], np.complex64)
CASES: dict[str, Callable[[], bytes]] = {
    "call without options": lambda: one("CALL", [(2,)], (2,), dtype=F32, scale=None),
    "gather from a scalar": lambda: one("GATHER", SCALAR, (), at.GatherOptions(), dtype=F32, scale=None),
    "reverse of a scalar": lambda: one("REVERSE_V2", SCALAR, (), dtype=F32, scale=None),
    "squeeze of a scalar": lambda: one("SQUEEZE", [()], (), at.SqueezeOptions((0,)), dtype=F32, scale=None),
    "split of a scalar": lambda: pieces("SPLIT", [ints(0), ()], at.SplitOptions(2)),
    "split of a scalar in sizes": lambda: pieces("SPLIT_V", [(), ints(1, 1), ints(0)], at.SplitVOptions(2)),
    "indices of rank 3": lambda: one(
        "SPARSE_TO_DENSE", [(2, 2, 2), ints(3, 3), ints(1), ints(0)], (3, 3), dtype=DType.INT32, scale=None
    ),
    "activation of booleans": lambda: one(
        "CONCATENATION", [(2,), (2,)], (4,), at.ConcatenationOptions(0, at.FusedActivation.RELU), dtype=DType.BOOL
    ),
    "tiny scale of a rectifier": lambda: one("RELU6", [MAP], MAP, made_scale=1e-45),
    "tiny scale of a fused rectifier": lambda: one("ADD", [MAP, MAP], MAP, at.AddOptions(RELU6), made_scale=1e-45),
    "tiny scale of a pool": lambda: one("MAX_POOL_2D", [MAP], MAP, POOL, made_scale=1e-45),
    "shape of nothing": shape_of_nothing,
    "variant as data": lambda: one("ABS", [(2,)], (2,), dtype=DType.VARIANT, scale=None),
    "complex axes": lambda: one("MEAN", [MAP, COMPLEX], (1, 4, 2), at.ReducerOptions()),
    "complex padding": lambda: one("PAD", [MAP, np.zeros((4, 2), np.complex64)], MAP, at.PadOptions()),
    "output of 4 bits": lambda: one("QUANTIZE", [MAP], MAP, made=DType.INT4),
    "convolution without weights": lambda: one("CONV_2D", [MAP], MAP, SAME),
    "stride of 0": lambda: convolution(at.Conv2DOptions(at.Padding.SAME, 0, 0)),
    "dilation of -1": lambda: convolution(at.Conv2DOptions(at.Padding.SAME, 1, 1, at.FusedActivation.NONE, -1, -1)),
    "convolution without options": lambda: convolution(None),
    "scale of 0": lambda: convolution(SAME, scale=0.0),
    "no quantization": lambda: convolution(SAME, scale=None),
    "weights without quantization": lambda: convolution(SAME, weight_scale=None),
    "weights with a scale of 0": lambda: convolution(SAME, weight_scale=0.0),
    "float axes of a scalar beside work of the NPU": reverse_beside_the_npu,
    "options of another operator": lambda: one("MAX_POOL_2D", [MAP], MAP, at.SoftmaxOptions(1.0)),
}


def allocate(content: bytes) -> None:
    npu.Interpreter(model_content=content).allocate_tensors()


VERBS: tuple[Callable[[bytes], object], ...] = (npu.check, npu.check_report, npu.compile, npu.run, allocate)


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_cannot_run_is_refused_by_every_verb(case: str) -> None:
    model = CASES[case]()
    for verb in VERBS:
        with pytest.raises(UserError):
            verb(model)


def test_the_command_refuses_it_whatever_is_asked_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "model.tflite"
    source.write_bytes(CASES["scale of 0"]())
    for options in ((), ("--strict",), ("--exact",), ("--format", "json")):
        assert main(["check", str(source), *options]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert "conv_2d (op 0 of subgraph 0): tensor 't0' must have positive quantization scales" in told.err


def test_what_only_the_profile_of_a_document_is_asked_of_is_read_alone() -> None:
    model = CASES["scale of 0"]()
    assert npu.check(model, profile="xnnpack").ops
    assert npu.check_report(model, profile="v0.1").operators


INDICES: dict[str, tuple[Any, Callable[[type], list[np.ndarray]], Any, at.Attributes | None]] = {
    "MEAN": (MAP, lambda t: [np.array([1, 2], t)], (1, 2), at.ReducerOptions()),
    "SUM": (MAP, lambda t: [np.array([1, 2], t)], (1, 2), at.ReducerOptions()),
    "REDUCE_MAX": (MAP, lambda t: [np.array([3], t)], (1, 4, 4), at.ReducerOptions()),
    "ARG_MAX": (MAP, lambda t: [np.array([3], t)], (1, 4, 4), at.ArgMaxOptions(DType.INT32)),
    "TRANSPOSE": (MAP, lambda t: [np.array([0, 2, 1, 3], t)], MAP, None),
    "PAD": (MAP, lambda t: [np.array([[0, 0], [1, 1], [1, 1], [0, 0]], t)], (1, 6, 6, 2), at.PadOptions()),
    "MIRROR_PAD": (MAP, lambda t: [np.array([[0, 0], [1, 1], [1, 1], [0, 0]], t)], (1, 6, 6, 2), at.MirrorPadOptions()),
    "SLICE": (MAP, lambda t: [np.array([0, 1, 1, 0], t), np.array([1, 2, 2, 2], t)], (1, 2, 2, 2), None),
    "STRIDED_SLICE": (
        MAP,
        lambda t: [np.array([0, 1, 1, 0], t), np.array([1, 3, 3, 2], t), np.array([1, 1, 1, 1], t)],
        (1, 2, 2, 2),
        at.StridedSliceOptions(),
    ),
    "TILE": (MAP, lambda t: [np.array([1, 2, 1, 1], t)], (1, 8, 4, 2), None),
    "RESHAPE": (MAP, lambda t: [np.array([1, 16, 2], t)], (1, 16, 2), at.ReshapeOptions()),
    "EXPAND_DIMS": (MAP, lambda t: [np.array([0], t)], (1, *MAP), None),
    "RESIZE_BILINEAR": (MAP, lambda t: [np.array([8, 8], t)], (1, 8, 8, 2), at.ResizeBilinearOptions()),
    "RESIZE_NEAREST_NEIGHBOR": (MAP, lambda t: [np.array([8, 8], t)], (1, 8, 8, 2), at.ResizeNearestNeighborOptions()),
    "SPACE_TO_BATCH_ND": (MAP, lambda t: [np.array([2, 2], t), np.zeros((2, 2), t)], (4, 2, 2, 2), None),
    "BATCH_TO_SPACE_ND": ((4, 2, 2, 2), lambda t: [np.array([2, 2], t), np.zeros((2, 2), t)], MAP, None),
    "GATHER": (MAP, lambda t: [np.array([1], t)], (1, 1, 4, 2), at.GatherOptions(1, 0)),
    "REVERSE_V2": (MAP, lambda t: [np.array([1], t)], MAP, None),
}
"""Operators with axes, sizes or positions: map, those operands in a type, shape of the result, options."""


def answers(verb: Callable[[bytes], object], model: bytes) -> bool:
    try:
        verb(model)
    except UserError:
        return False
    return True


@pytest.mark.parametrize("kind", INDICES)
def test_every_verb_answers_the_same_whatever_type_axes_and_sizes_have(kind: str) -> None:
    shape, indices, made, options = INDICES[kind]
    for dtype in (np.int32, np.int64, np.int16, np.complex64):
        b = ModelBuilder()
        inputs = [b.input(shape, I8, scale=0.1), *(b.constant(values) for values in indices(dtype))]
        result = DType.INT32 if kind == "ARG_MAX" else I8
        b.output(b.op(kind, inputs, made, result, scale=0.1, attributes=options))
        model = b.build()
        assert len({answers(verb, model) for verb in VERBS}) == 1, dtype
        assert answers(npu.run, model) or dtype is not np.int32


def test_no_file_is_left_where_one_would_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "model.tflite", tmp_path / "compiled.tflite"
    source.write_bytes(CASES["scale of 0"]())
    assert main(["compile", str(source), "-o", str(made)]) == 1
    assert not made.exists()
    assert "nothing is compiled, since npu run would refuse the file" in capsys.readouterr().err
