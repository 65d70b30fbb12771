"""The family of Ethos-U55 and Ethos-U65."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from npu.hardware.variant import Accelerator, Product
from npu.isa import shram
from npu.isa.commands import COMMANDS
from npu.isa.family import Buffers, Family, FamilyArithmetic, ScaleFormat, WeightFormat, WeightUse
from npu.isa.scale_records import RECORD_BYTES, decode_scales, decode_scales_at, encode_scales
from npu.isa.sections import SECTIONS
from npu.isa.weight_stream.encode import encode_weights, stand_in
from npu.isa.weight_stream.order import WeightOrder


def weight_order(accelerator: Accelerator, use: WeightUse, core: int) -> WeightOrder:
    """The order of an operation's weights on one core."""
    return WeightOrder(
        block_depth=use.block_depth,
        traversal=use.traversal,
        is_depthwise=use.is_depthwise,
        ifm_bits=use.ifm_bits,
        dilation_y=use.kernel.dilation_y,
        dilation_x=use.kernel.dilation_x,
        ofm_ublock_depth=accelerator.ofm_ublock.depth,
        ifm_ublock_depth=accelerator.ifm_ublock.depth,
        core=core,
        cores=use.cores,
        has_4x4_sub_kernels=use.has_4x4_sub_kernels,
    )


def _decoder(name: str) -> Callable[..., Any]:
    """A function of the decoder, which is loaded when one is called: who compiles only encodes."""
    return lambda *arguments: getattr(import_module("npu.isa.weight_stream.decode"), name)(*arguments)


ETHOS_U55_U65 = Family(
    products={Product.ETHOS_U55: "U55", Product.ETHOS_U65: "U65"},
    architecture_id=0x10066001,  # architecture 1.0.6 of both, as Vela 5.2 writes it
    commands=COMMANDS,
    sections=SECTIONS,
    buffers=Buffers(shram.buffer_rule, shram.shram_layout),
    weights=WeightFormat(
        weight_order,
        encode_weights,
        stand_in,
        _decoder("decode_weights"),
        _decoder("GroupedWeights"),
        _decoder("grouped_streams"),
        _decoder("decode_groups"),
    ),
    scales=ScaleFormat(RECORD_BYTES, encode_scales, decode_scales, decode_scales_at),
    # With other shifts ADD and SUB of Vela's streams differ from LiteRT.
    arithmetic=FamilyArithmetic(
        operand_shifts={8: 20, 16: 15, 32: 15},
        unscaled_bits=32,
        table_slot_bytes=shram.LUT_SLOT_BYTES,
    ),
)
