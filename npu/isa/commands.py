"""The command table: the only place that knows opcodes, field positions and field ranges of the command stream.

Encoder, decoder, disassembler, assembler and the reference page all work from `COMMANDS`; nothing else shifts or masks command
words. A command's *operand* is one integer: the 16-bit parameter of a one-word command, or the 32-bit payload of a two-word
command with the parameter above it (bits 32..47). Field positions count in the operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from npu.errors import StreamError
from npu.hardware.variant import Product
from npu.isa.operations import (
    AccumulatorFormat,
    ActivationFunction,
    ClipRange,
    DmaStride,
    ElementwiseMode,
    Layout,
    OperandScaling,
    PoolingMode,
    Rounding,
    Traversal,
    Upscale,
)

WORD_BITS = 32
_CLASS_SHIFT = 14
PARAMETER_SHIFT = 16


class Kind(Enum):
    """What a command does and how many words it has."""

    OPERATION = "operation"
    """One word; kicks off an operation or controls the parser."""
    REGISTER = "register"
    """One word; sets a register to its 16-bit parameter."""
    WIDE_REGISTER = "wide register"
    """Two words; sets a register to payload and parameter."""


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


@dataclass(frozen=True, slots=True)
class Field:
    """One value inside an operand.

    `bits` are the operand bits from least to most significant; they need not be adjacent. `widths` narrows the field on some
    products: the bits above that width must then be zero, or copies of the sign.
    """

    name: str
    bits: tuple[int, ...]
    doc: str = ""
    enum: type[IntEnum] | None = None
    is_signed: bool = False
    maximum: int | None = None
    widths: Mapping[Product, int] = field(default_factory=dict)
    _is_contiguous: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_contiguous = self.bits == tuple(range(self.bits[0], self.bits[0] + len(self.bits)))
        object.__setattr__(self, "_is_contiguous", is_contiguous)

    def limits(self, product: Product) -> tuple[int, int]:
        """Smallest and largest value that the field holds on `product`."""
        width = self.widths.get(product, len(self.bits))
        if self.is_signed:
            return -(1 << (width - 1)), (1 << (width - 1)) - 1
        return 0, (1 << width) - 1 if self.maximum is None else self.maximum

    def check(self, value: int, product: Product, where: str) -> None:
        """Raise StreamError if the field cannot hold `value`; the message names field, range and value."""
        low, high = self.limits(product)
        if not low <= value <= high:
            raise StreamError(f"{where}: {self.name} must be in [{low}, {high}], got {value}")
        if self.enum is not None and value not in self.enum._value2member_map_:
            names = ", ".join(f"{member.value} ({member.name})" for member in self.enum)
            raise StreamError(f"{where}: {self.name} must be one of {names}, got {value}")

    def insert(self, value: int, product: Product, where: str) -> int:
        """Operand bits of `value`."""
        self.check(value, product, where)
        if self._is_contiguous:
            return (value & ((1 << len(self.bits)) - 1)) << self.bits[0]
        return sum(((value >> position) & 1) << bit for position, bit in enumerate(self.bits))

    def extract(self, operand: int, product: Product, where: str) -> int:
        """The value in `operand`; StreamError if it is out of range."""
        if self._is_contiguous:
            value = (operand >> self.bits[0]) & ((1 << len(self.bits)) - 1)
        else:
            value = sum(((operand >> bit) & 1) << position for position, bit in enumerate(self.bits))
        width = self.widths.get(product, len(self.bits))
        low, above = value & ((1 << width) - 1), value >> width
        is_negative = self.is_signed and bool((low >> (width - 1)) & 1)
        if above and not (is_negative and above == (1 << (len(self.bits) - width)) - 1):
            raise StreamError(f"{where}: {self.name} must fit in {width} bits on {product.name}, got {value:#x}")
        result = low - (1 << width) if is_negative else low
        self.check(result, product, where)
        return result


@dataclass(frozen=True, slots=True)
class Command:
    """One row of the table. A command that a product does not have may only be written with an operand of zero there."""

    name: str
    opcode: int
    kind: Kind
    fields: tuple[Field, ...] = ()
    doc: str = ""
    products: frozenset[Product] = frozenset({Product.ETHOS_U55, Product.ETHOS_U65})
    sign_copies: int = 0
    """Mask of unused operand bits above a signed field that may all be set where the bit below them is."""
    used_bits: int = field(init=False, repr=False, compare=False)
    """Mask of the operand bits that belong to a field; the others must be zero."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "used_bits", sum(1 << bit for one in self.fields for bit in one.bits))

    @property
    def is_wide(self) -> bool:
        return self.kind is Kind.WIDE_REGISTER

    @property
    def word_count(self) -> int:
        return 2 if self.is_wide else 1

    def operand(self, values: Mapping[str, int], product: Product) -> int:
        """Operand that holds `values` (every field by name); StreamError names field, range and value."""
        if values.keys() != {one.name for one in self.fields}:
            expected = ", ".join(one.name for one in self.fields) or "none"
            raise StreamError(f"{self.name}: fields must be {expected}, got {', '.join(values) or 'none'}")
        operand = 0
        for one in self.fields:
            operand |= one.insert(int(values[one.name]), product, self.name)
        if operand and product not in self.products:
            raise StreamError(f"{self.name}: must be 0 on {product.name}, which does not have it, got {operand:#x}")
        return operand

    def values(self, operand: int, product: Product) -> dict[str, int]:
        """Fields in `operand` by name; StreamError if reserved bits are set or a field is out of range."""
        if operand and product not in self.products:
            raise StreamError(f"{self.name}: must be 0 on {product.name}, which does not have it, got {operand:#x}")
        reserved = operand & ~self.used_bits
        if reserved and not (reserved == self.sign_copies and operand & ~self.sign_copies & (self.sign_copies >> 1)):
            raise StreamError(f"{self.name}: reserved bits must be zero, got {reserved:#x}")
        return {one.name: one.extract(operand, product, self.name) for one in self.fields}

    def words(self, operand: int) -> tuple[int, ...]:
        """Command words of `operand`, which `operand()` has checked."""
        if self.is_wide:
            parameter, payload = divmod(operand, 1 << WORD_BITS)
            return self.opcode | 1 << _CLASS_SHIFT | parameter << PARAMETER_SHIFT, payload
        return (self.opcode | operand << PARAMETER_SHIFT,)


