"""Every CPU kernel against LiteRT's reference kernel on random shapes, options and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from npu.numerics.arrays import Array
from npu.runtime.accuracy import ACCURACY
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.registry import OPERATORS

from tests.support.accuracy import assert_as_accurate, magnitudes, needs_magnitudes
from tests.support.coverage_table import requirements
from tests.support.interpreters import run
from tests.support.litert import random_inputs
from tests.support.operator_cases import CASES
from tests.support.plugged import DELEGATES, Plugged, plugged_interpreter
from tests.support.recurrent_cases import STATEFUL

NOT_IN_REFERENCE_RESOLVER = {"CEIL", "ROUND", "ELU"}
"""LiteRT has these only in its optimised resolver."""

_SEED_NAMES = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE", "TOPK_V2": "TOP_K"}
_ROWS = {row.id for row in requirements()}
_NOT_READY = {"RESIZE_BILINEAR": "T-N-1", "TANH": "T-N-1", "SVDF": "T-N-2", "LSTM": "T-N-2", "RNN": "T-N-2"}


def _parameters() -> list[Any]:
    rows = []
    for name in sorted(CASES):
        kind, _, types = name.partition("-")
        guide = [_NOT_READY.get(kind, f"T-{_SEED_NAMES.get(kind, kind)}")]
        delegate = [f"X-F-{kind}"] if types == "float32" else [f"X-Q-{kind}"] if "int8" in types else []
        rows.append(pytest.param(name, id=name, marks=pytest.mark.seed(*_ROWS.intersection(guide), *delegate)))
    return rows


def _steps_apart(left: Array, right: Array) -> float:
    """Largest distance, in float32 steps at the magnitude of the largest finite value; what is not finite must be equal."""
    finite = np.isfinite(right)
    np.testing.assert_array_equal(left[~finite], right[~finite])
    left, right = left[finite], right[finite]
    largest = np.abs(right).max(initial=np.float32(1e-30))
    return float(np.abs(left.astype(np.float64) - right).max(initial=0) / np.spacing(largest))


def _compare(name: str, seed: int, plugged: str | None) -> None:
    content = CASES[name](np.random.default_rng(seed))
    inputs = random_inputs(content, seed)
    resolver = OpResolverType.BUILTIN_REF
    if name.partition("-")[0] in NOT_IN_REFERENCE_RESOLVER:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    expected = run(LiteRt(model_content=content, experimental_op_resolver_type=resolver, num_threads=1), inputs)
    interpreter = CpuInterpreter(model_content=content) if plugged is None else plugged_interpreter(content, plugged)
    allowed = DELEGATES[plugged] if plugged is not None else Plugged(())
    kind = name.partition("-")[0]
    sizes = magnitudes(kind, content, inputs) if needs_magnitudes(kind) and "float" in name else [None] * len(expected)
    for reference, ours, size in zip(expected, run(interpreter, inputs), sizes, strict=True):
        if allowed.float_steps and reference.dtype == np.float32:
            assert (ours.dtype, ours.shape) == (reference.dtype, reference.shape)
            assert _steps_apart(ours, reference) <= allowed.float_steps
        elif allowed.integer_steps and reference.dtype.kind in "iu":
            assert (ours.dtype, ours.shape) == (reference.dtype, reference.shape)
            assert np.abs(ours.astype(np.int64) - reference).max(initial=0) <= allowed.integer_steps
        else:
            assert_as_accurate(kind, [reference], [ours], None if size is None else [size], name)


@pytest.mark.parametrize("name", _parameters())
def test_kernel_equals_the_reference_kernel(name: str, request: pytest.FixtureRequest) -> None:
    for seed in range(3):
        _compare(name, seed, request.config.getoption("--delegate"))


@pytest.mark.slow
@pytest.mark.parametrize("name", _parameters())
def test_kernel_equals_the_reference_kernel_on_many_cases(name: str, request: pytest.FixtureRequest) -> None:
    for seed in range(3, 60):
        _compare(name, seed, request.config.getoption("--delegate"))


@pytest.mark.seed("D-K-1", "D-K-2")
@pytest.mark.parametrize("name", ["ADD-int8", "CONV_2D-float32", "RANGE-int32", "RESHAPE-int8", "SPLIT-float32", "WHERE-bool"])
def test_operator_tests_run_with_a_delegate_plugged_in(name: str) -> None:
    _compare(name, 0, "dummy")


@pytest.mark.seed("D-K-2")
def test_the_flag_of_the_tests_names_delegates(pytestconfig: pytest.Config) -> None:
    assert set(DELEGATES) == {"dummy", "npu", "xnnpack"}
    assert pytestconfig.getoption("--delegate") in (None, *DELEGATES)


def test_every_bound_belongs_to_a_case() -> None:
    assert set(ACCURACY) <= {name.partition("-")[0] for name in (*CASES, *STATEFUL)}


def test_every_case_runs_a_registered_operator() -> None:
    assert {name.partition("-")[0] for name in CASES} <= set(OPERATORS)
