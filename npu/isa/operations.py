"""The operations of the machine as frozen records: one kick-off with all the state that it reads.

This is the contract between those who make streams and those who run them: the compiler ends in a list of these, `encode`
turns them into commands, `decode` turns commands back into them, and the simulator starts from them. Values are natural
ones: no minus-one encodings, no packed bits; dimensions are always in the order height, width, depth.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum
from typing import TypeAlias

from npu.layouts import Steps, map_steps
from npu.records import dataclass, replace


class Layout(IntEnum):
    """Order of a feature map's elements in memory (register value)."""

    NHWC = 0
    NHCWB16 = 1


class MapStorage(IntEnum):
    """Where a feature map is (register value): in memory as tiles, in a buffer between chained operations, or nowhere."""

    TILES_2X2 = 0
    TILES_3X1 = 1
    CHAINED = 2
    NONE = 3


class Rounding(IntEnum):
    """Rounding of a scaled value (register value of Ethos-U55 and Ethos-U65, up to NATURAL).

    DOUBLE rounds twice as TFLite does, the second time with ties away from zero, NATURAL once with ties up, SYMMETRIC once
    with ties away from zero. TRUNCATE is towards zero, FLOOR towards minus infinity. What DOUBLE_ASYMMETRIC does exactly is not
    known.
    """

    DOUBLE = 0
    TRUNCATE = 1
    NATURAL = 2
    SYMMETRIC = 3
    DOUBLE_ASYMMETRIC = 4
    FLOOR = 5


class Upscale(IntEnum):
    """What is inserted between input elements before the kernel sees them (register value)."""

    NONE = 0
    NEAREST = 1
    ZEROS = 2


class PoolingMode(IntEnum):
    """Parameter of NPU_OP_POOL; from SUM on only Ethos-U85 has them."""

    MAX = 0
    AVERAGE = 1
    REDUCE_SUM = 2
    SUM = 3
    NONE = 4
    MIN = 5
    ARGMAX_X = 6
    ARGMAX_Y = 7


class ElementwiseMode(IntEnum):
    """Parameter of NPU_OP_ELEMENTWISE; from LSR on only Ethos-U85 has them."""

    MUL = 0
    ADD = 1
    SUB = 2
    MIN = 3
    MAX = 4
    LRELU = 5
    ABS = 6
    CLZ = 7
    SHR = 8
    SHL = 9
    LSR = 10
    DIV = 11
    CMP_EQ = 16
    CMP_NE = 17
    CMP_GE = 18
    CMP_GT = 19
    AND = 33
    OR = 34
    XOR = 35
    NOT = 36
    AND_NOT = 42

    @property
    def is_unary(self) -> bool:
        """Whether only the first input is read."""
        return self in _UNARY

    @property
    def scales_operands(self) -> bool:
        """Whether operands are scaled before they are combined."""
        return self in _SCALING


_UNARY = frozenset({ElementwiseMode.LRELU, ElementwiseMode.ABS, ElementwiseMode.CLZ, ElementwiseMode.NOT})
_SCALING = frozenset({ElementwiseMode.ADD, ElementwiseMode.SUB})


class OperandScaling(IntEnum):
    """How ADD and SUB scale their operands (register value)."""

    BOTH_16 = 0
    A_32 = 1
    B_32 = 2


class AccumulatorFormat(IntEnum):
    """Width of the accumulators (register value of Ethos-U55 and Ethos-U65, up to FP16)."""

    INT32 = 0
    INT40 = 1
    FP16 = 2
    INT48 = 3


class Traversal(IntEnum):
    """Order in which a convolution walks its weights (bit 2 of KERNEL_STRIDE)."""

    DEPTH_FIRST = 0
    PART_KERNEL_FIRST = 1


class WeightDecoder(IntEnum):
    """How weights are compressed (register value)."""

    STANDARD = 0
    FAST = 1


