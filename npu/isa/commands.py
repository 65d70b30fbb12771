"""The command table: the only place that knows opcodes, field positions and field ranges, and which attribute a register holds.

Encoder, decoder, disassembler, assembler and the reference page all work from it; nothing else shifts or masks command words.
Registers stand in the order in which the encoder writes them, in groups that the same operations read: `sections.py`.
"""

from __future__ import annotations

from enum import IntEnum

from npu.hardware.variant import MAX_CORES, Product
from npu.isa.command import AS_IT_IS, ELEMENT_BITS, FLAG, MINUS_ONE, PATTERN, Command, CommandKind, Field, FieldCode
from npu.isa.operations import (
    AccumulatorFormat,
    ActivationFunction,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaStride,
    DmaWait,
    Elementwise,
    ElementwiseMode,
    Interrupt,
    KernelWait,
    Layout,
    OperandScaling,
    PmuMask,
    Pooling,
    PoolingMode,
    Rounding,
    Stop,
    Traversal,
    Upscale,
)


class Precision(IntEnum):
    """Element width of a feature map (register value)."""

    BITS_8 = 0
    BITS_16 = 1
    BITS_32 = 2


class Signedness(IntEnum):
    """Signedness of a feature map (register value)."""

    UNSIGNED = 0
    SIGNED = 1


class ScaleMode(IntEnum):
    """Where the OFM scale comes from (register value)."""

    PER_CHANNEL = 0
    GLOBAL = 1


class ParallelMode(IntEnum):
    """How the cores share an operation (register value)."""

    SINGLE_CORE = 0
    DUAL_CORE_DEPTH = 1


class Decomposition(IntEnum):
    """Largest sub-kernel (register value)."""

    SUB_KERNEL_8X8 = 0
    SUB_KERNEL_4X4 = 1


class DmaTarget(IntEnum):
    """Whether one side of a transfer is memory or SHRAM (register value)."""

    EXTERNAL = 0
    INTERNAL = 1


def _bits(low: int, high: int) -> tuple[int, ...]:
    """Operand bits low..high, both included."""
    return tuple(range(low, high + 1))


_SIXTEEN = _bits(0, 15)
_ADDRESS_WIDTHS = {Product.ETHOS_U55: 32, Product.ETHOS_U65: 40}
_BOTH = frozenset({Product.ETHOS_U55, Product.ETHOS_U65})
_TWO_CORES = frozenset(product for product in _BOTH if MAX_CORES[product] > 1)


def _operation(name: str, opcode: int, starts: type, doc: str, *fields: Field) -> Command:
    return Command(name, opcode, CommandKind.OPERATION, fields, doc, _BOTH, starts=starts)


def _register(name: str, opcode: int, doc: str, *fields: Field, products: frozenset[Product] = _BOTH) -> Command:
    return Command(name, opcode, CommandKind.REGISTER, fields, doc, products)


def _number(
    name: str, opcode: int, bits: int, holds: str, doc: str, code: FieldCode = AS_IT_IS, maximum: int | None = None
) -> Command:
    """A register that holds one unsigned number."""
    return _register(name, opcode, doc, Field("value", _bits(0, bits - 1), holds, code=code, maximum=maximum))


def _wide(name: str, opcode: int, doc: str, *fields: Field, products: frozenset[Product] = _BOTH) -> Command:
    return Command(name, opcode, CommandKind.WIDE_REGISTER, fields, doc, products)


def _address(name: str, opcode: int, holds: str, doc: str, products: frozenset[Product] = _BOTH) -> Command:
    return _wide(name, opcode, doc, Field("value", _bits(0, 39), holds, widths=_ADDRESS_WIDTHS), products=products)


def _stride(name: str, opcode: int, holds: str, doc: str) -> Command:
    """A register of a signed number; the Python core of Vela (up to 4.2) copies its sign into all 16 bits of the parameter."""
    note = "sign-extended over the parameter"
    field = Field("value", _bits(0, 39), holds, note, is_signed=True, widths=_ADDRESS_WIDTHS)
    return Command(name, opcode, CommandKind.WIDE_REGISTER, (field,), doc, _BOTH, sign_copies=0xFF << 40)


def _length(name: str, opcode: int, bits: int, holds: str, doc: str, products: frozenset[Product] = _BOTH) -> Command:
    return _wide(name, opcode, doc, Field("value", _bits(0, bits - 1), holds), products=products)


def _scale_fields(holds: str) -> tuple[Field, Field]:
    return Field("scale", _bits(0, 31), f"{holds}.scale"), Field("shift", _bits(32, 37), f"{holds}.shift", "right shift")


