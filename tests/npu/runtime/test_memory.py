"""Intermediate tensors share an arena by their lifetime; what can be read after a run, and what cannot."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.arena import ALIGNMENT
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operators import common
from npu.runtime.shared_memory import SharedMemory

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference

CHAIN = 6
X = np.arange(-512, 512, dtype=np.float32).reshape(1, 1024)


def _chain() -> bytes:
    """x -> NEG -> ABS -> NEG -> ABS -> NEG -> ABS, tensors 0 to 6 of 4096 bytes."""
    b = ModelBuilder()
    tensor = b.input((1, 1024), DType.FLOAT32, name="t0")
    for k in range(CHAIN):
        tensor = b.op("ABS" if k % 2 else "NEG", [tensor], (1, 1024), DType.FLOAT32, name=f"t{k + 1}")
    b.output(tensor)
    return b.build()


def _run(*, preserve: bool) -> CpuInterpreter:
    interpreter = CpuInterpreter(model_content=_chain(), experimental_preserve_all_tensors=preserve)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, X)
    interpreter.invoke()
    return interpreter


def test_a_chain_needs_an_arena_for_two_tensors_beside_input_and_output() -> None:
    interpreter = _run(preserve=False)
    assert interpreter.arena_bytes() == 2 * 4096
    assert interpreter.tensor_bytes() == 4 * 4096
    np.testing.assert_array_equal(interpreter.get_tensor(CHAIN), np.abs(X))


def test_preserving_all_tensors_shares_nothing_and_keeps_every_value() -> None:
    interpreter = _run(preserve=True)
    assert interpreter.arena_bytes() == 0
    assert interpreter.tensor_bytes() == (CHAIN + 1) * 4096
    for k in range(1, CHAIN):
        np.testing.assert_array_equal(interpreter.get_tensor(k), (-X, np.abs(X), -np.abs(X))[0 if k == 1 else 1 + k % 2])


def test_a_tensor_whose_memory_was_used_again_cannot_be_read() -> None:
    interpreter = _run(preserve=False)
    for k in (1, 2, 3):
        with pytest.raises(ValueError, match=f"tensor {k} 't{k}': must not be read, later tensors use its memory"):
            interpreter.get_tensor(k)
        with pytest.raises(ValueError, match="experimental_preserve_all_tensors=True keeps it"):
            interpreter.tensor(k)()


def test_the_last_tensors_in_the_arena_can_be_read() -> None:
    interpreter = _run(preserve=False)
    np.testing.assert_array_equal(interpreter.get_tensor(4), np.abs(X))
    np.testing.assert_array_equal(interpreter.get_tensor(5), -np.abs(X))


def test_a_resize_plans_the_arena_again() -> None:
    interpreter = _run(preserve=False)
    interpreter.resize_tensor_input(0, (2, 1024))
    interpreter.allocate_tensors()
    assert interpreter.arena_bytes() == 4 * 4096
    interpreter.set_tensor(0, np.concatenate([X, 2 * X]))
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(CHAIN), np.abs(np.concatenate([X, 2 * X])))


def test_a_variable_of_zeros_takes_no_memory_until_it_is_written() -> None:
    b = ModelBuilder()
    state, x = b.variable((1 << 26,), DType.FLOAT32), b.input((1,), DType.FLOAT32)
    b.output(b.op("ADD", [x, x], (1,), DType.FLOAT32))
    interpreter = CpuInterpreter(model_content=b.build())
    before = _resident_bytes()
    interpreter.allocate_tensors()
    interpreter.reset_all_variables()
    assert _resident_bytes() - before < 1 << 26
    interpreter.tensor(state)()[:1000] = 7
    interpreter.reset_all_variables()
    assert not interpreter.tensor(state)()[:1000].any()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


BROADCAST: dict[str, tuple[DType, at.Attributes | None]] = {
    "ADD": (DType.INT8, at.AddOptions()),
    "SUB": (DType.INT16, at.SubOptions()),
    "MUL": (DType.UINT8, at.MulOptions()),
    "SQUARED_DIFFERENCE": (DType.INT8, None),
    "DIV": (DType.UINT8, at.DivOptions()),
    "FLOOR_MOD": (DType.INT32, None),
}


@pytest.mark.parametrize("kind", BROADCAST)
def test_two_rows_that_make_a_large_map_take_no_more_than_the_map(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in between takes eight bytes an element; it is there for a part of the elements at a time."""
    monkeypatch.setattr(common, "MOST_AT_ONCE", 5_000)
    dtype, options = BROADCAST[kind]
    b, scale = ModelBuilder(), None if dtype is DType.INT32 else 0.1
    x, y = b.input((1, 700, 1, 2), dtype, scale=scale), b.input((2, 1, 600, 1), dtype, scale=scale)
    b.output(b.op(kind, [x, y], (2, 700, 600, 2), dtype, scale=scale, attributes=options))
    content, rng = b.build(), np.random.default_rng(7)
    inputs = [rng.integers(1, 100, shape).astype(dtype.numpy) for shape in ((1, 700, 1, 2), (2, 1, 600, 1))]
    interpreter = CpuInterpreter(model_content=content)
    interpreter.allocate_tensors()
    for index, value in zip((x, y), inputs, strict=True):
        interpreter.set_tensor(index, value)
    tracemalloc.start()
    interpreter.invoke()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    np.testing.assert_array_equal(interpreter.get_tensor(2), run_reference(content, inputs)[0])


