"""Weights to weight streams: the only place that makes them.

The stream is the shortest of several: sections found by merging neighbouring segments, one section, and the naive encoding
without palette and zero runs, which is therefore an upper bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.isa.operations import Kernel, Traversal
from npu.isa.scale_records import encode_scales
from npu.isa.weight_stream.kernels import search
from npu.isa.weight_stream.order import WeightOrder, reorder

__all__ = ["encode_naively", "encode_scales", "encode_symbols", "encode_weights"]

WEIGHT_LIMIT = 255
"""Largest magnitude of a weight without its zero point."""
_SEGMENT = 1024


def encode_weights(
    values: NDArray[np.int16],
    *,
    traversal: Traversal,
    is_depthwise: bool,
    ifm_bits: int,
    block_depth: int,
    kernel: Kernel,
    ofm_ublock_depth: int,
    ifm_ublock_depth: int,
    core: int = 0,
    cores: int = 1,
) -> bytes:
    """Compressed stream of core `core`, a multiple of 16 bytes.

    `values` are the weights of all cores minus their zero point, (O, KH, KW, I) with I = 1 for depthwise, -255..255.
    `block_depth` is the OFM block depth of the operation. Raises StreamError.
    """
    if kernel.height != values.shape[1] or kernel.width != values.shape[2]:
        raise StreamError(f"weights: kernel must be {kernel.height}x{kernel.width}, got shape {values.shape}")
    order = WeightOrder(
        block_depth=block_depth,
        traversal=traversal,
        is_depthwise=is_depthwise,
        ifm_bits=ifm_bits,
        dilation_y=kernel.dilation_y,
        dilation_x=kernel.dilation_x,
        ofm_ublock_depth=ofm_ublock_depth,
        ifm_ublock_depth=ifm_ublock_depth,
        core=core,
        cores=cores,
    )
    return encode_symbols(reorder(values, order))


def encode_symbols(symbols: NDArray[np.int16]) -> bytes:
    """Compressed stream, a multiple of 16 bytes, of weights that are in stream order already."""
    codes = _codes(symbols)
    candidates = [_emit(codes, _plan(codes, size)) for size in (_SEGMENT, max(len(codes), 1))]
    candidates.append(encode_naively(symbols))
    return min(candidates, key=len)


def encode_naively(symbols: NDArray[np.int16]) -> bytes:
    """Stream without palette and zero runs; only the divisors are chosen."""
    codes = _codes(symbols)
    largest = int(codes.max(initial=0))
    plans = np.array([[0, len(codes), 0, 0, 0, max(2, largest.bit_length())]], dtype=np.int64)
    return _emit(codes, (plans, np.zeros((1, search.MAX_PALETTE), dtype=np.int64)))


def _codes(symbols: NDArray[np.int16]) -> NDArray[np.uint16]:
    if symbols.ndim != 1 or symbols.size == 0:
        raise StreamError(f"weights: must be a list of at least one weight, got shape {symbols.shape}")
    low, high = int(symbols.min()), int(symbols.max())
    if low < -WEIGHT_LIMIT or high > WEIGHT_LIMIT:
        raise StreamError(f"weights: must be in [-{WEIGHT_LIMIT}, {WEIGHT_LIMIT}], got {low} to {high}")
    codes = np.empty(symbols.shape, dtype=np.uint16)
    search.make_codes(np.ascontiguousarray(symbols, dtype=np.int16), codes)
    return codes


_Plan = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Rows of sections, and a palette for each."""


def _plan(codes: NDArray[np.uint16], segment: int) -> _Plan:
    """Sections that come from merging segments of `segment` codes."""
    segments = -(-len(codes) // segment)
    histograms = np.zeros((segments, search.CODES), dtype=np.int64)
    run_costs = np.zeros((segments, 4), dtype=np.int64)
    search.make_histograms(codes, segment, histograms, run_costs)
    ends = np.minimum(np.arange(1, segments + 1, dtype=np.int64) * segment, len(codes))
    costs = np.zeros(segments, dtype=np.int64)
    count = int(search.merge_segments(histograms, run_costs, ends, costs))
    plans = np.zeros((count, search.PLAN_COLUMNS), dtype=np.int64)
    palettes = np.zeros((count, search.MAX_PALETTE), dtype=np.int64)
    scratch = np.empty((2, search.CODES + search.MAX_PALETTE), dtype=np.int64)
    for section in range(count):
        plans[section, :2] = ends[section - 1] if section else 0, ends[section]
        search.evaluate(histograms[section], run_costs[section], True, scratch, plans[section], palettes[section])
    return plans, palettes


def _emit(codes: NDArray[np.uint16], plan: _Plan) -> bytes:
    plans, palettes = plan
    buffer = np.zeros(len(codes) * 2 + 64 * len(plans) + 64, dtype=np.uint32)
    words = int(search.emit_sections(codes, plans, palettes, len(plans), buffer))
    return buffer[:words].astype("<u4").tobytes()
