"""Which tests may be skipped, and why: none for a dependency that is missing, which CI would not notice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.shared import shared_models

TESTS = Path(__file__).parent
REASONS = {
    "the model is not here": "models of other owners, which a clone does not hold (docs/models.md)",
    "the model is not beside the project": "the same",
    "the page is made of models that are not here": "the same",
    "needs the device that is always full": "Linux alone has /dev/full",
    "objects are linked here on x86-64 Linux only": "elsewhere LLVM does that",
    "conventions of x86-64 Linux": "code of other systems is called from code of this one",
    "nothing to fix": "a random graph that the rules accept as it is",
    "holds operators that run elsewhere": "a model of the folder of models that has more than the NPU's operators",
    "only some tests were collected": "a count over all tests says nothing of some of them",
}
_SKIP = re.compile(r"""pytest\.skip\(\s*["']([^"']*)|skipif\([^\n]*reason=["']([^"']*)""")


def test_every_reason_to_skip_a_test_is_one_of_these() -> None:
    found = {
        first or second
        for path in TESTS.rglob("*.py")
        if path != Path(__file__)
        for first, second in _SKIP.findall(path.read_text())
    }
    assert found == set(REASONS)


@pytest.mark.skipif(not shared_models(), reason="the model is not here")
def test_no_test_is_without_cases_where_the_models_are(collected: list[pytest.Item]) -> None:
    assert [item.nodeid for item in collected if "NOTSET" in item.name] == []


def test_no_test_is_skipped_for_a_dependency_that_is_missing() -> None:
    words = ("importor" + "skip", "util.find_" + "spec")
    hidden = [path.name for path in TESTS.rglob("test_*.py") if any(word in path.read_text() for word in words)]
    assert hidden == []
