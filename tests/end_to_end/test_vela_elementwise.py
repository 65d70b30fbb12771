"""Every file that Vela makes of elementwise operators runs here, and `npu verify` finds nothing in it."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.catalogue import list_variants
from npu.tflite.writer import write_model

from tests.fuzz.elementwise_graphs import graph
from tests.fuzz.litert_child import LiteRt
from tests.support.litert import random_inputs
from tests.support.single_ops import op_model, tensor
from tests.support.vela import compile_with_vela


def assert_runs(model: bytes, target: str) -> None:
    compiled = compile_with_vela(model, target)
    assert npu.verify(compiled) == []
    assert npu.run(compiled, random_inputs(model, 1)).outputs


@pytest.mark.parametrize(("seed", "target"), [(20, "ethos-u55-128"), (23, "ethos-u65-512")])
def test_elementwise_operators_that_vela_compiled_run(seed: int, target: str) -> None:
    assert_runs(write_model(graph(seed)), target)


def test_an_addition_whose_scale_overflows_its_register_runs() -> None:
    """Vela writes 0xffffffff as the scale of operand A, of which the hardware reads 16 bits."""
    tiny = [tensor((1, 4, 4, 8), DType.UINT8, scale=1e-38) for _ in range(2)]
    model = op_model("ADD", tiny, [tensor((1, 4, 4, 8), DType.UINT8, scale=1.0)], at.AddOptions())
    assert_runs(write_model(model), "ethos-u55-128")


KNOWN = ("MUL", "PRELU", "LOGISTIC")
"""What docs/exactness.md has rows for: products beyond 32 bits, slopes of int16, input scales above 5."""


def compared(seed: int, target: str) -> tuple[int, list[str]]:
    """How many outputs of a graph of four operators were compared with LiteRT's, and the operators of those that differ."""
    source = graph(seed, 4)
    model, litert = write_model(source), LiteRt()
    inputs = random_inputs(model, 1)
    compiled = compile_with_vela(model, target)
    assert npu.verify(compiled) == []
    found, expected = npu.run(compiled, inputs).outputs, litert.outputs(model, inputs)
    litert.stop()
    if isinstance(expected, str):  # some of these graphs end LiteRT's process
        return 0, []
    makers = {op.outputs[0]: op.kind for op in source.graphs[0].ops}
    pairs = zip(source.graphs[0].outputs, found, expected, strict=True)
    return len(found), [makers[index] for index, ours, theirs in pairs if not np.array_equal(ours, theirs)]


@pytest.mark.slow
@pytest.mark.parametrize("target", list_variants())
def test_a_thousand_graphs_that_vela_compiled_run_and_equal_the_reference(target: str) -> None:
    files = total = 0
    for seed in range(1000, 2000):
        try:
            count, differing = compared(seed, target)
        except RuntimeError as error:
            if "could not run on NPU" not in str(error):  # Vela's own refusal of some products of 16 bits
                raise
            continue
        assert set(differing) <= set(KNOWN), seed
        files, total = files + 1, total + count
    assert files > 900
    assert total > 3600


def test_some_graphs_that_vela_compiled_equal_the_reference() -> None:
    found = [compared(seed, target) for seed in range(1000, 1004) for target in ("ethos-u55-64", "ethos-u65-256")]
    assert sum(count for count, _ in found) >= 24
    assert [kinds for _, kinds in found if kinds] == []
