"""Placements as rows, JSON and Markdown."""

from __future__ import annotations

import json

import pytest

from constraints.checker import check
from constraints.report import rows, summary, to_json, to_markdown
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.graph.placement import Device, Placement

from tests.support import single_ops as ops


@pytest.fixture
def model() -> Model:
    """A convolution that fits (8x8x8 outputs of 2x4x4 products: 16384), and one with a stride of 4 (2x2x8 outputs: 1024)."""
    first, second = ops.conv(kernel=(2, 4)), ops.conv(kernel=(2, 4), stride=(4, 4))
    return Model((*first.graphs, *second.graphs))


@pytest.fixture
def placement(model: Model) -> Placement:
    return check(model, profile="v0.1")


def test_a_row_shows_types_shapes_and_work(model: Model, placement: Placement) -> None:
    first, second = rows(placement, model)
    assert (first.graph, first.index, first.kind, first.device) == (0, 0, "CONV_2D", Device.NPU)
    assert (first.inputs, first.outputs) == (("int8[1,8,8,4]",), ("int8[1,8,8,8]",))
    assert (first.macs, first.macs_share) == (16384, 16384 / 17408)
    assert [violation.rule for violation in second.violations] == ["V-CONV-1"]


def test_the_summary_counts_both_sides_and_ranks_the_rules(model: Model, placement: Placement) -> None:
    total = summary(placement, model)
    assert (total.operators, total.npu_operators, total.macs, total.npu_macs) == (2, 1, 17408, 16384)
    assert total.blocking == (("V-CONV-1", 1),)


def test_json_holds_rule_limit_value_and_fix(model: Model, placement: Placement) -> None:
    document = json.loads(json.dumps(to_json(placement, model)))
    assert document["profile"] == "v0.1"
    assert document["summary"]["blocking_rules"] == [{"rule": "V-CONV-1", "operators": 1}]
    accepted, refused = document["operators"]
    assert (accepted["placement"], accepted["violations"]) == ("npu", [])
    assert refused["violations"][0] == {
        "rule": "V-CONV-1",
        "message": "stride width and height must each be in the range [1, 3], got stride width 4, stride height 4",
        "limit": "in the range [1, 3]",
        "value": "stride width 4, stride height 4",
        "fix": "use a stride of at most 3; stride 4 is two layers with stride 2",
    }


def test_markdown_has_a_table_of_operators_and_one_of_reasons(model: Model, placement: Placement) -> None:
    lines = to_markdown(placement, model).splitlines()
    assert lines[0] == "Profile `v0.1`: 1 of 2 operators and 94.1% of the multiply-accumulates run on the NPU."
    assert "| 0 | CONV_2D | int8[1,8,8,4] | int8[1,8,8,8] | NPU | 94.1% |" in lines
    assert "| 1:0 | CONV_2D | int8[1,8,8,4] | int8[1,2,2,8] | CPU | 5.9% |" in lines
    assert any(line.startswith("| 1:0 | CONV_2D | V-CONV-1 | stride width and height") for line in lines)


def test_a_model_without_products_or_operators_has_a_report() -> None:
    empty = Model((Graph("main", (), (), (), ()),))
    assert "0 of 0 operators and none of" in to_markdown(check(empty), empty)
    plain = ops.unary("RELU")
    assert rows(check(plain), plain)[0].macs_share == 0.0


def test_names_from_the_file_cannot_break_the_table() -> None:
    graph = Graph("main", (ops.tensor((1,), DType.INT8),), (Op("CUSTOM", (0, 7), (-1,), custom_code="a|b\nc"),), (0,), ())
    model = Model((graph,))
    assert "| a\\|b c | int8[1] |" in to_markdown(check(model), model)
