"""Search for a short weight stream: sections and their palettes.

A *code* is the sign-magnitude number of a weight, sign in bit 0 (0..511). A *section* is what one palette covers. A plan
row describes a section; a palette row is 32 codes. Costs are in bits.
"""

from __future__ import annotations

import numpy as np

from npu.isa.weight_stream.kernels.configurations import CODES, SLICE_BITS
from npu.isa.weight_stream.kernels.format import MAX_QUOTIENT
from npu.isa.weight_stream.kernels.statistics import COUNT_TABLE, COUNTS, TABLE
from npu.machine.kernels.arithmetic import inlined
from npu.native import types as ty
from npu.native.kernel import kernel

MAX_PALETTE = 32
RANKED = MAX_PALETTE + 1
"""Codes that are ranked by how many there are: a full palette and zero, which zero runs leave out."""
KEYS = 16
"""Keys that are compared at once."""
NO_RANK = CODES
BLOCK = 32
"""Codes that are looked at together."""
MAX_OFFSET = 31
PALETTE_BITS = 13
INFINITE = np.int64(1) << 40
BEGIN, END, HAS_RUNS, PALETTE_SIZE, OFFSET, VALUE_BITS = range(6)
"""Columns of a plan row: codes from BEGIN to END, direct OFFSET, bits of a palette value."""
PLAN_COLUMNS = 6
LIST = ty.int64[::1]


@inlined
def _none(histogram, first):  # type: ignore[no-untyped-def]
    """Whether there are none of the BLOCK codes from `first` on."""
    present = np.uint32(0)
    for code in range(BLOCK):
        present |= histogram[np.uint64(first + code)]
    return present == 0


@kernel(ty.int64(COUNTS, LIST))
def _count_above(histogram, above):  # type: ignore[no-untyped-def]
    """above[code]: how many codes are as large or larger. Returns the largest and 1, 0 if there is none."""
    end, total = np.int64(CODES), np.int64(0)
    while end > 0 and _none(histogram, end - BLOCK):
        end -= BLOCK
    while end > 0 and histogram[end - 1] == 0:
        end -= 1
    above[0] = 0
    for code in range(end - 1, -1, -1):
        total += np.int64(histogram[code])
        above[code] = total
    return end


@kernel(ty.int64(COUNTS, ty.int64))
def _ranked_count(histogram, end):  # type: ignore[no-untyped-def]
    """The largest count that no more than RANKED codes are above, and RANKED codes, or all that are there, at or above."""
    largest, present = np.uint32(0), np.uint32(0)
    for code in range(end):
        largest = max(largest, histogram[code])
        present = np.uint32(present + (histogram[code] > 0))
    if present <= RANKED:
        return np.int64(1)
    low, high = np.uint32(1), largest
    while low < high:
        middle, many = np.uint32((np.int64(low) + np.int64(high) + 1) >> 1), np.uint32(0)
        for code in range(end):
            many = np.uint32(many + (histogram[code] >= middle))
        if many == RANKED:
            return np.int64(middle) - 1
        if many > RANKED:
            low = middle
        else:
            high = np.uint32(middle - 1)
    return np.int64(low)


@kernel(ty.int64(COUNTS, ty.int64, LIST, LIST, LIST))
def most_frequent(histogram, end, keys, ties, top):  # type: ignore[no-untyped-def]
    """Fill `top` with the up to RANKED most frequent codes below `end`, most frequent first, the lowest first of equal ones.

    Returns how many. `keys` and `ties` are room for 1 more than there are codes.
    """
    least = _ranked_count(histogram, end)
    more, equal = np.uint64(0), np.uint64(0)
    for code in range(end):
        count = np.int64(histogram[code])
        keys[more], ties[equal] = count * CODES + (CODES - 1 - code), code
        more += np.uint64(count > least)
        equal += np.uint64(count == least)
    kept = np.int64(more)
    filled = (kept + KEYS - 1) // KEYS * KEYS
    for k in range(kept, filled):
        keys[k] = -1
    for k in range(kept):
        place = np.int64(0)
        for other in range(filled):
            place += np.int64(keys[other] > keys[k])
        top[place] = CODES - 1 - (keys[k] & (CODES - 1))
    rest = min(np.int64(equal), RANKED - kept)
    for k in range(rest):
        top[kept + k] = ties[k]
    return kept + rest


