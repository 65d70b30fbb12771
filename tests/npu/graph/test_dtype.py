"""Element sizes, written out."""

from __future__ import annotations

import numpy as np
import pytest

from npu.graph.dtype import DType
from npu.graph.graph import Tensor

BITS = {
    "FLOAT32": 32, "FLOAT16": 16, "INT32": 32, "UINT8": 8, "INT64": 64, "STRING": 0, "BOOL": 8, "INT16": 16, "COMPLEX64": 64,
    "INT8": 8, "FLOAT64": 64, "COMPLEX128": 128, "UINT64": 64, "RESOURCE": 0, "VARIANT": 0, "UINT32": 32, "UINT16": 16,
    "INT4": 4, "BFLOAT16": 16, "INT2": 2, "UINT4": 4, "FLOAT8_E4M3FN": 8, "FLOAT8_E5M2": 8,
}  # fmt: skip


def test_every_element_type_has_its_size() -> None:
    assert {dtype.name: dtype.bits for dtype in DType} == BITS


@pytest.mark.parametrize("dtype", [dtype for dtype in DType if dtype.numpy is not None], ids=str)
def test_the_numpy_type_has_the_name_of_the_element_type(dtype: DType) -> None:
    assert dtype.numpy == np.dtype(str(dtype))


@pytest.mark.parametrize(("shape", "elements"), [((), 1), ((0, 5), 0), ((3, 4), 12), ((2**31,) * 4, 2**124)], ids=str)
def test_elements_are_counted_without_overflow(shape: tuple[int, ...], elements: int) -> None:
    assert Tensor("t", shape, DType.INT8).elements == elements
