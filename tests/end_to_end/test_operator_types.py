"""Every operator and type that Vela 5.2 puts on the NPU: here, too, and exact, or with a reason in the page."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.tflite.reader import read_model

from tests.support.compatibility import reference
from tests.support.litert import random_array, run_reference
from tests.support.operator_placement import NO_KERNEL, PAGE, REASONS, cases, models, ours, page, shown, told
from tests.support.operator_placement import TARGETS as PAGE_TARGETS

TARGETS = compiler_targets()
U55, U85 = PAGE_TARGETS
EXACT = 1
"""Models of a row that every run compares, on one target each; the slow run takes all on all."""
NO_FIXED_PRODUCT = "MUL-int32"
OWN_REFERENCE = {"ELU-int8", "RSQRT-int16", "SUM-int8"}
"""LiteRT's reference kernel is missing, refuses random values, or is wrong (SUM of int8): the interpreter's stands for it."""


def inputs_of(name: str, model: bytes, seed: int) -> list[np.ndarray]:
    """Values of the full range; products of 32 bits that fit them."""
    graph, generator = read_model(model).graphs[0], np.random.default_rng(seed)
    made = [random_array(graph.tensors[index].shape, graph.tensors[index].dtype, generator) for index in graph.inputs]
    return [values >> 17 for values in made] if name == NO_FIXED_PRODUCT else made


def assert_exact(name: str, model: bytes, target: str, seed: int) -> None:
    compiled = npu.compile(model, target=target)
    inputs = inputs_of(name, model, seed)
    expected = npu.run(model, inputs).outputs if name in OWN_REFERENCE else run_reference(model, inputs, fully_connected="npu")
    for mine, theirs in zip(npu.run(compiled.content, inputs).outputs, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("name", cases())
def test_an_operator_that_vela_takes_is_exact_on_the_npu_or_has_a_reason(name: str) -> None:
    placed = ours(name)
    assert_told(name, U55, placed)
    for seed in [seed for seed, is_placed in enumerate(placed) if is_placed][:EXACT]:
        assert_exact(name, models(name)[seed], TARGETS[seed % len(TARGETS)], seed)


@pytest.mark.parametrize("name", cases(U85))
def test_an_operator_that_vela_places_on_ethos_u85_is_exact_there_or_has_a_reason(name: str) -> None:
    """Those that are on the page of Ethos-U55, too, are compared above."""
    placed = ours(name, U85)
    assert_told(name, U85, placed)
    for seed in [seed for seed, is_placed in enumerate(placed) if is_placed and name not in cases()][:EXACT]:
        assert_exact(name, models(name)[seed], U85, seed)


def assert_told(name: str, target: str, placed: list[bool]) -> None:
    """The page says where an operator runs."""
    key = tuple(name.split("-"))
    assert told(target)[key] == shown(placed), f"{name}: run python -m tests.support.operator_placement"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", cases())
def test_an_operator_that_vela_takes_is_exact_on_every_target(name: str, target: str) -> None:
    for seed, (model, is_placed) in enumerate(zip(models(name), ours(name), strict=True)):
        if is_placed:
            assert_exact(name, model, target, seed)


@pytest.mark.parametrize("name", [name for name, reason in REASONS.items() if reason == NO_KERNEL])
def test_litert_has_no_kernel_where_that_is_the_reason(name: str) -> None:
    for seed, model in enumerate(models(name)):
        with pytest.raises(RuntimeError, match="LiteRT refuses it"):
            reference(model, inputs_of(name, model, seed))


def test_every_reason_is_one_of_the_page() -> None:
    text = PAGE.read_text()
    assert [name for name, reason in REASONS.items() if f"| {name.split('-')[0]} |" not in text or reason not in text] == []


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page()
