"""The delegate takes exactly what its profile takes, and says why it refuses the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate

from tests.constraints.test_xnnpack import ROWS, quantized_rows, transpose_conv
from tests.support import single_ops as ops
from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.operator_cases import CASES
from tests.support.xnnpack import delegated, mobile_network, options

F32, INT8, UINT8 = DType.FLOAT32, DType.INT8, DType.UINT8


def taken(model: Model, **switches: Any) -> tuple[bool, str]:
    """Whether the delegate takes the only operator, and its reasons if not."""
    delegate = XnnpackDelegate(options(**({"qs8": True, "qu8": True} | switches)))
    interpreter = CpuInterpreter(model=model, experimental_delegates=[delegate])
    replaced = [index for step in interpreter.execution_plan() for index in step["replaces"]]
    return replaced == [0], delegate.refusal_table().get((0, 0), "")


PARAMETERS = [
    pytest.param(*key, marks=pytest.mark.seed(f"{key[0]}-{key[1]}", key[2]), id="-".join(key)) for key in sorted(ROWS)
]


@pytest.mark.seed("X-L-1", "X-L-3")
@pytest.mark.parametrize(("prefix", "kind", "letter"), PARAMETERS)
def test_the_delegate_takes_and_refuses_by_the_lettered_rows(prefix: str, kind: str, letter: str) -> None:
    accepted, refused = ROWS[prefix, kind, letter]
    assert taken(accepted) == (True, "")
    is_taken, reasons = taken(refused)
    assert not is_taken
    assert f"{prefix}-{kind}-{letter}: " in reasons


@pytest.mark.seed("X-F-TRANSPOSE_CONV", "b")
def test_the_delegate_takes_a_transposed_convolution_without_bias() -> None:
    assert taken(transpose_conv(F32, bias=False)) == (True, "")


@pytest.mark.seed("X-Q0-1", "X-Q0-4")
def test_quantized_operators_are_off_until_their_switch_is_on() -> None:
    signed, unsigned = ops.binary("ADD", dtype=INT8), ops.binary("ADD", dtype=UINT8)
    assert XnnpackDelegate().options.qs8 is False
    assert XnnpackDelegate().options.qu8 is False
    assert [taken(signed, qs8=on, qu8=False)[0] for on in (False, True)] == [False, True]
    assert [taken(unsigned, qs8=False, qu8=on)[0] for on in (False, True)] == [False, True]
    assert not taken(signed, qs8=False)[0]
    assert not taken(unsigned, qu8=False)[0]
    assert "X-Q0-1" in taken(signed, qs8=False)[1]


@pytest.mark.seed("X-Q0-2")
def test_unsigned_operators_follow_the_same_rows_as_signed_ones() -> None:
    rows = quantized_rows(UINT8)
    kinds = {kind for kind, _ in rows} - {"ELU", "LEAKY_RELU", "DEQUANTIZE", "QUANTIZE"}
    assert all(taken(rows[kind, "a"][0])[0] for kind in kinds)


@pytest.mark.seed("X-Q0-3")
@pytest.mark.parametrize("name", ["CONV_2D-hybrid", "FULLY_CONNECTED-hybrid"])
def test_dynamic_range_weights_are_not_delegated(name: str) -> None:
    interpreter, delegate = delegated(CASES[name](np.random.default_rng(1)), qs8=True)
    assert all(step["delegate"] is None for step in interpreter.execution_plan())
    assert "must be" in next(iter(delegate.refusal_table().values()))


@pytest.mark.seed("X-L-2")
def test_a_filter_that_is_computed_is_refused() -> None:
    model = ROWS["X-F", "CONV_2D", "c"][1]
    assert "filter and bias must be constant" in taken(model)[1]


@pytest.mark.seed("X-L-1")
def test_a_mixed_model_runs_its_other_operators_on_the_default_kernels() -> None:
    content = _mixed()
    interpreter, _ = delegated(content)
    plan = [(step["delegate"], tuple(step["replaces"])) for step in interpreter.execution_plan()]
    assert plan == [("XnnpackDelegate", (0,)), (None, ()), ("XnnpackDelegate", (2,))]
    inputs = random_inputs(content, 3)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run_reference(content, inputs)[0])


def _mixed() -> bytes:
    """ABS, EXP (which the delegate does not list), NEG."""
    b = ModelBuilder()
    x = b.input((2, 3), F32)
    y = b.op("ABS", [x], (2, 3), F32)
    z = b.op("EXP", [y], (2, 3), F32)
    b.output(b.op("NEG", [z], (2, 3), F32))
    return b.build()


def test_a_whole_network_is_one_partition() -> None:
    interpreter, delegate = delegated(mobile_network())
    assert len(interpreter.execution_plan()) == 1
    assert delegate.refusal_table() == {}
