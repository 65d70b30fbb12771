"""The operator map that a compiled file carries: whatever a file holds in its place is a clear error."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from npu.api import compile
from npu.errors import ModelError
from npu.graph.graph import Model
from npu.graph.placement import Violation
from npu.reports.operator_map import METADATA_NAME, SourceOperator, stored_map
from npu.tflite.reader import read_model

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
BREACH = {"rule": "R", "message": "m", "limit": "l", "value": "v", "fix": None}

BROKEN: dict[str, dict[str, Any]] = {
    "axes_that_are_texts": {"order": ["0", 1]},
    "an_axis_twice": {"order": [0, 0]},
    "an_order_that_is_a_number": {"order": 3},
    "type_is_a_number": {"type": 5},
    "name_is_missing": {"name": None},
    "name_is_a_list": {"name": ["a"]},
    "index_is_true": {"index": True},
    "macs_beyond_any_model": {"macs": 10**400},
    "macs_below_zero": {"macs": -1},
    "macs_is_true": {"macs": True},
    "placement_is_elsewhere": {"placement": "gpu"},
    "absorbed_into_no_operator": {"absorbed_into": 10**18},
    "absorbed_into_text": {"absorbed_into": "0"},
    "a_reason_is_a_number": {"violations": [{**BREACH, "message": 1}]},
    "a_fix_is_a_mapping": {"violations": [{**BREACH, "fix": {"a": 1}}]},
    "an_unknown_field": {"colour": "red"},
    "reasons_are_text": {"violations": "none"},
}


@pytest.fixture(scope="module")
def compiled() -> Model:
    return read_model(compile(DIGITS).content)


@pytest.mark.parametrize("name", BROKEN)
def test_an_entry_with_a_field_of_the_wrong_kind_is_refused(name: str, compiled: Model) -> None:
    content = json.loads(zlib.decompress(compiled.metadata[METADATA_NAME]))
    content["operators"][1] |= BROKEN[name]
    stored = zlib.compress(json.dumps(content).encode())
    with pytest.raises(ModelError, match=rf"f\.tflite: metadata '{METADATA_NAME}'"):
        stored_map(replace(compiled, metadata={METADATA_NAME: stored}), "f.tflite")


def test_the_map_that_the_compiler_writes_is_taken(compiled: Model) -> None:
    found = stored_map(compiled, "f.tflite")
    assert found is not None
    assert [operator.type for operator in found.operators[:2]] == ["CONV_2D", "DEPTHWISE_CONV_2D"]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"[" * 200_000, b'{"operators": 1}', b"\xff"], ids=("empty", "list", "deep", "number", "no_text")
)
def test_what_is_no_map_at_all_is_refused(content: bytes, compiled: Model) -> None:
    with pytest.raises(ModelError, match="must be the operator map that this compiler writes"):
        stored_map(replace(compiled, metadata={METADATA_NAME: zlib.compress(content)}), "f.tflite")


def test_an_operator_is_kept_as_all_of_its_fields() -> None:
    operator = SourceOperator(3, "ADD", "sum", "cpu", 7, (Violation("R", "m", "l", "v"),), 5, (1, 0))
    assert operator.as_dict() == asdict(operator) | {"violations": [BREACH]}