@kernel(ty.int64(LIST, ty.int64, ty.int64, ty.int64, ty.int64, LIST, LIST, ty.int64))
def _coded_bits(above, first, end, shift, largest, top, counts, size):  # type: ignore[no-untyped-def]
    """Bits of the codes from `first` on in their best single configuration.

    The `size` codes `top` are symbols 0, 1, ...; others, below `end`, are the code and `shift`. `largest` is of all symbols.
    The sum of the quotients of a divisor is how many symbols reach its first multiple, how many the second, ...
    """
    best = INFINITE
    for d in range(6):
        if (largest >> d) > MAX_QUOTIENT:
            continue
        plain, short = np.int64(0), np.int64(0)
        for multiple in range(1, ((end - 1 + shift) >> d) + 1):
            plain += above[max((multiple << d) - shift, first)]
        if (end - 1 + shift) >> d > 0:
            short = above[max((1 << d) - shift, first)]
        for k in range(size):
            quotient = max(top[k] + shift, 0) >> d if top[k] < end else np.int64(0)
            own = k >> d
            plain += counts[k] * (own - quotient)
            short += counts[k] * (min(own, 1) - min(quotient, 1))
        total = above[first] * (d + 1)
        best = min(best, total + plain)
        if (largest >> d) <= 2:
            best = min(best, total + short)
    return best


@kernel(ty.int64(ty.int64))
def bit_length(value):  # type: ignore[no-untyped-def]
    """Bits of a number."""
    bits = 0
    while value >> bits:
        bits += 1
    return bits


@kernel(ty.several(ty.int64, 3)(COUNTS, LIST, LIST, ty.int64, ty.int64, LIST, LIST, ty.int64))
def _evaluate_palette(histogram, above, ranks, first, end, top, counts, size):  # type: ignore[no-untyped-def]
    """Cost, direct offset and value bits if the `size` most frequent of the codes from `first` to `end` are the palette.

    Size 0: none. `ranks` are the places of codes in `top`, NO_RANK of those that have none.
    """
    total, inside, widest = above[first], np.int64(0), np.int64(0)
    for k in range(size):
        inside += counts[k]
        widest = max(widest, top[k])
    stored = 2 if size == 1 else size
    value_bits = max(2, bit_length(widest))
    if inside == total:
        bits = _coded_bits(above, first, 0, 0, size - 1, top, counts, size)
        return min(bits, total * bit_length(stored - 1)) + stored * value_bits + PALETTE_BITS, 0, value_bits
    offset, most = first, end - 1
    while offset < MAX_OFFSET and (histogram[offset] == 0 or ranks[offset] < size):
        offset += 1
    while histogram[most] == 0 or ranks[most] < size:
        most -= 1
    largest = stored + most - offset
    if largest >= CODES:
        return INFINITE, 0, 0
    bits = _coded_bits(above, first, end, stored - offset, largest, top, counts, size)
    if size == 0:
        value_bits = max(2, bit_length(largest))
        bits = min(bits, total * value_bits)
    return bits + stored * value_bits + PALETTE_BITS, offset, value_bits


@kernel(ty.int64(COUNTS, LIST, ty.boolean, TABLE, LIST, LIST))
def evaluate(histogram, run_costs, is_thorough, scratch, plan, palette):  # type: ignore[no-untyped-def]
    """Cost of the best section for a histogram; writes the section's choice into `plan[HAS_RUNS:]` and `palette`.

    `scratch` is what `make_scratch` makes. `is_thorough` tries more palette sizes.
    """
    above, ranks, ranked, top, counts = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    best, zeros = INFINITE, np.int64(histogram[0])
    run_cost = min(min(run_costs[0], run_costs[1]), min(run_costs[2], run_costs[3]))
    end = _count_above(histogram, above)
    if end <= 1:
        plan[HAS_RUNS], plan[PALETTE_SIZE], plan[OFFSET], plan[VALUE_BITS] = 1, 0, 0, 2
        return PALETTE_BITS + SLICE_BITS + (zeros >> 3) + 6
    number = most_frequent(histogram, end, top, counts, ranked)
    for has_runs in range(2):
        if has_runs == 1 and zeros == 0:
            continue
        kept = 0
        for k in range(number):
            if ranked[k] >= has_runs and kept < MAX_PALETTE:  # with runs, zeros are no symbols
                top[kept], counts[kept], ranks[ranked[k]] = ranked[k], histogram[ranked[k]], kept
                kept += 1
        for step in range(10):
            size = kept if step == 9 else 4 * step
            if size > kept or (not is_thorough and step not in (0, 4, 9)):
                continue
            cost, offset, value_bits = _evaluate_palette(histogram, above, ranks, has_runs, end, top, counts, size)
            cost += SLICE_BITS + (run_cost if has_runs else 0)
            if cost < best:
                best = cost
                plan[HAS_RUNS], plan[PALETTE_SIZE] = has_runs, 2 if size == 1 else size
                plan[OFFSET], plan[VALUE_BITS] = offset, value_bits
                for k in range(size):
                    palette[k] = top[k]
                if size == 1:
                    palette[1] = 0
        for k in range(kept):
            ranks[top[k]] = NO_RANK
    return best


