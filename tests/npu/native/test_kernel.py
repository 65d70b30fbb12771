"""How Python calls kernels."""

from __future__ import annotations

import numpy as np
import pytest

from npu.isa.weight_stream.kernels.search import LIST
from npu.native import types as ty
from npu.native.kernel import Kernel, kernel
from npu.native.memory import load_u8
from npu.native.sources import group_of
from npu.numerics.rounding import saturating_rounding_doubling_high_mul
from npu.runtime.kernels.elementwise import exponential
from npu.runtime.kernels.integer_functions import reciprocal
from npu.runtime.kernels.reduction import sum_rows
from npu.tools.kernels.png import undo_filters

ONES = np.ones(3, np.float32)


def test_numbers_go_in_and_come_out() -> None:
    assert saturating_rounding_doubling_high_mul(1 << 30, 1 << 30) == 1 << 29
    assert saturating_rounding_doubling_high_mul(np.int32(-(1 << 31)), np.int64(-(1 << 31))) == (1 << 31) - 1


def test_several_numbers_come_out_as_a_tuple() -> None:
    inverse, shift = reciprocal(3)
    assert inverse / 2**31 / 2**shift == pytest.approx(1 / 3, rel=1e-6)


def test_arrays_are_read_and_written_in_place() -> None:
    out = np.zeros(2, np.float32)
    assert sum_rows(np.array([[1, 2, 3], [4, 5, 6]], np.float32), 1, out) is None
    assert out.tolist() == [6, 15]


READ_ONLY = ONES.copy()
READ_ONLY.flags.writeable = False
WRONG = {
    "of_another_type": (ONES.astype(np.float64), ONES.copy()),
    "with_more_axes": (ONES[None], ONES.copy()),
    "with_gaps": (np.ones(6, np.float32)[::2], ONES.copy()),
    "not_to_be_written": (ONES, READ_ONLY),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_array_is_refused(case: str) -> None:
    with pytest.raises(TypeError, match="array"):
        exponential(*WRONG[case])


def test_an_array_that_is_only_read_may_be_read_only() -> None:
    out = np.zeros(3, np.float32)
    exponential(READ_ONLY, out)
    np.testing.assert_allclose(out, np.e, rtol=1e-6)


def test_an_empty_array_is_no_special_case() -> None:
    undo_filters(np.zeros((0, 1), np.uint8), 1, np.zeros((1, 0), np.uint8))


def test_a_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(TypeError, match=r"takes 2 arguments, got 1"):
        saturating_rounding_doubling_high_mul(1)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError):
        saturating_rounding_doubling_high_mul(1, np.zeros(2))


def test_what_only_kernels_call_says_so() -> None:
    with pytest.raises(TypeError, match="for kernels to call"):
        load_u8(0)


def test_declaring_a_kernel_compiles_nothing_and_its_module_must_be_in_a_group() -> None:
    @kernel(ty.int64(ty.int64))
    def double(a):  # type: ignore[no-untyped-def]
        return 2 * a

    assert isinstance(double, Kernel)
    with pytest.raises(LookupError, match="kernels must be declared in"):
        group_of(double.__module__)


@pytest.mark.parametrize("axes", [slice(None), (slice(None, None, 1), slice(None))])
def test_only_contiguous_arrays_can_be_declared(axes: slice | tuple[slice, ...]) -> None:
    with pytest.raises(TypeError, match="C-contiguous"):
        ty.int64[axes]


def test_a_declared_array_says_its_type() -> None:
    assert (LIST.dtype, LIST.ndim) == (np.int64, 1)
