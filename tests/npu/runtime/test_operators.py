"""Every CPU kernel against LiteRT's reference kernel on random shapes, options and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from npu.runtime.interpreter import Interpreter
from npu.runtime.registry import OPERATORS

from tests.support.litert import random_inputs
from tests.support.operator_cases import CASES

Array = npt.NDArray[Any]

NOT_IN_REFERENCE_RESOLVER = {"CEIL", "ROUND", "ELU"}
"""LiteRT has these only in its optimised resolver."""

ULP: dict[str, int] = {
    "CONV_2D-hybrid": 4,
    "ELU-float32": 4,
    "FULLY_CONNECTED-hybrid": 4,
    "GELU-float32": 4,
    "LSTM-float32": 16,
    "RNN-float32": 16,
    "SVDF-float32": 16,
    "UNIDIRECTIONAL_SEQUENCE_LSTM-float32": 16,
    "UNIDIRECTIONAL_SEQUENCE_RNN-float32": 16,
    "LOCAL_RESPONSE_NORMALIZATION-float32": 4,
}
"""Largest error in float32 steps at the magnitude of the largest output; operators that are not here are equal bit for bit."""

_SEED_NAMES = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE", "TOPK_V2": "TOP_K"}
_NOT_IN_GUIDE = {
    "SUB", "DIV", "MAXIMUM", "MINIMUM", "SQUARE", "SQUARED_DIFFERENCE", "CEIL", "ROUND", "ELU", "HARD_SWISH", "PRELU",
    "DEPTH_TO_SPACE",
    "QUANTIZE", "DEQUANTIZE",
}  # fmt: skip


_RECURRENT = {"LSTM", "RNN", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"}


def _parameters() -> list[Any]:
    rows = []
    for name in sorted(CASES):
        kind, _, types = name.partition("-")
        guide = ["T-N-2"] if kind in _RECURRENT else [] if kind in _NOT_IN_GUIDE else [f"T-{_SEED_NAMES.get(kind, kind)}"]
        delegate = [f"X-F-{kind}"] if types == "float32" else [f"X-Q-{kind}"] if "int8" in types else []
        rows.append(pytest.param(name, id=name, marks=pytest.mark.seed(*guide, *delegate)))
    return rows


def _run(interpreter: Any, inputs: list[Array]) -> list[Array]:
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def _steps_apart(left: Array, right: Array) -> float:
    """Largest distance, in float32 steps at the magnitude of the largest value."""
    largest = np.abs(right).max(initial=np.float32(1e-30))
    return float(np.abs(left.astype(np.float64) - right).max(initial=0) / np.spacing(largest))


def _compare(name: str, seed: int) -> None:
    content = CASES[name](np.random.default_rng(seed))
    inputs = random_inputs(content, seed)
    resolver = OpResolverType.BUILTIN_REF
    if name.partition("-")[0] in NOT_IN_REFERENCE_RESOLVER:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    expected = _run(LiteRt(model_content=content, experimental_op_resolver_type=resolver, num_threads=1), inputs)
    got = _run(Interpreter(model_content=content), inputs)
    for reference, ours in zip(expected, got, strict=True):
        assert ours.dtype == reference.dtype
        assert ours.shape == reference.shape
        if name in ULP:
            assert _steps_apart(ours, reference) <= ULP[name]
        else:
            np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("name", _parameters())
def test_kernel_equals_the_reference_kernel(name: str) -> None:
    for seed in range(3):
        _compare(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", _parameters())
def test_kernel_equals_the_reference_kernel_on_many_cases(name: str) -> None:
    for seed in range(3, 60):
        _compare(name, seed)


def test_every_bound_belongs_to_a_case() -> None:
    assert set(ULP) <= set(CASES)


def test_every_case_runs_a_registered_operator() -> None:
    assert {name.partition("-")[0] for name in CASES} <= set(OPERATORS)