class ClipRange(IntEnum):
    """Range that a value is clamped to before the activation's own limits (register value of Ethos-U55 and Ethos-U65).

    Of Ethos-U85: LIMITS is those limits alone, whatever the precision of the OFM is, NONE no clamp at all.
    """

    OFM_PRECISION = 0
    FORCE_UINT8 = 2
    FORCE_INT8 = 3
    FORCE_INT16 = 5
    LIMITS = 8
    NONE = 9


class ActivationFunction(IntEnum):
    """What follows scaling (register value); LUT_0 + n selects table n."""

    NONE = 0
    TANH = 3
    SIGMOID = 4
    LUT_0 = 16
    LUT_1 = 17
    LUT_2 = 18
    LUT_3 = 19
    LUT_4 = 20
    LUT_5 = 21
    LUT_6 = 22
    LUT_7 = 23

    @property
    def lut_index(self) -> int | None:
        """Number of the look-up table, None if the function is not one."""
        return self - ActivationFunction.LUT_0 if self >= ActivationFunction.LUT_0 else None


class DmaStride(IntEnum):
    """Number of dimensions that one side of a DMA transfer strides over (register value)."""

    CONTIGUOUS = 0
    ROWS = 1
    PLANES = 2


@dataclass(frozen=True, slots=True)
class Block:
    """A box of elements: an OFM block, an IFM block or a micro-block."""

    height: int
    width: int
    depth: int


