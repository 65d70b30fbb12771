"""The command table of Ethos-U55 and Ethos-U65: opcodes, field positions and ranges, and which attribute a register holds.

Encoder, decoder, disassembler, assembler and the reference page all work from it; nothing else shifts or masks command words.
Registers stand in the order in which the encoder writes them, in groups that the same operations read: `sections.py`.
"""

from __future__ import annotations

from enum import IntEnum

from npu.hardware.variant import MAX_CORES, Product
from npu.isa.command import ELEMENT_BITS, FLAG, MINUS_ONE, PATTERN, Command, Field
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
    ActivationFunction,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    DmaStride,
    Elementwise,
    ElementwiseMode,
    OperandScaling,
    Pooling,
    PoolingMode,
    Rounding,
)


class ParallelMode(IntEnum):
    """How the cores share an operation (register value)."""

    SINGLE_CORE = 0
    DUAL_CORE_DEPTH = 1


_ADDRESS_WIDTHS = {Product.ETHOS_U55: 32, Product.ETHOS_U65: 40}
_TWO_CORES = frozenset(product for product in _ADDRESS_WIDTHS if MAX_CORES[product] > 1)
_make = CommandMaker(_ADDRESS_WIDTHS)


def _scale_fields(holds: str) -> tuple[Field, Field]:
    return Field("scale", bits(0, 31), f"{holds}.scale"), Field("shift", bits(32, 37), f"{holds}.shift", "right shift")


def _precision(low: int, high: int, holds: str) -> Field:
    return Field(
        "precision", bits(low, high), f"{holds}.element.bits", code=ELEMENT_BITS, enum=Precision, maximum=Precision.BITS_32
    )


def _dma_region(name: str, opcode: int, side: str) -> Command:
    return _make.register(
        name,
        opcode,
        f"where the {side} of a transfer is",
        Field("region", bits(0, 2), f"{side}.region_or_cores", "base pointer; core mask if internal"),
        Field("target", bits(8, 8), f"{side}.is_internal", "1 is SHRAM", FLAG, DmaTarget),
        Field("stride_mode", bits(9, 10), f"{side}.stride", enum=DmaStride),
    )


_SCALE_LENGTH_BITS = 20


OPERATIONS = (
    *_make.interrupts(),
    _make.operation("NPU_OP_CONV", 2, Convolution, "convolution"),
    _make.operation("NPU_OP_DEPTHWISE", 3, DepthwiseConvolution, "depthwise convolution"),
    _make.operation(
        "NPU_OP_POOL", 5, Pooling, "pooling", Field("mode", SIXTEEN, "mode", enum=PoolingMode, maximum=PoolingMode.REDUCE_SUM)
    ),
    _make.operation(
        "NPU_OP_ELEMENTWISE",
        6,
        Elementwise,
        "elementwise",
        Field("mode", SIXTEEN, "mode", enum=ElementwiseMode, maximum=ElementwiseMode.SHL),
    ),
    *_make.transfers_and_waits(4, 2),
)
"""The kick-offs. A field without an operation that has its attribute is written as 0."""

PARALLEL_MODE = (
    _make.register(
        "NPU_SET_PARALLEL_MODE",
        291,
        "how two cores share an operation",
        Field("mode", bits(0, 0), "variant.accelerator.cores", code=MINUS_ONE, enum=ParallelMode),
        products=_TWO_CORES,
    ),
)

KERNEL = (
    *_make.place_of_map("ifm"),
    _make.zero_point("NPU_SET_IFM_ZERO_POINT", 265, "ifm.zero_point"),
    _make.number("NPU_SET_IFM_DEPTH_M1", 260, 16, "ifm.depth", "IFM channels, minus 1", MINUS_ONE),
    _make.register(
        "NPU_SET_IFM_PRECISION",
        261,
        "element type, layout and operand scaling of the IFM",
        sign("ifm"),
        _precision(2, 3, "ifm"),
        layout("ifm"),
        Field("scale_mode", bits(8, 9), "operand_scaling", "operands of ADD and SUB", enum=OperandScaling),
        Field("rounding", bits(14, 15), "operand_rounding", "of the scaled operand", enum=Rounding, maximum=Rounding.NATURAL),
    ),
    *_make.place_of_map("ofm"),
    _make.zero_point("NPU_SET_OFM_ZERO_POINT", 280, "ofm.zero_point"),
    *_make.extent_of_ofm(),
    _make.register(
        "NPU_SET_OFM_PRECISION",
        276,
        "element type, layout and scaling of the OFM",
        sign("ofm"),
        _precision(1, 2, "ofm"),
        layout("ofm"),
        Field("scale_mode", bits(8, 8), "has_global_scale", code=FLAG, enum=ScaleMode),
        Field("rounding", bits(14, 15), "rounding", enum=Rounding, maximum=Rounding.NATURAL),
    ),
)

GLOBAL_SCALE = (_make.wide("NPU_SET_OFM_SCALE", 36, "global scale of the OFM", *_scale_fields("scale")),)

OUTPUT = (
    _make.register(
        "NPU_SET_ACTIVATION",
        293,
        "what follows scaling",
        Field("function", bits(0, 4), "activation.function", enum=ActivationFunction),
        Field("clip_range", bits(12, 14), "activation.clip_range", enum=ClipRange, maximum=ClipRange.FORCE_INT16),
    ),
    *_make.limits_of_activation(),
    *_make.block(5, 6, 7),
    _make.number("NPU_SET_IFM_IB_END", 269, 6, "shram.ifm_end", "end of the IFM buffers, in SHRAM banks"),
    _make.number("NPU_SET_AB_START", 301, 6, "shram.accumulator_start", "start of the accumulator buffers, in SHRAM banks"),
    _make.register(
        "NPU_SET_ACC_FORMAT",
        292,
        "accumulators",
        Field("format", bits(0, 1), "accumulator", enum=AccumulatorFormat, maximum=AccumulatorFormat.FP16),
    ),
    _make.number("NPU_SET_BLOCKDEP", 303, 2, "blockdep", "blocks of the previous kernel that may be unfinished"),
)

