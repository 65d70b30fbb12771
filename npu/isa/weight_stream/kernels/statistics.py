"""What the codes of weights are, how many of each, and what runs of zeros cost."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.bits import ZEROS_LANES, lowest_one, zeros_at
from npu.isa.weight_stream.kernels.configurations import CODES, GROUP
from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import keep, kernel
from npu.native.memory import load_i64_at

LONG_RUN = 4 * GROUP
"""Zeros in a row that are worth slices of their own where zero runs are off: a bit each, and the slice behind them."""
TABLE = ty.int64[:, ::1]
COUNTS, COUNT_TABLE = ty.uint32[::1], ty.uint32[:, ::1]
CODE_LIST = ty.uint16[::1]


@kernel(ty.int64(ty.int16[::1], CODE_LIST))
def make_codes(weights, codes):  # type: ignore[no-untyped-def]
    """codes[k] (uint16) of weights[k] (int16, -255..255). Returns the largest magnitude; more than 255 has no code."""
    largest = np.int64(0)
    for k in range(weights.shape[0]):
        value = np.int64(weights[k])
        largest = max(largest, abs(value))
        codes[k] = np.uint16((-value << 1) | 1) if value < 0 else np.uint16(value << 1)
    return largest


@kernel(ty.void(CODE_LIST, ty.int64, ty.int64, ty.uint16[::1], COUNTS))
def _count(codes, start, stop, counters, histogram):  # type: ignore[no-untyped-def]
    """Counts of codes[start:stop], which are below 2**16.

    Each code has four of the counters, 0 before and after: one does not wait for what the code before it wrote.
    """
    one, four = np.uint16(1), np.uint64(4)
    for k in range(start, stop - 3, 4):
        at = np.uint64(k)
        counters[np.uint64(codes[at]) * four] += one
        counters[np.uint64(codes[at + np.uint64(1)]) * four + np.uint64(1)] += one
        counters[np.uint64(codes[at + np.uint64(2)]) * four + np.uint64(2)] += one
        counters[np.uint64(codes[at + np.uint64(3)]) * four + np.uint64(3)] += one
    for k in range(stop - (stop - start) % 4, stop):
        counters[np.uint64(codes[np.uint64(k)]) * four] += one
    address, low = np.int64(counters.ctypes.data), np.uint64(0x0000FFFF0000FFFF)
    for code in range(CODES):
        counts = np.uint64(load_i64_at(address, code))
        pairs = (counts & low) + (counts >> np.uint64(16) & low)
        histogram[code] = np.uint32(pairs + (pairs >> np.uint64(32)))
    for k in range(4 * CODES):
        counters[k] = np.uint16(0)


@inlined
def _add_run(run_costs, segment, run):  # type: ignore[no-untyped-def]
    """Quotients of a run of zeros for ZDIV 0..3."""
    for d in range(4):
        run_costs[segment, d] += run >> d


@kernel(ty.several(ty.int64, 2)(CODE_LIST, ty.int64, TABLE))
def _count_runs(codes, size, run_costs):  # type: ignore[no-untyped-def]
    """Quotients of the runs of zeros, of each in the segment of the code before it. Returns how many are long, and their zeros.

    `size` is a multiple of ZEROS_LANES.
    """
    address, total = np.int64(codes.ctypes.data), codes.shape[0]
    number, zeros, run = np.int64(0), np.int64(0), np.int64(0)
    for word in range(0, total, ZEROS_LANES):
        if word + ZEROS_LANES <= total:
            left = zeros_at(address + 2 * word)
        else:
            left = np.uint64(0)
            for k in range(total - word):
                left |= np.uint64(codes[np.uint64(word + k)] == 0) << np.uint64(k)
        at = np.int64(0)
        while True:  # what was read of the word has been shifted out of `left`, `run` zeros end at `at`
            length = np.int64(lowest_one(~left))
            run += min(length, ZEROS_LANES - at)
            at += length
            if at >= ZEROS_LANES:
                break
            if run > 0:
                _add_run(run_costs, max(word + at - run - 1, 0) // size, run)
                if run >= LONG_RUN:
                    number, zeros = number + 1, zeros + run
                run = np.int64(0)
            left >>= np.uint64(length)
            length = np.int64(lowest_one(left))
            at += length
            if at >= ZEROS_LANES:
                break
            left >>= np.uint64(length)
    if run > 0:
        _add_run(run_costs, max(total - run - 1, 0) // size, run)
        if run >= LONG_RUN:
            number, zeros = number + 1, zeros + run
    keep(codes)
    return number, zeros


@kernel(ty.several(ty.int64, 2)(CODE_LIST, ty.int64, COUNT_TABLE, TABLE))
def make_statistics(codes, size, histograms, run_costs):  # type: ignore[no-untyped-def]
    """Per segment of `size` codes: counts per code, and the bits of the zero runs behind its non-zero codes for ZDIV 0..3.

    Returns how many long runs of zeros there are, and the zeros in them all. `run_costs` are 0 before.
    """
    counters = np.zeros(4 * CODES, np.uint16)
    number, zeros = _count_runs(codes, size, run_costs)
    for segment in range(histograms.shape[0]):
        start, stop = segment * size, min((segment + 1) * size, codes.shape[0])
        _count(codes, start, stop, counters, histograms[segment])
        runs = stop - start - np.int64(histograms[segment, 0]) + (1 if segment == 0 else 0)  # the first run is behind none
        for d in range(4):
            run_costs[segment, d] += runs * (d + 1)
    return number, zeros
