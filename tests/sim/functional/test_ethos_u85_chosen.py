"""Operations of Ethos-U55 in the form of Ethos-U85 change memory in the same way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.ethos_u85.chosen import chosen
from npu.isa.operations import (
    ActivationFunction,
    Block,
    ClipRange,
    Elementwise,
    ElementwiseMode,
    KernelOperation,
    Pooling,
    PoolingMode,
    Rounding,
)
from sim.functional.execute import execute
from sim.memory import NpuMemory

from tests.support.machine import Workbench

UBLOCK = Block(2, 2, 8)
SEEDS = 400


def is_made(operation: KernelOperation) -> bool:
    """Whether the compiler makes such an operation."""
    activation, ofm = operation.activation, operation.ofm
    if operation.rounding is Rounding.TRUNCATE:
        return False
    if activation.clip_range is not ClipRange.OFM_PRECISION:
        return ofm.element.bits == 32 and activation.function is not ActivationFunction.NONE
    if activation.function.lut_index is not None and not ofm.element.is_signed:
        return False
    if isinstance(operation, Elementwise):
        if operation.mode is ElementwiseMode.MUL and ofm.element.bits == 32:
            return operation.ifm.element.bits < 32  # a product that saturates
        return operation.operand_rounding is not Rounding.TRUNCATE
    return not (isinstance(operation, Pooling) and operation.mode is PoolingMode.AVERAGE and ofm.element.bits == 32)


@pytest.mark.parametrize("kind", ["pooling", "elementwise"])
def test_the_same_bytes_are_written(kind: str) -> None:
    compared = 0
    for seed in range(SEEDS):
        bench = Workbench(seed)
        operation = getattr(bench, kind)()
        if not is_made(operation):
            continue
        if operation.activation.clip_range is not ClipRange.OFM_PRECISION:
            operation = replace(operation, ofm=replace(operation.ofm, zero_point=seed % 128))
        before = bench.memory()
        after = NpuMemory({0: before.regions[0], 1: bench.arena.copy()}, load_variant("ethos-u85-256"))
        after.shram[0, : after.shram.shape[1]] = before.shram[0, -after.shram.shape[1] :]
        execute(operation, before)
        execute(chosen(operation, UBLOCK), after)
        np.testing.assert_array_equal(after.regions[1], before.regions[1], err_msg=f"{seed}: {operation}")
        compared += 1
    assert compared > SEEDS // 4