def _bits(low: int, high: int) -> tuple[int, ...]:
    """Operand bits low..high, both included."""
    return tuple(range(low, high + 1))


_SIXTEEN = _bits(0, 15)
_ADDRESS_WIDTHS = {Product.ETHOS_U55: 32, Product.ETHOS_U65: 40}
_U65 = frozenset({Product.ETHOS_U65})


def _operation(name: str, opcode: int, doc: str, *fields: Field) -> Command:
    return Command(name, opcode, Kind.OPERATION, fields, doc)


def _register(name: str, opcode: int, doc: str, *fields: Field) -> Command:
    return Command(name, opcode, Kind.REGISTER, fields, doc)


def _number(name: str, opcode: int, bits: int, doc: str, maximum: int | None = None) -> Command:
    """A register that holds one unsigned number."""
    return _register(name, opcode, doc, Field("value", _bits(0, bits - 1), maximum=maximum))


def _wide(name: str, opcode: int, doc: str, *fields: Field, products: frozenset[Product] | None = None) -> Command:
    if products is None:
        return Command(name, opcode, Kind.WIDE_REGISTER, fields, doc)
    return Command(name, opcode, Kind.WIDE_REGISTER, fields, doc, products)


def _address(name: str, opcode: int, doc: str, products: frozenset[Product] | None = None) -> Command:
    return _wide(name, opcode, doc, Field("value", _bits(0, 39), widths=_ADDRESS_WIDTHS), products=products)


def _stride(name: str, opcode: int, doc: str) -> Command:
    """A register of a signed number; the Python core of Vela (up to 4.2) copies its sign into all 16 bits of the parameter."""
    field_ = Field("value", _bits(0, 39), "sign-extended over the parameter", is_signed=True, widths=_ADDRESS_WIDTHS)
    return Command(name, opcode, Kind.WIDE_REGISTER, (field_,), doc, sign_copies=0xFF << 40)


