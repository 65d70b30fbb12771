"""A part of the campaign on every run, and that the campaign notices what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fuzz import campaign
from tests.fuzz.campaign import KINDS, RESULTS, Tally, add_results, run
from tests.fuzz.page import CAMPAIGN, PAGE, SAMPLES, interval, page
from tests.fuzz.trouble import HUNGER

FIRST = 450
"""Some cases before those of the next target, most behind them."""
CASES = {"models": 120, "streams": 150, "ethos_u85": 150, "weights": 1500, "descriptions": 60, "files": 40, "options": 120}


@pytest.mark.parametrize("kind", KINDS)
def test_broken_inputs_are_answered(kind: str) -> None:
    tally = Tally()
    run(kind, KINDS[kind].place, FIRST, CASES[kind], tally)
    assert tally.failures == []
    assert tally.cases == CASES[kind]
    assert len(tally.answers) > 1, "all cases end alike"


def test_bugs_deaths_and_hunger_for_memory_are_failures_and_the_other_cases_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "EXTRA_BYTES", HUNGER - (1 << 26))
    tally = Tally()
    run("trouble", "tests.fuzz.trouble:case", 0, 10, tally)
    assert tally.answers == {"fine": 6, "failure": 3, "file: refused": 1}
    bug, hunger, death = tally.failures
    assert bug.startswith("trouble 4: KeyError: 'a bug'")
    assert death == "trouble 7: ends the process (3)"
    assert hunger.startswith("trouble 5: needs ")


def test_results_are_added_up(tmp_path: Path) -> None:
    path, tally = tmp_path / "results.json", Tally()
    run("trouble", "tests.fuzz.trouble:case", 0, 4, tally)
    for first in (4, 0, 20):
        add_results(path, "trouble", first, tally)
    found = json.loads(path.read_text())["trouble"]
    assert (found["cases"], found["answers"], found["numbers"]) == (12, {"fine": 12}, [[0, 8], [20, 24]])


def test_the_page_is_that_of_the_results() -> None:
    assert PAGE.read_text() == page(*(json.loads(path.read_text()) for path in (RESULTS, CAMPAIGN, SAMPLES)))


def test_a_small_sample_of_mutants_says_little() -> None:
    assert interval(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert interval(90, 100) == pytest.approx((0.8256, 0.9448), abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_broken_inputs_are_answered(kind: str) -> None:
    tally = Tally()
    run(kind, KINDS[kind].place, 10_000, 20 * CASES[kind], tally)
    assert tally.failures == []
