"""Our compiler beside Vela on the simulator's clock, every model and target: cycles, SRAM and flash, worst cell first.

Usage: python -m benchmarks.compiler_quality [--models a,b] [--targets x,y] [--optimise size] [--lstm-gates table]
    [--architectures] [--vela FOLDER] [--write PAGE.md] [MODEL.tflite ...]

Every ratio is ours by Vela's (below 1.00 is better); both files run on our own simulator with the default settings of the
target. Total cycles hold the CPU's too. SRAM is the arena, with the tensors and variables of operators on the CPU, and fast
scratch. `--optimise` is that of both compilers, `--lstm-gates` of ours: Vela's are always those of the table. `--vela` keeps
Vela's files of it between runs (FOLDER/MODEL/TARGET.tflite). `--architectures` are those of `tests/support/architectures`.
Needs the test extra (Vela).
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import npu
from npu.compiler.targets import compiler_targets
from npu.errors import UserError
from npu.graph.ethos_u import Input, arena_offsets, is_compiled, is_npu_job
from npu.graph.graph import Model
from npu.tflite.reader import read_model

from tests.support.architectures import ARCHITECTURES
from tests.support.shared import shared_models

COLUMNS = ("total cycles", "NPU cycles", "SRAM", "flash")
FIELDS = ("total_cycles", "npu_cycles", "sram_bytes", "flash_bytes")


@dataclass(frozen=True, slots=True)
class Quality:
    """What one compiler made of a model: cycles, arena with fast scratch, constants with streams."""

    total_cycles: int
    npu_cycles: int
    sram_bytes: int
    flash_bytes: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A model on a target: both compilers' results, or why there are none to compare."""

    model: str
    target: str
    ours: Quality | None = None
    vela: Quality | None = None
    reason: str = ""

    def ratio(self, field: str) -> float | None:
        """Ours by Vela's; None where Vela has none of it."""
        if self.ours is None or self.vela is None or not getattr(self.vela, field):
            return None
        return float(getattr(self.ours, field) / getattr(self.vela, field))

    @property
    def uses_npu(self) -> bool:
        """Whether either file has an operator on the NPU: the others are the source model twice."""
        return any(quality is not None and quality.npu_cycles > 0 for quality in (self.ours, self.vela))


def judge(path: Path, target: str) -> Quality:
    """Costs of a compiled model on the simulator; a file in which a compiler left everything to the CPU runs there."""
    model = read_model(path)
    profile = "u55-u65" if is_compiled(model) else "xnnpack"
    totals = npu.time_model(path, target=target, profile=profile).report.totals
    return Quality(totals.total_cycles or 0, totals.npu_cycles or 0, _sram_bytes(model), _flash_bytes(model))


def _sram_bytes(model: Model) -> int:
    """Bytes that an application gives the compiled operators' graphs: up to the end of every tensor that has an offset in the
    arena, fast scratch, and variables without an offset, which TensorFlow Lite Micro places besides. 0 without such operators.
    """
    if not is_compiled(model):
        return 0
    offsets = iter(arena_offsets(model).tolist())
    arena = fast = variables = 0
    for graph in model.graphs:
        fast_scratch = {op.inputs[Input.FAST_SCRATCH] for op in graph.ops if is_npu_job(op)}
        scratch = {op.inputs[Input.SCRATCH] for op in graph.ops if is_npu_job(op)}
        for index, tensor in enumerate(graph.tensors):
            offset = next(offsets)
            if index in fast_scratch - scratch:
                fast = max(fast, tensor.bytes)
            elif offset >= 0 and not tensor.is_constant:
                arena = max(arena, offset + tensor.bytes)
            elif tensor.is_variable:
                variables += tensor.bytes
    return arena + fast + variables


def _flash_bytes(model: Model) -> int:
    """Constants that operators read, those of the CPU too, and command streams; a buffer that several tensors share once."""
    constants = (
        graph.tensors[index].data
        for graph in model.graphs
        for index in {index for op in graph.ops for index in op.inputs if index >= 0}
    )
    buffers = {data.__array_interface__["data"][0]: data.nbytes for data in constants if data is not None}
    return sum(buffers.values())


def vela_file(source: Path, target: str, folder: Path, goal: str) -> Path:
    """Vela's file of a model for a target, made if the folder has none; it may still be missing, if Vela refuses the model."""
    kept = folder / source.stem / f"{target}.tflite"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        vela = str(Path(sys.executable).with_name("vela"))
        with tempfile.TemporaryDirectory() as made:
            command = [vela, str(source), "--accelerator-config", target, "--optimise", goal.title(), "--output-dir", made]
            subprocess.run(command, capture_output=True, check=False)
            for path in Path(made).glob("*_vela.tflite"):
                kept.write_bytes(path.read_bytes())
    return kept