def _length(name: str, opcode: int, bits: int, doc: str, products: frozenset[Product] | None = None) -> Command:
    return _wide(name, opcode, doc, Field("value", _bits(0, bits - 1)), products=products)


_SIGN = Field("sign", _bits(0, 0), enum=Signedness)
_LAYOUT = Field("layout", _bits(6, 7), enum=Layout)
_PRECISION_IFM = Field("precision", _bits(2, 3), enum=Precision)
_REGION_DOC = "base pointer that the addresses are relative to"
_ZERO_POINT_DOC = "16-bit pattern, signed if the feature map is signed"


def _dma_region(name: str, opcode: int, side: str) -> Command:
    return _register(
        name,
        opcode,
        f"where the {side} of a transfer is",
        Field("region", _bits(0, 2), "base pointer; core mask if internal"),
        Field("target", _bits(8, 8), "1 is SHRAM", DmaTarget),
        Field("stride_mode", _bits(9, 10), enum=DmaStride),
    )


def _feature_map_tiles(name: str, width0: int, height0: int, height1: int) -> tuple[Command, ...]:
    return (
        _number(f"NPU_SET_{name}_WIDTH0_M1", width0, 16, "width of tiles 0 and 2, minus 1"),
        _number(f"NPU_SET_{name}_HEIGHT0_M1", height0, 16, "height of tile 0, minus 1"),
        _number(f"NPU_SET_{name}_HEIGHT1_M1", height1, 16, "height of tile 1, minus 1"),
    )


def _feature_map_addresses(name: str, opcode: int) -> tuple[Command, ...]:
    corner = ("top left", "top right", "bottom left", "bottom right")
    bases = tuple(
        _address(f"NPU_SET_{name}_BASE{tile}", opcode + tile, f"address of tile {tile}, {corner[tile]}") for tile in range(4)
    )
    return (
        *bases,
        _stride(f"NPU_SET_{name}_STRIDE_X", opcode + 4, "bytes from one column to the next"),
        _stride(f"NPU_SET_{name}_STRIDE_Y", opcode + 5, "bytes from one row to the next"),
        _stride(f"NPU_SET_{name}_STRIDE_C", opcode + 6, "bytes from one 16-channel brick to the next"),
    )


_OPERATIONS = (
    _operation("NPU_OP_STOP", 0, "end the stream and raise an interrupt", Field("mask", _SIXTEEN)),
    _operation("NPU_OP_IRQ", 1, "raise an interrupt and go on", Field("mask", _SIXTEEN)),
    _operation("NPU_OP_CONV", 2, "convolution"),
    _operation("NPU_OP_DEPTHWISE", 3, "depthwise convolution"),
    _operation("NPU_OP_POOL", 5, "pooling", Field("mode", _SIXTEEN, enum=PoolingMode)),
    _operation("NPU_OP_ELEMENTWISE", 6, "elementwise", Field("mode", _SIXTEEN, enum=ElementwiseMode)),
    _operation("NPU_OP_DMA_START", 16, "start a transfer"),
    _operation("NPU_OP_DMA_WAIT", 17, "block until few enough transfers are unfinished", Field("outstanding", _bits(0, 3))),
    _operation("NPU_OP_KERNEL_WAIT", 18, "block until few enough kernels are unfinished", Field("outstanding", _bits(0, 1))),
    _operation("NPU_OP_PMU_MASK", 19, "switch the performance counters on or off", Field("enable", _bits(0, 0))),
)

_IFM = (
    _number("NPU_SET_IFM_PAD_TOP", 256, 7, "rows of padding above"),
    _number("NPU_SET_IFM_PAD_LEFT", 257, 7, "columns of padding on the left"),
    _number("NPU_SET_IFM_PAD_RIGHT", 258, 8, "columns of padding on the right", 128),
    _number("NPU_SET_IFM_PAD_BOTTOM", 259, 8, "rows of padding below", 128),
    _number("NPU_SET_IFM_DEPTH_M1", 260, 16, "IFM channels, minus 1"),
    _register(
        "NPU_SET_IFM_PRECISION",
        261,
        "element type, layout and operand scaling of the IFM",
        _SIGN,
        _PRECISION_IFM,
        _LAYOUT,
        Field("scale_mode", _bits(8, 9), "operands of ADD and SUB", OperandScaling),
        Field("rounding", _bits(14, 15), "of the scaled operand", Rounding),
    ),
    _register("NPU_SET_IFM_UPSCALE", 263, "what is inserted between elements", Field("mode", _bits(0, 1), enum=Upscale)),
    _number("NPU_SET_IFM_ZERO_POINT", 265, 16, _ZERO_POINT_DOC),
    *_feature_map_tiles("IFM", 266, 267, 268),
    _number("NPU_SET_IFM_IB_END", 269, 6, "end of the IFM buffers, in SHRAM banks"),
    _number("NPU_SET_IFM_REGION", 271, 3, _REGION_DOC),
)

