"""Results that do not fit 32 bits: products saturate, left shifts and sums wrap."""

from __future__ import annotations

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.operations import INT32, Activation, Block, Elementwise, ElementwiseMode, FeatureMap, Layout, Scale, ShramLayout
from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.support.machine import TIERS

VARIANT = load_variant("ethos-u55-128")
LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
CASES = {
    "a half doubled, as SOFTMAX of Vela 3 and 4 does for a sum of one": (ElementwiseMode.MUL, 1 << 30, 2, 0, HIGHEST),
    "the largest product": (ElementwiseMode.MUL, LOWEST, LOWEST, 0, HIGHEST),
    "the smallest product": (ElementwiseMode.MUL, HIGHEST, LOWEST, 0, LOWEST),
    "a product that just fits": (ElementwiseMode.MUL, -(1 << 30), 2, 0, LOWEST),
    "a product that fits after its shift": (ElementwiseMode.MUL, 1 << 30, 1 << 30, 30, 1 << 30),
    "a product too large after its shift": (ElementwiseMode.MUL, LOWEST, LOWEST, 31, HIGHEST),
    "a left shift": (ElementwiseMode.SHL, 1 << 30, 1, 0, LOWEST),
    "a sum": (ElementwiseMode.ADD, HIGHEST, 1, 0, LOWEST),
    "a difference": (ElementwiseMode.SUB, LOWEST, 1, 0, HIGHEST),
}


def vector(address: int) -> FeatureMap:
    """Four 32-bit values in region 1."""
    return FeatureMap(1, 1, 1, 4, INT32, Layout.NHWC, 0, (address, 0, 0, 0), 1, 1, 1, 16, 16, 4)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", CASES)
def test_a_result_beyond_32_bits(name: str, tier: Tier) -> None:
    mode, a, b, shift, expected = CASES[name]
    arena = np.concatenate([np.full(4, a, np.int32), np.full(4, b, np.int32), np.zeros(4, np.int32)])
    operation = Elementwise(
        mode=mode,
        ifm=vector(0),
        ifm2=vector(16),
        ofm=vector(32),
        block=Block(1, 1, 16),
        activation=Activation(-(1 << 15), (1 << 15) - 1),
        shram=ShramLayout(2, 16, 8),
        scale=None if mode is ElementwiseMode.SHL else Scale(1, shift),
    )
    Machine(VARIANT, tier).run([operation], NpuMemory({1: arena.view(np.uint8)}, VARIANT))
    assert arena[8:].tolist() == [expected] * 4
