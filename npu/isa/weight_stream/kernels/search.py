"""Search for a short weight stream: palette sections, symbols, and the slices of each section.

A *code* is the sign-magnitude number of a weight, sign in bit 0 (0..511). A *section* is what one palette covers. A plan
row describes a section; a palette row is 32 codes. Costs are in bits.
"""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.emit import (
    BUFFER,
    PARTS,
    RAW,
    RUNS,
    STATE,
    SYMBOLS,
    part_words,
    put_chunks,
    put_end,
    put_header,
    put_palette,
)
from npu.isa.weight_stream.kernels.format import MAX_QUOTIENT, MAX_SLICE
from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import kernel

CODES = 512
MAX_PALETTE = 32
SLICE_BITS = 34
"""Header of a slice and the padding of its last chunk."""
PALETTE_BITS = 13
SLICE = MAX_SLICE - 1
"""Symbols of a slice at most."""
GROUP = 16
"""Symbols over which a slice keeps its configuration at least."""
LONG_RUN = 4 * GROUP
"""Zeros in a row that are worth slices of their own where zero runs are off: a bit each, and the slice behind them."""
INFINITE = np.int64(1) << 40
NEVER = 2048
COST_WORDS, LANES = 4, 4
"""Costs of all configurations lie in so many words, so many in each, of 16 bits."""
BEGIN, END, HAS_RUNS, PALETTE_SIZE, OFFSET, VALUE_BITS = range(6)
"""Columns of a plan row: codes from BEGIN to END, direct OFFSET, bits of a palette value."""
PLAN_COLUMNS = 6
LIST = ty.int64[::1]
TABLE = ty.int64[:, ::1]
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


@kernel(ty.void(LIST, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64))
def _add_runs(costs, number, runs, halves, quarters, eighths):  # type: ignore[no-untyped-def]
    """Bits of `number` runs for ZDIV 0..3, of which the sums of the quotients are given."""
    costs[0] += runs + number
    costs[1] += halves + 2 * number
    costs[2] += quarters + 3 * number
    costs[3] += eighths + 4 * number


@kernel(ty.void(CODE_LIST, ty.int64, TABLE, TABLE))
def make_histograms(codes, size, histograms, run_costs):  # type: ignore[no-untyped-def]
    """Per segment of `size` codes: counts per code, and the bits of the zero runs behind its non-zero codes for ZDIV 0..3."""
    run, runs, halves, quarters, eighths, number, owner = 0, 0, 0, 0, 0, 0, 0
    for segment in range(histograms.shape[0]):
        for k in range(segment * size, min((segment + 1) * size, codes.shape[0])):
            histograms[segment, codes[k]] += 1
            if codes[k] == 0:
                run += 1
                continue
            if owner != segment:  # the run before it belongs to the segment of the code before that
                _add_runs(
                    run_costs[owner], number + 1, runs + run, halves + (run >> 1), quarters + (run >> 2), eighths + (run >> 3)
                )
                run, runs, halves, quarters, eighths, number, owner = 0, 0, 0, 0, 0, 0, segment
                continue
            number += 1
            if run > 0:
                runs, halves, quarters, eighths = runs + run, halves + (run >> 1), quarters + (run >> 2), eighths + (run >> 3)
                run = 0
    _add_runs(run_costs[owner], number + 1, runs + run, halves + (run >> 1), quarters + (run >> 2), eighths + (run >> 3))


@kernel(ty.int64(LIST, LIST, ty.int64, ty.int64, LIST))
def most_frequent(histogram, present, first, end, top):  # type: ignore[no-untyped-def]
    """Fill `top` with the up to 32 most frequent of the codes present[first:end], most frequent first. Returns how many."""
    kept = 0
    for k in range(first, end):
        code = present[k]
        count = histogram[code]
        if kept == MAX_PALETTE and histogram[top[kept - 1]] >= count:
            continue
        if kept < MAX_PALETTE:
            kept += 1
        at = kept - 1
        while at > 0 and histogram[top[at - 1]] < count:
            top[at] = top[at - 1]
            at -= 1
        top[at] = code
    return kept