def compare(source: Path, target: str, folder: Path, goal: str, lstm_gates: str = "exact") -> Cell:
    """One cell of the table."""
    theirs = vela_file(source, target, folder, goal)
    if not theirs.exists():
        return Cell(source.stem, target, reason="Vela refuses the model")
    with tempfile.TemporaryDirectory() as made:
        ours = Path(made) / "ours.tflite"
        try:
            npu.compile(source, target=target, optimise=goal, lstm_gates=lstm_gates).save(ours)
            return Cell(source.stem, target, judge(ours, target), judge(theirs, target))
        except UserError as error:
            return Cell(source.stem, target, reason=str(error).replace(str(source), source.name))


def worst_first(cells: Sequence[Cell]) -> list[Cell]:
    """Compared cells by falling ratio of total cycles, then those without a comparison."""
    return sorted(cells, key=lambda cell: (cell.ratio("total_cycles") is None, -(cell.ratio("total_cycles") or 0)))


def summary(cells: Sequence[Cell], target: str) -> list[str]:
    """Geometric means of a target, and how many cells are above 1.00; total cycles also of the models that use the NPU."""
    own = [cell for cell in cells if cell.target == target]
    means = [mean_and_above(own, field) for field in FIELDS]
    return [means[0], mean_and_above([cell for cell in own if cell.uses_npu], FIELDS[0]), *means[1:]]


def mean_of(cells: Sequence[Cell], field: str) -> float:
    """The geometric mean of the ratios of a field; NaN where there are none."""
    ratios = [ratio for cell in cells if (ratio := cell.ratio(field))]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def mean_and_above(cells: Sequence[Cell], field: str, digits: int = 3) -> str:
    """The mean in so many digits, and how many cells of all are above 1 in these."""
    ratios = [ratio for cell in cells if (ratio := cell.ratio(field))]
    above = sum(ratio > 1 + 0.5 * 10**-digits for ratio in ratios)
    return f"{mean_of(cells, field):.{digits}f} ({above} of {len(ratios)})"


def page(cells: Sequence[Cell], targets: Sequence[str], goal: str = "performance") -> Iterator[str]:
    """The published table."""
    options, page = ("", "compiler-quality") if goal == "performance" else (f" --optimise {goal}", f"compiler-quality-{goal}")
    yield f"# Compiled files beside Vela's{', ' if options else ''}{options.strip().replace('--', '')}\n"
    yield f"How good compiled files are beside those of Vela 5.2 for {goal}: ours by Vela's, both timed on this simulator;"
    yield "below 1.00 is better. Every model at hand on every target, none left out, worst first. Made by"
    yield f"`python -m benchmarks.compiler_quality{options} --write docs/{page}.md`."
    yield "Total cycles hold the CPU's; SRAM is the arena with the tensors and variables of operators on"
    yield "the CPU, and fast scratch. A dash: Vela has none of it.\n"
    if goal == "performance":
        yield "Performance copies weights ahead into what the memory mode leaves free (or `--arena-cache-size` gives), where"
        yield "twice the memory saves 3 % of the cycles ([price-of-memory.md](price-of-memory.md));"
        yield "[compiler-quality-size.md](compiler-quality-size.md) is about the least memory.\n"
    yield "Geometric means, in brackets the cells above 1.00 of all that can be compared:\n"
    columns = [COLUMNS[0], f"{COLUMNS[0]}, models that use the NPU", *COLUMNS[1:]]
    yield "| target | " + " | ".join(columns) + " |\n| --- |" + " ---: |" * len(columns)
    for target in targets:
        yield f"| {target} | " + " | ".join(summary(cells, target)) + " |"
    yield "\n| model | target | " + " | ".join(COLUMNS) + " |\n| --- | --- |" + " ---: |" * len(COLUMNS)
    for cell in worst_first(cells):
        ratios = ["-" if (ratio := cell.ratio(field)) is None else f"{ratio:.2f}" for field in FIELDS]
        yield f"| {cell.model} | {cell.target} | " + (" | ".join(ratios) if cell.ours else f"{cell.reason} | | |") + " |"


def models_at_hand() -> dict[str, Path]:
    """Real models beside the project, and examples."""
    return {**shared_models(), **{path.stem: path for path in Path("examples").glob("*.tflite")}}


def architectures(folder: Path) -> dict[str, Path]:
    """Files of the networks of published architectures, written to a folder."""
    files = {name: folder / f"{name}.tflite" for name in ARCHITECTURES}
    for name, path in files.items():
        path.write_bytes(ARCHITECTURES[name]())
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="models (default: real models beside the project, examples)")
    parser.add_argument("--architectures", action="store_true", help="networks of published architectures, with seeded weights")
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(compiler_targets()))
    parser.add_argument("--optimise", choices=("performance", "size"), default="performance")
    parser.add_argument("--lstm-gates", choices=("exact", "table"), default="exact")
    parser.add_argument("--vela", type=Path, metavar="FOLDER", help="keep Vela's files here")
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = options.vela or Path(folder)
        known = architectures(Path(folder)) if options.architectures else models_at_hand()
        wanted = [path for name, path in known.items() if options.models is None or name in options.models]
        cells = []
        for path in options.files or wanted:
            cells += [compare(path, target, kept, options.optimise, options.lstm_gates) for target in options.targets]
            sys.stderr.write(f"{path.stem}\n")
    text = "\n".join(page(cells, options.targets, options.optimise)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
