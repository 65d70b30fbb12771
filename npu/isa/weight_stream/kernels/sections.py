"""Planned sections to bits: their symbols, and the slices that these are cut into."""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.configurations import CODES, COSTS, GROUP, choose_configurations
from npu.isa.weight_stream.kernels.emit import (
    BUFFER,
    PAIRS,
    ROWS,
    RUNS,
    STATE,
    SYMBOLS,
    put_chunks,
    put_end,
    put_header,
    put_palette,
    row_words,
)
from npu.isa.weight_stream.kernels.format import MAX_SLICE
from npu.isa.weight_stream.kernels.search import (
    BEGIN,
    END,
    HAS_RUNS,
    LIST,
    OFFSET,
    PALETTE_SIZE,
    VALUE_BITS,
    bit_length,
)
from npu.isa.weight_stream.kernels.statistics import CODE_LIST, TABLE
from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import kernel

SLICE = MAX_SLICE - 1
"""Symbols of a slice at most."""


@kernel(ty.int64(LIST))
def _raw_bits(plan):  # type: ignore[no-untyped-def]
    """Bits of a symbol that is not compressed."""
    return bit_length(plan[PALETTE_SIZE] - 1) if plan[PALETTE_SIZE] > 0 else plan[VALUE_BITS]


@kernel(ty.int64(CODE_LIST, LIST, LIST, SYMBOLS, RUNS))
def _make_symbols(codes, plan, palette, symbols, runs):  # type: ignore[no-untyped-def]
    """Symbols, and runs if on, of one section. Returns the number of symbols; there is one run more."""
    begin, count = np.uint64(plan[BEGIN]), plan[END] - plan[BEGIN]
    if not plan[HAS_RUNS] and plan[PALETTE_SIZE] == 0:
        offset = np.int16(plan[OFFSET])
        for k in range(count):
            symbols[np.uint64(k)] = np.int16(codes[begin + np.uint64(k)]) - offset
        return count
    table = np.empty(CODES, np.int16)
    for code in range(CODES):
        table[code] = code - plan[OFFSET] + plan[PALETTE_SIZE]
    for k in range(plan[PALETTE_SIZE] - 1, -1, -1):
        table[palette[k]] = k
    if not plan[HAS_RUNS]:
        for k in range(count):
            symbols[np.uint64(k)] = table[codes[begin + np.uint64(k)]]
        return count
    number, run = np.uint64(0), np.int32(0)
    for k in range(count):  # without a jump: what is behind a zero is written over
        code = codes[begin + np.uint64(k)]
        runs[number], symbols[number] = run, table[code]
        number += np.uint64(code > 0)
        run = np.int32(run + 1) if code == 0 else np.int32(0)
    if number == 0:  # all zeros: the first one is coded as a symbol
        runs[0], symbols[0] = 0, table[0]
        number, run = np.uint64(1), np.int32(run - 1)
    runs[number] = run
    return np.int64(number)


@inlined
def _are_all_coded(symbols, number, size):  # type: ignore[no-untyped-def]
    """Whether symbols can be uncompressed: there is no palette of `size`, or all are in it."""
    largest = np.int16(-1)
    for k in range(number if size > 0 else 0):
        largest = max(largest, symbols[np.uint64(k)])
    return largest < size or size == 0


@kernel(ty.int64(RUNS, ty.int64, ty.int64))
def _best_zdiv(runs, first, count):  # type: ignore[no-untyped-def]
    """The divisor of the fewest bits, the lowest of equal ones."""
    whole, half, quarter, eighth = np.int64(0), count, 2 * count, 3 * count
    for k in range(first, first + count):
        run = np.int64(runs[np.uint64(k)])
        whole, half, quarter, eighth = whole + run, half + (run >> 1), quarter + (run >> 2), eighth + (run >> 3)
    least = min(min(whole, half), min(quarter, eighth))
    return 0 if least == whole else 1 if least == half else 2 if least == quarter else 3


@kernel(ty.void(BUFFER, STATE, SYMBOLS, ty.int64, RUNS, LIST, LIST, ty.uint8[::1], PAIRS, ROWS))
def _emit_section(buffer, state, symbols, number, runs, plan, palette, choices, pairs, rows):  # type: ignore[no-untyped-def]
    """Slices of one section: a new one where the configuration changes or the length field is full."""
    raw_bits = _raw_bits(plan)
    first = 0
    while first < number:
        configuration = choices[first // GROUP]
        last = first
        while last < number and choices[last // GROUP] == configuration and last - first < SLICE:
            last = min(last + GROUP - last % GROUP, number)
        last = min(last, first + SLICE)
        is_new = 1 if first == 0 else 0
        z_first, z_count = 0 if is_new else first + 1, last - first + is_new
        zdiv = _best_zdiv(runs, z_first, z_count) if plan[HAS_RUNS] else -1
        put_header(buffer, state, zdiv, last - first, configuration, is_new)
        if is_new:
            put_palette(buffer, state, plan[OFFSET], palette, plan[PALETTE_SIZE], plan[VALUE_BITS])
        put_chunks(
            buffer, state, symbols, first, last - first, runs, z_first, z_count, configuration, zdiv, raw_bits, pairs, rows
        )
        first = last


@kernel(ty.int64(CODE_LIST, TABLE, TABLE, ty.int64, PAIRS, COSTS, BUFFER))
def emit_sections(codes, plans, palettes, count, pairs, costs, buffer):  # type: ignore[no-untyped-def]
    """Stream of `count` planned sections into `buffer` (uint32). Returns the number of words."""
    state = np.zeros(3, np.uint64)
    longest = np.int64(1)
    for section in range(count):
        longest = max(longest, plans[section, END] - plans[section, BEGIN])
    symbols, runs = np.empty(longest + GROUP, np.int16), np.empty(longest + 1, np.int32)
    choices = np.empty(longest // GROUP + 1, np.uint8)
    rows = np.empty((5, row_words(min(longest, SLICE), longest)), np.uint64)
    for section in range(count):
        plan, palette = plans[section], palettes[section]
        number = _make_symbols(codes, plan, palette, symbols, runs)
        raw_bits = _raw_bits(plan) if _are_all_coded(symbols, number, plan[PALETTE_SIZE]) else 0
        choose_configurations(symbols, number, costs, raw_bits, choices)
        _emit_section(buffer, state, symbols, number, runs, plan, palette, choices, pairs, rows)
    return put_end(buffer, state)