@kernel(ty.int64(LIST, LIST, ty.int64, ty.int64))
def _symbols_cost(values, counts, number, raw_bits):  # type: ignore[no-untyped-def]
    """Bits of the best single configuration for `counts[k]` symbols `values[k]`; raw_bits 0 forbids uncompressed."""
    total, largest = np.int64(0), np.int64(0)
    for k in range(number):
        total += counts[k]
        largest = max(largest, values[k])
    best = total * raw_bits if raw_bits > 0 else INFINITE
    for d in range(6):
        if (largest >> d) > MAX_QUOTIENT:
            continue
        plain = total * (d + 1)
        for k in range(number):
            plain += counts[k] * (values[k] >> d)
        best = min(best, plain)
        if (largest >> d) <= 2:
            short = total * (d + 1)
            for k in range(number):
                short += counts[k] * min(values[k] >> d, 1)
            best = min(best, short)
    return best


@kernel(ty.int64(ty.int64))
def bit_length(value):  # type: ignore[no-untyped-def]
    """Bits of a number."""
    bits = 0
    while value >> bits:
        bits += 1
    return bits


@kernel(ty.several(ty.int64, 3)(LIST, LIST, ty.int64, ty.int64, LIST, ty.int64, LIST, LIST, LIST))
def _evaluate_palette(histogram, present, first, end, top, size, values, counts, marks):  # type: ignore[no-untyped-def]
    """Cost, direct offset and value bits if the `size` most frequent of the codes present[first:end] are the palette.

    Size 0: none. `marks` are 0 before and after.
    """
    largest = np.int64(0)
    for k in range(size):
        marks[top[k]] = 1
        values[k] = k
        counts[k] = histogram[top[k]]
        largest = max(largest, np.int64(top[k]))
    stored = size
    if size == 1:
        stored = 2
    least = first
    while least < end and marks[present[least]]:
        least += 1
    offset = min(present[least], 31) if least < end else np.int64(0)
    at = np.uint64(size)
    for k in range(first, end):  # without a jump: what is marked is written over
        code = np.uint64(present[np.uint64(k)])
        values[at] = stored + np.int64(code) - offset
        counts[at] = histogram[code]
        at += np.uint64(1 - marks[code])
        marks[code] = 0
    number = np.int64(at)
    if number > size and values[number - 1] >= CODES:
        return INFINITE, 0, 0
    if size == 0:
        for k in range(number):
            largest = max(largest, values[k])
        raw_bits = max(2, bit_length(largest))
        value_bits = raw_bits
    else:
        value_bits = max(2, bit_length(largest))
        raw_bits = bit_length(stored - 1) if number == size else 0
    return _symbols_cost(values, counts, number, raw_bits) + stored * value_bits + PALETTE_BITS, offset, value_bits


@kernel(ty.int64(LIST, LIST, ty.boolean, TABLE, LIST, LIST))
def evaluate(histogram, run_costs, is_thorough, scratch, plan, palette):  # type: ignore[no-untyped-def]
    """Cost of the best section for a histogram; writes the section's choice into `plan[HAS_RUNS:]` and `palette`.

    `scratch` is int64 (4, 544), its last row 0. `is_thorough` tries more palette sizes.
    """
    best = INFINITE
    top = np.zeros(MAX_PALETTE, np.int64)
    zeros = histogram[0]
    run_cost = min(min(run_costs[0], run_costs[1]), min(run_costs[2], run_costs[3]))
    present, last = scratch[2], np.uint64(0)
    for code in range(CODES):
        present[last] = code
        last += np.uint64(histogram[np.uint64(code)] > 0)
    end = np.int64(last)
    if end == 0 or present[end - 1] == 0:
        plan[HAS_RUNS], plan[PALETTE_SIZE], plan[OFFSET], plan[VALUE_BITS] = 1, 0, 0, 2
        return PALETTE_BITS + SLICE_BITS + (zeros >> 3) + 6
    for has_runs in range(2):
        if has_runs == 1 and zeros == 0:
            continue
        first = 1 if has_runs else 0  # zeros are present
        kept = most_frequent(histogram, present, first, end, top)
        for step in range(10):
            size = kept if step == 9 else 4 * step
            if size > kept or (not is_thorough and step not in (0, 4, 9)):
                continue
            cost, offset, value_bits = _evaluate_palette(
                histogram, present, first, end, top, size, scratch[0], scratch[1], scratch[3]
            )
            cost += SLICE_BITS + (run_cost if has_runs else 0)
            if cost < best:
                best = cost
                plan[HAS_RUNS], plan[PALETTE_SIZE] = has_runs, 2 if size == 1 else size
                plan[OFFSET], plan[VALUE_BITS] = offset, value_bits
                for k in range(size):
                    palette[k] = top[k]
                if size == 1:
                    palette[1] = 0
    return best