ALONE: dict[str, tuple[DType, float | None, at.Attributes | None]] = {
    "ABS": (DType.INT8, 0.1, at.AbsOptions()),
    "LEAKY_RELU": (DType.INT16, 0.1, at.LeakyReluOptions(0.2)),
    "HARD_SWISH": (DType.INT8, 0.1, at.HardSwishOptions()),
    "RELU6": (DType.UINT8, 0.1, None),
    "QUANTIZE": (DType.INT8, 0.2, at.QuantizeOptions()),
    "LOGISTIC": (DType.INT16, 2.0**-15, None),
    "TANH": (DType.INT8, 2.0**-7, None),
    "SOFTMAX": (DType.INT16, 2.0**-15, at.SoftmaxOptions(1.0)),
    "L2_NORMALIZATION": (DType.INT8, 2.0**-7, at.L2NormOptions()),
    "DEQUANTIZE": (DType.FLOAT32, None, at.DequantizeOptions()),
}
"""Operators of one map: type and scale of what they make of int8, or of their own type, and options."""


@pytest.mark.parametrize("kind", ALONE)
def test_an_operator_of_one_large_map_takes_little_more(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "MOST_AT_ONCE", 5_000)
    shape, (made, scale, options) = (1, 700, 60, 20), ALONE[kind]
    dtype = DType.INT8 if made is DType.FLOAT32 else made
    b = ModelBuilder()
    x = b.input(shape, dtype, scale=0.1)
    b.output(b.op(kind, [x], shape, made, scale=scale, attributes=options))
    content = b.build()
    values = np.random.default_rng(7).integers(0, 100, shape).astype(dtype.numpy)
    interpreter = CpuInterpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, values)
    tracemalloc.start()
    interpreter.invoke()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    np.testing.assert_array_equal(interpreter.get_tensor(1), run_reference(content, [values])[0])


def test_powers_of_a_large_map_take_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(common, "MOST_AT_ONCE", 5_000)
    b = ModelBuilder()
    x, y = b.input((700, 600), DType.FLOAT32), b.input((600,), DType.FLOAT32)
    b.output(b.op("POW", [x, y], (700, 600), DType.FLOAT32))
    content, rng = b.build(), np.random.default_rng(7)
    inputs = [rng.uniform(0, 2, shape).astype(np.float32) for shape in ((700, 600), (600,))]
    interpreter = CpuInterpreter(model_content=content)
    interpreter.allocate_tensors()
    for index, value in zip((x, y), inputs, strict=True):
        interpreter.set_tensor(index, value)
    tracemalloc.start()
    interpreter.invoke()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    np.testing.assert_allclose(interpreter.get_tensor(2), run_reference(content, inputs)[0], rtol=1e-6)


def test_small_tensors_of_their_own_lie_in_one_block_and_share_nothing() -> None:
    memory = SharedMemory()
    arrays = [memory.own((3, count), np.dtype(np.float32)) for count in (1, 5, 16, 300)]
    first = arrays[0].ctypes.data
    for number, array in enumerate(arrays):
        assert array.ctypes.data % ALIGNMENT == 0
        assert 0 <= array.ctypes.data - first < 1 << 13
        assert not array.any()
        array.fill(number + 1)
    assert [array.ravel().tolist() for array in arrays] == [[number + 1.0] * a.size for number, a in enumerate(arrays)]


def test_large_tensors_and_those_without_elements_have_memory_of_their_own() -> None:
    memory = SharedMemory()
    assert memory.own((0, 4), np.dtype(np.int8)).shape == (0, 4)
    small, large, after = (memory.own((size,), np.dtype(np.int8)) for size in (64, 1 << 20, 64))
    assert after.ctypes.data - small.ctypes.data == 64
    assert not np.may_share_memory(small.base, large)
