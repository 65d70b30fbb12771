"""Tensors at run time: strings that are packed into bytes, and kernels that are bound to buffers."""

from __future__ import annotations

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.graph.graph import Tensor
from npu.runtime.kernels.elementwise import inverse_square_root
from npu.runtime.operators.common import bound_again
from npu.runtime.tensor import RuntimeTensor


def _tensor(numbers: list[int], text: bytes, shape: tuple[int, ...]) -> RuntimeTensor:
    data = np.frombuffer(np.array(numbers, "<i4").tobytes() + text, np.uint8)
    return RuntimeTensor(3, Tensor(name="words", shape=shape, dtype=DType.STRING, data=data))


def test_strings_are_read_by_their_offsets() -> None:
    tensor = _tensor([3, 20, 22, 22, 27], b"hiworld", (3,))
    assert tensor.array.tolist() == [b"hi", b"", b"world"]
    assert _tensor([2, 16, 17, 18], b"ab", (2, 1)).array.tolist() == [[b"a"], [b"b"]]
    assert not tensor.array.flags.writeable


def test_a_constant_may_hold_no_string() -> None:
    assert _tensor([0, 8], b"", (0,)).array.shape == (0,)


NOT_STRINGS = {
    "no count": ([], b"", (1,), "string data must hold 1 strings, got 0 bytes"),
    "half a count": ([], b"\x01\x00", (1,), "string data must hold 1 strings, got 2 bytes"),
    "more than the shape": ([2, 16, 17, 18], b"ab", (1,), "must hold 1 strings, got 18 bytes for 2"),
    "fewer than the shape": ([1, 12, 13], b"a", (2,), "must hold 2 strings, got 13 bytes for 1"),
    "a negative count": ([-1, 12, 13], b"a", (1,), "must hold 1 strings, got 13 bytes for -1"),
    "a count without offsets": ([1, 12], b"", (1,), "must hold 1 strings, got 8 bytes for 1"),
    "an end behind the data": ([1, 12, 14], b"a", (1,), r"must lie inside the 13 bytes of data, got offsets \[12, 14\]"),
    "a start in the offsets": ([1, 4, 13], b"a", (1,), r"must lie inside the 13 bytes of data, got offsets \[4, 13\]"),
    "a negative start": ([1, -12, 13], b"a", (1,), r"got offsets \[-12, 13\]"),
    "an end before the start": ([2, 18, 16, 18], b"ab", (2,), r"got offsets \[18, 16, 18\]"),
}


@pytest.mark.parametrize("name", NOT_STRINGS)
def test_malformed_strings_are_refused(name: str) -> None:
    numbers, text, shape, message = NOT_STRINGS[name]
    with pytest.raises(InterpreterError, match=f"tensor 'words': .*{message}"):
        _tensor(numbers, text, shape)


def _rows(shape: tuple[int, ...], value: float) -> RuntimeTensor:
    tensor = RuntimeTensor(0, Tensor("rows", shape, DType.FLOAT32))
    tensor.data = np.full(shape, value, np.float32)
    return tensor


def test_a_bound_kernel_follows_buffers_that_move() -> None:
    source, out = _rows((9,), 4), _rows((9,), 0)
    run = bound_again(inverse_square_root, (source, out), lambda: (source.array, out.array))
    run()
    assert (out.array == 0.5).all()
    source.data = np.full(9, 16, np.float32)
    run()
    assert (out.array == 0.25).all()


def test_a_bound_kernel_does_not_run_on_old_buffers_after_new_ones_were_refused() -> None:
    source, out = _rows((9,), 4), _rows((9,), 0)
    run = bound_again(inverse_square_root, (source, out), lambda: (source.array, out.array))
    run()
    source.data = None
    for _ in range(2):
        with pytest.raises(InterpreterError, match="must be written before it is read"):
            run()
    source.data = np.full(9, 16, np.float32)
    run()
    assert (out.array == 0.25).all()
