"""Limits: what they accept, what the tests of boundaries are given to try, and that nobody changes one."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from constraints.observe import paddings
from constraints.rule import AtLeast, AtMost, Exactly, Limit, Observed, OneOf, Predicate, Range, RealRange
from constraints.sparse import geometry
from constraints.u55_u65 import PROFILE
from constraints.view import OpView
from npu.compiler.targets import compiler_targets
from npu.graph import attributes as options
from npu.graph.attributes import FusedActivation, Padding
from npu.hardware.catalogue import load_variant

from tests.support import single_ops as ops

LIMITS: dict[str, tuple[Limit, tuple[tuple[Any, bool], ...]]] = {
    "whole numbers": (Range(1, 3), ((0, False), (1, True), (3, True), (4, False))),
    "one interval": (RealRange(((256.0, 512.0),)), ((255.0, False), (256.0, True), (512.0, True), (514.0, False))),
    "two intervals": (
        RealRange(((-256.0, -1.0), (1.0, 1024.0))),
        ((-257.0, False), (-256.0, True), (-1.0, True), (1.0, True), (1024.0, True), (1028.0, False)),
    ),
    "no fewer than": (AtLeast(5), ((4, False), (5, True))),
    "no more than": (AtMost(5), ((5, True), (6, False))),
    "a list": (OneOf((1, 2), others=(3,)), ((1, True), (2, True), (3, False))),
    "one value": (Exactly(5, others=(0,)), ((5, True), (0, False))),
    "a condition": (Predicate("even", lambda n: n % 2 == 0, ((2, True), (3, False))), ((2, True), (3, False))),
}


@pytest.mark.parametrize("case", LIMITS)
def test_a_limit_is_tried_on_both_sides_and_next_to_its_ends(case: str) -> None:
    limit, boundaries = LIMITS[case]
    assert limit.boundaries == boundaries
    assert all(limit.accepts(value) is accepted for value, accepted in boundaries)


@pytest.mark.parametrize(
    "record",
    [*(limit for limit, _ in LIMITS.values()), Observed("x", 1), *PROFILE.rules[:1]],
    ids=lambda record: type(record).__name__,
)
def test_a_limit_cannot_be_changed(record: Any) -> None:
    with pytest.raises((FrozenInstanceError, AttributeError)):
        setattr(record, next(iter(type(record).__slots__)), 7)


def test_sums_of_products_are_tried_at_the_limit_and_just_below() -> None:
    (rule,) = (rule for rule in PROFILE.rules if rule.id == "N-W-8")
    tried = [(largest - limit, limit, accepted) for (largest, limit), accepted in rule.limit.boundaries]
    assert tried == [(-1, 1 << 31, True), (0, 1 << 31, False), (-1, 1 << 39, True), (0, 1 << 39, False)]


@pytest.mark.parametrize("target", compiler_targets())
def test_cells_of_any_size_from_the_least_of_a_variant_up_are_placed(target: str) -> None:
    (rule,) = (rule for rule in PROFILE.rules if rule.id == "N-LSTM-5")
    variant = load_variant(target)
    least = next(count for count in range(1 << 16) if rule.limit_for(variant).accepts(count))
    tried = {count: rule.limit_for(variant).accepts(count) for count in (least - 1, least, 1 << 24, 1 << 31)}
    assert 4096 < least < 1 << 16
    assert rule.limit == rule.limit_for(load_variant("ethos-u55-128"))
    assert list(tried.values()) == [False, True, True, True]


@pytest.mark.parametrize(("shape", "is_table"), [((4, 2), True), ((4, 3), False), ((8,), False), ((2, 2, 2), False)])
def test_a_padding_table_has_two_columns(shape: tuple[int, ...], is_table: bool) -> None:
    table = ops.constant(np.ones(shape, np.int32))
    graph = ops.op_model("PAD", [ops.tensor((1, 4, 4, 2)), table], [ops.tensor((3, 6, 6, 4))], options.PadOptions()).graphs[0]
    assert (paddings(OpView(graph, graph.ops[0])) is not None) is is_table


def test_the_window_of_a_convolution_over_a_map_that_is_not_square() -> None:
    made = options.Conv2DOptions(Padding.SAME, 3, 2, FusedActivation.NONE, 1, 2)
    operands = [ops.tensor((1, 9, 20, 4)), ops.tensor((8, 3, 5, 4), data=1)]
    graph = ops.op_model("CONV_2D", operands, [ops.tensor((1, 5, 7, 8))], made).graphs[0]
    found = geometry(OpView(graph, graph.ops[0]))
    # rows: (5 - 1) * 2 + 5 - 9 = 4; columns: (7 - 1) * 3 + 5 - 20 = 3
    assert found == ((3, 5), (2, 3), (2, 1), (2, 1, 2, 2))


def test_rules_are_put_together_for_the_operators_that_a_model_has() -> None:
    profile = replace(PROFILE)
    (graph,) = ops.conv().graphs
    assert profile.violations(OpView(graph, graph.ops[0])) == ()
    assert profile._of_kind.keys() == {"CONV_2D"} < set(profile.operators)