@kernel(ty.int64(LIST))
def _one_slice_cost(histogram):  # type: ignore[no-untyped-def]
    """Cost of one section in one slice without palette and zero runs."""
    values, counts, number, largest = np.empty(CODES, np.int64), np.empty(CODES, np.int64), 0, 0
    for code in range(CODES):
        if histogram[code] > 0:
            values[number], counts[number], largest = code, histogram[code], code
            number += 1
    bits = max(2, bit_length(largest))
    return _symbols_cost(values, counts, number, bits) + PALETTE_BITS + SLICE_BITS


@kernel(ty.several(ty.int64, 2)(CODE_LIST))
def long_runs(codes):  # type: ignore[no-untyped-def]
    """How many long runs of zeros there are, and the zeros in them all."""
    number, zeros, run = np.int64(0), np.int64(0), np.int64(0)
    for k in range(codes.shape[0]):
        if codes[k] == 0:
            run += 1
            continue
        if run >= LONG_RUN:
            number, zeros = number + 1, zeros + run
        run = np.int64(0)
    return (number + 1, zeros + run) if run >= LONG_RUN else (number, zeros)


@kernel(ty.int64(CODE_LIST, LIST))
def naive_cost(codes, histogram):  # type: ignore[no-untyped-def]
    """Cost of one section without palette and zero runs: in one slice, or with long runs of zeros in slices of their own."""
    whole = _one_slice_cost(histogram)
    number, zeros = long_runs(codes)
    histogram[0] -= zeros
    cut = _one_slice_cost(histogram) + zeros + 2 * SLICE_BITS * number
    histogram[0] += zeros
    return min(whole, cut)


@kernel(ty.int64(TABLE, TABLE, LIST, LIST))
def merge_segments(histograms, run_costs, ends, costs):  # type: ignore[no-untyped-def]
    """Merge neighbouring segments while that saves bits. Returns the number left; rows are compacted to the front."""
    scratch = np.zeros((4, CODES + MAX_PALETTE), np.int64)
    plan, palette = np.zeros(PLAN_COLUMNS, np.int64), np.zeros(MAX_PALETTE, np.int64)
    count = histograms.shape[0]
    for k in range(count):
        costs[k] = evaluate(histograms[k], run_costs[k], False, scratch, plan, palette)
    joined, joined_runs = np.empty(CODES, np.int64), np.empty(4, np.int64)
    for _ in range(24):
        kept, k = 0, 0
        while k < count:
            if kept != k:
                for code in range(CODES):
                    histograms[kept, code] = histograms[k, code]
                for d in range(4):
                    run_costs[kept, d] = run_costs[k, d]
                ends[kept], costs[kept] = ends[k], costs[k]
            if k + 1 < count:
                for code in range(CODES):
                    joined[code] = histograms[kept, code] + histograms[k + 1, code]
                for d in range(4):
                    joined_runs[d] = run_costs[kept, d] + run_costs[k + 1, d]
                cost = evaluate(joined, joined_runs, False, scratch, plan, palette)
                if cost <= costs[kept] + costs[k + 1]:
                    for code in range(CODES):
                        histograms[kept, code] = joined[code]
                    for d in range(4):
                        run_costs[kept, d] = joined_runs[d]
                    ends[kept], costs[kept] = ends[k + 1], cost
                    k += 1
            kept += 1
            k += 1
        if kept == count:
            break
        count = kept
    return count