def _sign(holds: str) -> Field:
    return Field("sign", _bits(0, 0), f"{holds}.element.is_signed", code=FLAG, enum=Signedness)


def _precision(low: int, high: int, holds: str) -> Field:
    return Field("precision", _bits(low, high), f"{holds}.element.bits", code=ELEMENT_BITS, enum=Precision)


def _layout(holds: str) -> Field:
    return Field("layout", _bits(6, 7), f"{holds}.layout", enum=Layout)


def _dma_region(name: str, opcode: int, side: str) -> Command:
    return _register(
        name,
        opcode,
        f"where the {side} of a transfer is",
        Field("region", _bits(0, 2), f"{side}.region_or_cores", "base pointer; core mask if internal"),
        Field("target", _bits(8, 8), f"{side}.is_internal", "1 is SHRAM", FLAG, DmaTarget),
        Field("stride_mode", _bits(9, 10), f"{side}.stride", enum=DmaStride),
    )


_REGION = "base pointer that the addresses are relative to"
_TOP_LEFT = "address of tile 0, top left"
_TOP_RIGHT = "address of tile 1, top right"
_BOTTOM_LEFT = "address of tile 2, bottom left"
_BOTTOM_RIGHT = "address of tile 3, bottom right"
_HEIGHT0 = "height of tile 0, minus 1"
_HEIGHT1 = "height of tile 1, minus 1"
_WIDTH0 = "width of tiles 0 and 2, minus 1"
_STRIDE_C = "bytes from one 16-channel brick to the next"
_STRIDE_Y = "bytes from one row to the next"
_STRIDE_X = "bytes from one column to the next"
_ZERO_POINT = "16-bit pattern, signed if the feature map is signed"
_SCALE_LENGTH_BITS = 20


OPERATIONS = (
    _operation("NPU_OP_STOP", 0, Stop, "end the stream and raise an interrupt", Field("mask", _SIXTEEN, "mask")),
    _operation("NPU_OP_IRQ", 1, Interrupt, "raise an interrupt and go on", Field("mask", _SIXTEEN, "mask")),
    _operation("NPU_OP_CONV", 2, Convolution, "convolution"),
    _operation("NPU_OP_DEPTHWISE", 3, DepthwiseConvolution, "depthwise convolution"),
    _operation("NPU_OP_POOL", 5, Pooling, "pooling", Field("mode", _SIXTEEN, "mode", enum=PoolingMode)),
    _operation("NPU_OP_ELEMENTWISE", 6, Elementwise, "elementwise", Field("mode", _SIXTEEN, "mode", enum=ElementwiseMode)),
    _operation("NPU_OP_DMA_START", 16, Dma, "start a transfer"),
    _operation(
        "NPU_OP_DMA_WAIT",
        17,
        DmaWait,
        "block until few enough transfers are unfinished",
        Field("outstanding", _bits(0, 3), "outstanding"),
    ),
    _operation(
        "NPU_OP_KERNEL_WAIT",
        18,
        KernelWait,
        "block until few enough kernels are unfinished",
        Field("outstanding", _bits(0, 1), "outstanding"),
    ),
    _operation(
        "NPU_OP_PMU_MASK",
        19,
        PmuMask,
        "switch the performance counters on or off",
        Field("enable", _bits(0, 0), "enable"),
    ),
)
"""The kick-offs. A field without an operation that has its attribute is written as 0."""

PARALLEL_MODE = (
    _register(
        "NPU_SET_PARALLEL_MODE",
        291,
        "how two cores share an operation",
        Field("mode", _bits(0, 0), "variant.accelerator.cores", code=MINUS_ONE, enum=ParallelMode),
        products=_TWO_CORES,
    ),
)

