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
from npu.isa.family import weight_shape
from npu.isa.operations import Convolution, DepthwiseConvolution, ElementType, FeatureMap, KernelOperation
from npu.isa.weight_stream.decode import GroupedStream
from npu.native.call import array_address
from npu.native.types import offset_of
from npu.numerics.arrays import Ints
from npu.records import dataclass
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import scale_channels
from sim.functional.kernels.pack import IMPOSSIBLE, PACKED, make_channels, make_stage, pack, summarise
from sim.functional.kernels.values import NUMBERS, zeroed
from sim.functional.weights import Bytes, DecodedConstants, scale_records, source_ranges, weight_orders
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
    fields: dict[str, int] = field(init=False)
    """Of all of this, what a row has, which must be kept together with this."""

    def __post_init__(self) -> None:
        self.inputs = (self.parts[:, None] + 4 * np.arange(self.dwords)).reshape(-1)
        tables = {"segment_table": self.parts.ctypes.data, "input_table": self.inputs.ctypes.data}
        self.fields = {"segments": self.parts.size, "dwords": self.dwords, **tables}
        at = np.flatnonzero(self.weights >= 0)
        self.places = np.empty(at.size, np.int64)
        self.places[self.weights[at]] = at // 4 * r.WEIGHTS_BYTES + at % 4

    def repeated(self, times: int) -> PackedOrder:
        """For so many sets of weights, one after the other."""
        size = self.places.size
        weights = [np.where(self.weights < 0, -1, self.weights + k * size) for k in range(times)]
        return PackedOrder(np.concatenate(weights), np.concatenate([self.parts] * times), self.dwords)


@dataclass(slots=True, eq=False)
class PackedRow:
    """A row and the arrays that its addresses point to."""

    fields: dict[str, int] = field(default_factory=dict)
    """What is known when the operation is planned, the rest being 0."""
    values: np.void | None = None
    """The field of that name."""
    numbers: np.void = field(init=False)
    """The row in the table of its stream, by `make_table`."""
    kind: int = r.GENERAL
    """What `numbers["kind"]` becomes once constants are there."""
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    order: PackedOrder | None = None
    used: PackedOrder | None = None
    """For the weights that there are."""
    limits: npt.NDArray[np.void] | None = None
    """Shared with other rows."""
    checks: Ints | None = None
    source: Sequence[Bytes] = ()
    """What the constants were made from."""
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
        if kept.dtype.names is not None:  # the interface would describe every field
            return kept.ctypes.data
        return array_address(kept)


def make_table(rows: Sequence[PackedRow]) -> npt.NDArray[np.void]:
    """The rows as the kernels see them."""
    content = bytearray(len(rows) * r.ROW_BYTES)
    table, words = np.frombuffer(content, r.ROW), memoryview(content).cast("q")
    for index, (row, numbers) in enumerate(zip(rows, table, strict=True)):
        first = index * r.ROW_BYTES // _WORD_BYTES
        for name, value in row.fields.items():
            words[first + _WORD_OF[name]] = value
        if row.values is not None:
            numbers["values"] = row.values
        row.numbers = numbers
    return table


def unsigned_offset(element: ElementType) -> int:
    """What the kernels subtract from unsigned values, to have signed bytes."""
    return 0 if element.is_signed else 128


