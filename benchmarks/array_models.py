"""Cycles of SCALE-Sim and ZigZag beside those of npulab: arrays of as many multipliers, on the same convolutions.

Usage: python -m benchmarks.array_models --scale-sim PYTHON --zigzag PYTHON [--models a,b] [--targets x,y] [--write PAGE.md]

The first PYTHON is an interpreter with scalesim 3.0.0 (`pip install scalesim 'numpy<2'`), the second one with zigzag-dse 3.9.1
(`pip install zigzag-dse six`), each in an environment of its own. Layers come from `npu export-workload`; npulab's cycles are
those of the same operators in the compiled model.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import npu
from npu.explore.workloads import Workload, export, workloads
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port, Variant

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


_ZIGZAG = """import json
from zigzag.api import get_hardware_performance_zigzag as evaluate
few = {"lpf_limit": 5, "nb_spatial_mappings_generated": 1}
found = evaluate("workload.yaml", "hardware.yaml", "mapping.yaml", dump_folder="ran", **few)
json.dump({cost.layer.id: cost.latency_total2 for summed in found[-1] for cost, *_ in summed[1]}, open("cycles.json", "w"))
"""
_OPERANDS = {"O": "O", "W": "I2", "I": "I1"}
"""Outputs, weights and inputs by ZigZag's names of them in hardware."""
_ALL = ["D1", "D2", "D3"]
"""Dimensions of ZigZag's array: output channels, elements of a dot product, positions."""
_BUFFER_BITS = 16 * 1024 * 8
_PORT_BITS = 64
_UNBOUNDED = 1 << 32


@dataclass(frozen=True, slots=True)
class Tools:
    """Interpreters that have them."""

    scale_sim: Path
    zigzag: Path


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
    zigzag: int

    @property
    def ratios(self) -> tuple[float, float]:
        """The better dataflow of SCALE-Sim, and ZigZag, by npulab."""
        return min(self.scale_sim.values()) / self.npulab, self.zigzag / self.npulab

    @property
    def distance(self) -> float:
        """How far the farther of them is from npulab, as a factor."""
        return max(max(ratio, 1 / ratio) for ratio in self.ratios)


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
        subprocess.run(command, cwd=given, check=True, capture_output=True)
        with next(ran.rglob("COMPUTE_REPORT.csv")).open() as file:
            lines = [int(float(row[" Total Cycles"])) for row in csv.DictReader(file)]
    cycles = iter(lines)
    counts = [int(row[5]) if "DP" in row[0] else 1 for row in layers]
    return [sum(next(cycles) for _ in range(count)) for count in counts]


def zigzag_cycles(python: Path, workload: str, variant: Variant) -> list[int]:
    """Cycles of every layer of a workload with the loops and the order of them for which ZigZag finds the fewest."""
    mapping = [{"name": "default", "memory_operand_links": _OPERANDS}]
    files = {
        "workload": workload,
        "hardware": yaml.safe_dump(_array(variant), sort_keys=False),
        "mapping": yaml.safe_dump(mapping),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / f"{name}.yaml").write_text(text)
        subprocess.run([str(python), "-c", _ZIGZAG], cwd=folder, check=True, capture_output=True)
        cycles = json.loads((Path(folder) / "cycles.json").read_text())
    return [int(cycles[number]) for number in sorted(cycles, key=int)]


def _array(variant: Variant) -> dict[str, Any]:
    """The MAC array, buffers and memories of a target in ZigZag's form. Energies are not asked for."""
    block = variant.accelerator.ofm_ublock
    flash = int(_PORT_BITS * variant.system.memories[Port.AXI1].clock_scale)
    memories = {
        "weight_registers": _memory(8, "I2", _ports("I2", 8), ["D3"]),
        "accumulators": _memory(32 * 64, "O", _ports("O", 32, partial=True), ["D2"]),
        "input_buffer": _memory(_BUFFER_BITS, "I1", _ports("I1", _UNBOUNDED), _ALL),
        "weight_buffer": _memory(_BUFFER_BITS, "I2", _ports("I2", _UNBOUNDED), _ALL),
        "sram": _memory(_UNBOUNDED, "I1 O", _ports("I1 O", _PORT_BITS, partial=True), _ALL),
        "flash": _memory(_UNBOUNDED, "I2", _ports("I2", flash), _ALL),
    }
    sizes = [block.depth, ROWS, block.height * block.width]
    array = {"unit_energy": 0, "unit_area": 0, "dimensions": _ALL, "sizes": sizes}
    return {"name": "array", "memories": memories, "operational_array": array}


def _memory(bits: int, operands: str, ports: list[dict[str, Any]], shared: list[str]) -> dict[str, Any]:
    """A memory that the multipliers along the dimensions `shared` have in common."""
    costs = {"r_cost": 0, "w_cost": 0, "area": 0, "latency": 1}
    return {"size": bits, **costs, "operands": operands.split(), "ports": ports, "served_dimensions": shared}


def _ports(operands: str, bits: int, *, partial: bool = False) -> list[dict[str, Any]]:
    """A port to read and one to write, of so many bits per cycle; `partial` sums come and go, too."""
    sums = partial and "O" in operands.split()
    moved = {
        "read": [f"{operand}, tl" for operand in operands.split()] + ["O, th"] * sums,
        "write": [f"{operand}, fh" for operand in operands.split()] + ["O, fl"] * sums,
    }
    return [
        {"name": f"{kind[0]}_port_1", "type": kind, "bandwidth_min": 8, "bandwidth_max": bits, "allocation": allocation}
        for kind, allocation in moved.items()
    ]


