"""Compiled files that do not hold what their tensors say."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.errors import StreamError, UserError
from npu.graph.graph import Model
from npu.tflite.writer import write_model
from sim.container import jobs_of

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"
HUGE = (1 << 31) - 1


def _with_constants(shape: tuple[int, ...], data: np.ndarray | None) -> Model:
    model = npu.load(npu.compile(DIGITS).content)
    (graph,) = model.graphs
    index = graph.ops[0].inputs[1]
    tensors = [replace(tensor, shape=shape, data=data) if k == index else tensor for k, tensor in enumerate(graph.tensors)]
    return replace(model, graphs=(replace(graph, tensors=tuple(tensors)),))


@pytest.mark.parametrize("shape", [(HUGE,), (64,)])
def test_constants_without_their_data_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(StreamError, match=r"read-only tensor '.*' must be a constant, got a computed one"):
        list(jobs_of(_with_constants(shape, None)))


def test_a_shape_that_lies_takes_no_memory() -> None:
    content = write_model(_with_constants((HUGE,), None))
    tracemalloc.start()
    for command in (npu.verify, npu.run, npu.check, npu.explain):
        try:
            command(content)
        except UserError as error:
            assert str(error)  # noqa: PT017  any answer is right that takes no memory
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20


def test_an_operator_without_constants_needs_none() -> None:
    assert list(jobs_of(_with_constants((0,), None)))
