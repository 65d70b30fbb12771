"""The op table against the published schema."""

from __future__ import annotations

import ai_edge_litert.schema_py_generated as litert
import pytest

from npu.graph.attributes import BUILTIN_OPTIONS
from npu.graph.attributes_2 import BUILTIN_OPTIONS_2
from npu.graph.ops import BY_NAME, OPS, code_of_kind, kind_of_code


def test_the_table_holds_every_operator_of_the_schema_with_its_code() -> None:
    published = {name: code for name, code in vars(litert.BuiltinOperator).items() if not name.startswith("_")}
    assert {op.name: op.code for op in OPS} == published


def test_every_options_table_belongs_to_an_operator() -> None:
    assert {op.attributes for op in OPS} - {None} == set(BUILTIN_OPTIONS + BUILTIN_OPTIONS_2)


SHARED_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions",
    "MEAN": "ReducerOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "UNIDIRECTIONAL_SEQUENCE_RNN": "SequenceRNNOptions",
    "CONV_3D_TRANSPOSE": "Conv3DOptions",
    "MULTINOMIAL": "RandomOptions",
}


@pytest.mark.parametrize("name", list(SHARED_OPTIONS))
def test_operators_share_options_tables_where_the_schema_says_so(name: str) -> None:
    found = BY_NAME[name].attributes
    assert found is not None
    assert found.__name__ == SHARED_OPTIONS[name]


@pytest.mark.parametrize(("code", "kind"), [(3, "CONV_2D"), (32, "CUSTOM"), (209, "STABLEHLO_CASE"), (4711, "UNKNOWN_4711")])
def test_codes_and_kinds_translate_both_ways(code: int, kind: str) -> None:
    assert kind_of_code(code) == kind
    assert code_of_kind(kind) == code


@pytest.mark.parametrize("kind", ["CONV2D", "UNKNOWN_", "UNKNOWN_x", ""])
def test_a_kind_that_is_neither_known_nor_a_number_has_no_code(kind: str) -> None:
    with pytest.raises(KeyError):
        code_of_kind(kind)
