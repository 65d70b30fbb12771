"""Every file that Vela makes of elementwise operators runs here, and `npu verify` finds nothing in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Model, Op
from npu.tflite.writer import write_model

from tests.fuzz.elementwise_graphs import graph
from tests.fuzz.litert_child import LiteRt
from tests.naive.vela_arithmetic import (
    absolute_int16,
    clamped_product,
    logistic_int16,
    prelu_int16,
    relu_int16,
    saturated_product,
    softmax_int16,
    tanh_int16,
)
from tests.support.litert import random_inputs
from tests.support.single_ops import op_model, tensor
from tests.support.vela import compile_with_vela

LITERT = LiteRt()


@pytest.fixture(scope="module", autouse=True)
def litert() -> Iterator[None]:
    yield
    LITERT.stop()


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


FORMULAS = {
    ("MUL", DType.INT32): saturated_product,
    ("MUL", DType.UINT8): clamped_product,
    ("MUL", DType.INT8): clamped_product,
    ("MUL", DType.INT16): clamped_product,
    ("PRELU", DType.INT16): prelu_int16,
    ("LOGISTIC", DType.INT16): logistic_int16,
    ("TANH", DType.INT16): tanh_int16,
    ("RELU", DType.INT16): relu_int16,
    ("ABS", DType.INT16): absolute_int16,
    ("SOFTMAX", DType.INT16): softmax_int16,
}
"""What docs/exactness.md has rows for: products beyond 32 bits, slopes of int16, input scales above 5. Each says all values."""


DIFFERING = [
    (1082, "ethos-u55-32"),
    (1097, "ethos-u65-256"),
    (1322, "ethos-u55-128"),
    (1552, "ethos-u55-64"),
    (1860, "ethos-u65-512"),
    (5771, "ethos-u55-256"),
    (5935, "ethos-u65-512"),
    (6186, "ethos-u55-128"),
    (6305, "ethos-u55-256"),
]


def compared(seed: int, target: str) -> tuple[int, Counter[str]]:
    """How many outputs of a graph of four operators were compared with LiteRT's, and the operators of those that differ.

    Each of these must be what the formula of its operator says.
    """
    source = graph(seed, 4)
    model = write_model(source)
    inputs = random_inputs(model, 1)
    compiled = compile_with_vela(model, target)
    assert npu.verify(compiled) == []
    found, expected = npu.run(compiled, inputs).outputs, LITERT.outputs(model, inputs)
    if isinstance(expected, str):  # some of these graphs end LiteRT's process
        return 0, Counter()
    makers, differing = {op.outputs[0]: op for op in source.graphs[0].ops}, Counter[str]()
    for index, ours, theirs in zip(source.graphs[0].outputs, found, expected, strict=True):
        if not np.array_equal(ours, theirs):
            op, dtype = makers[index], source.graphs[0].tensors[index].dtype
            assert (op.kind, dtype) in FORMULAS, f"seed {seed}: {op.kind} of {dtype} differs from LiteRT's"
            np.testing.assert_array_equal(ours, predicted(source, op, inputs), err_msg=f"seed {seed}: {op.kind} of {dtype}")
            differing[f"{op.kind} {dtype}"] += 1
    return len(found), differing


def predicted(source: Model, op: Op, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The output of one operator of a graph by its formula."""
    tensors = source.graphs[0].tensors
    given = dict(zip(source.graphs[0].inputs, inputs, strict=True))
    operands = [given[index] if index in given else tensors[index].data for index in op.inputs]
    alone = Model((replace(source.graphs[0], ops=(op,)),))
    return FORMULAS[op.kind, tensors[op.outputs[0]].dtype](alone, operands)


@pytest.mark.slow
@pytest.mark.parametrize("target", compiler_targets())
def test_a_thousand_graphs_that_vela_compiled_run_and_equal_the_reference(target: str) -> None:
    files, total, seen = 0, 0, Counter[str]()
    for seed in range(1000, 2000):
        try:
            count, differing = compared(seed, target)
        except RuntimeError as error:
            if "could not run on NPU" not in str(error):  # Vela's own refusal of some products of 16 bits
                raise
            continue
        files, total, seen = files + 1, total + count, seen + differing
    assert files > 900
    assert total > 3600
    assert set(seen) >= {"MUL int32", "MUL int16", "PRELU int16"}


def test_outputs_that_differ_are_what_formulas_say() -> None:
    seen = sum((compared(seed, target)[1] for seed, target in DIFFERING), Counter[str]())
    assert set(seen) == {f"{kind} {dtype}" for kind, dtype in FORMULAS} - {"MUL uint8"}


def test_some_graphs_that_vela_compiled_equal_the_reference() -> None:
    found = [compared(seed, target) for seed in range(1000, 1004) for target in ("ethos-u55-64", "ethos-u65-256")]
    assert sum(count for count, _ in found) >= 24
    assert not any(differing for _, differing in found)
