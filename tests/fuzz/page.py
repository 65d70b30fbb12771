"""docs/robustness.md: what the campaign has tried so far and what it found. `python -m tests.fuzz.page` writes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

from tests.fuzz.campaign import EXTRA_BYTES, KINDS, RESULTS, ROOT, SECONDS

PAGE, SAMPLES = ROOT / "docs" / "robustness.md", ROOT / "docs" / "mutants.json"
CAMPAIGN = ROOT / "docs" / "campaign.json"
"""Campaigns on one commit each, the largest first: their results, and what their failures were."""
MOST_ANSWERS = 12
"""Rows per kind; rarer answers are counted together."""
_ORACLES = {
    "models": "Our CPU kernels equal LiteRT's (in a process of its own, which some of the models end), the NPU equals the CPU, "
    "two runs are equal, a file that was compiled is verified and runs.",
    "streams": "Every set of kernels leaves the same bytes; what `npu verify` finds nothing in is executed, and transfers and "
    "kernels at the earliest and at the latest moment that the waits allow leave the same bytes.",
    "ethos_u85": "What `npu verify` finds nothing in is executed; whatever is decoded has a time and a line of text.",
    "weights": "Weights of the shape that was asked for, or an error.",
    "descriptions": "An error of one line that names the value, or a machine on which estimates and times are numbers.",
    "files": "A result, or one line of error that names the file.",
    "options": "A delegate that runs a model, or an error that names the option.",
}

_FAULTS, _NAMES = "`tests/end_to_end/test_faults.py`", "`tests/end_to_end/test_injection.py`"
_BESIDE = f"""
## Beside the campaign

Tests of every run:

| what is done to the tool | tests |
| --- | --- |
| a full disk, a folder that takes nothing, death in the middle of every write, at each option that writes | {_FAULTS} |
| threads that share an interpreter, a fork after use, no letters in the locale, a gibibyte of address space | {_FAULTS} |
| names that are HTML, Markdown, formulas, paths, source code or escapes, in every form of report | {_NAMES} |
| damaged and foreign libraries of kernels, empty caches, eight threads at once | `tests/npu/native/test_library.py` |
| a closed or full standard output, no terminal, interrupts | `tests/end_to_end/test_clumsy_use.py`, `test_wrong_files.py` |
| what TFLite's interpreter refuses (`--strict`) | `tests/npu/graph/test_strict.py`, `test_versions.py` |
| 1,000 random elementwise graphs of 8, 16 and 32 bits through Vela 5.2 on six targets: 5,706 files run, no findings; \
Vela itself refuses the other 294. Of 22,680 outputs 22,236 equal LiteRT's; 444 differ (MUL 420, PRELU 18, LOGISTIC 6). \
Every one of these is exactly what a formula of its operator says, which was written from the rows of \
[exactness.md](exactness.md) (`tests/naive/vela_arithmetic.py`). 1,500 other graphs (seeds from 5,000), one target each: \
1,415 files run, 85 are refused by Vela. 124 of 5,592 outputs differ as these formulas say; five more graphs differ in TANH \
(two), RELU, ABS and SOFTMAX of int16 (input scales above 5), whose formulas were written then. 1,000 more \
(seeds from 1,000) on all six targets: every output is LiteRT's or what a formula says \
| `tests/end_to_end/test_vela_elementwise.py` (slow) |
"""

_TESTS = """
## Tests that notice

cosmic-ray breaks the source at one place; the tests of its folder must fail. Of each package random samples were tried, each
once, of mutants that nobody had seen before. The first row of a package is its newest sample; tests that were written for the
survivors of one sample are in the next.

```sh
python -m tests.support.mutants --sample 25 --seed 209 --only constraints  # and so on, with the seeds below
```

"""


def page(
    results: Mapping[str, Any],
    campaigns: Sequence[Mapping[str, Any]],
    samples: Mapping[str, Sequence[Mapping[str, Any]]],
) -> str:
    """The text of the page: campaigns on one commit, results of all, and samples of mutants by package."""
    single = ("", "## Campaigns on one commit", *(line for campaign in campaigns for line in _one(campaign)))
    return "\n".join((*_introduction(), *single, *_all(results), *_BESIDE.splitlines(), *_mutants(samples))) + "\n"


def _mutants(packages: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """All samples as they were tried, the newest of a package first; packages by that, worst first."""
    yield from _TESTS.splitlines()
    yield "| package | seed | mutants | tried | equivalent | killed of the rest | share | 95 % interval |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for package, samples in sorted(packages.items(), key=lambda item: _score(item[1][-1])):
        for sample in reversed(samples):
            changed = sample["tried"] - len(sample["equivalent"])
            low, high = interval(sample["killed"], changed)
            counts = (
                f"{sample['mutants']:,} | {sample['tried']} | {len(sample['equivalent'])} | {sample['killed']} of {changed}"
            )
            yield f"| {package} | {sample['seed']} | {counts} | {_score(sample):.0%} | {low:.0%} to {high:.0%} |"
    yield from ("", "What survived:", "", "| package | seed | mutant | |", "| --- | ---: | --- | --- |")
    for package, samples in sorted(packages.items()):
        for sample in reversed(samples):
            reasons = [*((what, f"equivalent: {why}") for what, why in sample["equivalent"]), *sample["survived"]]
            yield from (f"| {package} | {sample['seed']} | {what} | {why} |" for what, why in reasons)


def _score(sample: Mapping[str, Any]) -> float:
    return float(sample["killed"]) / (sample["tried"] - len(sample["equivalent"]))


def interval(killed: int, tried: int) -> tuple[float, float]:
    """The shares of killed mutants that a sample allows with 95 % confidence: Wilson's interval."""
    z, share = 1.96, killed / tried
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    reach = z * sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried)) / (1 + z * z / tried)
    return middle - reach, middle + reach


