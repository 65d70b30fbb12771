"""Progress moves: it names what is done, counts up, and ends with all of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from npu.progress import Progress
from npu.toolchain.check import check_report
from npu.toolchain.explain import explain
from npu.toolchain.report import report
from npu.toolchain.session import Session

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
VERBS: dict[str, tuple[Callable[[Progress], object], set[str]]] = {
    "check": (lambda progress: check_report(DIGITS, Session(), progress=progress), {"compile"}),
    "explain": (lambda progress: explain(DIGITS, Session(), progress=progress), {"compile", "operators"}),
    "report": (lambda progress: report(DIGITS, Session(), progress=progress), {"compile", "operators"}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_progress_counts_up_to_all_of_it(verb: str) -> None:
    call, stages = VERBS[verb]
    told: list[tuple[str, int, int]] = []
    call(lambda what, done, total: told.append((what, done, total)))
    assert {what for what, _, _ in told} == stages
    for stage in stages:
        counts = [(done, total) for what, done, total in told if what == stage]
        assert len(counts) >= 8
        assert [done for done, _ in counts] == list(range(1, counts[-1][1] + 1))
