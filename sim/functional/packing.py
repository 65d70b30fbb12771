"""Weights and scale records as the fast kernels read them, packed whenever they have changed in memory.

The only place that decides whether constants are within what the kernels do exactly.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
import numpy.typing as npt

from npu.isa.operations import Convolution, DepthwiseConvolution, FeatureMap, KernelOperation
from npu.records import dataclass
from sim.functional.kernels import rows as r
from sim.functional.kernels.output import scale_channels
from sim.functional.kernels.pack import make_stage, pack, summarise
from sim.functional.kernels.values import zeroed
from sim.functional.weights import DecodedConstants, source_ranges
from sim.inconsistent import output_limits

Numbers = npt.NDArray[np.int64]
Weights = npt.NDArray[np.int16]
LIMIT = 1 << 30
"""Bound of the sums that the kernels requantize."""
_MAX_FLOOR_SHIFT = 50
"""From 32 up to here product, rounding and zero point fit 64 bits, and the rest of the shift the high half."""
_MAX_INPUTS = 1 << 22
"""Bound of the weights per output channel, so that their sum fits 32 bits."""


@dataclass(slots=True, eq=False)
class PackedRow:
    """A row and the arrays that its addresses point to."""

    numbers: np.void = field(default_factory=lambda: zeroed(r.ROW)[0])
    kind: int = r.GENERAL
    """What `numbers["kind"]` becomes once constants are there."""
    arrays: dict[str, npt.NDArray[np.generic]] = field(default_factory=dict)
    sums_bytes: int = 0
    """Memory that the row needs at `sums` while it is executed."""

    def table(self, name: str, array: npt.NDArray[np.generic]) -> int:
        """Keep an array and return its address."""
        self.arrays[name] = kept = np.ascontiguousarray(array)
        if kept.dtype.names is not None:  # the interface would describe every field
            return kept.ctypes.data
        address: int = kept.__array_interface__["data"][0]  # a fifth of the time of `ctypes.data`
        return address


def unsigned_offset(fm: FeatureMap) -> int:
    """What the kernels subtract from unsigned values, to have signed bytes."""
    return 0 if fm.element.is_signed else 128


def pack_constants(
    row: PackedRow,
    operation: Convolution | DepthwiseConvolution,
    constants: DecodedConstants,
    source: list[npt.NDArray[np.uint8]],
) -> None:
    """Pack constants decoded from `source`, copies of the bytes of its ranges.

    The row stays GENERAL if the fast kernels would not be exact with them.
    The kernels read weights as [block of 16 channels][4 inputs][channel][input]; a depthwise kernel's 4 inputs are columns,
    for every part all its rows. Weights beyond 8 bits are sums of several, by which the kernels multiply one after the other.
    """
    n, depth = row.numbers, operation.ofm.depth
    n["kind"], n["checks"] = r.GENERAL, 0
    scales, shifts = constants.scales, constants.shifts
    if operation.scale is not None:
        scales, shifts = np.full_like(scales, operation.scale.scale), np.full_like(shifts, operation.scale.shift)
    weights, biases, ifm = constants.weights.reshape(depth, -1), constants.biases, operation.ifm
    reach = max(abs(ifm.element.minimum - ifm.zero_point), abs(ifm.element.maximum - ifm.zero_point))
    sums = np.empty((2, depth), np.int64)
    if weights.shape[1] > _MAX_INPUTS:
        return
    terms = [weights] if summarise(weights, sums) <= 127 else _split(weights)
    spread = sums[1] * reach
    is_plain = n["finish"] != r.SUM
    bound = spread + np.abs(biases)
    if is_plain and (shifts.max() > _MAX_FLOOR_SHIFT or bound.max() >= LIMIT):
        values, is_constant = _constant_channels(operation, biases, spread, scales, shifts)
        biases, scales = np.where(is_constant, values << 10, biases), np.where(is_constant, 1 << 30, scales)
        shifts, sums, spread = np.where(is_constant, 40, shifts), sums * ~is_constant, spread * ~is_constant
        terms, bound = [term * ~is_constant[:, None] for term in terms], spread + np.abs(biases)
    biases = biases - (ifm.zero_point + 128 - unsigned_offset(ifm)) * sums[0]
    is_clamped = output_limits(operation)[0] >= operation.ofm.zero_point
    is_floor = bool(is_plain and is_clamped and shifts.min() >= 32 and shifts.max() <= _MAX_FLOOR_SHIFT)
    stage = zeroed(r.CHANNELS, -(-depth // 16))
    if is_plain:
        zero_point = operation.ofm.zero_point - unsigned_offset(operation.ofm)
        if not make_stage(biases, scales, shifts, bound, zero_point, LIMIT, is_floor, stage):
            return
        n["finish"] = r.FLOOR if is_floor else r.REQUANTIZE
    elif bound.max() >= 1 << 31:
        return
    else:
        stage["bias"][np.arange(depth) // 16, np.arange(depth) % 16] = biases.astype(np.int32)
        n["values"]["sums"], n["values"]["sums_scales"] = n["sums"], row.table("scales", scales)
        n["values"]["sums_shifts"] = row.table("shifts", shifts)
    n["stage"] = row.table("stage", stage)
    parts = row.arrays["parts"] if len(terms) == 1 else np.concatenate([row.arrays["parts"]] * len(terms))
    n["segments"], n["segment_table"] = len(parts), row.table("segments", parts)
    if row.kind == r.CONVOLUTION:
        n["input_table"] = row.table("inputs", (parts[:, None] + 4 * np.arange(n["dwords"])).reshape(-1))
    n["weights"] = row.table("weights", _packed(row, terms))
    checks = np.empty(len(source), r.CHECK)
    for k, (part, kept) in enumerate(zip(source_ranges(operation), source, strict=True)):
        checks[k] = part.region, part.address, part.length_bytes, row.table(f"source {k}", kept)
    n["checks"], n["check_count"], n["kind"] = row.table("checks", checks), len(checks), row.kind


def _split(weights: Weights) -> list[Weights]:
    """Weights of 8 bits whose sum `weights` is."""
    terms = []
    while weights.any():
        terms.append(np.clip(weights, -128, 127))
        weights = weights - terms[-1]
    return terms


def _constant_channels(
    operation: KernelOperation, biases: Numbers, spread: Numbers, scales: Numbers, shifts: Numbers
) -> tuple[Numbers, npt.NDArray[np.bool_]]:
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


def _packed(row: PackedRow, terms: list[Weights]) -> npt.NDArray[np.int8]:
    order, weights = row.arrays["order"].astype(np.int64, copy=False), terms[0]
    if len(terms) > 1:
        order = np.concatenate([np.where(order < 0, -1, order + k * weights.shape[1]) for k in range(len(terms))])
        weights = np.concatenate(terms, 1)
    packed = np.zeros(-(-weights.shape[0] // 16) * 16 * order.size, np.int8)
    pack(weights, order, packed, 16, 4)
    return packed