@kernel(ty.several(ty.int64, 2)(TABLE, TABLE, LIST, TABLE, TABLE))
def plan_sections(histograms, run_costs, ends, sections, palettes):  # type: ignore[no-untyped-def]
    """Sections of merged segments that end at `ends`, with a palette each. Returns how many there are, and their bits."""
    count = histograms.shape[0]
    if count > 1:
        count = merge_segments(histograms, run_costs, ends, np.zeros(count, np.int64))
    scratch = np.zeros((4, CODES + MAX_PALETTE), np.int64)
    bits = np.int64(0)
    for section in range(count):
        sections[section, BEGIN] = ends[section - 1] if section else 0
        sections[section, END] = ends[section]
        bits += evaluate(histograms[section], run_costs[section], True, scratch, sections[section], palettes[section])
    return count, bits


@kernel(ty.int64(LIST))
def _raw_bits(plan):  # type: ignore[no-untyped-def]
    """Bits of a symbol that is not compressed."""
    return bit_length(plan[PALETTE_SIZE] - 1) if plan[PALETTE_SIZE] > 0 else plan[VALUE_BITS]


@kernel(ty.int64(CODE_LIST, LIST, LIST, SYMBOLS, RUNS))
def _make_symbols(codes, plan, palette, symbols, runs):  # type: ignore[no-untyped-def]
    """Symbols, and runs if on, of one section. Returns the number of symbols; there is one run more."""
    table = np.empty(CODES, np.int64)
    for code in range(CODES):
        table[code] = code - plan[OFFSET] + plan[PALETTE_SIZE]
    for k in range(plan[PALETTE_SIZE] - 1, -1, -1):
        table[palette[k]] = k
    number, run = 0, 0
    if not plan[HAS_RUNS]:
        for k in range(plan[BEGIN], plan[END]):
            symbols[number] = table[codes[k]]
            number += 1
        return number
    for k in range(plan[BEGIN], plan[END]):
        if codes[k] == 0:
            run += 1
        else:
            runs[number] = run
            symbols[number] = table[codes[k]]
            number += 1
            run = 0
    if number == 0:  # all zeros: the first one is coded as a symbol
        runs[0], symbols[0] = 0, table[0]
        number, run = 1, run - 1
    runs[number] = run
    return number


