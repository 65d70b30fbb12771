"""Cycles of SCALE-Sim beside those of npulab: systolic arrays of as many multipliers, on the same convolutions.

Usage: python -m benchmarks.scale_sim --python PYTHON [--models a,b] [--targets x,y] [--write PAGE.md]

PYTHON is an interpreter with scalesim 3.0.0, in an environment of its own (`pip install scalesim 'numpy<2'`). Layers come from
`npu export-workload --form scale-sim`; npulab's cycles are those of the same operators in the compiled model.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import npu
from npu.explore.workloads import Workload, export, workloads
from npu.hardware.catalogue import load_variant

from tests.support.shared import shared_models

MODELS = ("digits", "mlperf_ad_int8", "mlperf_kws_int8", "mlperf_resnet8_int8")
TARGETS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256")
ROWS = 8
"""Of the array: the elements of one dot product of the MAC array; the other multipliers of it are columns."""
DATAFLOWS = {"ws": "weights stay", "os": "outputs stay"}
_CONFIG = """[general]
run_name = run
[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {columns}
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: {dataflow}
Bandwidth: 8
ReadRequestBuffer: 32
WriteRequestBuffer: 32
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 8
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """Cycles of the depthwise layers and of the others, of one model on one target."""

    model: str
    target: str
    kind: str
    least: int
    """Cycles if every multiplier worked in every cycle."""
    npulab: int
    scale_sim: dict[str, int]

    @property
    def ratio(self) -> float:
        """The better dataflow of SCALE-Sim by npulab."""
        return min(self.scale_sim.values()) / self.npulab


def scale_sim_cycles(python: Path, topology: str, columns: int, dataflow: str) -> list[int]:
    """Cycles of every line of a topology without stalls; a depthwise layer is run as one line per channel, which are summed."""
    with tempfile.TemporaryDirectory() as folder:
        given, ran = Path(folder), Path(folder) / "ran"
        (given / "topology.csv").write_text(topology)
        (given / "array.cfg").write_text(_CONFIG.format(rows=ROWS, columns=columns, dataflow=dataflow))
        layers = [line.split(",") for line in topology.splitlines()[1:]]
        layout = [
            "Layer name,",
            *(",".join([name, *"1111", channels, *"1" * 30]) + "," for name, *_, channels, _, _, _ in layers),
        ]
        (given / "layout.csv").write_text("\n".join(layout) + "\n")
        command = [python, "-m", "scalesim.scale", "-c", "array.cfg", "-t", "topology.csv", "-l", "layout.csv", "-p", ran]
        subprocess.run(command, cwd=given, check=True, stdout=subprocess.DEVNULL)
        with next(ran.rglob("COMPUTE_REPORT.csv")).open() as file:
            lines = [int(float(row[" Total Cycles"])) for row in csv.DictReader(file)]
    cycles = iter(lines)
    counts = [int(row[5]) if "DP" in row[0] else 1 for row in layers]
    return [sum(next(cycles) for _ in range(count)) for count in counts]


def measure(python: Path, name: str, path: Path, targets: Sequence[str]) -> Iterator[Cell]:
    """The cells of one model."""
    model = npu.load(path)
    files, _ = export(model, "scale-sim")
    topology = files["topology.csv"]
    by_index = {workload.index: workload for workload in workloads(model)[0]}
    exported = [by_index[int(line.split("_")[0])] for line in topology.splitlines()[1:]]
    for target in targets:
        macs = load_variant(target).accelerator.macs_per_cycle
        theirs = {flow: scale_sim_cycles(python, topology, macs // ROWS, flow) for flow in DATAFLOWS}
        rows = {row.index: row.cycles for row in npu.time_model(path, target).report.operators}
        yield from _cells(name, target, macs, exported, theirs, rows)


def _cells(
    name: str, target: str, macs: int, exported: Sequence[Workload], theirs: dict[str, list[int]], rows: dict[int | None, int]
) -> Iterator[Cell]:
    for kind, is_depthwise in (("depthwise", True), ("other", False)):
        chosen = [number for number, workload in enumerate(exported) if workload.is_depthwise is is_depthwise]
        if chosen:
            count = sum(exported[number].macs for number in chosen)
            ours = sum(rows[exported[number].index] for number in chosen)
            sums = {flow: sum(cycles[number] for number in chosen) for flow, cycles in theirs.items()}
            yield Cell(name, target, kind, -(-count // macs), ours, sums)


def page(cells: Sequence[Cell]) -> Iterator[str]:
    """The published table, the farthest from npulab first."""
    yield "# Cycles beside SCALE-Sim\n"
    yield "How far a figure of SCALE-Sim says something of Ethos-U. SCALE-Sim times a systolic array, and Ethos-U has none."
    yield "The page measures the accuracy of neither. Made by `python -m benchmarks.scale_sim --python PYTHON --write"
    yield "docs/scale-sim.md`, with SCALE-Sim 3.0.0 and numpy 1.26 in an environment of their own.\n"
    yield f"The array has {ROWS} rows (the elements of a dot product of Ethos-U55) and as many columns as make the same number"
    yield "of multipliers. SCALE-Sim's figure is `Total Cycles` of its compute report, with the bandwidth that the array asks"
    yield "for, so that memory never stalls it. npulab's is the sum of the same operators in the compiled model on the target,"
    yield "with its memories, weight decoder and output unit. *Least* is what the multiplications take if every multiplier"
    yield "always works. Layers that `npu export-workload` names and leaves out are in neither.\n"
    heads = " | ".join(f"SCALE-Sim, {text}" for text in DATAFLOWS.values())
    yield f"| model | target | layers | least | npulab | {heads} | better one / npulab |"
    yield "| --- | --- | --- |" + " ---: |" * (3 + len(DATAFLOWS))
    for cell in sorted(cells, key=lambda cell: -max(cell.ratio, 1 / cell.ratio)):
        theirs = " | ".join(f"{cell.scale_sim[flow]:,}" for flow in DATAFLOWS)
        start = f"| {cell.model} | {cell.target} | {cell.kind} | {cell.least:,} | {cell.npulab:,} |"
        yield f"{start} {theirs} | {cell.ratio:.2f} |"
    yield "\nWhat each counts that the other does not:\n"
    yield "- SCALE-Sim runs each channel of a depthwise layer alone on the whole array, in one column; the MAC array"
    yield "  of Ethos-U works on as many channels side by side as its micro-block is deep."
    yield "- SCALE-Sim shifts weights or results through the array for every tile; Ethos-U does not, but pads channels and"
    yield "  positions to micro-blocks, and starts each operator."
    yield "- npulab counts weights that are fetched and decoded too late, and the output unit; SCALE-Sim, as it is run here,"
    yield "  neither.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, required=True)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(TARGETS))
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    paths = shared_models() | {"digits": Path("examples/digits.tflite")}
    cells = [cell for name in options.models for cell in measure(options.python, name, paths[name], options.targets)]
    text = "\n".join(page(cells)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