def measure(tools: Tools, name: str, path: Path, targets: Sequence[str]) -> Iterator[Cell]:
    """The cells of one model."""
    model = npu.load(path)
    topology, workload = export(model, "scale-sim")[0]["topology.csv"], export(model, "zigzag")[0]["workload.yaml"]
    exported = workloads(model)[0]
    for target in targets:
        variant = load_variant(target)
        macs = variant.accelerator.macs_per_cycle
        theirs = {flow: scale_sim_cycles(tools.scale_sim, topology, macs // ROWS, flow) for flow in DATAFLOWS}
        rows = {row.index: row.cycles for row in npu.time_model(path, target).report.operators}
        ours = [rows[layer.index] or 0 for layer in exported]
        yield from _cells(name, target, macs, exported, ours, theirs, zigzag_cycles(tools.zigzag, workload, variant))


def _cells(
    name: str,
    target: str,
    macs: int,
    exported: Sequence[Workload],
    ours: Sequence[int],
    scale_sim: dict[str, list[int]],
    zigzag: Sequence[int],
) -> Iterator[Cell]:
    for kind, is_depthwise in (("depthwise", True), ("other", False)):
        chosen = [number for number, workload in enumerate(exported) if workload.is_depthwise is is_depthwise]
        if chosen:
            least = -(-sum(exported[number].macs for number in chosen) // macs)
            flows = {flow: _of(chosen, cycles) for flow, cycles in scale_sim.items()}
            yield Cell(name, target, kind, least, _of(chosen, ours), flows, _of(chosen, zigzag))


def _of(chosen: Sequence[int], cycles: Sequence[int]) -> int:
    return sum(cycles[number] for number in chosen)


def page(cells: Sequence[Cell]) -> Iterator[str]:
    """The published table, the farthest from npulab first."""
    yield "# Cycles beside SCALE-Sim and ZigZag\n"
    yield "How far a figure of other models of accelerators says something of Ethos-U. Both work on arrays that are not"
    yield "Ethos-U's, and the page measures the accuracy of none. Made by `python -m benchmarks.array_models --scale-sim PYTHON"
    yield "--zigzag PYTHON --write docs/array-models.md`, with SCALE-Sim 3.0.0 (numpy 1.26) and ZigZag 3.9.1 (`pip install"
    yield "zigzag-dse six`), each in an environment of its own. [Timeloop](https://timeloop.csail.mit.edu) has no package for"
    yield "pip: its problems are exported, and none was run. The columns of SCALE-Sim stand since an earlier run: they depend"
    yield "on the exported shapes alone.\n"
    yield "- *Least* is what the multiplications take if every multiplier always works."
    yield "- npulab's is the sum of the same operators in the compiled model on the target, with its memories, weight decoder"
    yield "  and output unit."
    yield f"- SCALE-Sim times a systolic array of {ROWS} rows (the elements of a dot product of Ethos-U55) and as many columns"
    yield "  as make the same number of multipliers. Its figure is `Total Cycles` of its compute report, with the bandwidth"
    yield "  that the array asks for, so that memory never stalls it."
    yield f"- ZigZag is given an array of the target's micro-block times {ROWS} elements, 16 KiB each for inputs and weights,"
    yield "  activations in an SRAM and weights in a flash of the target's bandwidth. It chooses the loops in the array and"
    yield "  looks for the order outside it that takes the fewest cycles, with at most 5 factors of loops (6 took"
    yield "  no fewer cycles for the first layer of digits). The figure is the latency of each layer with its loads and stores."
    yield "- Layers that `npu export-workload` names and leaves out are in none.\n"
    heads = " | ".join(f"SCALE-Sim, {text}" for text in DATAFLOWS.values())
    yield f"| model | target | layers | least | npulab | {heads} | ZigZag | better SCALE-Sim / npulab | ZigZag / npulab |"
    yield "| --- | --- | --- |" + " ---: |" * (5 + len(DATAFLOWS))
    for cell in sorted(cells, key=lambda cell: -cell.distance):
        theirs = " | ".join(f"{cell.scale_sim[flow]:,}" for flow in DATAFLOWS)
        start = (
            f"| {cell.model} | {cell.target} | {cell.kind} | {cell.least:,} | {cell.npulab:,} | {theirs} | {cell.zigzag:,} |"
        )
        yield start + "".join(f" {ratio:.2f} |" for ratio in cell.ratios)
    yield "\nWhat each counts that the others do not:\n"
    yield "- SCALE-Sim runs each channel of a depthwise layer alone on the whole array, in one column; the MAC array"
    yield "  of Ethos-U works on as many channels side by side as its micro-block is deep. ZigZag may put any loop on any"
    yield "  dimension of the array, which Ethos-U cannot: a depthwise kernel, say, on the elements of a dot product."
    yield "- SCALE-Sim shifts weights or results through the array for every tile; Ethos-U does not, but pads channels and"
    yield "  positions to micro-blocks, and starts each operator."
    yield "- npulab counts latencies of memories, blocks that wait for each other, and the output unit. SCALE-Sim, as it is run"
    yield "  here, counts no memory; ZigZag counts their bandwidth and hides what can be hidden."
    yield "- npulab and the hardware fetch weights encoded, which are smaller or, in small layers, larger than the plain ones"
    yield "  that ZigZag fetches.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale-sim", type=Path, required=True)
    parser.add_argument("--zigzag", type=Path, required=True)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(TARGETS))
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    paths = shared_models() | {"digits": Path("examples/digits.tflite")}
    tools = Tools(options.scale_sim, options.zigzag)
    cells = [cell for name in options.models for cell in measure(tools, name, paths[name], options.targets)]
    text = "\n".join(page(cells)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
