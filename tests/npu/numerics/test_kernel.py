"""The decorator of compiled functions."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest

from npu.numerics.kernel import kernel


@kernel(nb.int64(nb.int64, nb.int64))
def add(a, b):  # type: ignore[no-untyped-def]
    return a + b


@kernel(nb.int64(nb.int64))
def add_both(a):  # type: ignore[no-untyped-def]
    return add(a, 1) + add(2, a)


@kernel(nb.int64(nb.int64[::1]))
def first(values):  # type: ignore[no-untyped-def]
    return values[0]


def test_a_kernel_is_compiled_once_and_not_before_it_is_used() -> None:
    assert not add.overloads
    assert not add_both.overloads
    assert add_both(5) == 13
    assert len(add.overloads) == len(add_both.overloads) == 1
    assert add(3, 4) == 7
    assert len(add.overloads) == 1


def test_arguments_of_other_types_are_refused_at_the_first_call_too() -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match="No matching definition"):
            first(np.zeros(3, np.float32))
    assert first(np.array([4], np.int64)) == 4
