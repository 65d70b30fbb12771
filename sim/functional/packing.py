"""Weights and scale records as the fast kernels read them, packed whenever they have changed in memory.

The only place that decides whether constants are within what the kernels do exactly.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import field

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.hardware.variant import Accelerator
from npu.isa.families import family_of
from npu.isa.operations import Convolution, DepthwiseConvolution, ElementType, FeatureMap
from npu.isa.weight_stream.decode import GroupedWeights
from npu.isa.weight_stream.use import WeightUse, weight_shape
from npu.native.call import array_address
from npu.native.cpu import current
from npu.native.types import offset_of
from npu.numerics.arrays import Ints, starts
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
    """The row of an operation."""

    planned: PlannedRow
    numbers: np.void
    """The row in the table of its stream."""
    kept: list[npt.NDArray[np.generic]] = field(default_factory=list)
    """What its addresses point to, unless `pack_streams` has made it."""

    def table(self, array: npt.NDArray[np.generic]) -> int:
        """Keep an array and return its address."""
        self.kept.append(np.ascontiguousarray(array))
        return _address(self.kept[-1])


def packed_bytes(row: np.void, name: str) -> bytes:
    """What the address `weights` or `stage` of a row points to."""
    block_bytes = r.CHANNELS_BYTES if name == "stage" else row["segments"] * row["dwords"] * r.WEIGHTS_BYTES
    return ctypes.string_at(int(row[name]), int(row["blocks"] * block_bytes))


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
    kind: int
    """Of their rows."""
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
    return PackedForm(operation, row.order, row.kind)


_NUMBERS = ("length", "blocks", "depth", "input_offset", "reach", "zero_point", "low", "high")


def pack_streams(
    forms: Sequence[PackedForm],
    of: Ints,
    constants: ConstantBytes,
    table: npt.NDArray[np.void],
    accelerator: Accelerator,
    num_threads: int = 1,
) -> list[npt.NDArray[np.generic]]:
    """Pack the constants of operations, each of the form of this number, into the rows of a table. Raises SimulationError.

    A row stays GENERAL if that takes what `pack_constants` does for constants beyond the common. Returns what they point to.
    """
    packed = np.zeros(of.size, PACKED)
    for name, column in zip(_NUMBERS, np.array([form.numbers for form in forms], np.int64)[of].T, strict=True):
        packed[name] = column
    sizes, blocks = packed["length"] * packed["blocks"], packed["blocks"]
    weights, stages = _aligned(int(sizes.sum())), zeroed(r.CHANNELS, int(blocks.sum()))
    first, has_gaps = starts(sizes), np.array([form.has_gaps for form in forms])[of]
    for start, size in zip(first[has_gaps].tolist(), sizes[has_gaps].tolist(), strict=True):
        weights[start : start + size] = 0
    packed["groups"], packed["first"] = array_address(weights) + first, starts(packed["depth"])
    packed["stage"] = stages.ctypes.data + starts(blocks) * r.CHANNELS_BYTES
    _group_weights(forms, accelerator)
    try:
        fits = _decode_weights(forms, of, constants, packed["groups"], accelerator, num_threads)
        channels = _decode_channels(forms, of, constants, accelerator)
    except StreamError as error:
        raise SimulationError(str(error)) from error
    make_channels(packed, *channels, LIMIT, _MAX_FLOOR_SHIFT)
    done = np.flatnonzero(fits & (packed["finish"] != IMPOSSIBLE))
    at, kinds = constants.operations[done], np.array([form.kind for form in forms])[of]
    table["finish"][at], table["kind"][at] = packed["finish"][done], kinds[done]
    table["stage"][at], table["weights"][at] = packed["stage"][done], packed["groups"][done]
    return [weights, stages, *_check_later(constants, done, table)]


_LARGE_BYTES = 1 << 22
"""From here on numpy asks for large pages: a first touch of every 4,096 bytes takes time. What is not needed is not touched."""


def _aligned(size: int) -> npt.NDArray[np.int8]:
    """Bytes from the start of a cache line on, as vectors of 64 bytes are read fastest."""
    room = np.empty(size + 63 if size < _LARGE_BYTES // 4 else max(size + 63, _LARGE_BYTES), np.int8)
    skipped = -array_address(room) % 64
    return room[skipped : skipped + size]


def _group_weights(forms: Sequence[PackedForm], accelerator: Accelerator) -> None:
    """Say how weights are packed, where that is not known yet."""
    format, known = family_of(accelerator.product).weights.of_cores, dict[tuple[object, ...], Sequence[GroupedWeights]]()
    for form in forms:
        if not form.grouped:
            key = order, use, shape = form.order, WeightUse.of(form.operation), weight_shape(form.operation)
            if key not in known:
                orders = weight_orders(use, shape[0], accelerator)
                known[key] = [format.grouped(shape, one, order.places, order.block_bytes) for one in orders]
            form.grouped = known[key]


def _cores(constants: ConstantBytes) -> tuple[Ints, Ints, Ints]:
    """Of each weight stream the operation, by its number among these, the core, and the number of its range.

    As many ranges behind that are the scale records of the core.
    """
    cores = constants.counts // 2
    owner = np.repeat(np.arange(cores.size), cores)
    core = np.arange(owner.size) - starts(cores)[owner]
    return owner, core, starts(constants.counts)[owner] + core


def _decode_weights(
    forms: Sequence[PackedForm],
    of: Ints,
    constants: ConstantBytes,
    groups: Ints,
    accelerator: Accelerator,
    num_threads: int,
) -> npt.NDArray[np.bool_]:
    """Decode the weights of operations to the addresses of their groups; whether all have 8 bits. Raises StreamError."""
    format, (owner, core, at) = family_of(accelerator.product).weights.of_cores, _cores(constants)
    first = starts(np.array([len(form.grouped) for form in forms], np.int64))
    grouped, own = [one for form in forms for one in form.grouped], first[of[owner]] + core
    streams = format.streams(grouped, own, constants.addresses[at], constants.ranges[at, 2], groups[owner])
    fits = np.ones(of.size, np.bool_)
    fits[owner[~format.decode_groups(streams, num_threads)]] = False
    return fits


def _decode_channels(
    forms: Sequence[PackedForm], of: Ints, constants: ConstantBytes, accelerator: Accelerator
) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts of all operations, one after the other. Raises StreamError."""
    depths, cores, (owner, core, at) = (
        np.array([form.operation.ofm.depth for form in forms])[of],
        constants.counts // 2,
        _cores(constants),
    )
    first, step = starts(depths), cores[owner]
    places = constants.addresses[at + step], -(-(depths[owner] - core) // step), first[owner] + core, step
    format = family_of(accelerator.product).weights.of_cores
    biases, scales, shifts = format.decode_scales_at(np.stack(places, axis=1), int(depths.sum()))
    for number, form in enumerate(forms):
        if (scale := form.operation.scale) is not None:
            for start in first[of == number].tolist():
                channels = slice(start, start + form.operation.ofm.depth)
                scales[channels], shifts[channels] = scale.scale, scale.shift
    return biases, scales, shifts


def _reach(ifm: FeatureMap) -> int:
    element, zero_point = ifm.element, ifm.zero_point
    return max(abs(element.minimum - zero_point), abs(element.maximum - zero_point))


def _input_offset(ifm: FeatureMap) -> int:
    """What the inputs that the kernels multiply are larger by: unsigned bytes, unless dot products are of signed ones."""
    return ifm.zero_point + (0 if current().has_signed_dot_product else 128) - unsigned_offset(ifm.element)


def pack_constants(
    row: PackedRow,
    operation: Convolution | DepthwiseConvolution,
    constants: DecodedConstants,
    source: ConstantBytes,
    table: npt.NDArray[np.void],
) -> None:
    """Pack constants decoded from the source into the row of a table.

    The row stays GENERAL if the fast kernels would not be exact with them. Weights beyond 8 bits are sums of several, by which
    the kernels multiply one after the other.
    """
    own_order, n, depth = row.planned.order, row.numbers, operation.ofm.depth
    assert own_order is not None
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
        n["values"]["sums"], n["values"]["sums_scales"] = n["sums"], row.table(scales)
        n["values"]["sums_shifts"] = row.table(shifts)
    order = own_order if len(terms) == 1 else own_order.repeated(len(terms))
    packed = np.zeros(-(-depth // 16) * order.block_bytes, np.int8)
    pack(np.concatenate(terms, 1), order.weights, packed, 16, 4)
    for name, value in order.fields.items():
        n[name] = value
    row.kept += [order.parts, order.inputs, *_check_later(source, np.array([0]), table)]
    n["stage"], n["weights"], n["kind"] = row.table(stage), row.table(packed), row.planned.kind


def _check_later(constants: ConstantBytes, own: Ints, table: npt.NDArray[np.void]) -> list[npt.NDArray[np.generic]]:
    """Let rows of a table say what those of the operations were packed from that have these numbers among them."""
    checks = np.concatenate([constants.ranges, constants.addresses[:, None]], axis=1)  # `CHECK`s
    at = constants.operations[own]
    table["checks"][at] = array_address(checks) + checks.strides[0] * starts(constants.counts)[own]
    table["check_count"][at] = constants.counts[own]
    return [checks, *constants.kept]


def _split(weights: Weights) -> list[Weights]:
    """Weights of 8 bits whose sum `weights` is."""
    terms = []
    while weights.any():
        terms.append(np.clip(weights, -128, 127))
        weights = weights - terms[-1]
    return terms
