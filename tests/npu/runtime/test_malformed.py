"""Operators whose tensors have the wrong shape end in an error that a person can act on, never in a crash."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from npu.errors import UserError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Model, Tensor
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_array
from tests.support.operator_cases import CASES


def _spoiled(tensor: Tensor, generator: np.random.Generator) -> Tensor:
    """The tensor with a dimension removed, added or changed."""
    shape = list(tensor.shape)
    kind = generator.integers(0, 3)
    if kind == 0 and shape:
        shape.pop()
    elif kind == 1 or not shape:
        shape.append(int(generator.integers(0, 4)))
    else:
        shape[int(generator.integers(0, len(shape)))] = int(generator.integers(0, 5))
    return replace(tensor, shape=tuple(shape), data=None if tensor.data is None else np.resize(tensor.data, shape))


def _run(model: Model, generator: np.random.Generator) -> None:
    interpreter = CpuInterpreter(model=model)
    interpreter.allocate_tensors()
    for index in model.graphs[0].inputs:
        view = interpreter.tensor(index)()
        view[...] = random_array(view.shape, model.graphs[0].tensors[index].dtype, generator)
    interpreter.invoke()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_wrong_shape_runs_or_is_a_user_error(name: str) -> None:
    for seed in range(3):
        generator = np.random.default_rng(seed + 1)
        model = read_model(CASES[name](np.random.default_rng(seed)))
        graph = model.graphs[0]
        chosen = int(generator.integers(0, len(graph.tensors)))
        tensors = tuple(_spoiled(t, generator) if i == chosen else t for i, t in enumerate(graph.tensors))
        try:
            _run(replace(model, graphs=(replace(graph, tensors=tensors),)), generator)
        except UserError as error:
            assert str(error)  # noqa: PT017  either outcome is right


OVERFLOWING = {
    "LEAKY_RELU": at.LeakyReluOptions(alpha=float("inf")),
    "SOFTMAX": at.SoftmaxOptions(beta=float("nan")),
}


@pytest.mark.parametrize("kind", OVERFLOWING)
def test_factors_that_are_no_finite_numbers_are_refused_with_the_operator(kind: str) -> None:
    b = ModelBuilder()
    x = b.input((1, 4), DType.INT8, scale=0.1)
    b.output(b.op(kind, [x], (1, 4), DType.INT8, scale=1 / 256, zero_point=-128, attributes=OVERFLOWING[kind]))
    interpreter = CpuInterpreter(model_content=b.build())
    with pytest.raises(
        UserError, match=rf"{kind.lower()} \(op 0 of subgraph 0\): scales: .* must be a finite number, got (inf|nan)"
    ):
        interpreter.allocate_tensors()


def test_a_tensor_that_only_a_huge_memory_could_hold_is_refused_before_it_is_made() -> None:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    b = ModelBuilder()
    x = b.input((1 + memory // 16,), DType.INT8, scale=0.1)
    b.output(b.op("RELU", [x], (1 + memory // 16,), DType.INT8, scale=0.1))
    interpreter = CpuInterpreter(model_content=b.build())
    with pytest.raises(
        UserError, match=rf"tensor 0 .*must take at most {memory // 16} bytes, a sixteenth of this machine's memory"
    ):
        interpreter.allocate_tensors()


HUGE = np.array([1 << 30, 1 << 30, 1 << 30, 0], np.int32)
SHAPES_THAT_NO_ARRAY_CAN_HAVE = {
    "reshape": (lambda b: b.op("RESHAPE", [b.input((0,), DType.INT32), b.constant(HUGE)], (0,), DType.INT32), "bytes"),
    "tile": (lambda b: b.op("TILE", [b.input((1, 1, 1, 0), DType.INT32), b.constant(HUGE)], (0,), DType.INT32), "bytes"),
    "pad": (
        lambda b: b.op(
            "PAD",
            [b.input((1, 0), DType.INT32), b.constant(np.array([[1 << 30, 1 << 30], [0, 0]], np.int32))],
            (1, 0),
            DType.INT32,
        ),
        r"dimensions must be in \[0, 2147483647\], got \[2147483649, 0\]",
    ),
}
"""Operators that make an array without elements, whose other dimensions leave what counts them."""


@pytest.mark.parametrize("case", SHAPES_THAT_NO_ARRAY_CAN_HAVE)
def test_a_shape_without_elements_that_no_array_can_have_is_refused(case: str) -> None:
    make, message = SHAPES_THAT_NO_ARRAY_CAN_HAVE[case]
    b = ModelBuilder()
    b.output(make(b))
    interpreter = CpuInterpreter(model_content=b.build())
    with pytest.raises(UserError, match=message):
        interpreter.allocate_tensors()