_OFM = (
    _number("NPU_SET_OFM_WIDTH_M1", 273, 16, "OFM width, minus 1"),
    _number("NPU_SET_OFM_HEIGHT_M1", 274, 16, "OFM height, minus 1"),
    _number("NPU_SET_OFM_DEPTH_M1", 275, 16, "OFM channels, minus 1"),
    _register(
        "NPU_SET_OFM_PRECISION",
        276,
        "element type, layout and scaling of the OFM",
        _SIGN,
        Field("precision", _bits(1, 2), enum=Precision),
        _LAYOUT,
        Field("scale_mode", _bits(8, 8), enum=ScaleMode),
        Field("rounding", _bits(14, 15), enum=Rounding),
    ),
    _number("NPU_SET_OFM_BLK_WIDTH_M1", 277, 6, "block width, minus 1"),
    _number("NPU_SET_OFM_BLK_HEIGHT_M1", 278, 5, "block height, minus 1"),
    _number("NPU_SET_OFM_BLK_DEPTH_M1", 279, 7, "block depth, minus 1; sets the order of the weights"),
    _number("NPU_SET_OFM_ZERO_POINT", 280, 16, _ZERO_POINT_DOC),
    *_feature_map_tiles("OFM", 282, 283, 284),
    _number("NPU_SET_OFM_REGION", 287, 3, _REGION_DOC),
)

_KERNEL = (
    _number("NPU_SET_KERNEL_WIDTH_M1", 288, 16, "dilated kernel width, minus 1"),
    _number("NPU_SET_KERNEL_HEIGHT_M1", 289, 16, "dilated kernel height, minus 1"),
    _register(
        "NPU_SET_KERNEL_STRIDE",
        290,
        "strides, dilations and order of the weights",
        Field("stride_x_m1", (0, 6), "horizontal stride, minus 1"),
        Field("stride_y_m1", (1, 9), "vertical stride, minus 1"),
        Field("traversal", (2,), "convolution only", Traversal),
        Field("dilation_x_m1", (3,), "horizontal dilation, minus 1"),
        Field("dilation_y_m1", (4,), "vertical dilation, minus 1"),
        Field("decomposition", (5,), "size of sub-kernels", Decomposition),
    ),
    Command(
        "NPU_SET_PARALLEL_MODE",
        291,
        Kind.REGISTER,
        (Field("mode", _bits(0, 0), enum=ParallelMode),),
        "how two cores share an operation",
        _U65,
    ),
    _register("NPU_SET_ACC_FORMAT", 292, "accumulators", Field("format", _bits(0, 1), enum=AccumulatorFormat)),
    _register(
        "NPU_SET_ACTIVATION",
        293,
        "what follows scaling",
        Field("function", _bits(0, 4), enum=ActivationFunction),
        Field("clip_range", _bits(12, 14), enum=ClipRange),
    ),
    _number("NPU_SET_ACTIVATION_MIN", 294, 16, "lower clamp; 16-bit pattern, signed if the OFM is signed"),
    _number("NPU_SET_ACTIVATION_MAX", 295, 16, "upper clamp; 16-bit pattern, signed if the OFM is signed"),
    _number("NPU_SET_WEIGHT_REGION", 296, 3, _REGION_DOC),
    _number("NPU_SET_SCALE_REGION", 297, 3, _REGION_DOC),
    _number("NPU_SET_AB_START", 301, 6, "start of the accumulator buffers, in SHRAM banks"),
    _number("NPU_SET_BLOCKDEP", 303, 2, "blocks of the previous kernel that may be unfinished"),
)

