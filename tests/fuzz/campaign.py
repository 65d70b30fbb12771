"""The standing campaign: broken inputs of every kind, as long as there is time. `make fuzz MINUTES=n`.

`python -m tests.fuzz.campaign --minutes 5 --first 0 --results FILE` prints where it begins and every failure, and adds what it
counted to the results. A case depends on its kind and number alone and is repeated by
`python -m tests.fuzz.campaign --only models --first 1234 --count 1`. Cases run in processes of their own, so that a crash, a
hang or too much memory is a failure like any other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.fuzz.answer import answer_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "robustness.json"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is broken. `place` is the module and function that answers a number, `chunk` how many cases a process gets."""

    place: str
    chunk: int
    what: str


KINDS: Mapping[str, Kind] = {
    "models": Kind(
        "tests.fuzz.models:case", 1500,
        "TFLite files, plain and compiled: fields of tensors, operators, graphs and metadata through the schema, and bytes",
    ),
    "streams": Kind("tests.fuzz.streams:case", 1500, "command streams: words, registers, addresses, waits"),
    "ethos_u85": Kind("tests.fuzz.ethos_u85:case", 1500, "command streams of Ethos-U85 that Vela wrote: words"),
    "weights": Kind("tests.fuzz.files:weight_stream", 7_500, "weight streams: bits of valid ones, and any bytes"),
    "descriptions": Kind(
        "tests.fuzz.descriptions:case", 1500,
        "hardware descriptions: values of a whole one, as a mapping and as a YAML file",
    ),
    "files": Kind(
        "tests.fuzz.files:case", 1500,
        "descriptions, budgets, inputs, listings for `asm`, labels, images, annotations, each beside a sound model",
    ),
    "options": Kind("tests.fuzz.options:case", 6000, "options of the shipped delegates"),
}  # fmt: skip
SECONDS = 10.0
"""Most processor time of a case, the first ones of a process aside, which load kernels."""
SILENT_SECONDS = 120.0
"""Longest that a process may say nothing, on a busy machine."""
EXTRA_BYTES = 1 << 30
"""Most memory beyond what the process needs for the first, sound cases."""


@dataclass
class Tally:
    """What was counted of one kind."""

    cases: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    answers: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def serve(place: str, first: int, count: int) -> None:
    """The process of some cases: one JSON line before and after each."""
    module, _, name = place.partition(":")
    case: Callable[[int], str] = getattr(import_module(module), name)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lines, sys.stdout = sys.stdout, sys.stderr
    for number in range(first, first + count):
        _say(lines, {"number": number})
        start = time.process_time()
        answer = answer_of(lambda number=number: case(number))  # type: ignore[misc]
        seconds = round(time.process_time() - start, 3)
        _say(lines, {"answer": answer.text, "failure": answer.failure, "seconds": seconds, "peak": _peak_bytes()})


