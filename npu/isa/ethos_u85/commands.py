"""The command table of Ethos-U85: opcodes, field positions and ranges, and which attribute a register holds.

Names and positions are those that Vela 5.2 writes and prints. Registers stand in groups that the same operations read.
Attributes that `latch.py` makes something else of have no counterpart of that name in the records: `hold.py` says what
registers hold for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from npu.hardware.variant import Product
from npu.isa.command import ELEMENT_BITS, FLAG, MINUS_ONE, Command, Field, FieldCode
from npu.isa.command_maker import (
    REGION,
    SIXTEEN,
    CommandMaker,
    DmaTarget,
    Precision,
    ScaleMode,
    bits,
    layout,
    sign,
)
from npu.isa.operations import (
    AccumulatorFormat,
    AccumulatorSource,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    DmaStride,
    Elementwise,
    ElementwiseMode,
    MapStorage,
    OfmReverse,
    OfmTranspose,
    Pooling,
    PoolingMode,
    ResizeMode,
    Resizing,
    Rounding,
    WeightDecoder,
)


class OfmRounding(IntEnum):
    """How the scaled OFM is rounded (register value)."""

    DOUBLE_SYMMETRIC = 0
    NATURAL = 1
    DOUBLE_ASYMMETRIC = 2
    SYMMETRIC = 3
    TRUNCATE_TO_ZERO = 4
    TRUNCATE_TO_LOWER = 5


class IfmRounding(IntEnum):
    """How a scaled operand is rounded (register value)."""

    DOUBLE_SYMMETRIC = 0
    NATURAL = 1


class Accumulator(IntEnum):
    """Width of the accumulators (register value)."""

    INT32 = 0
    INT48 = 1


class AccumulatorOutput(IntEnum):
    """Whether an OFM is made, or the accumulators are kept for the next operation (register value)."""

    ENABLE = 0
    DISABLE = 1


class Microblock(IntEnum):
    """Height and width of the micro-block (register value); its depth is what is left of the MAC array."""

    U1X1 = 0
    U1X2 = 1
    U1X4 = 2
    U2X2 = 3
    U2X4 = 4
    U4X4 = 5


class Clip(IntEnum):
    """Whether values are clamped to ACTIVATION_MIN and ACTIVATION_MAX (register value)."""

    B16 = 0
    NONE = 1


class Function(IntEnum):
    """What follows scaling (register value): nothing but a clamp, a table by the types of its index and its entries."""

    NONE = 0
    LUT_U8_U8 = 1
    LUT_S8_S8 = 4
    LUT_S8_S16 = 5
    LUT_S8_S32 = 7
    LUT_S16_S16 = 8
    LUT_S16_S32 = 9
    TANH = 10
    SIGMOID = 11


TABLES = {
    Function.LUT_U8_U8: (256, 8, ClipRange.LIMITS),
    Function.LUT_S8_S8: (256, 8, ClipRange.LIMITS),
    Function.LUT_S8_S16: (512, 16, ClipRange.FORCE_INT8),
    Function.LUT_S8_S32: (1024, 32, ClipRange.FORCE_INT8),
    Function.LUT_S16_S16: (2048, 16, ClipRange.LIMITS),
}
"""Bytes of a table, bits of what is found there, and what values are clamped to before they are looked up."""


class Sparsity(IntEnum):
    """Of the weights (register value)."""

    NONE = 0
    SPARSE_2_4 = 1


_ROUNDING = {
    OfmRounding.DOUBLE_SYMMETRIC: Rounding.DOUBLE,
    OfmRounding.NATURAL: Rounding.NATURAL,
    OfmRounding.DOUBLE_ASYMMETRIC: Rounding.DOUBLE_ASYMMETRIC,
    OfmRounding.SYMMETRIC: Rounding.SYMMETRIC,
    OfmRounding.TRUNCATE_TO_ZERO: Rounding.TRUNCATE,
    OfmRounding.TRUNCATE_TO_LOWER: Rounding.FLOOR,
}
MICROBLOCKS = {
    Microblock.U1X1: (1, 1),
    Microblock.U1X2: (1, 2),
    Microblock.U1X4: (1, 4),
    Microblock.U2X2: (2, 2),
    Microblock.U2X4: (2, 4),
    Microblock.U4X4: (4, 4),
}


def _renamed(attributes: Mapping[Any, object]) -> FieldCode:
    """A field whose numbers stand for attributes."""
    numbers = {attribute: int(number) for number, attribute in attributes.items()}
    made = {int(number): attribute for number, attribute in attributes.items()}
    return FieldCode("the number of {}", lambda attribute: numbers[attribute], lambda number: made[number])


_ROUNDS = _renamed(_ROUNDING)
_ACCUMULATES = _renamed({Accumulator.INT32: AccumulatorFormat.INT32, Accumulator.INT48: AccumulatorFormat.INT48})
_CLIPS = _renamed({Clip.B16: ClipRange.LIMITS, Clip.NONE: ClipRange.NONE})
_PLANES = _renamed({number: Block(*plane, 0) for number, plane in MICROBLOCKS.items()})
_make = CommandMaker({Product.ETHOS_U85: 40})


def _precision(low: int, high: int, holds: str) -> Field:
    return Field("precision", bits(low, high), f"{holds}.element.bits", code=ELEMENT_BITS, enum=Precision)


def _storage(holds: str) -> Field:
    return Field("storage", bits(14, 15), f"{holds}.storage", enum=MapStorage)


def _scale(name: str, opcode: int, holds: str, doc: str, *, is_ofm: bool = False) -> Command:
    return _make.wide(
        name,
        opcode,
        doc,
        Field("scale", bits(0, 30), f"{holds}.scale"),
        Field("shift", bits(32, 37), f"{holds}.shift", "right shift"),
        Field("double_shift", bits(38, 42), f"{holds}.double_shift", "31 minus the bit at which DOUBLE rounds first"),
        Field("rounding", bits(45, 47), f"{holds}.rounding", code=_ROUNDS, enum=OfmRounding)
        if is_ofm
        else Field("rounding", bits(45, 45), f"{holds}.rounding", code=_ROUNDS, enum=IfmRounding),
    )


def _broadcast(name: str, opcode: int, holds: str) -> Command:
    return _make.register(
        name,
        opcode,
        "along which axes the operand is repeated",
        Field("height", (0,), f"{holds}.broadcasts_height", "1: it is one row", FLAG),
        Field("width", (1,), f"{holds}.broadcasts_width", "1: it is one column", FLAG),
        Field("depth", (2,), f"{holds}.broadcasts_depth", "1: it is one channel", FLAG),
        Field("scalar", (3,), f"{holds}.is_scalar", "1: it is NPU_SET_OP_SCALAR", FLAG),
    )


def _resize_scale(name: str, opcode: int, axis: str) -> Command:
    return _make.number(name, opcode, 11, f"{axis}.scale", "scale, minus 1", MINUS_ONE)


def _resize_offset(name: str, opcode: int, axis: str) -> Command:
    value = Field("value", bits(0, 11), f"{axis}.offset", is_signed=True)
    return _make.register(name, opcode, "where the first element of the OFM is in the IFM, by the scale", value)


def _resize_step(name: str, opcode: int, axis: str) -> Command:
    return _make.wide(
        name,
        opcode,
        "how far in the IFM one element of the OFM, and a block, is from the next",
        Field("one_step_mod", bits(0, 10), f"{axis}.one_step_mod", "remainder of the step by the scale"),
        Field("block_step_mod", bits(16, 26), f"{axis}.block_step_mod"),
        Field("one_step_int", bits(32, 35), f"{axis}.one_step_int", "whole elements of the IFM"),
        Field("block_step_int", bits(36, 46), f"{axis}.block_step_int"),
    )


def _stream(base: str, length: str, number: int, opcode: int) -> tuple[Command, ...]:
    return (
        _make.address(base, opcode, f"weights[{number}].address", f"address of weight stream {number}"),
        _make.length(length, opcode + 1, 32, f"weights[{number}].length_bytes", f"bytes of weight stream {number}"),
    )


def _region_and_place(name: str) -> tuple[tuple[Command, ...], tuple[Command, ...]]:
    """The region or chaining buffer of a map; tiles and strides, which only one in memory has."""
    region, *place = _make.place_of_map(name)
    return (region,), tuple(place)


def _index_mode(holds: str) -> Field:
    return Field("index_mode", (11,), holds, "1: its rows are those of the indices", FLAG)


OPERATIONS = (
    *_make.interrupts(),
    _make.operation(
        "NPU_OP_CONV",
        2,
        Convolution,
        "convolution",
        Field("weights_ifm2", (0,), "has_ifm2_weights", "1: IFM2 has the weights", FLAG),
    ),
    _make.operation("NPU_OP_DEPTHWISE", 3, DepthwiseConvolution, "depthwise convolution"),
    _make.operation("NPU_OP_POOL", 5, Pooling, "pooling", Field("mode", SIXTEEN, "mode", enum=PoolingMode)),
    _make.operation("NPU_OP_ELEMENTWISE", 6, Elementwise, "elementwise", Field("mode", SIXTEEN, "mode", enum=ElementwiseMode)),
    _make.operation("NPU_OP_RESIZE", 7, Resizing, "resize", Field("mode", SIXTEEN, "mode", enum=ResizeMode)),
    *_make.transfers_and_waits(2, 1),
)
"""The kick-offs."""

IFM_REGION, IFM_PLACE = _region_and_place("ifm")
IFM_DEPTH = (_make.number("NPU_SET_IFM_DEPTH_M1", 260, 16, "ifm.depth", "IFM channels, minus 1", MINUS_ONE),)
IFM = (
    _make.zero_point("NPU_SET_IFM_ZERO_POINT", 265, "ifm.zero_point"),
    _make.register(
        "NPU_SET_IFM_PRECISION",
        261,
        "element type and place of the IFM",
        sign("ifm"),
        _precision(2, 3, "ifm"),
        layout("ifm"),
        _storage("ifm"),
    ),
)
OFM_REGION, OFM_PLACE = _region_and_place("ofm")
KERNEL = (
    _make.zero_point("NPU_SET_OFM_ZERO_POINT", 280, "ofm.zero_point"),
    *_make.extent_of_ofm(),
    _make.register(
        "NPU_SET_OFM_PRECISION",
        276,
        "element type and place of the OFM, and how it is stored",
        sign("ofm"),
        _precision(1, 2, "ofm"),
        layout("ofm"),
        Field("scale_mode", bits(8, 8), "has_global_scale", code=FLAG, enum=ScaleMode),
        Field("reverse", bits(9, 10), "options.reverse", "axis stored from its end", enum=OfmReverse),
        Field("transpose", bits(11, 13), "options.transpose", "order in which the computed axes are stored", enum=OfmTranspose),
        _storage("ofm"),
    ),
    _scale("NPU_SET_OFM_SCALE", 36, "ofm_scale", "scale of the OFM, and how it is rounded", is_ofm=True),
    _make.register(
        "NPU_SET_ACTIVATION",
        293,
        "what follows scaling",
        Field("function", bits(0, 4), "activation.function", enum=Function),
        Field("table", bits(5, 7), "activation.table", "number of the table, in tables of its size"),
        Field("clip_range", (12,), "activation.clip_range", code=_CLIPS, enum=Clip),
    ),
    *_make.limits_of_activation(),
    *_make.block(7, 7, 10),
    _make.register(
        "NPU_SET_ACC_FORMAT",
        292,
        "accumulators",
        Field("format", bits(0, 1), "accumulator", code=_ACCUMULATES, enum=Accumulator),
        Field("input", bits(4, 5), "options.accumulator_source", enum=AccumulatorSource),
        Field("output", bits(6, 6), "options.keeps_accumulators", code=FLAG, enum=AccumulatorOutput),
        Field("microblock", bits(8, 10), "options.ublock", "its height and width", code=_PLANES, enum=Microblock),
    ),
    _make.number("NPU_SET_BLOCKDEP", 303, 3, "blockdep", "blocks of the previous kernel that may be unfinished"),
)
EXTENT = _make.extent_of_kernel()
"""Of the kernel; of the IFM of a resize."""
WINDOW = (
    *_make.upscale_and_padding(),
    _make.stride_of_kernel(),
)
WEIGHTS = (
    _make.register(
        "NPU_SET_WEIGHT_FORMAT",
        302,
        "how weights are compressed",
        Field("decoder", (0,), "weight_decoder", enum=WeightDecoder),
        Field("sparsity", (4,), "has_sparse_weights", code=FLAG, enum=Sparsity),
    ),
    _make.number("NPU_SET_WEIGHT_REGION", 296, 3, "weights[0].region", REGION),
    *_stream("NPU_SET_WEIGHT_BASE", "NPU_SET_WEIGHT_LENGTH", 0, 32),
    _make.number("NPU_SET_SCALE_REGION", 297, 3, "scales[0].region", REGION),
    _make.address("NPU_SET_SCALE_BASE", 34, "scales[0].address", "address of the scale records"),
    _make.length("NPU_SET_SCALE_LENGTH", 35, 20, "scales[0].length_bytes", "bytes of the scale records"),
)
FURTHER_WEIGHTS = (
    _stream("NPU_SET_WEIGHT1_BASE", "NPU_SET_WEIGHT1_LENGTH", 1, 144),
    _stream("NPU_SET_WEIGHT2_BASE", "NPU_SET_WEIGHT2_LENGTH", 2, 146),
    _stream("NPU_SET_WEIGHT3_BASE", "NPU_SET_WEIGHT3_LENGTH", 3, 148),
)
"""Of the streams behind the first."""
IFM2_REGION, IFM2_PLACE = _region_and_place("ifm2")
IFM2_ZERO_POINT = (_make.zero_point("NPU_SET_IFM2_ZERO_POINT", 393, "ifm2.zero_point"),)
IFM2 = (
    _make.register(
        "NPU_SET_IFM2_PRECISION",
        389,
        "element type and place of IFM2",
        sign("ifm2"),
        _precision(2, 3, "ifm2"),
        layout("ifm2"),
        _storage("ifm2"),
    ),
)
OPERANDS = (
    _broadcast("NPU_SET_IFM_BROADCAST", 264, "ifm"),
    _scale("NPU_SET_IFM_SCALE", 37, "ifm_scale", "scale of the IFM's elements"),
)
IFM2_SCALE = (
    _scale("NPU_SET_IFM2_SCALE", 38, "ifm2_scale", "scale of the second operand's; of LRELU that of negative numbers"),
)
SCALAR = (
    _make.wide(
        "NPU_SET_OP_SCALAR",
        39,
        "an operand of one number",
        Field("value", bits(0, 31), "scalar", is_signed=True),
    ),
)
SECOND_OPERAND = (_broadcast("NPU_SET_IFM2_BROADCAST", 384, "ifm2"),)
RESIZE = (
    _resize_scale("NPU_SET_RESIZE_X_SCALE_N_M1", 298, "x"),
    _resize_offset("NPU_SET_RESIZE_X_OFFSET", 300, "x"),
    _resize_step("NPU_SET_RESIZE_X_STEP", 150, "x"),
    _resize_scale("NPU_SET_RESIZE_Y_SCALE_N_M1", 299, "y"),
    _resize_offset("NPU_SET_RESIZE_Y_OFFSET", 301, "y"),
    _resize_step("NPU_SET_RESIZE_Y_STEP", 151, "y"),
)
DMA = (
    _make.register(
        "NPU_SET_DMA0_SRC_REGION",
        304,
        "where the source of a transfer is",
        Field("region", bits(0, 2), "source.region", "base pointer"),
        Field("target", bits(8, 8), "source.is_internal", "1 is the memory of tables", FLAG, DmaTarget),
        Field("stride_mode", bits(9, 10), "source.stride", "of both sides", enum=DmaStride),
        _index_mode("source.is_indexed"),
    ),
    _make.address("NPU_SET_DMA0_SRC", 48, "source.address", "source address"),
    _make.register(
        "NPU_SET_DMA0_DST_REGION",
        305,
        "where the destination of a transfer is",
        Field("region", bits(0, 2), "destination.region", "base pointer"),
        Field("target", bits(8, 8), "destination.is_internal", "1 is the memory of tables", FLAG, DmaTarget),
        _index_mode("destination.is_indexed"),
    ),
    _make.address("NPU_SET_DMA0_DST", 49, "destination.address", "destination address"),
    _make.address("NPU_SET_DMA0_LEN", 50, "length_bytes", "bytes of one row"),
)
DMA_ROWS = (_make.number("NPU_SET_DMA0_SIZE0", 306, 16, "rows", "rows of a 2D or 3D transfer"),)
DMA_ROW_STEPS = (
    _make.stride("NPU_SET_DMA0_SRC_STRIDE0", 51, "source.row_step", "bytes from one row of the source to the next"),
    _make.stride("NPU_SET_DMA0_DST_STRIDE0", 53, "destination.row_step", "bytes from one row of the destination to the next"),
)
DMA_PLANES = (
    _make.number("NPU_SET_DMA0_SIZE1", 307, 16, "planes", "planes of a 3D transfer"),
    _make.stride("NPU_SET_DMA0_SRC_STRIDE1", 52, "source.plane_step", "bytes from one plane of the source to the next"),
    _make.stride(
        "NPU_SET_DMA0_DST_STRIDE1", 54, "destination.plane_step", "bytes from one plane of the destination to the next"
    ),
)
DMA_INDICES = (
    _make.number("NPU_SET_DMA0_IDX_REGION", 308, 3, "indices.region", REGION),
    _make.address("NPU_SET_DMA0_IDX", 55, "indices.address", "address of the indices"),
    _make.address("NPU_SET_DMA0_IDX_MAX", 56, "indices.maximum", "largest index"),
)
DMA_PLANES_OF_INDICES = (
    _make.address("NPU_SET_DMA0_IDX_SKIP1", 57, "indices.skip_bytes", "bytes skipped after the indices of a plane"),
)

COMMANDS: tuple[Command, ...] = (
    *OPERATIONS,
    *IFM_REGION,
    *IFM_PLACE,
    *IFM_DEPTH,
    *IFM,
    *OFM_REGION,
    *OFM_PLACE,
    *KERNEL,
    *EXTENT,
    *WINDOW,
    *WEIGHTS,
    *(register for stream in FURTHER_WEIGHTS for register in stream),
    *IFM2_REGION,
    *IFM2_PLACE,
    *IFM2_ZERO_POINT,
    *IFM2,
    *OPERANDS,
    *IFM2_SCALE,
    *SCALAR,
    *SECOND_OPERAND,
    *RESIZE,
    *DMA,
    *DMA_ROWS,
    *DMA_ROW_STEPS,
    *DMA_PLANES,
    *DMA_INDICES,
    *DMA_PLANES_OF_INDICES,
)
"""Every command."""
