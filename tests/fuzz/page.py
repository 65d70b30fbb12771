"""docs/robustness.md: what the campaign has tried so far and what it found. `python -m tests.fuzz.page` writes it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

from tests.fuzz.campaign import EXTRA_BYTES, KINDS, RESULTS, ROOT, SECONDS

PAGE, SAMPLES = ROOT / "docs" / "robustness.md", ROOT / "docs" / "mutants.json"
MOST_ANSWERS = 12
"""Rows per kind; rarer answers are counted together."""
_ORACLES = {
    "models": "Our CPU kernels equal LiteRT's (in a process of its own, which some of the models end), the NPU equals the CPU, "
    "two runs are equal, a file that was compiled is verified and runs.",
    "streams": "Every set of kernels leaves the same bytes; what `npu verify` finds nothing in is executed, and transfers and "
    "kernels at the earliest and at the latest moment that the waits allow leave the same bytes.",
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
They are put down to rows of [exactness.md](exactness.md) by the kind of operator, not one by one \
| `tests/end_to_end/test_vela_elementwise.py` (slow) |
"""

_TESTS = """
## Tests that notice

cosmic-ray breaks the source at one place; the tests of its folder must fail. Of each package a random sample was tried:

```sh
python -m tests.support.mutants --sample 25 --seed 22 --only npu/isa --only sim/timing --only constraints
```

"""


def page(results: Mapping[str, Any], samples: Mapping[str, Mapping[str, int]]) -> str:
    """The text of the page: results of the campaign, and samples of mutants by package."""
    return "\n".join((*_lines(results), *_mutants(samples))) + "\n"


def _mutants(samples: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The samples, worst first. Tests that were written for a survivor say nothing of other mutants, so they count apart."""
    yield from _TESTS.splitlines()
    yield "| package | mutants | tried | killed | 95 % interval | killed by tests written for survivors | equivalent |"
    yield "| --- | ---: | ---: | ---: | --- | ---: | ---: |"
    for package, sample in sorted(samples.items(), key=lambda item: item[1]["killed"] / item[1]["tried"]):
        low, high = interval(sample["killed"], sample["tried"])
        since, equivalent = sample["killed_since"], sample["equivalent"]
        counts = f"{sample['mutants']:,} | {sample['tried']} | {sample['killed']} | {low:.0%} to {high:.0%}"
        yield f"| {package} | {counts} | {since} | {equivalent} |"


def interval(killed: int, tried: int) -> tuple[float, float]:
    """The shares of killed mutants that a sample allows with 95 % confidence: Wilson's interval."""
    z, share = 1.96, killed / tried
    middle = (share + z * z / (2 * tried)) / (1 + z * z / tried)
    reach = z * sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried)) / (1 + z * z / tried)
    return middle - reach, middle + reach


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    total = sum(result["cases"] for result in results.values())
    failed = sum(result["answers"].get("failure", 0) for result in results.values())
    yield "<!-- Written by python -m tests.fuzz.page from robustness.json and mutants.json. -->"
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
    yield ""
    yield f"So far {total:,} cases; {failed:,} of them failed when they were tried."
    yield ""
    yield "| kind | cases | CPU s | slowest s | failures | numbers |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for kind in KINDS:
        if kind in results:
            yield _row(kind, results[kind])
    for kind, about in KINDS.items():
        if kind in results:
            yield from _section(kind, about.what, results[kind]["answers"])
    yield from _BESIDE.splitlines()


def _row(kind: str, found: Mapping[str, Any]) -> str:
    ranges = ", ".join(f"{first:,} to {last - 1:,}" for first, last in found["numbers"])
    failures = found["answers"].get("failure", 0)
    return f"| {kind} | {found['cases']:,} | {found['cpu_seconds']:,} | {found['slowest_seconds']} | {failures} | {ranges} |"


def _section(kind: str, what: str, answers: Mapping[str, int]) -> Iterator[str]:
    yield ""
    yield f"## {kind.capitalize()}"
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
    PAGE.write_text(page(json.loads(RESULTS.read_text()), json.loads(SAMPLES.read_text())))