KERNEL = (
    _number("NPU_SET_IFM_REGION", 271, 3, "ifm.region", _REGION),
    _address("NPU_SET_IFM_BASE0", 0, "ifm.addresses[0]", _TOP_LEFT),
    _address("NPU_SET_IFM_BASE1", 1, "ifm.addresses[1]", _TOP_RIGHT),
    _address("NPU_SET_IFM_BASE2", 2, "ifm.addresses[2]", _BOTTOM_LEFT),
    _address("NPU_SET_IFM_BASE3", 3, "ifm.addresses[3]", _BOTTOM_RIGHT),
    _number("NPU_SET_IFM_HEIGHT0_M1", 267, 16, "ifm.tile_height_0", _HEIGHT0, MINUS_ONE),
    _number("NPU_SET_IFM_HEIGHT1_M1", 268, 16, "ifm.tile_height_1", _HEIGHT1, MINUS_ONE),
    _number("NPU_SET_IFM_WIDTH0_M1", 266, 16, "ifm.tile_width_0", _WIDTH0, MINUS_ONE),
    _stride("NPU_SET_IFM_STRIDE_C", 6, "ifm.stride_c", _STRIDE_C),
    _stride("NPU_SET_IFM_STRIDE_Y", 5, "ifm.stride_y", _STRIDE_Y),
    _stride("NPU_SET_IFM_STRIDE_X", 4, "ifm.stride_x", _STRIDE_X),
    _number("NPU_SET_IFM_ZERO_POINT", 265, 16, "ifm.zero_point", _ZERO_POINT, PATTERN),
    _number("NPU_SET_IFM_DEPTH_M1", 260, 16, "ifm.depth", "IFM channels, minus 1", MINUS_ONE),
    _register(
        "NPU_SET_IFM_PRECISION",
        261,
        "element type, layout and operand scaling of the IFM",
        _sign("ifm"),
        _precision(2, 3, "ifm"),
        _layout("ifm"),
        Field("scale_mode", _bits(8, 9), "operand_scaling", "operands of ADD and SUB", enum=OperandScaling),
        Field("rounding", _bits(14, 15), "operand_rounding", "of the scaled operand", enum=Rounding),
    ),
    _number("NPU_SET_OFM_REGION", 287, 3, "ofm.region", _REGION),
    _address("NPU_SET_OFM_BASE0", 16, "ofm.addresses[0]", _TOP_LEFT),
    _address("NPU_SET_OFM_BASE1", 17, "ofm.addresses[1]", _TOP_RIGHT),
    _address("NPU_SET_OFM_BASE2", 18, "ofm.addresses[2]", _BOTTOM_LEFT),
    _address("NPU_SET_OFM_BASE3", 19, "ofm.addresses[3]", _BOTTOM_RIGHT),
    _number("NPU_SET_OFM_HEIGHT0_M1", 283, 16, "ofm.tile_height_0", _HEIGHT0, MINUS_ONE),
    _number("NPU_SET_OFM_HEIGHT1_M1", 284, 16, "ofm.tile_height_1", _HEIGHT1, MINUS_ONE),
    _number("NPU_SET_OFM_WIDTH0_M1", 282, 16, "ofm.tile_width_0", _WIDTH0, MINUS_ONE),
    _stride("NPU_SET_OFM_STRIDE_C", 22, "ofm.stride_c", _STRIDE_C),
    _stride("NPU_SET_OFM_STRIDE_Y", 21, "ofm.stride_y", _STRIDE_Y),
    _stride("NPU_SET_OFM_STRIDE_X", 20, "ofm.stride_x", _STRIDE_X),
    _number("NPU_SET_OFM_ZERO_POINT", 280, 16, "ofm.zero_point", _ZERO_POINT, PATTERN),
    _number("NPU_SET_OFM_HEIGHT_M1", 274, 16, "ofm.height", "OFM height, minus 1", MINUS_ONE),
    _number("NPU_SET_OFM_WIDTH_M1", 273, 16, "ofm.width", "OFM width, minus 1", MINUS_ONE),
    _number("NPU_SET_OFM_DEPTH_M1", 275, 16, "ofm.depth", "OFM channels, minus 1", MINUS_ONE),
    _register(
        "NPU_SET_OFM_PRECISION",
        276,
        "element type, layout and scaling of the OFM",
        _sign("ofm"),
        _precision(1, 2, "ofm"),
        _layout("ofm"),
        Field("scale_mode", _bits(8, 8), "has_global_scale", code=FLAG, enum=ScaleMode),
        Field("rounding", _bits(14, 15), "rounding", enum=Rounding),
    ),
)

GLOBAL_SCALE = (_wide("NPU_SET_OFM_SCALE", 36, "global scale of the OFM", *_scale_fields("scale")),)