WINDOW = (
    *_make.upscale_and_padding(),
    *_make.extent_of_kernel(),
    _make.stride_of_kernel(),
)

WEIGHTS = (
    _make.number("NPU_SET_WEIGHT_REGION", 296, 3, "weights[0].region", REGION),
    _make.address("NPU_SET_WEIGHT_BASE", 32, "weights[0].address", "address of the weight stream of core 0"),
    _make.length("NPU_SET_WEIGHT_LENGTH", 33, 32, "weights[0].length_bytes", "bytes of the weight stream of core 0"),
)
WEIGHTS_OF_CORE_1 = (
    _make.address("NPU_SET_WEIGHT1_BASE", 144, "weights[1].address", "address of the weight stream of core 1", _TWO_CORES),
    _make.length(
        "NPU_SET_WEIGHT1_LENGTH", 145, 32, "weights[1].length_bytes", "bytes of the weight stream of core 1", _TWO_CORES
    ),
)
SCALES = (
    _make.number("NPU_SET_SCALE_REGION", 297, 3, "scales[0].region", REGION),
    _make.address("NPU_SET_SCALE_BASE", 34, "scales[0].address", "address of the scale records of core 0"),
    _make.length(
        "NPU_SET_SCALE_LENGTH", 35, _SCALE_LENGTH_BITS, "scales[0].length_bytes", "bytes of the scale records of core 0"
    ),
)
SCALES_OF_CORE_1 = (
    _make.address("NPU_SET_SCALE1_BASE", 146, "scales[1].address", "address of the scale records of core 1", _TWO_CORES),
    _make.length(
        "NPU_SET_SCALE1_LENGTH",
        147,
        _SCALE_LENGTH_BITS,
        "scales[1].length_bytes",
        "bytes of the scale records of core 1",
        _TWO_CORES,
    ),
)

BROADCAST = (
    _make.register(
        "NPU_SET_IFM2_BROADCAST",
        384,
        "how IFM2 is combined with the IFM",
        Field("height", (0,), "broadcasts_height", "1: IFM2 is one row", FLAG),
        Field("width", (1,), "broadcasts_width", "1: IFM2 is one column", FLAG),
        Field("depth", (2,), "broadcasts_depth", "1: IFM2 is one channel", FLAG),
        Field("operand_order", (6,), "is_reversed", "1: IFM2 is the first operand", FLAG),
        Field("use_scalar", (7,), "has_scalar", "1: the operand is NPU_SET_IFM2_SCALAR", FLAG),
    ),
    _make.register(
        "NPU_SET_IFM2_PRECISION",
        389,
        "element type and layout of IFM2",
        sign("second_operand"),
        _precision(2, 3, "second_operand"),
        layout("second_operand"),
    ),
)
IFM2 = _make.place_of_map("ifm2")
SCALAR = (_make.number("NPU_SET_IFM2_SCALAR", 385, 16, "scalar", "16-bit pattern, signed if IFM2 is signed", PATTERN),)
SECOND_OPERAND = (
    _make.zero_point("NPU_SET_IFM2_ZERO_POINT", 393, "second_zero_point"),
    _make.number("NPU_SET_IFM2_IB_START", 397, 6, "shram.ifm2_start", "start of the IFM2 buffers, in SHRAM banks"),
)
OPERAND_SCALE = (_make.wide("NPU_SET_OPA_SCALE", 37, "scale of an operand of ADD and SUB", *_scale_fields("opa_scale")),)
OPERAND_SCALE_B = (_make.wide("NPU_SET_OPB_SCALE", 38, "scale of the other operand", Field("scale", bits(0, 15), "opb_scale")),)

DMA = (
    _dma_region("NPU_SET_DMA0_SRC_REGION", 304, "source"),
    _make.address("NPU_SET_DMA0_SRC", 48, "source.address", "source address"),
    _dma_region("NPU_SET_DMA0_DST_REGION", 305, "destination"),
    _make.address("NPU_SET_DMA0_DST", 49, "destination.address", "destination address"),
    _make.address("NPU_SET_DMA0_LEN", 50, "length_bytes", "bytes of one row"),
)
DMA_ROWS = (
    _make.number("NPU_SET_DMA0_SIZE0", 306, 16, "rows", "rows of a 2D or 3D transfer"),
    _make.address("NPU_SET_DMA0_SKIP0", 51, "row_skip_bytes", "bytes skipped after each row"),
)
DMA_PLANES = (
    _make.number("NPU_SET_DMA0_SIZE1", 307, 16, "planes", "planes of a 3D transfer"),
    _make.address("NPU_SET_DMA0_SKIP1", 52, "plane_skip_bytes", "bytes skipped after each plane"),
)


COMMANDS: tuple[Command, ...] = (
    *OPERATIONS,
    *PARALLEL_MODE,
    *KERNEL,
    *GLOBAL_SCALE,
    *OUTPUT,
    *WINDOW,
    *WEIGHTS,
    *WEIGHTS_OF_CORE_1,
    *SCALES,
    *SCALES_OF_CORE_1,
    *BROADCAST,
    *IFM2,
    *SCALAR,
    *SECOND_OPERAND,
    *OPERAND_SCALE,
    *OPERAND_SCALE_B,
    *DMA,
    *DMA_ROWS,
    *DMA_PLANES,
)
"""Every command of Ethos-U55 and Ethos-U65."""
