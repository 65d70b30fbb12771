"""ARG_MAX with positions of 32 and 64 bits: the first of equals, exactly as the reference kernel numbers it."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
from tests.support.litert import run_reference


def arg_max(shape: tuple[int, ...], source: DType, made: DType) -> bytes:
    ifm, ofm = ops.tensor(shape, source), ops.tensor(shape[:-1], made, scale=None)
    model: Model = ops.op_model("ARG_MAX", [ifm, ops.constant((-1,))], [ofm], at.ArgMaxOptions(made))
    return write_model(model)


@pytest.mark.parametrize("made", [DType.INT32, DType.INT64])
@pytest.mark.parametrize("source", [DType.INT8, DType.UINT8])
@pytest.mark.parametrize("shape", [(1, 9, 7, 21), (2, 3, 5, 128), (6, 4)], ids=str)
def test_positions_are_those_of_the_reference(shape: tuple[int, ...], source: DType, made: DType) -> None:
    content = arg_max(shape, source, made)
    rng, limits = np.random.default_rng(4), np.iinfo(source.numpy)
    for most in (2, int(limits.max) - int(limits.min) + 1):  # nearly all equal, and all different
        given = (int(limits.min) + rng.integers(0, most, shape)).astype(source.numpy)
        compiled = npu.compile(content, target="ethos-u55-128")
        assert [op.violations for op in compiled.compiled_model.placement.ops] == [()]
        (found,) = npu.run(compiled.content, [given]).outputs
        assert found.dtype == made.numpy
        np.testing.assert_array_equal(found, run_reference(content, [given])[0])
