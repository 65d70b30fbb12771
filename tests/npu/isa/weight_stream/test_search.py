"""What the search for a short weight stream counts and chooses, against slow twins."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from numpy.typing import NDArray

from npu.isa.weight_stream.kernels.configurations import CODES, GROUP, NEVER, choose_configurations, make_costs
from npu.isa.weight_stream.kernels.emit import RAW
from npu.isa.weight_stream.kernels.search import RANKED, most_frequent
from npu.isa.weight_stream.kernels.statistics import LONG_RUN, make_statistics

SIZE = 128
SHARES = {"dense": 0.0, "one_zero_in_20": 0.05, "half_zero": 0.5, "sparse": 0.97}


def codes_with_zeros(share: float, count: int) -> NDArray[np.uint16]:
    rng = np.random.default_rng(3)
    blocks = np.repeat(rng.random(count // 90 + 1) < share / 2, 90)[:count]  # long runs as well
    return np.where(blocks | (rng.random(count) < share), 0, rng.integers(1, CODES, count)).astype(np.uint16)


def slow_statistics(codes: list[int]) -> tuple[NDArray[np.int64], NDArray[np.int64], int, int]:
    segments = -(-len(codes) // SIZE)
    counts, costs = np.zeros((segments, CODES), np.int64), np.zeros((segments, 4), np.int64)
    runs, owners = [0], [0]
    for place, code in enumerate(codes):
        counts[place // SIZE, code] += 1
        if code:
            runs, owners = [*runs, 0], [*owners, place // SIZE]
        else:
            runs[-1] += 1
    for run, owner in zip(runs, owners, strict=True):
        costs[owner] += [(run >> d) + 1 + d for d in range(4)]
    long = [len(list(zeros)) for code, zeros in groupby(codes) if code == 0]
    long = [length for length in long if length >= LONG_RUN]
    return counts, costs, len(long), sum(long)


@pytest.mark.parametrize("count", [1, 3, 64, 127, 128, 129, 500, 2000])
@pytest.mark.parametrize("case", SHARES)
def test_codes_and_runs_are_counted_as_by_the_slow_twin(case: str, count: int) -> None:
    codes = codes_with_zeros(SHARES[case], count)
    segments = -(-count // SIZE)
    counts, costs = np.empty((segments, CODES), np.uint32), np.zeros((segments, 4), np.int64)
    long = make_statistics(codes, SIZE, counts, costs)
    expected_counts, expected_costs, *expected_long = slow_statistics(codes.tolist())
    assert np.array_equal(counts, expected_counts)
    assert np.array_equal(costs, expected_costs)
    assert list(long) == expected_long


HISTOGRAMS = {
    "few": [0, 5, 5, 0, 9],
    "as_many_as_are_ranked": [*range(1, RANKED + 1)],
    "all_equal": [7] * 200,
    "bell": [int(1000 * np.exp(-(((k - 60) / 30) ** 2))) for k in range(256)],
    "one_above_many_equal": [3] * 100 + [8] + [3] * 100,
}


@pytest.mark.parametrize("case", HISTOGRAMS)
def test_the_most_frequent_codes_come_first_and_the_lowest_of_equal_ones(case: str) -> None:
    counts = HISTOGRAMS[case]
    expected = sorted((code for code, count in enumerate(counts) if count), key=lambda code: (-counts[code], code))[:RANKED]
    histogram, room = np.zeros(CODES, np.uint32), np.zeros((3, CODES + GROUP), np.int64)
    histogram[: len(counts)] = counts
    number = most_frequent(histogram, len(counts), room[0], room[1], room[2])
    assert room[2, :number].tolist() == expected


def slow_bits(symbols: list[int], raw_bits: int, choices: list[int] | None) -> int:
    """Bits of groups in the configurations chosen, or in the best ones, 34 for a change."""
    costs = make_costs().astype(np.int64)
    costs[:CODES, RAW] = raw_bits or NEVER
    totals = np.zeros(RAW + 1, np.int64)
    for group, start in enumerate(range(0, len(symbols), GROUP)):
        before = totals if group == 0 else np.minimum(totals, totals.min() + 34)
        totals = before + costs[symbols[start : start + GROUP], : RAW + 1].sum(axis=0)
        if choices is not None:
            totals[[c for c in range(RAW + 1) if c != choices[group]]] = 1 << 40
    return int(totals.min())


@pytest.mark.parametrize("raw_bits", [0, 9])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 640])
def test_the_configurations_chosen_take_the_fewest_bits(count: int, raw_bits: int) -> None:
    rng = np.random.default_rng(4)
    symbols = np.zeros(count + GROUP, np.int16)
    symbols[:count] = rng.integers(0, np.repeat([3, 500, 40, 9], -(-count // 4))[:count])
    choices = np.zeros(count // GROUP + 1, np.uint8)
    choose_configurations(symbols, count, make_costs(), raw_bits, choices)
    own = symbols[:count].tolist()
    assert slow_bits(own, raw_bits, choices.tolist()) == slow_bits(own, raw_bits, None)
