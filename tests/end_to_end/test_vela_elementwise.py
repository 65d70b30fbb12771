"""Every file that Vela makes of elementwise operators runs here, and `npu verify` finds nothing in it."""

from __future__ import annotations

import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.catalogue import list_variants
from npu.tflite.writer import write_model

from tests.fuzz.elementwise_graphs import OPERATORS, graph
from tests.support.litert import random_inputs
from tests.support.single_ops import op_model, tensor
from tests.support.vela import compile_with_vela

GRAPHS = 1000 // OPERATORS + 1


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


@pytest.mark.slow
@pytest.mark.parametrize("target", list_variants())
@pytest.mark.parametrize("seed", range(GRAPHS))
def test_a_thousand_elementwise_operators_that_vela_compiled_run(seed: int, target: str) -> None:
    try:
        assert_runs(write_model(graph(seed)), target)
    except RuntimeError as error:
        if "could not run on NPU" not in str(error):  # Vela's own refusal of some products of 16 bits
            raise