def _peak_bytes() -> int:
    """Most memory that this process has held; what getrusage tells includes that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def _say(lines: Any, record: Mapping[str, Any]) -> None:
    lines.write(json.dumps(record) + "\n")
    lines.flush()


def run(kind: str, place: str, first: int, count: int, tally: Tally) -> None:
    """Some cases in child processes; one that dies or hangs is a failure, and the next case starts another."""
    number, end = first, first + count
    while number < end:
        number = _run_process(kind, place, number, end - number, tally)


def _run_process(kind: str, place: str, first: int, count: int, tally: Tally) -> int:
    command = [sys.executable, "-m", "tests.fuzz.campaign", "--serve", place, "--first", str(first), "--count", str(count)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, start_new_session=True)
    number, done, usual = first, first, 0
    try:
        for record in _records(child):
            if "number" in record:
                number = record["number"]
                continue
            done = number + 1
            usual = max(usual, record["peak"]) if number < first + 3 else usual
            failure = record["failure"] or _bounds(record, usual, is_first=number < first + 3)
            tally.cases += 1
            tally.seconds += record["seconds"]
            tally.answers["failure" if failure else record["answer"]] += 1
            if failure:
                tally.failures.append(f"{kind} {number}: {failure}")
            if number >= first + 3:
                tally.slowest = max(tally.slowest, record["seconds"])
            if record["peak"] > usual + EXTRA_BYTES and number >= first + 3:
                break  # a new process, whose peak says something again
    finally:
        _end(child)
    if done == number + 1:
        return done
    tally.cases += 1
    tally.answers["failure"] += 1
    why = "hangs" if child.returncode == -signal.SIGKILL else f"ends the process ({child.returncode})"
    tally.failures.append(f"{kind} {number}: {why}")
    return number + 1


def _bounds(record: Mapping[str, Any], usual: int, *, is_first: bool) -> str:
    if not is_first and record["seconds"] > SECONDS:
        return f"takes {record['seconds']} s"
    if not is_first and record["peak"] > usual + EXTRA_BYTES:
        return f"needs {record['peak'] - usual >> 20} MiB"
    return ""


def _records(child: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Records of a child until it ends; one that is silent for too long is killed."""
    assert child.stdout is not None
    while select.select([child.stdout], [], [], SILENT_SECONDS)[0]:
        line = child.stdout.readline()
        if not line.endswith(b"\n"):
            return
        yield json.loads(line)
    os.killpg(child.pid, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    child.stdout.close()
    try:
        child.wait(5)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def add_results(path: Path, kind: str, first: int, tally: Tally) -> None:
    """Adds a run to the results file: counts of answers, and the range of numbers."""
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    old = results.setdefault(kind, {"cases": 0, "cpu_seconds": 0, "slowest_seconds": 0, "answers": {}, "numbers": []})
    old["cases"] += tally.cases
    old["cpu_seconds"] = round(old["cpu_seconds"] + tally.seconds, 1)
    old["slowest_seconds"] = round(max(old["slowest_seconds"], tally.slowest), 1)
    counts = Counter(old["answers"]) + tally.answers
    old["answers"] = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    old["numbers"] = _joined([*old["numbers"], [first, first + tally.cases]])
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")


def _joined(ranges: list[list[int]]) -> list[list[int]]:
    """Ranges in order, neighbours as one."""
    joined: list[list[int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(end, joined[-1][1])
        else:
            joined.append([start, end])
    return joined


def _next_numbers(path: Path) -> dict[str, int]:
    """Where each kind goes on: behind the last number of the results."""
    results = json.loads(path.read_text()) if path.exists() else {}
    return {kind: results.get(kind, {}).get("numbers", [[0, 0]])[-1][1] for kind in KINDS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: %(default)s)")
    parser.add_argument("--only", choices=KINDS, action="append", help="kinds (default: all)")
    parser.add_argument("--first", type=int, help="first number of each kind (default: where the results end)")
    parser.add_argument("--count", type=int, help="cases of each kind, whatever the time")
    parser.add_argument("--results", type=Path, help="a JSON file to add the counts to")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.serve, given.first, given.count)
        return 0
    kinds = given.only or list(KINDS)
    numbers = dict.fromkeys(kinds, given.first) if given.first is not None else _next_numbers(given.results or RESULTS)
    end, failed = time.monotonic() + 60 * given.minutes, False
    print("seeds:", ", ".join(f"{kind} from {numbers[kind]}" for kind in kinds))  # noqa: T201
    while given.count is not None or time.monotonic() < end:
        for kind in kinds:
            tally = Tally()
            run(kind, KINDS[kind].place, numbers[kind], given.count or KINDS[kind].chunk, tally)
            for failure in tally.failures:
                print(failure, flush=True)  # noqa: T201
            failed = failed or bool(tally.failures)
            if given.results is not None:
                add_results(given.results, kind, numbers[kind], tally)
            numbers[kind] += given.count or KINDS[kind].chunk
        if given.count is not None:
            break
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