@inlined
def make_scratch():  # type: ignore[no-untyped-def]
    """What `evaluate` works in: a row is counts above, ranks (of no code), or codes that are ranked, chosen and counted.

    The same places of two rows do not lie 4096 bytes apart: a CPU takes a load from one for what was stored in the other.
    """
    return np.full((5, CODES + 80), NO_RANK, np.int64)


@kernel(ty.int64(COUNTS, LIST))
def _one_slice_cost(histogram, above):  # type: ignore[no-untyped-def]
    """Cost of one section in one slice without palette and zero runs."""
    end = _count_above(histogram, above)
    largest = max(end - 1, 0)
    bits = _coded_bits(above, 0, end, 0, largest, above, above, 0)
    return min(bits, above[0] * max(2, bit_length(largest))) + PALETTE_BITS + SLICE_BITS


@kernel(ty.int64(COUNTS, ty.int64, ty.int64))
def naive_cost(histogram, number, zeros):  # type: ignore[no-untyped-def]
    """Cost of one section without palette and zero runs: in one slice, or with long runs of zeros in slices of their own.

    There are `number` long runs, of `zeros` in all.
    """
    above = np.empty(CODES, np.int64)
    whole = _one_slice_cost(histogram, above)
    histogram[0] -= np.uint32(zeros)
    cut = _one_slice_cost(histogram, above) + zeros + 2 * SLICE_BITS * number
    histogram[0] += np.uint32(zeros)
    return min(whole, cut)


@inlined
def _move_segment(histograms, run_costs, source, target):  # type: ignore[no-untyped-def]
    for code in range(CODES):
        histograms[target, code] = histograms[source, code]
    for d in range(4):
        run_costs[target, d] = run_costs[source, d]


@kernel(ty.int64(COUNT_TABLE, TABLE, LIST, LIST))
def merge_segments(histograms, run_costs, ends, costs):  # type: ignore[no-untyped-def]
    """Merge neighbouring segments while that saves bits. Returns the number left; rows are compacted to the front."""
    scratch = make_scratch()
    plan, palette = np.zeros(PLAN_COLUMNS, np.int64), np.zeros(MAX_PALETTE, np.int64)
    count = histograms.shape[0]
    for k in range(count):
        costs[k] = evaluate(histograms[k], run_costs[k], False, scratch, plan, palette)
    joined, joined_runs = np.empty(CODES, np.uint32), np.empty(4, np.int64)
    is_refused = np.zeros(count, np.bool_)  # to be merged with the next: not tried again while both are as they were
    for _ in range(24):
        kept, k = 0, 0
        while k < count:
            if kept != k:
                _move_segment(histograms, run_costs, k, kept)
                ends[kept], costs[kept], is_refused[kept] = ends[k], costs[k], is_refused[k]
            if k + 1 < count and not is_refused[kept]:
                for code in range(CODES):
                    joined[code] = np.uint32(histograms[kept, code] + histograms[k + 1, code])
                for d in range(4):
                    joined_runs[d] = run_costs[kept, d] + run_costs[k + 1, d]
                cost = evaluate(joined, joined_runs, False, scratch, plan, palette)
                is_refused[kept] = cost > costs[kept] + costs[k + 1]
                if not is_refused[kept]:
                    for code in range(CODES):
                        histograms[kept, code] = joined[code]
                    for d in range(4):
                        run_costs[kept, d] = joined_runs[d]
                    ends[kept], costs[kept] = ends[k + 1], cost
                    if kept > 0:
                        is_refused[kept - 1] = False
                    k += 1
            kept += 1
            k += 1
        if kept == count:
            break
        count = kept
    return count


@kernel(ty.several(ty.int64, 2)(COUNT_TABLE, TABLE, LIST, TABLE, TABLE))
def plan_sections(histograms, run_costs, ends, sections, palettes):  # type: ignore[no-untyped-def]
    """Sections of merged segments that end at `ends`, with a palette each. Returns how many there are, and their bits."""
    count = histograms.shape[0]
    if count > 1:
        count = merge_segments(histograms, run_costs, ends, np.zeros(count, np.int64))
    scratch = make_scratch()
    bits = np.int64(0)
    for section in range(count):
        sections[section, BEGIN] = ends[section - 1] if section else 0
        sections[section, END] = ends[section]
        bits += evaluate(histograms[section], run_costs[section], True, scratch, sections[section], palettes[section])
    return count, bits