def _introduction() -> Iterator[str]:
    yield "<!-- Written by python -m tests.fuzz.page from campaign.json, robustness.json and mutants.json. -->"
    yield "# Robustness"
    yield ""
    yield "Whatever is in a file, a command ends in a result or in one error: where, what must hold, what was found."
    yield "A campaign breaks inputs of every kind on purpose and judges what comes of them:"
    yield ""
    yield "```sh"
    yield "make fuzz MINUTES=5"
    yield "python -m tests.fuzz.campaign --only models --first 1234 --count 1  # one case again"
    yield "```"
    yield ""
    yield f"For every kind it is a failure to end in an exception, a crash, after more than {SECONDS:g} s of processor time,"
    yield f"or with more than {EXTRA_BYTES >> 20} MiB beyond what sound files need. What else must hold is below. Failures are"
    yield "printed with the number that repeats them, mended as a class, and kept as tests beside the code that was wrong."


def _one(campaign: Mapping[str, Any]) -> Iterator[str]:
    """What was tried on one commit, and each of its failures."""
    results = campaign["results"]
    total = sum(result["cases"] for result in results.values())
    yield ""
    yield f"{total:,} cases on commit {campaign['commit']}, of numbers that none had before; {_failed(results):,} failed:"
    yield ""
    yield "| kind | cases | share | CPU s | slowest s | failures | numbers |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | --- |"
    for kind in filter(results.__contains__, KINDS):
        found = results[kind]
        cells = _cells(found)
        yield f"| {kind} | {cells[0]} | {found['cases'] / total:.0%} | {' | '.join(cells[1:])} |"
    if not campaign["failures"]:
        return
    yield ""
    yield "Its failures, each tried again after it was mended, without a failure:"
    yield ""
    yield "| numbers | what failed | now |"
    yield "| --- | --- | --- |"
    for failure in campaign["failures"]:
        yield f"| {failure['kind']} {', '.join(map(str, failure['numbers']))} | {failure['what']} | {failure['now']} |"


def _failed(results: Mapping[str, Any]) -> int:
    return sum(result["answers"].get("failure", 0) for result in results.values())


def _all(results: Mapping[str, Any]) -> Iterator[str]:
    """Every campaign so far, over many commits, some on the way to mending what they had found."""
    total = sum(result["cases"] for result in results.values())
    yield ""
    yield "## All campaigns"
    yield ""
    yield f"{total:,} cases over many commits, those above among them; {_failed(results):,} failed when they were tried."
    yield ""
    yield "| kind | cases | CPU s | slowest s | failures | numbers |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for kind in KINDS:
        if kind in results:
            yield f"| {kind} | {' | '.join(_cells(results[kind]))} |"
    for kind, about in KINDS.items():
        if kind in results:
            yield from _section(kind, about.what, results[kind]["answers"])


def _cells(found: Mapping[str, Any]) -> list[str]:
    """Cases, CPU seconds, slowest, failures, numbers."""
    ranges = ", ".join(f"{first:,} to {last - 1:,}" for first, last in found["numbers"])
    failures = found["answers"].get("failure", 0)
    return [f"{found['cases']:,}", f"{found['cpu_seconds']:,.0f}", str(found["slowest_seconds"]), str(failures), ranges]


def _section(kind: str, what: str, answers: Mapping[str, int]) -> Iterator[str]:
    yield ""
    yield f"### {kind.capitalize()}"
    yield ""
    yield f"Broken: {what}. {_ORACLES[kind]}"
    yield ""
    yield "| answer | cases |"
    yield "| --- | ---: |"
    counted = Counter(dict(answers)).most_common()
    for text, count in counted[:MOST_ANSWERS]:
        yield f"| {text} | {count:,} |"
    rest = counted[MOST_ANSWERS:]
    if rest:
        yield f"| {len(rest)} rarer answers | {sum(count for _, count in rest):,} |"


if __name__ == "__main__":
    PAGE.write_text(page(*(json.loads(path.read_text()) for path in (RESULTS, CAMPAIGN, SAMPLES))))
