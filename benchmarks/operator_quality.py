"""Our compiler beside Vela on random networks around one operator or block each: which are slower, and in which cells.

Usage: python -m benchmarks.operator_quality [--first SEED] [--count N] [--large] [--targets x,y] [--optimise size]
[--write PAGE.md]

The networks are those of `tests.support.operator_sketches`, N for each kind of operator. Both files run on our own simulator;
ratios are ours by Vela's, total cycles with the CPU's. Needs the test extra (Vela), which runs in this process, and prints what
it likes: starting it anew for each of thousands of networks would take hours.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ethosu.vela.vela import main as vela

import npu
from benchmarks.compiler_quality import Cell, judge, mean_and_above, mean_of, worst_first
from npu.errors import UserError

from tests.support.operator_sketches import LARGE, OPERATORS, SMALL, Sizes, sketch

_DEFAULT_TARGETS = ("ethos-u55-128", "ethos-u65-256")


def compare(seed: int, sizes: Sizes, target: str, goal: str) -> Cell:
    """One cell: the network of a seed on a target."""
    made = sketch(seed, sizes)
    with tempfile.TemporaryDirectory() as folder:
        source, ours = Path(folder) / "network.tflite", Path(folder) / "ours.tflite"
        source.write_bytes(made.content)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            vela([str(source), "--accelerator-config", target, "--optimise", goal.title(), "--output-dir", folder])
        try:
            npu.compile(source, target=target, optimise=goal).save(ours)
            return Cell(made.name, target, judge(ours, target), judge(Path(folder) / "network_vela.tflite", target))
        except UserError as error:  # of our compiler, or of Vela's file: it makes some that no driver takes
            return Cell(made.name, target, reason=str(error).replace(str(source), source.name))


def operator_of(cell: Cell) -> str:
    """The kind of operator that the network of a cell is about."""
    return list(OPERATORS)[int(cell.model.split()[0]) % len(OPERATORS)]


def page(cells: Sequence[Cell], targets: Sequence[str], goal: str, command: str, *, is_large: bool) -> Iterator[str]:
    """The published page: a table by operator for each target, then every cell above 1.00, worst first."""
    yield f"# {'Large operators' if is_large else 'Operators'} and blocks beside Vela's, {goal}\n"
    yield "Random networks around one operator or block each (`tests/support/operator_sketches.py`), compiled by both"
    yield f"compilers for {goal} and timed on this simulator: ours by Vela 5.2's, below 1.00 is better. Made by `{command}`."
    yield "Means are geometric; in brackets, the cells above 1.00 of all. SRAM is the arena with fast scratch.\n"
    for target in targets:
        own = [cell for cell in cells if cell.target == target]
        kinds = {kind: [cell for cell in own if operator_of(cell) == kind] for kind in OPERATORS}
        by_mean = sorted(kinds.items(), key=lambda item: mean_of(item[1], "total_cycles"), reverse=True)
        yield f"## {target}\n"
        yield "| operator | total cycles | worst | SRAM |\n| --- | ---: | ---: | ---: |"
        for kind, row in [("all", own), *by_mean]:
            worst = max((cell.ratio("total_cycles") or 0.0 for cell in row), default=0.0)
            cycles, sram = (mean_and_above(row, field, 2) for field in ("total_cycles", "sram_bytes"))
            yield f"| {kind} | {cycles} | {worst:.2f} | {sram} |"
        yield ""
    above = [cell for cell in worst_first(cells) if (cell.ratio("total_cycles") or 0) > 1.005]
    yield f"## Every cell above 1.00: {len(above)} of {len(cells)}\n"
    yield "| network | target | total cycles | NPU cycles | SRAM |\n| --- | --- | ---: | ---: | ---: |"
    for cell in above:
        ratios = [cell.ratio(field) for field in ("total_cycles", "npu_cycles", "sram_bytes")]
        yield f"| {cell.model} | {cell.target} | " + " | ".join("-" if r is None else f"{r:.2f}" for r in ratios) + " |"
    refused = [cell for cell in cells if cell.ours is None]
    if refused:
        yield f"\nNot compared: {len(refused)} cells. The first: {refused[0].model}: {refused[0].reason}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="the seed of the first network")
    parser.add_argument("--count", type=int, default=20, help="networks of each kind")
    parser.add_argument("--large", action="store_true", help="maps of up to 2.5 million elements, up to 2048 channels deep")
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(_DEFAULT_TARGETS))
    parser.add_argument("--optimise", choices=("performance", "size"), default="performance")
    parser.add_argument("--write", type=Path, help="page to write instead of printing it")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count * len(OPERATORS))
    work = [(seed, target) for target in given.targets for seed in seeds]
    cells = []
    for number, (seed, target) in enumerate(work):
        cells.append(compare(seed, LARGE if given.large else SMALL, target, given.optimise))
        sys.stderr.write(f"\r{number + 1} of {len(work)}" + "\n" * (number + 1 == len(work)))
    command = f"python -m benchmarks.operator_quality --first {given.first} --count {given.count}"
    command += f"{' --large' * given.large} --targets {','.join(given.targets)} --optimise {given.optimise}"
    text = "\n".join(page(cells, given.targets, given.optimise, command, is_large=given.large)) + "\n"
    if given.write:
        given.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