@dataclass(frozen=True, slots=True)
class Packing:
    """An operation whose constants are to be packed, and the bytes of its `source_ranges`, which nobody writes."""

    row: PackedRow
    operation: Convolution | DepthwiseConvolution
    source: Sequence[Bytes]

    @property
    def is_common(self) -> bool:
        """Whether `pack_streams` takes it."""
        row = self.row
        is_product = row.kind != r.GENERAL and row.order is not None and row.order.places.size <= _MAX_INPUTS
        return is_product and row.fields.get("finish") != r.SUM

    @property
    def order(self) -> PackedOrder:
        """What the kernels read."""
        assert self.row.order is not None
        return self.row.order

    @property
    def blocks(self) -> int:
        """Groups of 16 output channels."""
        return -(-self.operation.ofm.depth // 16)

    @property
    def block_bytes(self) -> int:
        """Packed weights of such a group."""
        return 16 * self.order.weights.size

    @property
    def weights_bytes(self) -> int:
        """All packed weights."""
        return self.blocks * self.block_bytes


def pack_streams(packings: Sequence[Packing], accelerator: Accelerator, num_threads: int = 1) -> None:
    """Pack the constants of operations. Raises SimulationError.

    A row stays GENERAL if that takes what `pack_constants` does for constants beyond the common.
    """
    packings = [packing for packing in packings if packing.is_common]
    if not packings:
        return
    sizes, blocks = [packing.weights_bytes for packing in packings], [packing.blocks for packing in packings]
    weights, stages = _parts(_aligned_zeros(sum(sizes)), sizes), _parts(zeroed(r.CHANNELS, sum(blocks)), blocks)
    try:
        fits = _decode_weights(packings, weights, accelerator, num_threads)
        channels = _decode_channels(packings, accelerator)
    except StreamError as error:
        raise SimulationError(str(error)) from error
    packed = _packed_rows(packings, weights, stages)
    make_channels(packed, *channels, LIMIT, _MAX_FLOOR_SHIFT)
    done = []
    for packing, own, stage, fit, finish in zip(packings, weights, stages, fits, packed["finish"].tolist(), strict=True):
        if fit and finish != IMPOSSIBLE:
            packing.row.numbers["finish"] = finish
            done.append((packing, stage, own, packing.order))
    _keep(done)


def _aligned_zeros(size: int) -> npt.NDArray[np.int8]:
    """Zeros from the start of a cache line on, as vectors of 64 bytes are read fastest."""
    zeros = np.zeros(size + 63, np.int8)
    skipped = -zeros.ctypes.data % 64
    return zeros[skipped : skipped + size]


def _parts(array: npt.NDArray[Element], sizes: Sequence[int]) -> list[npt.NDArray[Element]]:
    """`array`, cut into pieces of these sizes."""
    return [array[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _decode_weights(
    packings: Sequence[Packing], weights: Sequence[npt.NDArray[np.int8]], accelerator: Accelerator, num_threads: int
) -> list[bool]:
    """Decode the weights of operations; whether all of each have 8 bits. Raises StreamError."""
    streams, owners = list[GroupedStream](), list[int]()
    for index, (packing, own) in enumerate(zip(packings, weights, strict=True)):
        shape, places = weight_shape(packing.operation), packing.order.places
        for data, order in zip(packing.source, weight_orders(packing.operation, accelerator), strict=False):
            streams.append(GroupedStream(data, shape, order, places, own))
            owners.append(index)
    fits = family_of(accelerator.product).weights.decode_groups(streams, num_threads)
    wide = {owner for owner, fit in zip(owners, fits, strict=True) if not fit}
    return [index not in wide for index in range(len(packings))]


def _decode_channels(packings: Sequence[Packing], accelerator: Accelerator) -> tuple[Ints, Ints, Ints]:
    """Biases, scales and shifts of all operations, one after the other. Raises StreamError."""
    format = family_of(accelerator.product).scales
    records = [scale_records(packing.operation, packing.source[len(packing.source) // 2 :], format) for packing in packings]
    depths = [packing.operation.ofm.depth for packing in packings]
    biases, scales, shifts = format.decode(np.concatenate(records), sum(depths))
    for packing, own_scales, own_shifts in zip(packings, _parts(scales, depths), _parts(shifts, depths), strict=True):
        if packing.operation.scale is not None:
            own_scales[:], own_shifts[:] = packing.operation.scale.scale, packing.operation.scale.shift
    return biases, scales, shifts


def _packed_rows(
    packings: Sequence[Packing], weights: Sequence[npt.NDArray[np.int8]], stages: Sequence[npt.NDArray[np.void]]
) -> npt.NDArray[np.void]:
    """What `make_channels` takes."""
    first, rows = 0, []
    for packing, own, stage in zip(packings, weights, stages, strict=True):
        ifm, ofm = packing.operation.ifm, packing.operation.ofm
        zero_point = ofm.zero_point - unsigned_offset(ofm.element)
        is_clamped = output_limits(packing.operation)[0] >= ofm.zero_point
        places = array_address(own), packing.block_bytes, packing.blocks, first, ofm.depth, stage.ctypes.data
        rows.append((*places, _input_offset(ifm), _reach(ifm), zero_point, is_clamped, 0))
        first += ofm.depth
    return np.array(rows, PACKED)


def _reach(ifm: FeatureMap) -> int:
    return max(abs(ifm.element.minimum - ifm.zero_point), abs(ifm.element.maximum - ifm.zero_point))


def _input_offset(ifm: FeatureMap) -> int:
    """What the inputs that the kernels see are larger by."""
    return ifm.zero_point + 128 - unsigned_offset(ifm.element)


def pack_constants(packing: Packing, constants: DecodedConstants) -> None:
    """Pack constants decoded from the source.

    The row stays GENERAL if the fast kernels would not be exact with them. Weights beyond 8 bits are sums of several, by which
    the kernels multiply one after the other.
    """
    row, operation = packing.row, packing.operation
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
        values, is_constant = _constant_channels(operation, biases, spread, scales, shifts)
        biases, scales = np.where(is_constant, values << 10, biases), np.where(is_constant, 1 << 30, scales)
        shifts, sums, spread = np.where(is_constant, 40, shifts), sums * ~is_constant, spread * ~is_constant
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
    order = packing.order if len(terms) == 1 else packing.order.repeated(len(terms))
    packed = np.zeros(-(-depth // 16) * 16 * order.weights.size, np.int8)
    pack(np.concatenate(terms, 1), order.weights, packed, 16, 4)
    _keep([(packing, stage, packed, order)])


def _keep(packings: Sequence[tuple[Packing, npt.NDArray[np.void], npt.NDArray[np.int8], PackedOrder]]) -> None:
    """Let the rows point to packed constants: stage, weights, and the order of these."""
    checks = [  # `CHECK`s
        (part.region, part.address, part.length_bytes, kept.ctypes.data)
        for packing, *_ in packings
        for part, kept in zip(source_ranges(packing.operation), packing.source, strict=True)
    ]
    all_checks, first = np.array(checks, np.int64), 0
    for packing, stage, packed, order in packings:
        row, n = packing.row, packing.row.numbers
        if order is not row.used:
            row.used = order
            for name, value in order.fields.items():
                n[name] = value
        n["stage"], n["weights"] = row.table("stage", stage), row.table("weights", packed)
        n["checks"], n["check_count"] = array_address(all_checks) + all_checks.strides[0] * first, len(packing.source)
        n["kind"], row.checks, row.source = row.kind, all_checks, packing.source
        first += len(packing.source)


def _split(weights: Weights) -> list[Weights]:
    """Weights of 8 bits whose sum `weights` is."""
    terms = []
    while weights.any():
        terms.append(np.clip(weights, -128, 127))
        weights = weights - terms[-1]
    return terms


def _constant_channels(
    operation: KernelOperation, biases: Ints, spread: Ints, scales: Ints, shifts: Ints
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """(result less the zero point, whether it is the same for all sums within `spread` of the bias) of every channel.

    Converters give channels whose weights are all but zero such constants, with biases and shifts beyond all others.
    """
    low, high = output_limits(operation)
    zero_point = operation.ofm.zero_point
    ends = np.stack([biases - spread, biases + spread])[None]
    is_small = np.abs(ends).max((0, 1)) < 1 << 31  # so that the product fits 64 bits and grows with the sum
    scale_channels(ends, scales, shifts, np.int64(operation.rounding))
    values = np.clip(ends[0], low - zero_point, high - zero_point)
    return values[0], is_small & (values[0] == values[1])