OUTPUT = (
    _register(
        "NPU_SET_ACTIVATION",
        293,
        "what follows scaling",
        Field("function", _bits(0, 4), "activation.function", enum=ActivationFunction),
        Field("clip_range", _bits(12, 14), "activation.clip_range", enum=ClipRange),
    ),
    _number(
        "NPU_SET_ACTIVATION_MIN",
        294,
        16,
        "activation.minimum",
        "lower clamp; 16-bit pattern, signed if the OFM is signed",
        PATTERN,
    ),
    _number(
        "NPU_SET_ACTIVATION_MAX",
        295,
        16,
        "activation.maximum",
        "upper clamp; 16-bit pattern, signed if the OFM is signed",
        PATTERN,
    ),
    _number("NPU_SET_OFM_BLK_HEIGHT_M1", 278, 5, "block.height", "block height, minus 1", MINUS_ONE),
    _number("NPU_SET_OFM_BLK_WIDTH_M1", 277, 6, "block.width", "block width, minus 1", MINUS_ONE),
    _number(
        "NPU_SET_OFM_BLK_DEPTH_M1", 279, 7, "block.depth", "block depth, minus 1; sets the order of the weights", MINUS_ONE
    ),
    _number("NPU_SET_IFM_IB_END", 269, 6, "shram.ifm_end", "end of the IFM buffers, in SHRAM banks"),
    _number("NPU_SET_AB_START", 301, 6, "shram.accumulator_start", "start of the accumulator buffers, in SHRAM banks"),
    _register("NPU_SET_ACC_FORMAT", 292, "accumulators", Field("format", _bits(0, 1), "accumulator", enum=AccumulatorFormat)),
    _number("NPU_SET_BLOCKDEP", 303, 2, "blockdep", "blocks of the previous kernel that may be unfinished"),
)

WINDOW = (
    _register(
        "NPU_SET_IFM_UPSCALE",
        263,
        "what is inserted between elements",
        Field("mode", _bits(0, 1), "upscale", enum=Upscale),
    ),
    _number("NPU_SET_IFM_PAD_TOP", 256, 7, "padding.top", "rows of padding above"),
    _number("NPU_SET_IFM_PAD_LEFT", 257, 7, "padding.left", "columns of padding on the left"),
    _number("NPU_SET_IFM_PAD_BOTTOM", 259, 8, "padding.bottom", "rows of padding below", maximum=128),
    _number("NPU_SET_IFM_PAD_RIGHT", 258, 8, "padding.right", "columns of padding on the right", maximum=128),
    _number("NPU_SET_KERNEL_HEIGHT_M1", 289, 16, "kernel.dilated_height", "dilated kernel height, minus 1", MINUS_ONE),
    _number("NPU_SET_KERNEL_WIDTH_M1", 288, 16, "kernel.dilated_width", "dilated kernel width, minus 1", MINUS_ONE),
    _register(
        "NPU_SET_KERNEL_STRIDE",
        290,
        "strides, dilations and order of the weights",
        Field("stride_x_m1", (0, 6), "kernel.stride_x", "horizontal stride, minus 1", MINUS_ONE),
        Field("stride_y_m1", (1, 9), "kernel.stride_y", "vertical stride, minus 1", MINUS_ONE),
        Field("traversal", (2,), "traversal", "convolution only", enum=Traversal),
        Field("dilation_x_m1", (3,), "kernel.dilation_x", "horizontal dilation, minus 1", MINUS_ONE),
        Field("dilation_y_m1", (4,), "kernel.dilation_y", "vertical dilation, minus 1", MINUS_ONE),
        Field("decomposition", (5,), "has_4x4_sub_kernels", "size of sub-kernels", FLAG, Decomposition),
    ),
)

WEIGHTS = (
    _number("NPU_SET_WEIGHT_REGION", 296, 3, "weights[0].region", _REGION),
    _address("NPU_SET_WEIGHT_BASE", 32, "weights[0].address", "address of the weight stream of core 0"),
    _length("NPU_SET_WEIGHT_LENGTH", 33, 32, "weights[0].length_bytes", "bytes of the weight stream of core 0"),
)
WEIGHTS_OF_CORE_1 = (
    _address("NPU_SET_WEIGHT1_BASE", 144, "weights[1].address", "address of the weight stream of core 1", _TWO_CORES),
    _length("NPU_SET_WEIGHT1_LENGTH", 145, 32, "weights[1].length_bytes", "bytes of the weight stream of core 1", _TWO_CORES),
)
SCALES = (
    _number("NPU_SET_SCALE_REGION", 297, 3, "scales[0].region", _REGION),
    _address("NPU_SET_SCALE_BASE", 34, "scales[0].address", "address of the scale records of core 0"),
    _length("NPU_SET_SCALE_LENGTH", 35, _SCALE_LENGTH_BITS, "scales[0].length_bytes", "bytes of the scale records of core 0"),
)
SCALES_OF_CORE_1 = (
    _address("NPU_SET_SCALE1_BASE", 146, "scales[1].address", "address of the scale records of core 1", _TWO_CORES),
    _length(
        "NPU_SET_SCALE1_LENGTH",
        147,
        _SCALE_LENGTH_BITS,
        "scales[1].length_bytes",
        "bytes of the scale records of core 1",
        _TWO_CORES,
    ),
)

