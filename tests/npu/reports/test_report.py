"""Reports of files that other compilers made, or that are broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from npu.graph.ethos_u import Input
from npu.graph.graph import ABSENT
from npu.reports.report import memory_of_file
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"


@pytest.mark.parametrize(
    ("position", "field"),
    [(Input.CONSTANTS, "read_only_bytes"), (Input.SCRATCH, "arena_bytes"), (Input.FAST_SCRATCH, "fast_bytes")],
)
def test_memory_that_an_operator_leaves_out_counts_as_none(position: Input, field: str) -> None:
    model = read_model(compile(DIGITS, "ethos-u65-256").content)
    graph = model.graphs[0]
    (op,) = graph.ops
    inputs = tuple(ABSENT if place == position else index for place, index in enumerate(op.inputs))
    changed = replace(model, graphs=(replace(graph, ops=(replace(op, inputs=inputs),)),))
    assert getattr(memory_of_file(model), field) > 0
    assert getattr(memory_of_file(changed), field) == 0
