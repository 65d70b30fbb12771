"""The checker as a whole: order and completeness of placements, odd graphs, real models, agreement with Vela, speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constraints.checker import check
from constraints.profiles import profile_named, profile_names
from npu.errors import ConfigError, UserError
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Quantization, Tensor
from npu.graph.ops import OPS
from npu.graph.placement import Device
from npu.tflite.reader import read_model

from tests.support import single_ops as ops
from tests.support.shared import shared_models
from tests.support.work_done import lines_run

CHAIN = 300


def chain(length: int) -> Model:
    """A long chain of convolutions with real weights."""
    weights, bias = ops.tensor((8, 3, 3, 8), data=1), ops.tensor((8,), DType.INT32, data=0)
    attributes = ops.conv().graphs[0].ops[0].attributes
    tensors = [weights, bias, *(ops.tensor((1, 8, 8, 8)) for _ in range(length + 1))]
    made = tuple(Op("CONV_2D", (2 + index, 0, 1), (3 + index,), attributes) for index in range(length))
    return Model((Graph("main", tuple(tensors), made, (2,), (length + 2,)),))


def test_the_placement_has_every_operator_of_every_subgraph_in_order() -> None:
    first, second = ops.conv(), ops.unary("MEAN")
    model = Model((*first.graphs, *second.graphs))
    placement = check(model, profile="v0.1")
    assert [(op.graph, op.index, op.kind, op.device) for op in placement.ops] == [
        (0, 0, "CONV_2D", Device.NPU),
        (1, 0, "MEAN", Device.CPU),
    ]
    assert placement.profile == "v0.1"


def test_a_custom_operator_is_named_by_its_code() -> None:
    op = Op("CUSTOM", (), (), custom_code="my-op")
    placed = check(Model((Graph("main", (), (op,), (), ()),))).ops[0]
    assert placed.name == "my-op"
    assert "got my-op" in placed.violations[0].message


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ConfigError, match="profile: must be one of"):
        check(ops.conv(), profile="u85")


@pytest.mark.parametrize("name", profile_names())
def test_the_values_around_a_limit_are_on_the_side_that_they_say(name: str) -> None:
    for rule in profile_named(name).rules:
        for value, accepted in rule.limit.boundaries:
            assert rule.limit.accepts(value) is accepted, (rule.id, value)


def test_the_model_is_not_changed() -> None:
    model = ops.conv()
    before = model.graphs[0].tensors[1].data.copy()
    check(model)
    np.testing.assert_array_equal(model.graphs[0].tensors[1].data, before)


# Odd graphs

QUANTIZATIONS = st.one_of(
    st.none(),
    st.builds(
        lambda scales, points: Quantization(np.array(scales, np.float32), np.array(points, np.int64)),
        st.lists(st.floats(width=32), max_size=3),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    ),
)


@st.composite
def odd_tensors(draw: st.DrawFn) -> Tensor:
    shape = tuple(draw(st.lists(st.integers(-1, 3), max_size=5)))
    dtype = draw(st.sampled_from(list(DType)))
    data = None
    if draw(st.booleans()) and dtype.numpy is not None and all(size >= 0 for size in shape):
        data = np.zeros(shape, dtype.numpy)
    return Tensor("odd", shape, dtype, draw(QUANTIZATIONS), data)


@st.composite
def odd_models(draw: st.DrawFn) -> Model:
    tensors = tuple(draw(st.lists(odd_tensors(), max_size=5)))
    index = st.integers(ABSENT, len(tensors) + 1)
    made = []
    for _ in range(draw(st.integers(1, 3))):
        operator = draw(st.sampled_from(OPS))
        attributes: Attributes | None = operator.attributes() if operator.attributes and draw(st.booleans()) else None
        kind = draw(st.sampled_from([operator.name, "UNKNOWN_999"])) if draw(st.integers(0, 9)) == 0 else operator.name
        ins, outs = draw(st.lists(index, max_size=4)), draw(st.lists(index, max_size=2))
        made.append(Op(kind, tuple(ins), tuple(outs), attributes))
    return Model((Graph("odd", tensors, tuple(made), (), ()),))


@pytest.mark.parametrize("profile", profile_names())
@settings(max_examples=150, deadline=None)
@given(model=odd_models())
def test_no_rule_raises_on_an_odd_graph(profile: str, model: Model) -> None:
    placement = check(model, profile=profile)
    assert len(placement.ops) == len(model.graphs[0].ops)


LISTED = [operator for operator in OPS if any(operator.name in profile_named(name).operators for name in profile_names())]


@pytest.mark.parametrize("operator", LISTED, ids=lambda operator: operator.name)
def test_a_bare_operator_gets_a_reason(operator: Any) -> None:
    for attributes in (None, operator.attributes() if operator.attributes else None):
        model = Model((Graph("bare", (), (Op(operator.name, (), (), attributes),), (), ()),))
        for profile in ("u55-u65",):
            assert check(model, profile=profile).ops[0].violations


def test_weights_of_an_odd_rank_have_no_sum() -> None:
    model = ops.conv(weights=ops.tensor((8, 3, 3), data=1))
    assert "V-CONV-7" not in {violation.rule for violation in check(model, profile="v0.1").ops[0].violations}


# Real models


@pytest.mark.parametrize("name", sorted(shared_models()))
def test_a_real_model_gets_a_placement_in_every_profile(name: str) -> None:
    try:
        model = read_model(shared_models()[name])
    except UserError:
        assert "invalid" in name
        return
    for profile in profile_names():
        placement = check(model, profile=profile)
        assert len(placement.ops) == sum(len(graph.ops) for graph in model.graphs)
        for op in placement.ops:
            assert all(violation.message and violation.rule for violation in op.violations)


def test_the_work_of_checking_grows_with_the_number_of_operators_only() -> None:
    """`benchmarks/check_3000.py` has the time."""
    short, long = chain(CHAIN // 2), chain(CHAIN)
    check(chain(1))
    assert lines_run(lambda: check(long)) < 2.2 * lines_run(lambda: check(short))
    assert check(long).npu_indices() == tuple(range(CHAIN))


def test_absent_inputs_are_no_tensors() -> None:
    graph = ops.fully_connected(bias=None).graphs[0]
    op = replace(graph.ops[0], inputs=(*graph.ops[0].inputs[:2], ABSENT))
    assert check(Model((replace(graph, ops=(op,)),))).ops[0].device is Device.NPU
