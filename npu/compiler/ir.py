"""The compiler's middle language: hardware operations over storages that have no address yet.

`npu.compiler.lower` turns a TFLite partition into a list of steps (all arithmetic decided, all constants made);
the scheduler turns steps into operations (layouts, blocks, weight streams, addresses, waits). A step holds one MAC-array or
output-unit operation as `npu.isa.operations` has it, minus everything that depends on memory or on the variant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

import numpy as np
import numpy.typing as npt

from npu.isa.operations import (
    ClipRange,
    ElementType,
    ElementwiseMode,
    IfmPadding,
    KernelWindow,
    OfmTranspose,
    OperandScaling,
    PoolingMode,
    ResizeMode,
    Rounding,
    Scale,
    Upscale,
)
from npu.layouts import MapShape
from npu.numerics.resize_axis import ResizePlaces
from npu.records import dataclass

_ONE_BY_ONE = KernelWindow()
_NO_PADDING = IfmPadding()
NO_SCALE = Scale(0, 0)
"""Of an operand that is not scaled."""


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """A piece of memory that holds one feature map; compared by identity.

    `shape` is the whole map. `tensor` is the graph's tensor index if it holds one. A storage that is an input or an output of
    the partition (`is_boundary`) lies as NHWC does, because the CPU and the application read it. `data` are the contents
    (H, W, D) of a constant, which lives in the read-only region. In a rolling buffer (`is_rolling`) row y of a higher map lies
    at row y modulo the height: a box may go on at the first row behind the last one.
    """

    name: str
    shape: MapShape
    element: ElementType
    tensor: int | None = None
    is_boundary: bool = False
    data: npt.NDArray[np.generic] | None = None
    is_rolling: bool = False

    @property
    def bytes(self) -> int:
        """Bytes when laid out densely as NHWC."""
        return self.shape[0] * self.shape[1] * self.shape[2] * self.element.bytes


@dataclass(frozen=True, slots=True)
class View:
    """A box of a storage, seen as a map of shape `full` (reshapes: same elements in NHWC order as `storage.shape`).

    The box starts at `offset` (y, x, c) of that map and has shape `shape`. When `full` differs from the storage's own shape
    for any view of it, or when a channel offset is no multiple of 16, the storage must be NHWC, unless all maps of the
    step are whole and have that shape (`reshape_pointwise`). `element` may differ from the storage's in signedness, or
    be two of its elements: the map is counted in those then.
    `pitch` are the elements from one row and from one column to the next, for box and offset, where they are not those of
    `full`: the storage must be NHWC then, too.
    """

    storage: Storage
    full: MapShape
    offset: MapShape
    shape: MapShape
    element: ElementType
    zero_point: int = 0
    pitch: tuple[int, int] | None = None

    @property
    def pitches(self) -> tuple[int, int]:
        """Elements from one row and from one column to the next when the storage is NHWC."""
        return self.pitch or (self.full[1] * self.full[2], self.full[2])

    @property
    def row_places(self) -> tuple[int, int] | None:
        """The row of the storage at which it begins, and how far apart its rows are; None if they are no parts of rows."""
        _, width, depth = self.storage.shape
        if self.pitch is None:
            return (self.offset[0], 1) if self.full == self.storage.shape else None
        first, within = divmod(self.offset[2], width * depth)
        apart, rest = divmod(self.pitch[0], width * depth)
        end = within + (self.shape[1] - 1) * self.pitch[1] + self.shape[2]
        return (first, apart) if apart and not rest and end <= width * depth and self.offset[:2] == (0, 0) else None

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its storage, in the storage's own shape."""
        return self.full == self.storage.shape == self.shape and self.pitch is None and not self.storage.is_rolling

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie one behind the other in row order."""
        return self.full == self.shape and self.pitch is None

    @property
    def is_contiguous(self) -> bool:
        """Whether no other elements lie between its own: whole rows, or a part of one."""
        height, width, depth = self.shape
        columns, channels = self.full[1:]
        is_part = depth == channels and (width == columns or height == 1)
        return self.pitch is None and is_part and not self.storage.is_rolling

    @property
    def start(self) -> int:
        """The element at which it begins when the storage is NHWC."""
        rows, columns = self.pitches
        return self.offset[0] * rows + self.offset[1] * columns + self.offset[2]

    @property
    def fills_storage(self) -> bool:
        """Whether it is all of its storage, in whatever shape."""
        is_all = math.prod(self.shape) == math.prod(self.storage.shape)
        return self.is_dense and is_all and not self.storage.is_rolling

    @classmethod
    def whole(cls, storage: Storage, zero_point: int = 0) -> View:
        """A view of everything in the storage."""
        return cls(storage, storage.shape, (0, 0, 0), storage.shape, storage.element, zero_point)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Step:
    """One kernel operation. `source` is the index of the graph's operator that it belongs to.

    `minimum` and `maximum` clamp in the quantized domain of the OFM (a 32-bit OFM without forced clip range has no clamp and
    no zero point). `lut` is the table's bytes as uint8 (256, 1024 or 2048) or None. `scale` None means per-channel records, or
    an average pooling that divides by its own element count. `function` other than None is "tanh" or "sigmoid" of the int16
    hardware tables. `ifm2` is the second input of those that have one.
    """

    source: int
    ifm: View
    ofm: View
    minimum: int
    maximum: int
    ifm2: View | None = None
    scale: Scale | None = None
    rounding: Rounding = Rounding.DOUBLE
    lut: npt.NDArray[np.uint8] | None = None
    function: str | None = None
    clip_range: ClipRange = ClipRange.OFM_PRECISION


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WindowStep(Step):
    """A step with a kernel. The IFM extent follows from the OFM's, the kernel, the padding and the upscaling."""

    kernel: KernelWindow = _ONE_BY_ONE
    padding: IfmPadding = _NO_PADDING
    upscale: Upscale = Upscale.NONE

    @property
    def upscaling(self) -> int:
        """Rows that the kernel sees of one row of the IFM."""
        return 1 if self.upscale is Upscale.NONE else 2


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class StepWeights:
    """Constants of a convolution.

    `values` int16 (O, KH, KW, I), zero point subtracted; I is 1 for depthwise. `biases` int64 (O,), `scales` uint32 (O,),
    `shifts` uint8 (O,).
    """

    values: npt.NDArray[np.int16]
    biases: npt.NDArray[np.int64]
    scales: npt.NDArray[np.uint32]
    shifts: npt.NDArray[np.uint8]

    def channels(self, part: slice) -> StepWeights:
        """Those of some OFM channels."""
        return StepWeights(
            values=self.values[part], biases=self.biases[part], scales=self.scales[part], shifts=self.shifts[part]
        )

    @classmethod
    def unbiased(cls, values: npt.NDArray[np.int16], scale: Scale) -> StepWeights:
        """`values` without bias, and one scale for all channels."""
        count = len(values)
        scales, shifts = np.full(count, scale.scale, np.uint32), np.full(count, scale.shift, np.uint8)
        return cls(values=values, biases=np.zeros(count, np.int64), scales=scales, shifts=shifts)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ConvolutionStep(WindowStep):
    """A convolution; `is_depthwise` selects NPU_OP_DEPTHWISE."""

    weights: StepWeights
    is_depthwise: bool = False


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PoolingStep(WindowStep):
    """A pooling; 1x1 AVERAGE with a scale is the universal copy, requantize and look-up operation."""

    mode: PoolingMode


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ElementwiseStep(Step):
    """An elementwise operation; `ifm2` broadcasts where its extent is 1. Exactly one of ifm2, scalar is given if binary.

    The IFM has the OFM's extent; on families that repeat both operands it broadcasts, too. `scalar` is the raw value, before
    `scalar_zero_point`. `positive` is the scale of what is not negative of LRELU, on families that have it; None: 1.
    """

    mode: ElementwiseMode
    scalar: int | None = None
    scalar_zero_point: int = 0
    is_reversed: bool = False
    operand_scaling: OperandScaling = OperandScaling.BOTH_16
    operand_rounding: Rounding = Rounding.DOUBLE
    opa_scale: Scale = NO_SCALE
    opb_scale: int = 0
    positive: Scale | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ProductStep(Step):
    """A product of matrices: channel o of an element is the sum of its channels times those of column o of `ifm2`, one row."""

    ifm2: View


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GatherStep(Step):
    """A transfer: column i of a row of the OFM is the column of that row of the IFM which number i of that row of `ifm2` names.

    The numbers are int32, one channel. All maps lie as NHWC does.
    """

    ifm2: View


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TransposeStep(Step):
    """A copy whose axes are stored in another order."""

    order: OfmTranspose


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReverseStep(Step):
    """A copy whose columns are stored from the last one on."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ResizeStep(Step):
    """A resize: the places of the rows and columns of the OFM are counted in the IFM, beyond whose ends its ends go on."""

    mode: ResizeMode
    y: ResizePlaces
    x: ResizePlaces


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The steps of one partition in execution order, with the storages that come from and go to the rest of the graph.

    `inputs` and `outputs` pair a graph tensor index with its storage; the order is that of the `ethos-u` operator's tensors:
    inputs by first use, outputs by production. A storage may be written by several steps (boxes of a concatenation, borders of
    a padding) and its boxes may be read by a step that writes another box of it. `absorbed` maps an operator without a step of
    its own to the operator whose last step carries it, or to None if it became a view of memory (or feeds one). `orders`: those
    of operators whose results have their axes, the dimensions that are not 1, in another order than in the graph.
    """

    steps: tuple[Step, ...]
    inputs: tuple[tuple[int, Storage], ...]
    outputs: tuple[tuple[int, Storage], ...]
    absorbed: Mapping[int, int | None] = field(default_factory=dict)
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
