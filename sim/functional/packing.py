"""Weights and scale records as the fast kernels read them, packed whenever they have changed in memory.

The only place that decides whether constants are within what the kernels do exactly.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
import numpy.typing as npt

from npu.isa.operations import Convolution, DepthwiseConvolution, ElementType, FeatureMap, KernelOperation
from npu.native.call import array_address
from npu.numerics.arrays import Ints
from npu.records import dataclass
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import scale_channels
from sim.functional.kernels.pack import CHANNEL_RULES, IMPOSSIBLE, make_channels, make_stage, pack, summarise
from sim.functional.kernels.values import zeroed
from sim.functional.weights import DecodedConstants, decode_channels, decode_groups, source_ranges
from sim.inconsistent import output_limits
from sim.memory import NpuMemory

Weights = npt.NDArray[np.int16]
LIMIT = 1 << 30
"""Bound of the sums that the kernels requantize."""
_MAX_FLOOR_SHIFT = 50
"""From 32 up to here product, rounding and zero point fit 64 bits, and the rest of the shift the high half."""
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
    numbers: dict[str, int] = field(init=False)
    """Of all of this, what a row has."""

    def __post_init__(self) -> None:
        self.inputs = (self.parts[:, None] + 4 * np.arange(self.dwords)).reshape(-1)
        tables = {"segment_table": self.parts.ctypes.data, "input_table": self.inputs.ctypes.data}
        self.numbers = {"segments": self.parts.size, "dwords": self.dwords, **tables}
        at = np.flatnonzero(self.weights >= 0)
        self.places = np.empty(at.size, np.int64)
        self.places[self.weights[at]] = at // 4 * r.WEIGHTS_BYTES + at % 4

    def describe(self, row: np.void) -> None:
        """Fill in the numbers of a row, which must be kept together with this."""
        for name, number in self.numbers.items():
            row[name] = number

    def repeated(self, times: int) -> PackedOrder:
        """For so many sets of weights, one after the other."""
        size = self.places.size
        weights = [np.where(self.weights < 0, -1, self.weights + k * size) for k in range(times)]
        return PackedOrder(np.concatenate(weights), np.concatenate([self.parts] * times), self.dwords)


@dataclass(slots=True, eq=False)
class PackedRow:
    """A row and the arrays that its addresses point to."""

    numbers: np.void = field(default_factory=lambda: zeroed(r.ROW)[0])
    kind: int = r.GENERAL
    """What `numbers["kind"]` becomes once constants are there."""
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    order: PackedOrder | None = None
    used: PackedOrder | None = None
    """For the weights that there are."""
    limits: npt.NDArray[np.void] | None = None
    """Shared with other rows."""
    sums_bytes: int = 0
    """Memory that the row needs at `sums` while it is executed."""

    def table(self, name: str, array: npt.NDArray[np.generic]) -> int:
        """Keep an array and return its address."""
        self.arrays[name] = kept = np.ascontiguousarray(array)
        if kept.dtype.names is not None:  # the interface would describe every field
            return kept.ctypes.data
        return array_address(kept)


def unsigned_offset(element: ElementType) -> int:
    """What the kernels subtract from unsigned values, to have signed bytes."""
    return 0 if element.is_signed else 128


def pack_streams(
    row: PackedRow,
    operation: Convolution | DepthwiseConvolution,
    memory: NpuMemory,
    source: list[npt.NDArray[np.uint8]],
) -> bool:
    """Pack the constants in memory, of whose ranges `source` are copies. Raises SimulationError.

    False, and the row is GENERAL, if that takes what `pack_constants` does for constants beyond the common.
    """
    n, ifm, ofm, order = row.numbers, operation.ifm, operation.ofm, row.order
    n["kind"], n["checks"] = r.GENERAL, 0
    if n["finish"] == r.SUM or order is None or order.places.size > _MAX_INPUTS:
        return False
    blocks = -(-ofm.depth // 16)
    groups, stage, rules = (
        np.zeros(blocks * 16 * order.weights.size, np.int8),
        zeroed(r.CHANNELS, blocks),
        zeroed(CHANNEL_RULES),
    )
    if not decode_groups(operation, memory, order.places, groups):
        return False
    biases, scales, shifts = decode_channels(operation, memory)
    if operation.scale is not None:
        scales, shifts = np.full_like(scales, operation.scale.scale), np.full_like(shifts, operation.scale.shift)
    is_clamped = output_limits(operation)[0] >= ofm.zero_point
    zero_point = ofm.zero_point - unsigned_offset(ofm.element)
    rules[0] = _input_offset(ifm), _reach(ifm), zero_point, LIMIT, _MAX_FLOOR_SHIFT, is_clamped
    finish = make_channels(groups, biases, scales, shifts, rules, stage)
    if finish == IMPOSSIBLE:
        return False
    n["finish"] = finish
    _keep(row, operation, source, stage, order, groups)
    return True


def _reach(ifm: FeatureMap) -> int:
    return max(abs(ifm.element.minimum - ifm.zero_point), abs(ifm.element.maximum - ifm.zero_point))


def _input_offset(ifm: FeatureMap) -> int:
    """What the inputs that the kernels see are larger by."""
    return ifm.zero_point + 128 - unsigned_offset(ifm.element)


def pack_constants(
    row: PackedRow,
    operation: Convolution | DepthwiseConvolution,
    constants: DecodedConstants,
    source: list[npt.NDArray[np.uint8]],
) -> None:
    """Pack constants decoded from `source`, copies of the bytes of its ranges.

    The row stays GENERAL if the fast kernels would not be exact with them. Weights beyond 8 bits are sums of several, by which
    the kernels multiply one after the other.
    """
    n, depth = row.numbers, operation.ofm.depth
    n["kind"], n["checks"] = r.GENERAL, 0
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
    assert row.order is not None
    order = row.order if len(terms) == 1 else row.order.repeated(len(terms))
    packed = np.zeros(-(-depth // 16) * 16 * order.weights.size, np.int8)
    pack(np.concatenate(terms, 1), order.weights, packed, 16, 4)
    _keep(row, operation, source, stage, order, packed)


def _keep(
    row: PackedRow,
    operation: Convolution | DepthwiseConvolution,
    source: list[npt.NDArray[np.uint8]],
    stage: npt.NDArray[np.void],
    order: PackedOrder,
    packed: npt.NDArray[np.int8],
) -> None:
    """Let the row point to packed constants."""
    n, row.used = row.numbers, order
    order.describe(n)
    n["stage"], n["weights"] = row.table("stage", stage), row.table("weights", packed)
    checks = [  # `CHECK`s
        (part.region, part.address, part.length_bytes, row.table(f"source {k}", kept))
        for k, (part, kept) in enumerate(zip(source_ranges(operation), source, strict=True))
    ]
    n["checks"], n["check_count"], n["kind"] = row.table("checks", np.array(checks, np.int64)), len(checks), row.kind


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
