"""Every mode and field of the stream, executed by every tier and the naive twin; see docs/validated-by-execution.md."""

from __future__ import annotations

import numpy as np
import pytest

from npu.isa.operations import Operation
from sim.machine import Machine

from tests.naive.operations import run_operation
from tests.support.executed_features import ABSENT, FEATURES, features_of, table
from tests.support.machine import TIERS
from tests.support.vela_features import DOCUMENT, features_of_vela
from tests.support.wide_machine import WideWorkbench

TARGETS = ("ethos-u55-128", "ethos-u55-32", "ethos-u65-512")


def drawn(seed: int) -> tuple[WideWorkbench, Operation]:
    bench = WideWorkbench(seed, target=TARGETS[seed % 3])
    return bench, bench.transfer() if seed % 8 == 0 else bench.operation()


def assert_equal_to_the_twin(bench: WideWorkbench, operation: Operation, where: str) -> None:
    expected = bench.memory()
    run_operation(operation, expected)
    for tier in TIERS:
        found = bench.memory()
        Machine(bench.variant, tier).run([operation], found)
        for region, data in found.regions.items():
            np.testing.assert_array_equal(data, expected.regions[region], err_msg=f"{where}, {tier}: {operation}")
        np.testing.assert_array_equal(found.shram, expected.shram, err_msg=f"{where}, {tier}: {operation}")


def test_every_feature_is_executed_as_its_naive_twin() -> None:
    missing, seed = set(FEATURES), 0
    while missing and seed < 20_000:
        bench, operation = drawn(seed)
        new = features_of(operation) & missing
        if new:
            assert_equal_to_the_twin(bench, operation, f"seed {seed}")
            missing -= new
        seed += 1
    assert not missing


@pytest.mark.parametrize(
    "feature",
    ["OFM with negative column stride", "IFM with negative row stride", "stride y 4", "elementwise SHL", "DMA of planes"],
)
def test_rare_features_are_executed_several_times(feature: str) -> None:
    done, seed = 0, 30_000
    while done < 4:
        bench, operation = drawn(seed)
        if feature in features_of(operation):
            assert_equal_to_the_twin(bench, operation, f"seed {seed}")
            done += 1
        seed += 1


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_wide_operations_equal_their_naive_twin(part: int) -> None:
    for seed in range(50_000 + part * 100, 50_100 + part * 100):
        bench, operation = drawn(seed)
        assert_equal_to_the_twin(bench, operation, f"seed {seed}")


def test_the_document_has_every_feature() -> None:
    lines = DOCUMENT.read_text().splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines if line.startswith("| ")][2:] == list(FEATURES)


def test_every_feature_without_a_stream_has_one_reason() -> None:
    lines = [line for line in DOCUMENT.read_text().splitlines() if " | none: " in line]
    named = [feature for features in ABSENT.values() for feature in features]
    assert sorted(line.split(" | ")[0].removeprefix("| ") for line in lines) == sorted(named)
    assert set(named) <= set(FEATURES)


@pytest.mark.slow
def test_the_document_says_what_velas_streams_have() -> None:
    assert DOCUMENT.read_text() == table(features_of_vela())
