"""From symbols to the shortest stream of several, in one call."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.configurations import CODES, COSTS
from npu.isa.weight_stream.kernels.emit import BUFFER, PAIRS
from npu.isa.weight_stream.kernels.search import (
    END,
    HAS_RUNS,
    INFINITE,
    MAX_PALETTE,
    PLAN_COLUMNS,
    VALUE_BITS,
    bit_length,
    naive_cost,
    plan_sections,
)
from npu.isa.weight_stream.kernels.sections import emit_sections
from npu.isa.weight_stream.kernels.statistics import CODE_LIST, COUNT_TABLE, TABLE, make_codes, make_statistics
from npu.native import types as ty
from npu.native.kernel import kernel

SEGMENT = 2048
"""Symbols of the smallest section that is looked for."""
CLOSE = 1.005
"""Plans whose estimate is this close to the best one are emitted and compared."""
WEIGHT_LIMIT = 255
"""Largest magnitude of a weight without its zero point."""
TOO_LARGE = -1


@kernel(ty.int64(CODE_LIST, COUNT_TABLE, TABLE, COUNT_TABLE, TABLE))
def _count(codes, histograms, runs, total, total_runs):  # type: ignore[no-untyped-def]
    """Fill the statistics of each segment and of all together; the bits of a stream without palette and zero runs."""
    number, zeros = make_statistics(codes, SEGMENT, histograms, runs)
    for segment in range(histograms.shape[0]):
        for code in range(CODES):
            total[0, code] += histograms[segment, code]
        for d in range(4):
            total_runs[0, d] += runs[segment, d]
    return naive_cost(total[0], number, zeros)


@kernel(ty.several(ty.int64, 4)(CODE_LIST, TABLE, TABLE, TABLE, TABLE))
def plan(codes, sections, palettes, whole, whole_palette):  # type: ignore[no-untyped-def]
    """Fills the merged sections and, if there are several, the one section `whole`.

    Number of sections, bits of both plans (INFINITE without the second), and those of a stream without palette and zero runs.
    """
    segments = (codes.shape[0] + SEGMENT - 1) // SEGMENT
    histograms, runs = np.empty((segments, CODES), np.uint32), np.zeros((segments, 4), np.int64)
    total, total_runs = np.zeros((1, CODES), np.uint32), np.zeros((1, 4), np.int64)
    naive_bits = _count(codes, histograms, runs, total, total_runs)
    ends, end = np.empty(segments, np.int64), np.empty(1, np.int64)
    end[0] = codes.shape[0]
    for segment in range(segments):
        ends[segment] = min((segment + 1) * SEGMENT, codes.shape[0])
    count, bits = plan_sections(histograms, runs, ends, sections, palettes)
    whole_bits = INFINITE
    if count > 1:
        _, whole_bits = plan_sections(total, total_runs, end, whole, whole_palette)
    return count, bits, whole_bits, naive_bits


@kernel(ty.int64(ty.int16[::1]))
def expected_bits(symbols):  # type: ignore[no-untyped-def]
    """Bits of the shortest plan, or TOO_LARGE if a symbol is."""
    codes = np.empty(symbols.shape[0], np.uint16)
    if make_codes(symbols, codes) > WEIGHT_LIMIT:
        return TOO_LARGE
    segments = (codes.shape[0] + SEGMENT - 1) // SEGMENT
    sections, palettes = np.zeros((segments, PLAN_COLUMNS), np.int64), np.zeros((segments, MAX_PALETTE), np.int64)
    whole, whole_palette = np.zeros((1, PLAN_COLUMNS), np.int64), np.zeros((1, MAX_PALETTE), np.int64)
    _, bits, whole_bits, naive_bits = plan(codes, sections, palettes, whole, whole_palette)
    return min(min(bits, whole_bits), naive_bits)


@kernel(ty.int64(ty.int16[::1]))
def one_section_bits(symbols):  # type: ignore[no-untyped-def]
    """`expected_bits` without the search for sections."""
    codes = np.empty(symbols.shape[0], np.uint16)
    if make_codes(symbols, codes) > WEIGHT_LIMIT:
        return TOO_LARGE
    segments, end = (codes.shape[0] + SEGMENT - 1) // SEGMENT, np.empty(1, np.int64)
    total, total_runs = np.zeros((1, CODES), np.uint32), np.zeros((1, 4), np.int64)
    naive_bits = _count(codes, np.empty((segments, CODES), np.uint32), np.zeros((segments, 4), np.int64), total, total_runs)
    end[0] = codes.shape[0]
    whole, palette = np.zeros((1, PLAN_COLUMNS), np.int64), np.zeros((1, MAX_PALETTE), np.int64)
    _, bits = plan_sections(total, total_runs, end, whole, palette)
    return min(bits, naive_bits)


@kernel(ty.boolean(TABLE))
def is_naive(sections):  # type: ignore[no-untyped-def]
    """Whether a first section has neither palette nor zero runs, and no offset."""
    used = np.int64(0)
    for column in range(HAS_RUNS, VALUE_BITS):
        used |= sections[0, column]
    return used == 0


@kernel(ty.int64(CODE_LIST, PAIRS, COSTS, BUFFER))
def emit_naively(codes, pairs, costs, buffer):  # type: ignore[no-untyped-def]
    """The stream without palette and zero runs; only the divisors are chosen. Returns the number of words."""
    largest = np.int64(0)
    for code in codes:
        largest = max(largest, np.int64(code))
    sections, palettes = np.zeros((1, PLAN_COLUMNS), np.int64), np.zeros((1, MAX_PALETTE), np.int64)
    sections[0, END], sections[0, VALUE_BITS] = codes.shape[0], max(2, bit_length(largest))
    return emit_sections(codes, sections, palettes, 1, pairs, costs, buffer)


@kernel(ty.int64(ty.int16[::1], PAIRS, COSTS, BUFFER))
def encode_naively(symbols, pairs, costs, buffer):  # type: ignore[no-untyped-def]
    """`emit_naively` of symbols, or TOO_LARGE."""
    codes = np.empty(symbols.shape[0], np.uint16)
    return TOO_LARGE if make_codes(symbols, codes) > WEIGHT_LIMIT else emit_naively(codes, pairs, costs, buffer)


@kernel(ty.several(ty.int64, 2)(ty.int16[::1], PAIRS, COSTS, BUFFER, BUFFER))
def encode(symbols, pairs, costs, first, second):  # type: ignore[no-untyped-def]
    """Number of words of the shortest stream, or TOO_LARGE, and which of the two buffers holds it."""
    codes = np.empty(symbols.shape[0], np.uint16)
    if make_codes(symbols, codes) > WEIGHT_LIMIT:
        return TOO_LARGE, 0
    segments = (codes.shape[0] + SEGMENT - 1) // SEGMENT
    sections, palettes = np.zeros((segments, PLAN_COLUMNS), np.int64), np.zeros((segments, MAX_PALETTE), np.int64)
    whole, whole_palette = np.zeros((1, PLAN_COLUMNS), np.int64), np.zeros((1, MAX_PALETTE), np.int64)
    count, bits, whole_bits, naive_bits = plan(codes, sections, palettes, whole, whole_palette)
    limit = min(bits, whole_bits) * CLOSE
    best, held, has_naive = np.int64(0), np.int64(0), False
    if bits <= limit:
        best = emit_sections(codes, sections, palettes, count, pairs, costs, first)
        has_naive = count == 1 and is_naive(sections)
    if whole_bits <= limit:
        has_naive = has_naive or is_naive(whole)
        words = emit_sections(codes, whole, whole_palette, 1, pairs, costs, second)
        if best == 0 or words < best:
            best, held = words, np.int64(1)
    if best * 32 > naive_bits and not has_naive:
        words = emit_naively(codes, pairs, costs, first if held else second)
        if words < best:
            best, held = words, 1 - held
    return best, held