@kernel(ty.void(ty.uint64[:, ::1], ty.int64, ty.int64, ty.int64))
def _set_cost(costs, symbol, configuration, bits):  # type: ignore[no-untyped-def]
    costs[symbol, configuration // LANES] |= np.uint64(bits) << np.uint64(16 * (configuration % LANES))


@kernel(ty.void(ty.int64, ty.uint64[:, ::1]))
def _make_costs(raw_bits, costs):  # type: ignore[no-untyped-def]
    """Bits of every symbol in every configuration, four in a word of 16 bits each; NEVER where it cannot be coded.

    NEVER is more than a group takes otherwise with a new slice, and that of a whole group is still below 2**16.
    """
    for symbol in range(CODES):
        for word in range(COST_WORDS):
            costs[symbol, word] = np.uint64(0)
        for d in range(6):
            quotient = symbol >> d
            _set_cost(costs, symbol, d, quotient + 1 + d if quotient <= MAX_QUOTIENT else NEVER)
            _set_cost(costs, symbol, 6 + d, min(quotient, 1) + 1 + d if quotient <= 2 else NEVER)
        _set_cost(costs, symbol, RAW, raw_bits if raw_bits > 0 and symbol < (1 << raw_bits) else NEVER)
        for unused in range(RAW + 1, COST_WORDS * LANES):
            _set_cost(costs, symbol, unused, NEVER)


@inlined
def _add_costs(symbols, start, count, costs, sums):  # type: ignore[no-untyped-def]
    """Costs of `count` symbols from `start` on in every configuration, as the words of `costs` have them."""
    first, second, third, fourth = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    for k in range(count):
        symbol = np.uint64(symbols[np.uint64(start + k)])
        first += costs[symbol, np.uint64(0)]
        second += costs[symbol, np.uint64(1)]
        third += costs[symbol, np.uint64(2)]
        fourth += costs[symbol, np.uint64(3)]
    sums[0], sums[1], sums[2], sums[3] = first, second, third, fourth


@kernel(ty.int64(SYMBOLS, ty.int64, ty.uint64[:, ::1], ty.uint8[::1]))
def _choose_configurations(symbols, number, costs, choices):  # type: ignore[no-untyped-def]
    """Viterbi search over groups of symbols: choices[group] is the configuration. Returns the number of groups."""
    groups = (number + GROUP - 1) // GROUP
    came_from = np.empty((groups, COST_WORDS * LANES), np.uint8)
    sums = np.empty(COST_WORDS, np.uint64)
    group_cost = sums.view(np.uint16)
    total = np.empty(COST_WORDS * LANES, np.int32)  # 16 times the bits beyond those of the cheapest, and the configuration
    for c in range(COST_WORDS * LANES):
        total[c] = c
    for group in range(groups):
        start = group * GROUP
        if start + GROUP <= number:
            _add_costs(symbols, start, GROUP, costs, sums)  # of a number that the compiler knows: twice as fast
        else:
            _add_costs(symbols, start, number - start, costs, sums)
        least = total[0]
        for c in range(COST_WORDS * LANES):
            least = min(least, total[c])
        best, base = np.int32(least & np.int32(15)), np.int32(least & np.int32(~15))
        for c in range(COST_WORDS * LANES):  # without a jump and in 32 bits, so that all are done at once
            own = np.int32(total[c] - base)
            is_kept = own < np.int32((SLICE_BITS + 1) << 4)
            came_from[group, c] = np.uint8(np.int32(c) if is_kept else best)
            before = own if is_kept else np.int32((SLICE_BITS << 4) + c)
            total[c] = before + np.int32(np.int32(group_cost[c]) << np.int32(4))
    least = total[0]
    for c in range(COST_WORDS * LANES):
        least = min(least, total[c])
    chosen = np.int64(least & np.int32(15))
    for group in range(groups - 1, -1, -1):
        choices[group] = chosen
        chosen = np.int64(came_from[group, chosen])
    return groups


@kernel(ty.int64(RUNS, ty.int64, ty.int64))
def _best_zdiv(runs, first, count):  # type: ignore[no-untyped-def]
    best, best_cost = 0, INFINITE
    for d in range(4):
        cost = np.int64(0)
        for k in range(first, first + count):
            cost += (runs[k] >> d) + 1 + d
        if cost < best_cost:
            best, best_cost = d, cost
    return best


@kernel(ty.void(BUFFER, STATE, SYMBOLS, ty.int64, RUNS, LIST, LIST, ty.uint8[::1], PARTS))
def _emit_section(buffer, state, symbols, number, runs, plan, palette, choices, parts):  # type: ignore[no-untyped-def]
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
        put_chunks(buffer, state, symbols, first, last - first, runs, z_first, z_count, configuration, zdiv, raw_bits, parts)
        first = last


@kernel(ty.int64(CODE_LIST, TABLE, TABLE, ty.int64, BUFFER))
def emit_sections(codes, plans, palettes, count, buffer):  # type: ignore[no-untyped-def]
    """Stream of `count` planned sections into `buffer` (uint32). Returns the number of words."""
    state = np.zeros(3, np.uint64)
    longest = np.int64(1)
    for section in range(count):
        longest = max(longest, plans[section, END] - plans[section, BEGIN])
    symbols, runs = np.empty(longest, np.int16), np.empty(longest + 1, np.int32)
    choices = np.empty(longest // GROUP + 1, np.uint8)
    costs, parts = np.empty((CODES, COST_WORDS), np.uint64), np.empty((3, part_words(min(longest, SLICE))), np.uint32)
    for section in range(count):
        plan, palette = plans[section], palettes[section]
        number = _make_symbols(codes, plan, palette, symbols, runs)
        largest = np.int64(0)
        for k in range(number):
            largest = max(largest, symbols[k])
        raw_bits = _raw_bits(plan)
        _make_costs(raw_bits if plan[PALETTE_SIZE] == 0 or largest < plan[PALETTE_SIZE] else 0, costs)
        _choose_configurations(symbols, number, costs, choices)
        _emit_section(buffer, state, symbols, number, runs, plan, palette, choices, parts)
    return put_end(buffer, state)
