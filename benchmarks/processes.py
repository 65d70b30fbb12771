"""Processes from start to end: help, check, run, timing alone, explain and compile, Vela as the peer; in turn, medians.

Usage: python -m benchmarks.processes [MODEL.tflite ...]                  (default: the shipped example)
       python -m benchmarks.processes --compile-all [--write docs/speed.md]    compile alone, every model at hand

With --compile-all, --case TARGET:performance or TARGET:size may be given several times.

The time of `python -c "import numpy"` stands beside them, since every command but --help needs it. CPU time is that of the
process and its children, which a busy machine lengthens less than the time on the wall. Modules are loaded from compiled
bytecode, as those of an installed package are, whatever PYTHONDONTWRITEBYTECODE says.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.shared import FOLDERS

ROOT = Path(__file__).parents[1]
Case = tuple[str, str]
"""A target, and what is optimised: performance or size."""
CASES: tuple[Case, ...] = (("ethos-u55-128", "performance"), ("ethos-u55-128", "size"), ("ethos-u65-256", "performance"))


@dataclass
class Command:
    """A command and the seconds that it took, on the wall and of processors."""

    arguments: list[str]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    succeeds: bool = True

    def run(self, environment: dict[str, str]) -> None:
        """Add one process."""
        start, before = time.perf_counter(), os.times()
        done = subprocess.run(self.arguments, env=environment, cwd=ROOT, capture_output=True, check=False)
        after = os.times()
        self.wall.append(time.perf_counter() - start)
        self.cpu.append(sum(after[2:4]) - sum(before[2:4]))
        self.succeeds = done.returncode == 0


@dataclass(frozen=True)
class Pair:
    """The same model compiled here and by Vela, in turn with `python -c "import numpy"`, which both need."""

    model: Path
    ours: Command
    vela: Command
    floor: Command

    @property
    def is_comparable(self) -> bool:
        """Whether both make a file of it."""
        return self.ours.succeeds and self.vela.succeeds

    def ratio(self, kind: str, what: str = "ours") -> float:
        """Median of the ratios of the rounds of `what` to Vela; `kind` is wall or cpu."""
        rounds = zip(getattr(getattr(self, what), kind), getattr(self.vela, kind), strict=True)
        return statistics.median(ours / vela for ours, vela in rounds)

    def row(self) -> str:
        """A line of the page's table."""
        seconds = [statistics.median(times) for times in (self.ours.wall, self.vela.wall, self.ours.cpu, self.vela.cpu)]
        cells = (f"{self.ratio('wall'):.2f}", *(f"{time:.3f}" for time in seconds[:2]), f"{self.ratio('cpu'):.2f}")
        return f"| {self.model.stem} | {' | '.join((*cells, *(f'{time:.3f}' for time in seconds[2:])))} |"


