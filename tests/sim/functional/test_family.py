"""The functional model takes its numbers from the family."""

from __future__ import annotations

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product, Variant
from npu.isa.decoded import Alike
from npu.isa.families import FAMILIES
from npu.isa.operations import (
    INT8,
    Activation,
    Block,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    Layout,
    OperandScaling,
    Scale,
    ShramLayout,
)
from sim.functional.prepared import Tier, prepare_stream, run_prepared
from sim.memory import NpuMemory

from tests.support.families import sibling
from tests.support.machine import TIERS


def added(variant: Variant, tier: Tier) -> int:
    """0 + 64, where the sum is shifted back by the 19 bits by which the second operand is shifted."""
    maps = [FeatureMap(0, 1, 1, 16, INT8, Layout.NHWC, 0, (at, 0, 0, 0), 1, 1, 1, 16, 16, 16) for at in (0, 16, 32)]
    operation = Elementwise(
        ifm=maps[0],
        ifm2=maps[1],
        ofm=maps[2],
        mode=ElementwiseMode.ADD,
        block=Block(1, 1, 16),
        shram=ShramLayout(8, 16, 4),
        activation=Activation(-128, 127),
        operand_scaling=OperandScaling.A_32,
        opa_scale=Scale(1, 0),
        scale=Scale(1, 19),
    )
    area = np.repeat(np.array([0, 64, 0], np.uint8), 16)
    memory = NpuMemory({0: area}, variant)
    run_prepared(prepare_stream(Alike.none([operation]), memory, tier), memory)
    (value,) = set(area[32:].tolist())
    return value


@pytest.mark.parametrize("tier", TIERS, ids=[tier.value for tier in TIERS])
def test_a_family_says_how_far_operands_are_shifted(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = load_variant("ethos-u65-256")
    assert added(variant, tier) == 64
    monkeypatch.setitem(FAMILIES, Product.ETHOS_U65, sibling())
    assert added(variant, tier) == 16
