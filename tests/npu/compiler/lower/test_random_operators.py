"""Random single operators and chains through lowering and naive execution equal LiteRT's reference kernels bit for bit."""

from __future__ import annotations

import pytest

from tests.support.lowering import assert_exact
from tests.support.random_graphs import (
    LINKS_AND_PERMUTATIONS,
    OPERATORS,
    Case,
    cases,
    chains,
    random_inputs,
    resizing_chains,
)


def check(case: Case, seed: int) -> None:
    assert_exact(case.graph, random_inputs(case.graph, seed), case.name)


@pytest.mark.seed(*(f"V-RUN-{op}" for op in OPERATORS))
@pytest.mark.parametrize("op", OPERATORS)
def test_random_operators_equal_the_reference(op: str) -> None:
    for seed, case in enumerate(cases(op, 20)):
        check(case, seed)


def test_random_chains_equal_the_reference() -> None:
    for seed, case in enumerate(chains(30)):
        check(case, seed)


def test_random_chains_with_permutations_equal_the_reference() -> None:
    for seed, case in enumerate(chains(30, 3, LINKS_AND_PERMUTATIONS)):
        check(case, seed)


def test_random_chains_with_a_resize_equal_the_reference() -> None:
    for seed, case in enumerate(resizing_chains(30)):
        check(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPERATORS)
def test_many_random_operators_equal_the_reference(op: str) -> None:
    for seed, case in enumerate(cases(op, 200, seed=1)):
        check(case, seed)


@pytest.mark.slow
def test_many_random_chains_equal_the_reference() -> None:
    for seed, case in enumerate(chains(500, seed=1)):
        check(case, seed)


@pytest.mark.slow
def test_many_random_chains_with_permutations_equal_the_reference() -> None:
    for seed, case in enumerate(chains(300, 4, LINKS_AND_PERMUTATIONS)):
        check(case, seed)


@pytest.mark.slow
def test_many_random_chains_with_a_resize_equal_the_reference() -> None:
    for seed, case in enumerate(resizing_chains(500, seed=1)):
        check(case, seed)


def test_a_case_depends_on_its_seed_alone() -> None:
    first, second = cases("CONV_2D", 3, seed=5)[2], cases("CONV_2D", 9, seed=5)[2]
    assert first.name == second.name
    assert [t.shape for t in first.graph.tensors] == [t.shape for t in second.graph.tensors]
    data = [(a.data, b.data) for a, b in zip(first.graph.tensors, second.graph.tensors, strict=True) if a.data is not None]
    assert all((a == b).all() for a, b in data)
