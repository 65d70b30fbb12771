"""Operators whose tensors have the wrong shape end in an error that a person can act on, never in a crash."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.errors import UserError
from npu.graph.graph import Model, Tensor
from npu.runtime.interpreter import Interpreter
from npu.tflite.reader import read_model

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
    interpreter = Interpreter(model=model)
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