_DMA = (
    _dma_region("NPU_SET_DMA0_SRC_REGION", 304, "source"),
    _dma_region("NPU_SET_DMA0_DST_REGION", 305, "destination"),
    _number("NPU_SET_DMA0_SIZE0", 306, 16, "rows of a 2D or 3D transfer"),
    _number("NPU_SET_DMA0_SIZE1", 307, 16, "planes of a 3D transfer"),
)

_IFM2 = (
    _register(
        "NPU_SET_IFM2_BROADCAST",
        384,
        "how IFM2 is combined with the IFM",
        Field("height", (0,), "1: IFM2 is one row"),
        Field("width", (1,), "1: IFM2 is one column"),
        Field("depth", (2,), "1: IFM2 is one channel"),
        Field("operand_order", (6,), "1: IFM2 is the first operand"),
        Field("use_scalar", (7,), "1: the operand is NPU_SET_IFM2_SCALAR"),
    ),
    _number("NPU_SET_IFM2_SCALAR", 385, 16, "16-bit pattern, signed if IFM2 is signed"),
    _register("NPU_SET_IFM2_PRECISION", 389, "element type and layout of IFM2", _SIGN, _PRECISION_IFM, _LAYOUT),
    _number("NPU_SET_IFM2_ZERO_POINT", 393, 16, _ZERO_POINT_DOC),
    *_feature_map_tiles("IFM2", 394, 395, 396),
    _number("NPU_SET_IFM2_IB_START", 397, 6, "start of the IFM2 buffers, in SHRAM banks"),
    _number("NPU_SET_IFM2_REGION", 399, 3, _REGION_DOC),
)

_SHIFT = Field("shift", _bits(32, 37), "right shift")
_SCALE_LENGTH_BITS = 20

_WIDE = (
    *_feature_map_addresses("IFM", 0),
    *_feature_map_addresses("OFM", 16),
    _address("NPU_SET_WEIGHT_BASE", 32, "address of the weight stream of core 0"),
    _length("NPU_SET_WEIGHT_LENGTH", 33, 32, "bytes of the weight stream of core 0"),
    _address("NPU_SET_SCALE_BASE", 34, "address of the scale records of core 0"),
    _length("NPU_SET_SCALE_LENGTH", 35, _SCALE_LENGTH_BITS, "bytes of the scale records of core 0"),
    _wide("NPU_SET_OFM_SCALE", 36, "global scale of the OFM", Field("scale", _bits(0, 31)), _SHIFT),
    _wide("NPU_SET_OPA_SCALE", 37, "scale of an operand of ADD and SUB", Field("scale", _bits(0, 31)), _SHIFT),
    _wide("NPU_SET_OPB_SCALE", 38, "scale of the other operand", Field("scale", _bits(0, 15))),
    _address("NPU_SET_DMA0_SRC", 48, "source address"),
    _address("NPU_SET_DMA0_DST", 49, "destination address"),
    _address("NPU_SET_DMA0_LEN", 50, "bytes of one row"),
    _address("NPU_SET_DMA0_SKIP0", 51, "bytes skipped after each row"),
    _address("NPU_SET_DMA0_SKIP1", 52, "bytes skipped after each plane"),
    *_feature_map_addresses("IFM2", 128),
    _address("NPU_SET_WEIGHT1_BASE", 144, "address of the weight stream of core 1", _U65),
    _length("NPU_SET_WEIGHT1_LENGTH", 145, 32, "bytes of the weight stream of core 1", _U65),
    _address("NPU_SET_SCALE1_BASE", 146, "address of the scale records of core 1", _U65),
    _length("NPU_SET_SCALE1_LENGTH", 147, _SCALE_LENGTH_BITS, "bytes of the scale records of core 1", _U65),
)

COMMANDS: tuple[Command, ...] = (*_OPERATIONS, *_IFM, *_OFM, *_KERNEL, *_DMA, *_IFM2, *_WIDE)
"""Every command of Ethos-U55 and Ethos-U65, in the order of the reference page."""

COMMANDS_BY_NAME: Mapping[str, Command] = {command.name: command for command in COMMANDS}
