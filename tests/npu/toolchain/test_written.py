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


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_cannot_run_is_refused_by_compile_run_and_interpreter(case: str) -> None:
    model = CASES[case]()
    for verb in (npu.compile, npu.run, lambda content: npu.Interpreter(model_content=content).allocate_tensors()):
        with pytest.raises(UserError):
            verb(model)


@pytest.mark.parametrize("case", CASES)
def test_check_answers_or_refuses_a_model_that_cannot_run(case: str) -> None:
    """Neither a traceback nor half an answer: every operator of the file is placed, and those on the CPU with a reason."""
    content = CASES[case]()
    try:
        placement = npu.check(content)
    except UserError:
        return
    assert [op.kind for op in placement.ops] == [op.kind for op in npu.load(content).graphs[0].ops]
    assert all(op.violations for op in placement.ops if op.index not in placement.npu_indices(0))


def test_no_file_is_left_where_one_would_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "model.tflite", tmp_path / "compiled.tflite"
    source.write_bytes(CASES["complex axes"]())
    assert main(["compile", str(source), "-o", str(made)]) == 1
    assert not made.exists()
    assert "nothing is compiled, since npu run would refuse the file" in capsys.readouterr().err
