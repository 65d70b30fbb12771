"""Reports of files that other compilers made, or that are broken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from npu.graph.dtype import DType
from npu.graph.ethos_u import Input
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
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


def test_tensors_of_a_model_on_the_cpu_share_the_arena_by_lifetime() -> None:
    """Of three maps of 64 KiB, two live at a time; the one that nothing uses needs no memory."""
    tensors = tuple(Tensor(name, (1, 256, 256), DType.INT8) for name in ("input", "middle", "output", "unused"))
    ops = (Op("RELU", (0,), (1,)), Op("RELU", (1,), (2,)))
    assert memory_of_file(Model((Graph("main", tensors, ops, (0,), (2,)),))).arena_bytes == 2 * 65536
