"""Constants that say the same along an axis are read once: the commands are those of the short constant, the values stay."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.isa.operations import Operation

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

SHAPE = (1, 6, 5, 8)
OPTIONS: dict[str, Attributes | None] = {
    "ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions(), "MAXIMUM": at.MaximumMinimumOptions(),
    "SQUARED_DIFFERENCE": at.SquaredDifferenceOptions(), "PRELU": None,
}  # fmt: skip
ROW = np.arange(-4, 4, dtype=np.int8) * 9
LONG: dict[str, tuple[npt.NDArray[np.int8], tuple[int, ...]]] = {
    "a number for every value": (np.full(SHAPE, 50, np.int8), (1, 1, 1, 1)),
    "a number for every channel": (np.full((1, 1, 8), 50, np.int8), (1, 1, 1)),
    "a row of channels for every place": (np.broadcast_to(ROW, SHAPE).copy(), (1, 1, 1, 8)),
    "a column for every channel": (np.repeat(ROW[:5].reshape(1, 1, 5, 1), 8, axis=3).repeat(6, axis=1), (1, 1, 5, 1)),
}
"""What is written out, and the shape of what it says."""
CASES = [(kind, long) for kind in OPTIONS for long in LONG if (kind, long) != ("PRELU", "a column for every channel")]


def with_constant(kind: str, values: npt.NDArray[np.int8], other: tuple[int, ...] = SHAPE) -> bytes:
    b = ModelBuilder()
    x, scale = b.input(other, DType.INT8, scale=0.05, zero_point=-9), 0.05 if kind == "MAXIMUM" else 0.04
    constant = b.constant(values, scale=scale, zero_point=-9 if kind == "MAXIMUM" else 3)
    shape = np.broadcast_shapes(other, values.shape)
    result = 0.05 if kind == "MAXIMUM" else 2.0 if kind == "SQUARED_DIFFERENCE" else 0.2
    b.output(b.op(kind, [x, constant], shape, DType.INT8, result, -9, attributes=OPTIONS[kind]))
    return b.build()


def operations(model: bytes, target: str) -> list[Operation]:
    (part,) = npu.compile(model, target=target).compiled_model.partitions
    return list(part.operations)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize(("kind", "long"), CASES)
def test_what_is_written_out_is_read_once(kind: str, long: str, target: str) -> None:
    values, shape = LONG[long]
    short = np.ascontiguousarray(values[tuple(slice(0, extent) for extent in shape)])
    model = with_constant(kind, values)
    assert operations(model, target) == operations(with_constant(kind, short), target)
    inputs = random_inputs(model, 1)
    np.testing.assert_array_equal(npu.run(model, inputs, target=target).outputs[0], run_reference(model, inputs)[0])


@pytest.mark.parametrize("kind", [kind for kind in OPTIONS if kind != "PRELU"])
def test_what_makes_the_result_larger_stays(kind: str) -> None:
    model = with_constant(kind, np.full(SHAPE, 50, np.int8), other=(1, 6, 1, 8))
    inputs = random_inputs(model, 1)
    np.testing.assert_array_equal(npu.run(model, inputs).outputs[0], run_reference(model, inputs)[0])
    if kind != "SQUARED_DIFFERENCE":
        assert len(operations(model, "ethos-u55-128")) == 2  # and the end: the constant has the extent of the result


@pytest.mark.parametrize("axis", [1, 2, 3])
def test_what_differs_between_its_ends_is_no_repetition(axis: int) -> None:
    values = np.full(SHAPE, 50, np.int8)
    values[tuple(slice(2, 3) if place == axis else slice(None) for place in range(4))] = 20
    model = with_constant("MUL", values)
    inputs = random_inputs(model, 1)
    np.testing.assert_array_equal(npu.run(model, inputs).outputs[0], run_reference(model, inputs)[0])


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_slopes_that_differ_along_the_width_alone_are_exact(target: str) -> None:
    model = with_constant("PRELU", LONG["a column for every channel"][0])
    inputs = random_inputs(model, 1)
    result = npu.run(model, inputs, target=target)
    assert result.report.operators[0].placement == "npu"
    np.testing.assert_array_equal(result.outputs[0], run_reference(model, inputs)[0])
