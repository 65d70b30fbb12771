"""Weights and scale records as the fast kernels read them, packed whenever they have changed in memory.

The only place that decides whether constants are within what the kernels do exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import accumulate
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.hardware.variant import Accelerator
from npu.isa.families import family_of
from npu.isa.family import WeightUse, weight_shape
from npu.isa.operations import Convolution, DepthwiseConvolution, ElementType, FeatureMap
from npu.isa.scale_records import RecordPlace
from npu.isa.weight_stream.decode import GroupedStream, GroupedWeights
from npu.native.call import array_address
from npu.native.cpu import current
from npu.native.types import offset_of
from npu.numerics.arrays import Ints
from npu.records import dataclass
from sim.functional.kernels import rows as r
from sim.functional.kernels.pack import (
    CONSTANT_SCALE,
    CONSTANT_SHIFT,
    IMPOSSIBLE,
    PACKED,
    constant_channels,
    make_channels,
    make_stage,
    pack,
    summarise,
)
from sim.functional.kernels.values import NUMBERS, zeroed
from sim.functional.weights import ConstantBytes, DecodedConstants, weight_orders
from sim.inconsistent import output_limits

Element = TypeVar("Element", np.int8, np.int64, np.void)
Weights = npt.NDArray[np.int16]
LIMIT = 1 << 30
"""Bound of the sums that the kernels requantize."""
_MAX_FLOOR_SHIFT = 50
"""From 32 up to here product, rounding and zero point fit 64 bits, and the rest of the shift the high half."""
_WORD_BYTES = 8
_WORD_OF = {name: offset_of(r.ROW, name) // _WORD_BYTES for name in r.ROW.names or ()}
_MAX_INPUTS = 1 << 22
"""Bound of the weights per output channel, so that their sum fits 32 bits."""


@dataclass(slots=True, eq=False)
class PackedOrder:
    """What the kernels read for an output pixel, and the order of the weights of a channel; shared, so not to be written.

    The kernels read weights as [block of 16 channels][4 inputs][channel][input]; a depthwise kernel's 4 inputs are columns,
    for every part all its rows.
    """

    weights: Ints
    """Index of the weight for each byte, or -1."""
    parts: Ints
    """Offset of each run of inputs; of a depthwise kernel, first column of each part."""
    dwords: int
    """Of a run; rows of a part."""
    places: Ints = field(init=False)
    """Where in its block each weight of the first channel is."""
    inputs: Ints = field(init=False)
    """Offset of each 4-byte word of the runs."""
    block_bytes: int = field(init=False)
    """Weights of 16 channels."""
    fields: dict[str, int] = field(init=False)
    """Of all of this, what a row has, which must be kept together with this."""

    def __post_init__(self) -> None:
        self.inputs = (self.parts[:, None] + 4 * np.arange(self.dwords)).reshape(-1)
        tables = {"segment_table": self.parts.ctypes.data, "input_table": self.inputs.ctypes.data}
        self.fields = {"segments": self.parts.size, "dwords": self.dwords, **tables}
        self.block_bytes = 16 * self.weights.size
        at = np.flatnonzero(self.weights >= 0)
        self.places = np.empty(at.size, np.int64)
        self.places[self.weights[at]] = at // 4 * r.WEIGHTS_BYTES + at % 4

    def repeated(self, times: int) -> PackedOrder:
        """For so many sets of weights, one after the other."""
        size = self.places.size
        weights = [np.where(self.weights < 0, -1, self.weights + k * size) for k in range(times)]
        return PackedOrder(np.concatenate(weights), np.concatenate([self.parts] * times), self.dwords)


@dataclass(slots=True, eq=False)
class PlannedRow:
    """A row without constants, and the arrays that its addresses point to; operations that are alike may share it."""

    fields: dict[str, int] = field(default_factory=dict)
    """The numbers of the row, the others being 0."""
    values: np.void | None = None
    """The field of that name."""
    kind: int = r.GENERAL
    """What `numbers["kind"]` becomes once constants are there."""
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    order: PackedOrder | None = None
    form: PackedForm | None = None
    """Of constants that `pack_streams` takes."""
    limits: npt.NDArray[np.void] | None = None
    """Shared with other rows."""
    sums_bytes: int = 0
    """Memory that the row needs at `sums` while it is executed."""

    def new_values(self) -> np.void:
        """Zeros, for `values`."""
        values: np.void = zeroed(NUMBERS)[0]
        self.values = values
        return values

    def table(self, name: str, array: npt.NDArray[np.generic]) -> int:
        """Keep an array and return its address."""
        self.arrays[name] = kept = np.ascontiguousarray(array)
        return _address(kept)


def _address(array: npt.NDArray[np.generic]) -> int:
    if array.dtype.names is not None:  # the interface would describe every field
        return array.ctypes.data
    return array_address(array)


@dataclass(slots=True, eq=False)
class PackedRow:
    """The row of an operation, with what its constants are packed to."""

    planned: PlannedRow
    numbers: np.void
    """The row in the table of its stream."""
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    used: PackedOrder | None = None
    """For the weights that there are."""
    checks: Ints | None = None
    constants: ConstantBytes | None = None
    """What they were packed from."""

    def table(self, name: str, array: npt.NDArray[np.generic]) -> int:
        """Keep an array and return its address."""
        self.arrays[name] = kept = np.ascontiguousarray(array)
        return _address(kept)


def make_table(rows: Sequence[PlannedRow]) -> npt.NDArray[np.void]:
    """The rows as the kernels see them."""
    content = bytearray(len(rows) * r.ROW_BYTES)
    table, words = np.frombuffer(content, r.ROW), memoryview(content).cast("q")
    for index, row in enumerate(rows):
        first = index * r.ROW_BYTES // _WORD_BYTES
        for name, value in row.fields.items():
            words[first + _WORD_OF[name]] = value
        if row.values is not None:
            table[index]["values"] = row.values
    return table


def unsigned_offset(element: ElementType) -> int:
    """What the kernels subtract from unsigned values, to have signed bytes."""
    return 0 if element.is_signed else 128


@dataclass(slots=True, eq=False)
class PackedForm:
    """What `pack_streams` makes of the constants of operations with one plan, wherever these are."""

    operation: Convolution | DepthwiseConvolution
    """One of them."""
    order: PackedOrder
    numbers: tuple[int, ...] = field(init=False)
    """The numbers of a PACKED that are the operation's own."""
    weights_bytes: int = field(init=False)
    """Packed weights."""
    has_gaps: bool = field(init=False)
    """Whether there are bytes that are no weights."""
    grouped: Sequence[GroupedWeights] = ()
    """How the weights of each core are packed, once that was asked for."""

    def __post_init__(self) -> None:
        ifm, ofm, order = self.operation.ifm, self.operation.ofm, self.order
        blocks = -(-ofm.depth // 16)
        zero_point = ofm.zero_point - unsigned_offset(ofm.element)
        clamp = [limit - ofm.zero_point for limit in output_limits(self.operation)]
        self.numbers = order.block_bytes, blocks, ofm.depth, _input_offset(ifm), _reach(ifm), zero_point, *clamp
        self.weights_bytes = blocks * order.block_bytes
        self.has_gaps = ofm.depth % 16 > 0 or 16 * order.places.size < order.block_bytes


def form_of(row: PlannedRow, operation: Convolution | DepthwiseConvolution) -> PackedForm | None:
    """The form of the constants of an operation; None if `pack_streams` does not take them."""
    if row.kind == r.GENERAL or row.order is None or row.order.places.size > _MAX_INPUTS or row.fields.get("finish") == r.SUM:
        return None
    return PackedForm(operation, row.order)


@dataclass(slots=True, eq=False)
class Packing:
    """An operation whose constants are to be packed."""

    index: int
    """Of its row in the table."""
    row: PackedRow
    constants: ConstantBytes

    @property
    def form(self) -> PackedForm:
        """What `pack_streams` makes of them, if it takes them."""
        assert self.row.planned.form is not None
        return self.row.planned.form


_NUMBERS = ("length", "blocks", "depth", "input_offset", "reach", "zero_point", "low", "high")


def pack_streams(
    packings: Sequence[Packing], table: npt.NDArray[np.void], accelerator: Accelerator, num_threads: int = 1
) -> None:
    """Pack the constants of operations that have a form, of the rows of a table. Raises SimulationError.

    A row stays GENERAL if that takes what `pack_constants` does for constants beyond the common.
    """
    if not packings:
        return
    forms, packed = [packing.form for packing in packings], np.zeros(len(packings), PACKED)
    for name, column in zip(_NUMBERS, np.array([form.numbers for form in forms], np.int64).T, strict=True):
        packed[name] = column
    sizes, blocks, depths = packed["length"] * packed["blocks"], packed["blocks"], packed["depth"]
    weights, stages = _aligned(int(sizes.sum())), zeroed(r.CHANNELS, int(blocks.sum()))
    own_weights, own_stages = _parts(weights, sizes), _parts(stages, blocks)
    for form, own in zip(forms, own_weights, strict=True):
        if form.has_gaps:
            own[:] = 0
    packed["groups"], packed["first"] = array_address(weights) + _starts(sizes), _starts(depths)
    packed["stage"] = stages.ctypes.data + _starts(blocks) * r.CHANNELS_BYTES
    constants = [packing.constants for packing in packings]
    _group_weights(forms, accelerator)
    try:
        fits = _decode_weights(forms, constants, packed["groups"].tolist(), accelerator, num_threads)
        channels = _decode_channels(forms, constants, accelerator)
    except StreamError as error:
        raise SimulationError(str(error)) from error
    make_channels(packed, *channels, LIMIT, _MAX_FLOOR_SHIFT)
    done = np.flatnonzero(fits & (packed["finish"] != IMPOSSIBLE)).tolist()
    table["finish"][[packings[k].index for k in done]] = packed["finish"][done]
    for k in done:
        packings[k].row.arrays |= {"weights": own_weights[k], "stage": own_stages[k]}
    _keep([packings[k] for k in done], table, packed["stage"][done], packed["groups"][done])


_LARGE_BYTES = 1 << 22
"""From here on numpy asks for large pages: a first touch of every 4,096 bytes takes time. What is not needed is not touched."""


def _aligned(size: int) -> npt.NDArray[np.int8]:
    """Bytes from the start of a cache line on, as vectors of 64 bytes are read fastest."""
    room = np.empty(size + 63 if size < _LARGE_BYTES // 4 else max(size + 63, _LARGE_BYTES), np.int8)
    skipped = -array_address(room) % 64
    return room[skipped : skipped + size]


def _starts(sizes: Ints) -> Ints:
    """Where each of several things begins that lie one after the other."""
    return np.cumsum(sizes) - sizes


def _parts(array: npt.NDArray[Element], sizes: Ints) -> list[npt.NDArray[Element]]:
    """`array`, cut into pieces of these sizes."""
    return [array[end - size : end] for size, end in zip(sizes.tolist(), np.cumsum(sizes).tolist(), strict=True)]


def _group_weights(forms: Sequence[PackedForm], accelerator: Accelerator) -> None:
    """Say how weights are packed, where that is not known yet."""
    format, known = family_of(accelerator.product).weights, dict[tuple[object, ...], Sequence[GroupedWeights]]()
    for form in forms:
        if not form.grouped:
            operation, order, shape = form.operation, form.order, weight_shape(form.operation)
            key = order, WeightUse.of(operation), shape
            if key not in known:
                orders = weight_orders(operation, accelerator)
                known[key] = [format.grouped(shape, one, order.places, order.block_bytes) for one in orders]
            form.grouped = known[key]


def _decode_weights(
    forms: Sequence[PackedForm],
    constants: Sequence[ConstantBytes],
    groups: Sequence[int],
    accelerator: Accelerator,
    num_threads: int,
) -> npt.NDArray[np.bool_]:
    """Decode the weights of operations to the addresses of their groups; whether all have 8 bits. Raises StreamError."""
    streams, owners = list[GroupedStream](), list[int]()
    for index, (form, own, address) in enumerate(zip(forms, constants, groups, strict=True)):
        for one, (_, _, size), at in zip(form.grouped, own.ranges, own.addresses, strict=False):
            streams.append(one.stream(at, size, address))
            owners.append(index)
    fits, decode_groups = np.ones(len(forms), np.bool_), family_of(accelerator.product).weights.decode_groups
    fits[[owner for owner, fit in zip(owners, decode_groups(streams, num_threads), strict=True) if not fit]] = False
    return fits


def _decode_channels(
    forms: Sequence[PackedForm], constants: Sequence[ConstantBytes], accelerator: Accelerator
) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts of all operations, one after the other. Raises StreamError."""
    depths = [form.operation.ofm.depth for form in forms]
    ends, places = list(accumulate(depths)), list[RecordPlace]()
    for own, depth, end in zip(constants, depths, ends, strict=True):
        cores = len(own.addresses) // 2
        for core, address in enumerate(own.addresses[cores:]):
            places.append((address, len(range(core, depth, cores)), end - depth + core, cores))
    biases, scales, shifts = family_of(accelerator.product).scales.decode_at(places, sum(depths))
    for form, end in zip(forms, ends, strict=True):
        if (scale := form.operation.scale) is not None:
            channels = slice(end - form.operation.ofm.depth, end)
            scales[channels], shifts[channels] = scale.scale, scale.shift
    return biases, scales, shifts


def _reach(ifm: FeatureMap) -> int:
    element, zero_point = ifm.element, ifm.zero_point
    return max(abs(element.minimum - zero_point), abs(element.maximum - zero_point))


def _input_offset(ifm: FeatureMap) -> int:
    """What the inputs that the kernels multiply are larger by: unsigned bytes, unless dot products are of signed ones."""
    return ifm.zero_point + (0 if current().has_signed_dot_product else 128) - unsigned_offset(ifm.element)


def pack_constants(packing: Packing, table: npt.NDArray[np.void], constants: DecodedConstants) -> None:
    """Pack constants decoded from the source.

    The row stays GENERAL if the fast kernels would not be exact with them. Weights beyond 8 bits are sums of several, by which
    the kernels multiply one after the other.
    """
    row, operation, own_order = packing.row, packing.constants.operation, packing.row.planned.order
    assert own_order is not None
    n, depth = row.numbers, operation.ofm.depth
    scales, shifts = constants.scales, constants.shifts
    if operation.scale is not None:
        scales, shifts = np.full_like(scales, operation.scale.scale), np.full_like(shifts, operation.scale.shift)
    weights, biases, ifm = constants.weights.reshape(depth, -1), constants.biases, operation.ifm
    sums = np.empty((2, depth), np.int64)
    if weights.shape[1] > _MAX_INPUTS:
        return
    terms = [weights] if summarise(weights, sums) <= 127 else _split(weights)
    spread = sums[1] * _reach(ifm)
    is_plain = n["finish"] != r.SUM
    bound = spread + np.abs(biases)
    if is_plain and (shifts.max() > _MAX_FLOOR_SHIFT or bound.max() >= LIMIT):
        results, is_constant = np.empty(depth, np.int64), np.empty(depth, np.bool_)
        clamp = (limit - operation.ofm.zero_point for limit in output_limits(operation))
        constant_channels(biases, spread, scales, shifts, int(operation.rounding), *clamp, results, is_constant)
        biases, scales = np.where(is_constant, results << 10, biases), np.where(is_constant, CONSTANT_SCALE, scales)
        shifts, sums, spread = np.where(is_constant, CONSTANT_SHIFT, shifts), sums * ~is_constant, spread * ~is_constant
        terms, bound = [term * ~is_constant[:, None] for term in terms], spread + np.abs(biases)
    biases = biases - _input_offset(ifm) * sums[0]
    is_clamped = output_limits(operation)[0] >= operation.ofm.zero_point
    is_floor = bool(is_plain and is_clamped and shifts.min() >= 32 and shifts.max() <= _MAX_FLOOR_SHIFT)
    stage = zeroed(r.CHANNELS, -(-depth // 16))
    if is_plain:
        zero_point = operation.ofm.zero_point - unsigned_offset(operation.ofm.element)
        if not make_stage(biases, scales, shifts, bound, zero_point, LIMIT, is_floor, stage):
            return
        n["finish"] = r.FLOOR if is_floor else r.REQUANTIZE
    elif bound.max() >= 1 << 31:
        return
    else:
        stage["bias"][np.arange(depth) // 16, np.arange(depth) % 16] = biases.astype(np.int32)
        n["values"]["sums"], n["values"]["sums_scales"] = n["sums"], row.table("scales", scales)
        n["values"]["sums_shifts"] = row.table("shifts", shifts)
    order = own_order if len(terms) == 1 else own_order.repeated(len(terms))
    packed = np.zeros(-(-depth // 16) * order.block_bytes, np.int8)
    pack(np.concatenate(terms, 1), order.weights, packed, 16, 4)
    row.used = order
    for name, value in order.fields.items():
        n[name] = value
    addresses = [[row.table("stage", stage)], [row.table("weights", packed)]]
    _keep([packing], table, *np.array(addresses, np.int64))


def _keep(packings: Sequence[Packing], table: npt.NDArray[np.void], stages: Ints, weights: Ints) -> None:
    """Let rows of a table point to packed constants, by the addresses of their stages and weights."""
    at, own = [packing.index for packing in packings], [packing.constants for packing in packings]
    counts = np.array([len(constants.ranges) for constants in own], np.int64)
    checks = [  # `CHECK`s
        (*part, address) for constants in own for part, address in zip(constants.ranges, constants.addresses, strict=True)
    ]
    kept = np.array(checks, np.int64).reshape(-1, 4)
    for packing in packings:
        packing.row.checks, packing.row.constants = kept, packing.constants
    table["checks"][at], table["check_count"][at] = array_address(kept) + kept.strides[0] * _starts(counts), counts
    table["stage"][at], table["weights"][at] = stages, weights
    table["kind"][at] = [packing.row.planned.kind for packing in packings]


def _split(weights: Weights) -> list[Weights]:
    """Weights of 8 bits whose sum `weights` is."""
    terms = []
    while weights.any():
        terms.append(np.clip(weights, -128, 127))
        weights = weights - terms[-1]
    return terms
