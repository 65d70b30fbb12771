"""Weights to weight streams: the only place that makes them.

The stream is the shortest of several: sections found by merging neighbouring segments, one section, and the naive encoding
without palette and zero runs, which is therefore an upper bound.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.isa.weight_stream.kernels import search
from npu.isa.weight_stream.order import WeightOrder, reorder
from npu.records import dataclass

WEIGHT_LIMIT = 255
"""Largest magnitude of a weight without its zero point."""
Encoder = Callable[[NDArray[np.int16], WeightOrder], bytes]
"""`encode_weights`, or `stand_in` where a stream is needed for its size alone."""

_ALIGNMENT = 16
_SEGMENT = 2048
_CLOSE = 1.005
"""Plans whose estimate is this close to the best one are emitted and compared."""


@dataclass(frozen=True, slots=True)
class _StreamCut:
    """How a stream is cut: rows of sections, a palette for each, and the estimated bits."""

    sections: NDArray[np.int64]
    palettes: NDArray[np.int64]
    cost: int

    @property
    def is_naive(self) -> bool:
        """Whether the stream has neither palette nor zero runs, and no offset."""
        return len(self.sections) == 1 and not self.sections[0, search.HAS_RUNS : search.VALUE_BITS].any()


def encode_weights(values: NDArray[np.int16], order: WeightOrder) -> bytes:
    """Compressed stream of `order.core`, a multiple of 16 bytes.

    `values` are the weights of all cores minus their zero point, (O, KH, KW, I) with I = 1 for depthwise, -255..255.
    Raises StreamError.
    """
    return encode_symbols(reorder(values, order))


def encode_symbols(symbols: NDArray[np.int16]) -> bytes:
    """Compressed stream, a multiple of 16 bytes, of weights that are in stream order already."""
    codes = _codes(symbols)
    plans, naive_bits = _plans(codes)
    limit = min(plan.cost for plan in plans) * _CLOSE
    worth = [plan for plan in plans if plan.cost <= limit]
    candidates = [_emit(codes, plan) for plan in worth]
    if min(len(one) for one in candidates) * 8 > naive_bits and not any(plan.is_naive for plan in worth):
        candidates.append(encode_naively(symbols))
    return min(candidates, key=len)


def stand_in(values: NDArray[np.int16], order: WeightOrder) -> bytes:
    """As many bytes as `encode_weights` is expected to give, which tell one stream from another but decode to nothing."""
    symbols = reorder(values, order)
    plans, naive_bits = _plans(_codes(symbols))
    size = -(-min(naive_bits, *(plan.cost for plan in plans)) // (8 * _ALIGNMENT)) * _ALIGNMENT
    return hashlib.blake2b(symbols.data, digest_size=_ALIGNMENT).digest() + bytes(size - _ALIGNMENT)


def _plans(codes: NDArray[np.uint16]) -> tuple[list[_StreamCut], int]:
    """The ways to cut a stream that are worth a try, and the bits of one without palette and zero runs."""
    histograms, run_costs = _histograms(codes)
    if len(histograms) == 1:
        naive_bits = int(search.naive_cost(histograms[0]))
        return [_plan(len(codes), histograms, run_costs)], naive_bits
    total, total_runs = histograms.sum(axis=0, keepdims=True), run_costs.sum(axis=0, keepdims=True)
    naive_bits = int(search.naive_cost(total[0]))
    plans = [_plan(len(codes), histograms, run_costs)]
    if len(plans[0].sections) > 1:
        plans.append(_plan(len(codes), total, total_runs))
    return plans, naive_bits


def encode_naively(symbols: NDArray[np.int16]) -> bytes:
    """Stream without palette and zero runs; only the divisors are chosen."""
    codes = _codes(symbols)
    largest = int(codes.max(initial=0))
    plans = np.array([[0, len(codes), 0, 0, 0, max(2, largest.bit_length())]], dtype=np.int64)
    return _emit(codes, _StreamCut(plans, np.zeros((1, search.MAX_PALETTE), dtype=np.int64), 0))


def _codes(symbols: NDArray[np.int16]) -> NDArray[np.uint16]:
    if symbols.ndim != 1 or symbols.size == 0:
        raise StreamError(f"weights: must be a list of at least one weight, got shape {symbols.shape}")
    codes = np.empty(symbols.shape, dtype=np.uint16)
    if search.make_codes(np.ascontiguousarray(symbols, dtype=np.int16), codes) > WEIGHT_LIMIT:
        raise StreamError(f"weights: must be in [-{WEIGHT_LIMIT}, {WEIGHT_LIMIT}], got {symbols.min()} to {symbols.max()}")
    return codes


def _histograms(codes: NDArray[np.uint16]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Counts per code, and bits of zero runs per divisor, of every segment."""
    segments = -(-len(codes) // _SEGMENT)
    histograms = np.zeros((segments, search.CODES), dtype=np.int64)
    run_costs = np.zeros((segments, 4), dtype=np.int64)
    search.make_histograms(codes, _SEGMENT, histograms, run_costs)
    return histograms, run_costs


def _plan(length: int, histograms: NDArray[np.int64], run_costs: NDArray[np.int64]) -> _StreamCut:
    """Sections that come from merging the segments of these histograms, which are used up; one covers the whole stream."""
    segments = len(histograms)
    ends = (
        np.minimum(np.arange(1, segments + 1, dtype=np.int64) * _SEGMENT, length)
        if segments > 1
        else np.array([length], np.int64)
    )
    sections = np.zeros((segments, search.PLAN_COLUMNS), dtype=np.int64)
    palettes = np.zeros((segments, search.MAX_PALETTE), dtype=np.int64)
    count, cost = search.plan_sections(histograms, run_costs, ends, sections, palettes)
    return _StreamCut(sections[:count], palettes[:count], int(cost))


def _emit(codes: NDArray[np.uint16], plan: _StreamCut) -> bytes:
    count = len(plan.sections)
    buffer = np.empty(len(codes) * 2 + 64 * count + 64, dtype=np.uint32)
    words = int(search.emit_sections(codes, plan.sections, plan.palettes, count, buffer))
    return buffer[:words].astype("<u4").tobytes()