def environment(cache: str) -> dict[str, str]:
    """That of this process, but for bytecode, which is kept in a folder of its own."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**known, "PYTHONPYCACHEPREFIX": cache}


def npu(*arguments: str) -> Command:
    """A command of this project."""
    return Command([sys.executable, "-m", "npu", *arguments])


def numpy_alone() -> Command:
    """All of numpy, of which the command line loads three fifths (`npu/stand_ins.py`)."""
    return Command([sys.executable, "-c", "import numpy"])


def compile_pair(model: Path, folder: str, case: Case = CASES[0]) -> tuple[Command, Command]:
    """The compile command and that of Vela."""
    (target, goal), vela = case, str(Path(sys.executable).with_name("vela"))
    theirs = ["--accelerator-config", target, "--optimise", goal.capitalize(), "--output-dir", f"{folder}/vela", str(model)]
    ours = npu("compile", str(model), "--target", target, "--optimise", goal, "-o", f"{folder}/ours.tflite")
    return ours, Command([vela, *theirs])


def commands_for(models: Sequence[Path], folder: str) -> dict[str, Command]:
    """Commands by name; `vela NAME` is the peer of `npu compile NAME`."""
    commands = {
        "python -c pass": Command([sys.executable, "-c", "pass"]),
        "python -c 'import numpy'": numpy_alone(),
        "npu --help": npu("--help"),
    }
    for model in models:
        for verb in ("check", "run", "run --timing-only", "explain"):
            commands[f"npu {verb} {model.name}"] = npu(*verb.split(), str(model))
        commands[f"npu compile {model.name}"], commands[f"vela {model.name}"] = compile_pair(model, folder)
    return commands


def measure(commands: Sequence[Command], rounds: int, cache: str) -> None:
    """Run all commands in turn, once more than is counted: files into memory, bytecode and kernels into their caches."""
    for number in range(rounds + 1):
        for command in commands:
            command.run(environment(cache))
            if not number:
                command.wall.clear()
                command.cpu.clear()


def print_commands(models: Sequence[Path], rounds: int) -> None:
    """One line per command: medians, minimum, and the ratio to the peer of the same round."""
    with tempfile.TemporaryDirectory() as folder:
        commands = commands_for(models, folder)
        measure(list(commands.values()), rounds, f"{folder}/bytecode")
    for name, command in commands.items():
        wall, cpu = command.wall, command.cpu
        line = f"{name:52s} wall {statistics.median(wall):.3f} s (min {min(wall):.3f})   CPU {statistics.median(cpu):.3f} s"
        line += f" (min {min(cpu):.3f}){'' if command.succeeds else '   FAILED'}"
        if name.startswith("npu compile"):
            pair = Pair(models[0], command, commands[name.replace("npu compile", "vela")], numpy_alone())
            line += f"   {pair.ratio('wall'):.2f} x Vela, CPU {pair.ratio('cpu'):.2f}"
        sys.stdout.write(line + "\n")


def compile_all(models: Sequence[Path], rounds: int, case: Case) -> list[Pair]:
    """Every model compiled here and by Vela; progress goes to standard error."""
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            pair = Pair(model, *compile_pair(model, folder, case), numpy_alone())
            measure([pair.ours, pair.vela, pair.floor], rounds, f"{folder}/bytecode")
            pairs.append(pair)
            sys.stderr.write(f"{pair.row() if pair.is_comparable else f'{model.stem}: not compiled by both'}\n")
    return pairs


def geometric_mean(ratios: Sequence[float]) -> float:
    """The mean of ratios that does not depend on which side is below."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def page(found: Mapping[Case, Sequence[Pair]], rounds: int) -> Iterator[str]:
    """The lines of docs/speed.md."""
    given = "" if tuple(found) == CASES else "".join(f" --case {target}:{goal}" for target, goal in found)
    yield "# Compile time beside Vela's\n"
    yield f"How long compiling takes beside Vela 5.2: processes in turn, seconds, medians of {rounds} rounds."
    yield "A ratio is the median of the ratios of the rounds, so that other load on the machine counts for both. Worst first."
    yield f"Made by `python -m benchmarks.processes --compile-all{given} --rounds {rounds} --write docs/speed.md`."
    yield f"At the end the load average was {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors.\n"
    known = [pair for pairs in found.values() for pair in pairs if pair.is_comparable]
    floors = [pair.ratio("wall", "floor") for pair in known]
    seconds = statistics.median(time for pair in known for time in pair.floor.wall)
    yield f"`python -c 'import numpy'` takes {seconds:.3f} s in the same rounds; no compiler that imports all of it is faster."
    yield f"Of Vela's time on the wall that is a geometric mean of {geometric_mean(floors):.2f} and at most {max(floors):.2f}."
    for (target, goal), pairs in found.items():
        yield f"\n## {target}, `--optimise {goal}`\n"
        yield from _section(pairs)


def _section(pairs: Sequence[Pair]) -> Iterator[str]:
    known = sorted((pair for pair in pairs if pair.is_comparable), key=lambda pair: -pair.ratio("wall"))
    for kind, name in (("wall", "time on the wall"), ("cpu", "CPU time")):
        ratios = [pair.ratio(kind) for pair in known]
        above = f"above 1.00 in {sum(ratio > 1 for ratio in ratios)} of {len(ratios)} models"
        yield f"Of Vela's {name}: geometric mean {geometric_mean(ratios):.2f}, worst {max(ratios):.2f}, {above}."
    yield "\n| model | wall ratio | ours | Vela | CPU ratio | ours | Vela |\n|---|---|---|---|---|---|---|"
    yield from (pair.row() for pair in known)
    for words, does in (("this compiler", lambda pair: pair.ours.succeeds), ("Vela", lambda pair: pair.vela.succeeds)):
        refused = ", ".join(pair.model.stem for pair in pairs if not does(pair))
        yield f"\nNot compiled by {words}: {refused or 'none'}."


def models_at_hand() -> list[Path]:
    """Real models beside the project and the examples."""
    folders = [*FOLDERS, ROOT / "examples"]
    return [path for folder in folders for path in sorted(folder.glob("*.tflite"))]


def main() -> None:
    """Print the lines, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--compile-all", action="store_true", help="compile every model at hand, here and by Vela")
    parser.add_argument("--case", action="append", metavar="TARGET:GOAL", help=f"default: {' '.join(map(':'.join, CASES))}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    models = [path.resolve() for path in options.models]
    if not options.compile_all:
        print_commands(models or [ROOT / "examples" / "digits.tflite"], options.rounds)
        return
    cases = [(target, goal) for target, _, goal in (case.partition(":") for case in options.case)] if options.case else CASES
    found = {case: compile_all(models or models_at_hand(), options.rounds, case) for case in cases}
    text = "\n".join(page(found, options.rounds)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