BROADCAST = (
    _register(
        "NPU_SET_IFM2_BROADCAST",
        384,
        "how IFM2 is combined with the IFM",
        Field("height", (0,), "broadcasts_height", "1: IFM2 is one row", FLAG),
        Field("width", (1,), "broadcasts_width", "1: IFM2 is one column", FLAG),
        Field("depth", (2,), "broadcasts_depth", "1: IFM2 is one channel", FLAG),
        Field("operand_order", (6,), "is_reversed", "1: IFM2 is the first operand", FLAG),
        Field("use_scalar", (7,), "has_scalar", "1: the operand is NPU_SET_IFM2_SCALAR", FLAG),
    ),
    _register(
        "NPU_SET_IFM2_PRECISION",
        389,
        "element type and layout of IFM2",
        _sign("second_operand"),
        _precision(2, 3, "second_operand"),
        _layout("second_operand"),
    ),
)
IFM2 = (
    _number("NPU_SET_IFM2_REGION", 399, 3, "ifm2.region", _REGION),
    _address("NPU_SET_IFM2_BASE0", 128, "ifm2.addresses[0]", _TOP_LEFT),
    _address("NPU_SET_IFM2_BASE1", 129, "ifm2.addresses[1]", _TOP_RIGHT),
    _address("NPU_SET_IFM2_BASE2", 130, "ifm2.addresses[2]", _BOTTOM_LEFT),
    _address("NPU_SET_IFM2_BASE3", 131, "ifm2.addresses[3]", _BOTTOM_RIGHT),
    _number("NPU_SET_IFM2_HEIGHT0_M1", 395, 16, "ifm2.tile_height_0", _HEIGHT0, MINUS_ONE),
    _number("NPU_SET_IFM2_HEIGHT1_M1", 396, 16, "ifm2.tile_height_1", _HEIGHT1, MINUS_ONE),
    _number("NPU_SET_IFM2_WIDTH0_M1", 394, 16, "ifm2.tile_width_0", _WIDTH0, MINUS_ONE),
    _stride("NPU_SET_IFM2_STRIDE_C", 134, "ifm2.stride_c", _STRIDE_C),
    _stride("NPU_SET_IFM2_STRIDE_Y", 133, "ifm2.stride_y", _STRIDE_Y),
    _stride("NPU_SET_IFM2_STRIDE_X", 132, "ifm2.stride_x", _STRIDE_X),
)
SCALAR = (_number("NPU_SET_IFM2_SCALAR", 385, 16, "scalar", "16-bit pattern, signed if IFM2 is signed", PATTERN),)
SECOND_OPERAND = (
    _number("NPU_SET_IFM2_ZERO_POINT", 393, 16, "second_zero_point", _ZERO_POINT, PATTERN),
    _number("NPU_SET_IFM2_IB_START", 397, 6, "shram.ifm2_start", "start of the IFM2 buffers, in SHRAM banks"),
)
OPERAND_SCALE = (_wide("NPU_SET_OPA_SCALE", 37, "scale of an operand of ADD and SUB", *_scale_fields("opa_scale")),)
OPERAND_SCALE_B = (_wide("NPU_SET_OPB_SCALE", 38, "scale of the other operand", Field("scale", _bits(0, 15), "opb_scale")),)

DMA = (
    _dma_region("NPU_SET_DMA0_SRC_REGION", 304, "source"),
    _address("NPU_SET_DMA0_SRC", 48, "source.address", "source address"),
    _dma_region("NPU_SET_DMA0_DST_REGION", 305, "destination"),
    _address("NPU_SET_DMA0_DST", 49, "destination.address", "destination address"),
    _address("NPU_SET_DMA0_LEN", 50, "length_bytes", "bytes of one row"),
)
DMA_ROWS = (
    _number("NPU_SET_DMA0_SIZE0", 306, 16, "rows", "rows of a 2D or 3D transfer"),
    _address("NPU_SET_DMA0_SKIP0", 51, "row_skip_bytes", "bytes skipped after each row"),
)
DMA_PLANES = (
    _number("NPU_SET_DMA0_SIZE1", 307, 16, "planes", "planes of a 3D transfer"),
    _address("NPU_SET_DMA0_SKIP1", 52, "plane_skip_bytes", "bytes skipped after each plane"),
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
