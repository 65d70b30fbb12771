"""REVERSE_V2: stored from the last column on by Ethos-U85, on the CPU of the others unless nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import npu
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_array, run_reference

TYPES = (DType.INT8, DType.UINT8, DType.INT16, DType.BOOL)
CASES = (
    ((2, 3, 4, 5), (1,)),
    ((2, 3, 4, 5), (1, 2)),
    ((2, 3, 4, 32), (-1,)),
    ((3, 4), (0, 1)),
    ((40,), (0,)),
    ((1, 6, 7), (0,)),
)


def model_of(shape: Sequence[int], axes: Sequence[int], dtype: DType) -> bytes:
    b = ModelBuilder()
    scale, point = (None, 0) if dtype is DType.BOOL else (0.5, 0 if dtype is DType.INT16 else 3)
    x, table = b.input(shape, dtype, scale=scale, zero_point=point), b.constant(np.array(axes, np.int32))
    b.output(b.op("REVERSE_V2", [x, table], shape, dtype, scale, point, attributes=at.ReverseV2Options()))
    return b.build()


@pytest.mark.parametrize("target", ["ethos-u85-128", "ethos-u85-1024"])
@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_elements_change_places(shape: Sequence[int], axes: Sequence[int], target: str) -> None:
    for dtype in TYPES:
        model, values = model_of(shape, axes, dtype), random_array(shape, dtype, np.random.default_rng(2))
        compiled = npu.compile(model, target=target)
        assert [violation.message for op in compiled.compiled_model.placement.ops for violation in op.violations] == []
        assert npu.verify(compiled.content) == []
        (found,) = npu.run(compiled.content, [values]).outputs
        np.testing.assert_array_equal(found, run_reference(model, [values])[0])


def test_axes_apart_are_reversed_one_after_the_other() -> None:
    """LiteRT takes axes side by side alone."""
    shape, axes = (2, 3, 4, 5), (0, 2, 3)
    values = random_array(shape, DType.INT8, np.random.default_rng(2))
    compiled = npu.compile(model_of(shape, axes, DType.INT8), target="ethos-u85-256")
    np.testing.assert_array_equal(npu.run(compiled.content, [values]).outputs[0], np.flip(values, axes))


def test_the_other_families_leave_it_to_the_cpu() -> None:
    model = model_of((2, 3, 4, 5), (1, 2), DType.INT8)
    for target in ("ethos-u55-128", "ethos-u65-256"):
        (op,) = npu.check(model, target=target).ops
        assert [violation.rule for violation in op.violations] == ["N-REV-2"]
        with pytest.raises(LoweringError, match="stores no results backwards"):
            lower_partition(read_model(model).graphs[0], [0], load_variant(target))
