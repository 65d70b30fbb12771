"""SOFTMAX of 8 bits: where a shortcut would round otherwise than the reference, and where its constants are read from."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.ir import ElementwiseStep
from npu.compiler.layout import reads
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.isa.operations import ElementwiseMode

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference

TIE = 0.06871388852596283
"""A scale with which exp(-1) is 239 * 2**23 in units of 2**-31."""
SMALL_TIE = 0.6931472
"""The same of exp(-8), which is 2**23, and of none above 1/2."""


def softmax(depth: int, scale: float, count: int = 1) -> bytes:
    """As many of them as there are inputs."""
    b = ModelBuilder()
    for _ in range(count):
        x = b.input((1, depth), DType.INT8, scale=scale)
        b.output(b.op("SOFTMAX", [x], (1, depth), DType.INT8, 1 / 256, -128, attributes=at.SoftmaxOptions(1.0)))
    return b.build()


def steps(content: bytes, target: str) -> list[ElementwiseStep]:
    (partition,) = npu.compile(content, target).compiled_model.partitions
    return [step for step in partition.program.steps if isinstance(step, ElementwiseStep)]


def test_half_a_share_is_rounded_as_the_reference_does_where_exps_add_up_to_a_power_of_two() -> None:
    """They are 2**20 in units of 2**-19: the reference takes the reciprocal of that for a little less, 119.5 becomes 119."""
    content, differences = softmax(5, TIE), [0, 1, 40, 88, 157]
    inputs = [np.array([[127 - difference for difference in differences]], np.int8)]
    (expected,) = run_reference(content, inputs)
    np.testing.assert_array_equal(npu.run(content, inputs).outputs[0], expected)
    assert expected[0, 1] == 119 - 128


@pytest.mark.parametrize(("scale", "count"), [(TIE, 1), (SMALL_TIE, 0), (0.0687, 0)])
def test_a_step_more_is_made_only_where_it_may_matter(scale: float, count: int) -> None:
    assert sum(step.mode is ElementwiseMode.MIN for step in steps(softmax(5, scale), "ethos-u55-128")) == count


@pytest.mark.parametrize(
    ("target", "count", "most"), [("ethos-u55-128", 1, 5), ("ethos-u65-256", 1, 1), ("ethos-u65-256", 2, 1)]
)
def test_constants_are_read_from_afar_once(target: str, count: int, most: int) -> None:
    """Where maps have a fast memory of their own, however many operators need them."""
    read = [view for step in steps(softmax(5, 0.1, count), target) for view in reads(step)]
    assert sum(view.storage.data is not None for view in read) == most


I8, U8, I16 = DType.INT8, DType.UINT8, DType.INT16
SHARES = {I8: (1 / 256, -128), U8: (1 / 256, 0), I16: (2.0**-16, -32768)}


def of_two(source: DType, target: DType, scale: float, beta: float = 1.0, *, is_followed: bool = False) -> bytes:
    """All pairs of 8-bit values, a row each; what follows may be a table of the shares."""
    b = ModelBuilder()
    x = b.input((1, 256, 256, 2), source, scale=scale, zero_point=3)
    y = b.op("SOFTMAX", [x], (1, 256, 256, 2), target, *SHARES[target], attributes=at.SoftmaxOptions(beta))
    point = -60 if target is I8 else 200  # results on both sides of the middle of a byte
    b.output(b.op("HARD_SWISH", [y], (1, 256, 256, 2), target, 0.01, point) if is_followed else y)
    return b.build()


def all_pairs(dtype: DType) -> np.ndarray:
    values = np.stack(np.meshgrid(np.arange(256), np.arange(256), indexing="ij"), -1).astype(np.uint8)
    assert dtype.numpy is not None
    return values.view(dtype.numpy).reshape(1, 256, 256, 2)


@pytest.mark.parametrize(
    ("source", "target", "scale", "beta", "hardware"),
    [
        (I8, I8, 0.1, 1.0, "ethos-u55-128"),
        (I8, I8, 0.0125, 1.0, "ethos-u85-256"),
        (I8, I8, 0.0001, 0.5, "ethos-u55-32"),
        (U8, U8, 0.9, 1.7, "ethos-u65-256"),
        (U8, U8, TIE, 1.0, "ethos-u55-256"),
        (I8, I16, TIE, 1.0, "ethos-u55-64"),
        (U8, I16, 0.0125, 1.0, "ethos-u85-1024"),
    ],
)
def test_shares_of_two_values_are_looked_up(source: DType, target: DType, scale: float, beta: float, hardware: str) -> None:
    """Every pair of values."""
    content, inputs = of_two(source, target, scale, beta), [all_pairs(source)]
    (found,) = npu.run(npu.compile(content, hardware).content, inputs).outputs
    np.testing.assert_array_equal(found, run_reference(content, inputs)[0])


def test_of_two_classes_there_are_three_operations() -> None:
    for target in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256"):
        (partition,) = npu.compile(softmax(2, 0.1), target).compiled_model.partitions
        assert len(partition.program.steps) <= 4, target


@pytest.mark.parametrize("dtype", [I8, U8])
def test_what_follows_the_shares_of_two_values_is_in_their_table(dtype: DType) -> None:
    content, inputs = of_two(dtype, dtype, 0.1, is_followed=True), [all_pairs(dtype)]
    compiled = npu.compile(content, "ethos-u55-128")
    np.testing.assert_array_equal(npu.run(compiled.content, inputs).outputs[0], run_reference(content, inputs)[0])
    assert compiled.compiled_model.partitions[0].program.absorbed