@dataclass(frozen=True, slots=True)
class ElementType:
    """Integer type of a feature map's elements; `bits` is 8, 16 or 32, of an OFM of Ethos-U85 also 64."""

    bits: int
    is_signed: bool
    bytes: int = field(init=False, repr=False, compare=False)
    minimum: int = field(init=False, repr=False, compare=False)
    maximum: int = field(init=False, repr=False, compare=False)
    register_limits: tuple[int, int] = field(init=False, repr=False, compare=False)
    """Smallest and largest number in a 16-bit register for zero points, scalars and clamps, whatever `bits` are."""

    def __post_init__(self) -> None:
        put, numbers = object.__setattr__, 1 << self.bits if 0 <= self.bits <= 64 else 0  # others are refused where they stand
        put(self, "bytes", self.bits // 8)
        put(self, "minimum", -(numbers // 2) if self.is_signed else 0)
        put(self, "maximum", numbers // 2 - 1 if self.is_signed else numbers - 1)
        put(self, "register_limits", (-(1 << 15), (1 << 15) - 1) if self.is_signed else (0, (1 << 16) - 1))

    def __str__(self) -> str:
        return f"{'' if self.is_signed else 'u'}int{self.bits}"


INT8 = ElementType(8, True)
UINT8 = ElementType(8, False)
INT16 = ElementType(16, True)
INT32 = ElementType(32, True)


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """A feature map in memory, described by up to four tiles.

    `height`, `width`, `depth` are its physical extent (before upscaling, without padding); `addresses` are byte offsets into
    `region`, tile 0 top left, 1 top right, 2 bottom left, 3 bottom right (unused ones are 0); tiles 0 and 2 are
    `tile_width_0` wide, tile 0 is `tile_height_0` high and tile 1 `tile_height_1`. Strides are in bytes and may be negative.
    A chained map has the number of its chaining buffer as region, and neither addresses nor strides.
    """

    region: int
    height: int
    width: int
    depth: int
    element: ElementType
    layout: Layout
    zero_point: int
    addresses: tuple[int, int, int, int]
    tile_height_0: int
    tile_height_1: int
    tile_width_0: int
    stride_y: int
    stride_x: int
    stride_c: int
    storage: MapStorage = MapStorage.TILES_2X2
    steps: Steps = field(init=False, repr=False, compare=False)
    """Bytes from row to row, from pixel to pixel, and from one group of 16 channels to the next."""

    def __post_init__(self) -> None:
        is_bricked = self.layout is Layout.NHCWB16
        steps = map_steps(self.stride_y, self.stride_x, self.stride_c, self.element.bytes, is_bricked=is_bricked)
        object.__setattr__(self, "steps", steps)

    @property
    def is_in_memory(self) -> bool:
        """Whether it has addresses."""
        return self.storage <= MapStorage.TILES_3X1

    @property
    def is_one_tile(self) -> bool:
        """Whether tile 0 holds all of it."""
        return self.height <= self.tile_height_0 and self.width <= self.tile_width_0


@dataclass(frozen=True, slots=True)
class KernelWindow:
    """Kernel geometry; `height` and `width` are undilated."""

    height: int = 1
    width: int = 1
    stride_y: int = 1
    stride_x: int = 1
    dilation_y: int = 1
    dilation_x: int = 1

    @property
    def dilated_height(self) -> int:
        return (self.height - 1) * self.dilation_y + 1

    @property
    def dilated_width(self) -> int:
        return (self.width - 1) * self.dilation_x + 1


@dataclass(frozen=True, slots=True)
class IfmPadding:
    """Rows and columns of zero point around the (upscaled) IFM."""

    top: int = 0
    left: int = 0
    bottom: int = 0
    right: int = 0

    @property
    def is_none(self) -> bool:
        """Whether there are no such rows and columns."""
        return not (self.top or self.left or self.bottom or self.right)


def ifm_plane(ofm_height: int, ofm_width: int, kernel: KernelWindow, padding: IfmPadding, upscale: Upscale) -> tuple[int, int]:
    """Rows and columns of the IFM, before upscaling, that an OFM needs; not positive if the padding leaves nothing."""
    rows = (ofm_height - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom
    columns = (ofm_width - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right
    return (rows, columns) if upscale is Upscale.NONE else (-(-rows // 2), -(-columns // 2))


@dataclass(frozen=True, slots=True)
class AddressRange:
    """`length_bytes` bytes at byte offset `address` of `region`."""

    region: int
    address: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class Scale:
    """`value * scale >> shift`, rounded; scale is an unsigned 32-bit number, shift 0..63."""

    scale: int = 1
    shift: int = 0


@dataclass(frozen=True, slots=True)
class OperandScale:
    """What an operand is multiplied by before operands are combined; DOUBLE rounds first at bit 31 - `double_shift`."""

    scale: int = 1
    shift: int = 0
    rounding: Rounding = Rounding.DOUBLE
    double_shift: int = 0


IDENTITY = Scale()
"""A scale that changes nothing."""


@dataclass(frozen=True, slots=True)
class Activation:
    """Clamp and function at the end of the output stage; limits are in the OFM's quantized domain."""

    minimum: int
    maximum: int
    function: ActivationFunction = ActivationFunction.NONE
    clip_range: ClipRange = ClipRange.OFM_PRECISION


@dataclass(frozen=True, slots=True)
class ShramLayout:
    """Buffer boundaries in SHRAM banks; `ifm2_start` is read by binary elementwise operations only."""

    ifm_end: int
    accumulator_start: int
    ifm2_start: int = 0


class OfmTranspose(IntEnum):
    """The axes of what an operation computes in the order in which they are stored (register value)."""

    HWC = 0
    WHC = 1
    HCW = 2
    WCH = 3
    CHW = 6
    CWH = 7

    @property
    def axes(self) -> tuple[int, int, int]:
        """The computed axis (0 rows, 1 columns, 2 channels) of each stored one."""
        first, second, third = ("HWC".index(letter) for letter in self.name)
        return first, second, third


class OfmReverse(IntEnum):
    """The axis along which the OFM is stored from its end (register value)."""

    NONE = 0
    H = 1
    W = 2
    C = 3


class AccumulatorSource(IntEnum):
    """What accumulators begin with (register value): the bias, what the operation before has left there, or IFM2."""

    RESET = 0
    KEEP = 1
    IFM2 = 2


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """What an operation of Ethos-U85 chooses, and its predecessors have one of.

    `ublock` is the micro-block. DOUBLE rounds first at bit 31 - `double_shift`. An operation that `keeps_accumulators` writes
    no OFM. Block and extent of the OFM are those before `transpose` and `reverse`, its tiles and strides those after.
    """

    ublock: Block
    double_shift: int = 0
    accumulator_source: AccumulatorSource = AccumulatorSource.RESET
    keeps_accumulators: bool = False
    transpose: OfmTranspose = OfmTranspose.HWC
    reverse: OfmReverse = OfmReverse.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelOperation:
    """What every operation of the MAC array and the output unit has.

    `scale` is None when each output channel has its own scale record (OFM scale mode 0 of a convolution) or when a pooling
    divides by its own element count; else it is the global OFM scale. `options` is None where there is nothing to choose.
    """

    ifm: FeatureMap
    ofm: FeatureMap
    block: Block
    shram: ShramLayout
    activation: Activation
    scale: Scale | None
    rounding: Rounding = Rounding.DOUBLE
    accumulator: AccumulatorFormat = AccumulatorFormat.INT32
    blockdep: int = 0
    options: KernelOptions | None = None

    @property
    def has_global_scale(self) -> bool:
        return self.scale is not None

    @property
    def combines_channels(self) -> bool:
        """Whether an OFM channel is made from all IFM channels, not from the one of its number alone."""
        return False

    @property
    def ifms(self) -> tuple[FeatureMap, ...]:
        """The feature maps that it reads: the IFM, and of some operations IFM2."""
        return (self.ifm,)

    @property
    def ifms_in_memory(self) -> tuple[FeatureMap, ...]:
        """Those of them that are not handed on in a chaining buffer."""
        return self.ifms if self.options is None else tuple(fm for fm in self.ifms if fm.is_in_memory)

    @property
    def stored_ofm(self) -> FeatureMap | None:
        """The OFM as it lies in memory; None if it is not written there."""
        if self.options is None:
            return self.ofm
        if not self.ofm.is_in_memory:
            return None
        if self.options.transpose is OfmTranspose.HWC:
            return self.ofm
        extent = self.ofm.height, self.ofm.width, self.ofm.depth
        height, width, depth = (extent[axis] for axis in self.options.transpose.axes)
        return replace(self.ofm, height=height, width=width, depth=depth)

    @property
    def writes_in_order(self) -> bool:
        """Whether the blocks of the OFM lie in memory as they are made, not transposed, backwards or not at all."""
        options = self.options
        return options is None or (
            self.ofm.is_in_memory and options.transpose is OfmTranspose.HWC and options.reverse is OfmReverse.NONE
        )

    @property
    def maps_in_memory(self) -> dict[str, FeatureMap]:
        """The maps that lie in memory by the names of their registers, as they lie there, the OFM last."""
        read = {name: fm for name, fm in zip(("IFM", "IFM2"), self.ifms, strict=False) if fm.is_in_memory}
        written = self.stored_ofm
        return read if written is None else read | {"OFM": written}


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowOperation(KernelOperation):
    """An operation that slides a kernel over a padded, possibly upscaled IFM."""

    kernel: KernelWindow
    padding: IfmPadding = IfmPadding()
    upscale: Upscale = Upscale.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedOperation(WindowOperation):
    """An operation with weights: compressed streams, and scale records of which every core has a block.

    `has_4x4_sub_kernels` is the decomposition bit of KERNEL_STRIDE: sub-kernels of at most 4x4 instead of 8x8.
    """

    weights: tuple[AddressRange, ...]
    scales: tuple[AddressRange, ...]
    has_4x4_sub_kernels: bool = False
    weight_decoder: WeightDecoder = WeightDecoder.STANDARD
    has_sparse_weights: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution(WeightedOperation):
    """NPU_OP_CONV: every output channel sees every input channel.

    With `ifm2` its columns are the weights of the output channels (then there are no others and no scale records), unless it is
    what accumulators begin with.
    """

    traversal: Traversal = Traversal.DEPTH_FIRST
    ifm2: FeatureMap | None = None

    @property
    def combines_channels(self) -> bool:
        return True

    @property
    def ifms(self) -> tuple[FeatureMap, ...]:
        return (self.ifm,) if self.ifm2 is None else (self.ifm, self.ifm2)


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthwiseConvolution(WeightedOperation):
    """NPU_OP_DEPTHWISE: every output channel sees the input channel of the same number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(WindowOperation):
    """NPU_OP_POOL. Only NONE has an `ifm2`, which accumulators begin with."""

    mode: PoolingMode
    ifm2: FeatureMap | None = None

    @property
    def combines_channels(self) -> bool:
        return self.mode is PoolingMode.REDUCE_SUM

    @property
    def ifms(self) -> tuple[FeatureMap, ...]:
        return (self.ifm,) if self.ifm2 is None else (self.ifm, self.ifm2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(KernelOperation):
    """NPU_OP_ELEMENTWISE. The second operand is `ifm2` or `scalar` (raw value, before its zero point), None if unary.

    `ifm2` has extent 1 along broadcast axes. `scalar_zero_point` is IFM2_ZERO_POINT when the operand is a scalar.
    `is_reversed`: the operation computes `ifm2 op ifm`. `operand_rounding` rounds the scaled operand of ADD and SUB.
    `ifm_scale` and `ifm2_scale` are None where operands are scaled by `operand_scaling` or not at all; where they are not, the
    IFM too may have extent 1 along an axis.
    """

    mode: ElementwiseMode
    ifm2: FeatureMap | None = None
    scalar: int | None = None
    scalar_zero_point: int = 0
    is_reversed: bool = False
    operand_scaling: OperandScaling = OperandScaling.BOTH_16
    operand_rounding: Rounding = Rounding.DOUBLE
    opa_scale: Scale = Scale(0, 0)
    opb_scale: int = 0
    ifm_scale: OperandScale | None = None
    ifm2_scale: OperandScale | None = None

    @property
    def has_scalar(self) -> bool:
        return self.scalar is not None

    @property
    def broadcasts_height(self) -> bool:
        return self.ifm2 is not None and self.ifm2.height != self.ifm.height

    @property
    def broadcasts_width(self) -> bool:
        return self.ifm2 is not None and self.ifm2.width != self.ifm.width

    @property
    def broadcasts_depth(self) -> bool:
        return self.ifm2 is not None and self.ifm2.depth != self.ifm.depth

    @property
    def repeats_both_operands(self) -> bool:
        """Whether two operands from memory are repeated, each along an axis of its own."""
        ofm = self.ofm
        return all((fm.height, fm.width, fm.depth) != (ofm.height, ofm.width, ofm.depth) for fm in self.ifms)

    @property
    def second_operand(self) -> FeatureMap:
        """Where element type and layout of the second operand are: a scalar is as an element of the IFM."""
        return self.ifm if self.ifm2 is None else self.ifm2

    @property
    def second_zero_point(self) -> int:
        return self.scalar_zero_point if self.ifm2 is None else self.ifm2.zero_point

    @property
    def ifms(self) -> tuple[FeatureMap, ...]:
        return (self.ifm,) if self.ifm2 is None else (self.ifm, self.ifm2)


class ResizeMode(IntEnum):
    """Parameter of NPU_OP_RESIZE."""

    BILINEAR = 0
    REPLICATE = 1
    NEAREST = 2


@dataclass(frozen=True, slots=True)
class ResizeAxis:
    """Where the elements of an OFM lie in the IFM along one axis: element o at (o * `step` + `offset`) / `scale`.

    `block_step` is how far the last element of a block lies from its first, in the same units.
    """

    scale: int
    step: int
    offset: int
    block_step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resizing(KernelOperation):
    """NPU_OP_RESIZE."""

    mode: ResizeMode
    y: ResizeAxis
    x: ResizeAxis


@dataclass(frozen=True, slots=True)
class DmaSide:
    """One side of a transfer; `region` None is SHRAM (then `address` is a SHRAM byte address, `core_mask` the cores).

    `steps` are the bytes from row to row and from plane to plane where each side has its own.
    """

    region: int | None
    address: int
    stride: DmaStride = DmaStride.CONTIGUOUS
    core_mask: int = 3
    steps: tuple[int, int] | None = None

    @property
    def is_internal(self) -> bool:
        return self.region is None

    @property
    def region_or_cores(self) -> int:
        return self.core_mask if self.region is None else self.region


INDEX_BYTES = 4
"""Of the number of a row in a transfer by indices."""


@dataclass(frozen=True, slots=True)
class DmaIndices:
    """Numbers of rows, int32 at `address` of `region` one after the other: which row of one side stands in for each.

    They must lie in [0, `maximum`]. `skip_bytes` are left out after those of a plane.
    """

    region: int
    address: int
    maximum: int
    skip_bytes: int
    is_of_destination: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dma:
    """NPU_OP_DMA_START: `planes` planes of `rows` rows of `length_bytes` bytes.

    The sides that stride skip `row_skip_bytes` after each row and `plane_skip_bytes` after each plane, unless they have steps.
    """

    source: DmaSide
    destination: DmaSide
    length_bytes: int
    rows: int = 1
    planes: int = 1
    row_skip_bytes: int = 0
    plane_skip_bytes: int = 0
    indices: DmaIndices | None = None

    @property
    def stride(self) -> DmaStride:
        """The larger stride of the two sides."""
        return max(self.source.stride, self.destination.stride)

    def steps(self, side: DmaSide) -> tuple[int, int]:
        """Bytes from row to row and from plane to plane of one side."""
        if side.steps is not None:
            return side.steps
        row_step = self.length_bytes + (self.row_skip_bytes if side.stride >= DmaStride.ROWS else 0)
        plane_step = self.rows * row_step + (self.plane_skip_bytes if side.stride >= DmaStride.PLANES else 0)
        return row_step, plane_step

    def span(self, side: DmaSide) -> tuple[int, int]:
        """First and one past the last byte that one side touches; of the indexed one all that indices may name."""
        if self.rows == self.planes == 1 and self.indices is None:  # as nearly all
            return side.address, side.address + self.length_bytes
        row_step, plane_step = self.steps(side)
        last_row = self.rows - 1
        if self.indices is not None and self.indices.is_of_destination == (side is self.destination):
            last_row = self.indices.maximum
        spans = (last_row * row_step, (self.planes - 1) * plane_step)
        low = side.address + sum(min(0, span) for span in spans)
        return low, side.address + sum(max(0, span) for span in spans) + self.length_bytes

    def indices_of(self, plane: int) -> tuple[int, int]:
        """First and one past the last byte of the indices of a plane; of a transfer that has some."""
        assert self.indices is not None
        size = INDEX_BYTES * self.rows
        start = self.indices.address + plane * (size + self.indices.skip_bytes)
        return start, start + size

    @property
    def index_span(self) -> tuple[int, int]:
        """Those of all planes."""
        return self.indices_of(0)[0], self.indices_of(self.planes - 1)[1]


@dataclass(frozen=True, slots=True)
class DmaWait:
    """NPU_OP_DMA_WAIT: block until at most `outstanding` transfers are unfinished."""

    outstanding: int


@dataclass(frozen=True, slots=True)
class KernelWait:
    """NPU_OP_KERNEL_WAIT: block until at most `outstanding` kernel operations are unfinished."""

    outstanding: int


@dataclass(frozen=True, slots=True)
class PmuMask:
    """NPU_OP_PMU_MASK."""

    enable: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """NPU_OP_IRQ: raise an interrupt and go on."""

    mask: int


@dataclass(frozen=True, slots=True)
class Stop:
    """NPU_OP_STOP: end the stream and raise an interrupt."""

    mask: int = 0xFFFF


Operation: TypeAlias = (
    Convolution
    | DepthwiseConvolution
    | Pooling
    | Elementwise
    | Resizing
    | Dma
    | DmaWait
    | KernelWait
    | PmuMask
    | Interrupt
    | Stop
)
