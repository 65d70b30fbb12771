"""The family of Ethos-U55 and Ethos-U65."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.hardware.variant import Accelerator, Product
from npu.isa import shram
from npu.isa.commands import COMMANDS
from npu.isa.family import Buffers, ConstantWriter, CoreConstants, Family, FamilyArithmetic, ScaleFormat, WeightFormat
from npu.isa.latch import start
from npu.isa.rules import check_operation
from npu.isa.scale_records import decode_scales, decode_scales_at, encode_scales
from npu.isa.sections import SECTIONS
from npu.isa.weight_stream.encode import encode_weights, stand_in
from npu.isa.weight_stream.order import WeightOrder, WeightShape, channels_and_symbols, interleave_cores
from npu.isa.weight_stream.use import WeightUse
from npu.machine.rules import BUFFER_HALVES, SCALE_RECORD_BYTES


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


_decode_core = _decoder("decode_weights")


def decode(
    accelerator: Accelerator, use: WeightUse, shape: WeightShape, streams: Sequence[npt.NDArray[np.uint8]]
) -> npt.NDArray[np.int16]:
    """Weights (O, KH, KW, I) from the stream of each core."""
    cores = range(min(use.cores, shape[0]))
    parts = [_decode_core(streams[core], shape, weight_order(accelerator, use, core)) for core in cores]
    return parts[0] if len(parts) == 1 else interleave_cores(parts)


def _encode_core(accelerator: Accelerator, use: WeightUse, values: npt.NDArray[np.int16], core: int) -> bytes:
    return encode_weights(values, weight_order(accelerator, use, core))


def _stand_in_core(accelerator: Accelerator, use: WeightUse, values: npt.NDArray[np.int16], core: int) -> bytes:
    return stand_in(values, weight_order(accelerator, use, core))


def _symbols(accelerator: Accelerator, use: WeightUse, shape: WeightShape) -> tuple[int, int]:
    cores = range(_busy_cores(accelerator, shape[0]))
    parts = [channels_and_symbols(shape, weight_order(accelerator, use, core)) for core in cores]
    return sum(channels for channels, _ in parts), parts[0][1]


def _busy_cores(accelerator: Accelerator, channels: int) -> int:
    """Cores that have some of so many channels."""
    return min(accelerator.cores, channels)


ETHOS_U55_U65 = Family(
    products={Product.ETHOS_U55: "U55", Product.ETHOS_U65: "U65"},
    architecture_id=0x10066001,  # architecture 1.0.6 of both, as Vela 5.2 writes it
    stream_version=0,
    commands=COMMANDS,
    sections=SECTIONS,
    start=start,
    check=check_operation,
    buffers=Buffers(
        rule=lambda problem, _, variant, _halves: shram.buffer_rule(problem, variant),
        layout=shram.shram_layout,
        deepest=lambda variant: variant.accelerator.ofm_ublock.depth,
        halves=(BUFFER_HALVES,),
    ),
    weights=WeightFormat(
        decode,
        CoreConstants(
            weight_order,
            _decoder("GroupedWeights"),
            _decoder("grouped_streams"),
            _decoder("decode_groups"),
            decode_scales_at,
        ),
    ),
    scales=ScaleFormat(SCALE_RECORD_BYTES, decode_scales),
    constants=ConstantWriter(
        encode=_encode_core,
        stand_in=_stand_in_core,
        encode_scales=lambda biases, scales, shifts, _ifm_bits: encode_scales(biases, scales, shifts),
        symbols=_symbols,
        weight_streams=_busy_cores,
        scale_blocks=_busy_cores,
    ),
    # With other shifts ADD and SUB of Vela's streams differ from LiteRT.
    arithmetic=FamilyArithmetic(
        operand_shifts={8: 20, 16: 15, 32: 15},
        unscaled_bits=32,
        table_slot_bytes=shram.LUT_SLOT_BYTES,
        scale_bits=32,
        wide_scale_bits=32,
    ),
)
