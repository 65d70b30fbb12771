"""Placements of real int8 models beside Vela 5.2's: `python -m tests.support.vela_agreement docs/vela-agreement.md`.

What Vela leaves on the CPU is what its output file holds beside `ethos-u` jobs (its own list of CPU operators lacks those of
models with several subgraphs); operators are matched by the names of their output tensors, or inputs where they have none.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import tflite

import npu
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.graph.placement import Device, OpPlacement
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.shared import ROOT, shared_models

PAGE = ROOT / "docs" / "vela-agreement.md"
REFUSED = {"custom_op_unknown": "Vela ends with an IndexError", "invalid_makefile": "no TFLite file"}
SURPLUS_REASONS = {
    **dict.fromkeys(("CAST", "DEQUANTIZE", "QUANTIZE", "SQRT"), "floats between 8-bit tensors are looked up here"),
    "CONCATENATION": "CONCATENATION of int32 is a copy here",
    "DEPTH_TO_SPACE": "moved in rows of channels here",
    "GATHER": "GATHER of constant indices is a slice or a few copies here",
    "PACK": "PACK of any rank is a copy here",
    "MEAN": "a mean over the last dimension alone is lowered here",
}


@dataclass(frozen=True)
class Row:
    """One operator on both sides; `ours` and `theirs` are "NPU" or "CPU"."""

    number: str
    kind: str
    ours: str
    theirs: str
    reason: str


def models() -> dict[str, Path]:
    """Models with int8 feature maps that Vela accepts and that have one subgraph."""
    return {name: path for name, path in sorted(shared_models().items()) if name not in REFUSED and _is_int8(path)}


def _is_int8(path: Path) -> bool:
    graphs = read_model(path).graphs
    compiled = any(op.name == "ethos-u" for graph in graphs for op in graph.ops)
    kinds = Counter(_main_type(graph, op) for graph in graphs for op in graph.ops)
    return not compiled and kinds[DType.INT8] > sum(kinds.values()) / 2


def _main_type(graph: Graph, op: Op) -> DType | None:
    return graph.tensors[op.outputs[0]].dtype if op.outputs else None


@cache
def left_on_cpu_by_vela(path: Path) -> frozenset[tuple[str, ...]]:
    """Keys of the operators that Vela leaves on the CPU."""
    vela = str(Path(sys.executable).with_name("vela"))
    with tempfile.TemporaryDirectory() as folder:
        named = Path(folder) / "named.tflite"
        named.write_bytes(write_model(_with_names(read_model(path))))
        command = [vela, str(named), "--accelerator-config", "ethos-u55-128", "--output-dir", folder]
        subprocess.run(command, capture_output=True, check=True)
        written = (Path(folder) / "named_vela.tflite").read_bytes()
    return frozenset(_operators_left(tflite.Model.GetRootAs(written, 0)))


def _with_names(model: Model) -> Model:
    """The model with a name of its own for every tensor; some files have none."""
    graphs = []
    for number, graph in enumerate(model.graphs):
        tensors = tuple(replace(tensor, name=f"{number}:{index}") for index, tensor in enumerate(graph.tensors))
        graphs.append(replace(graph, tensors=tensors))
    return replace(model, graphs=tuple(graphs))


def _operators_left(model: tflite.Model) -> Iterator[tuple[str, ...]]:
    """Keys of all but the NPU jobs; read without this project's checks, which some outputs with variables do not pass."""
    for graph in (model.Subgraphs(number) for number in range(model.SubgraphsLength())):
        for op in (graph.Operators(index) for index in range(graph.OperatorsLength())):
            if model.OperatorCodes(op.OpcodeIndex()).CustomCode() != b"ethos-u":
                tensors = op.OutputsAsNumpy() if op.OutputsLength() else op.InputsAsNumpy()
                yield tuple(graph.Tensors(index).Name().decode() for index in tensors if index >= 0)


def _key(graph: int, op: Op) -> tuple[str, ...]:
    """What an operator is recognised by in Vela's output."""
    return tuple(f"{graph}:{index}" for index in op.outputs or op.inputs if index >= 0)


def rows(path: Path) -> list[Row]:
    """Every operator of every subgraph."""
    model, theirs = read_model(path), left_on_cpu_by_vela(path)
    return [_row(model, placed, theirs) for placed in npu.check(path, profile="u55-u65").ops]


def _row(model: Model, placed: OpPlacement, on_cpu: frozenset[tuple[str, ...]]) -> Row:
    graph = model.graphs[placed.graph]
    ours = "NPU" if placed.device is Device.NPU else "CPU"
    theirs = "CPU" if _key(placed.graph, graph.ops[placed.index]) in on_cpu else "NPU"
    reason = ""
    if ours != theirs:
        ids = ", ".join(violation.rule for violation in placed.violations)
        reason = "; ".join(violation.message for violation in placed.violations) + f" ({ids})" if ids else ""
        reason = reason or SURPLUS_REASONS.get(placed.name, "")
    return Row(f"{placed.graph}:{placed.index}" if placed.graph else str(placed.index), placed.name, ours, theirs, reason)


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines({name: rows(path) for name, path in models().items()})) + "\n"


def _lines(found: dict[str, list[Row]]) -> Iterator[str]:
    yield "# Agreement with Vela 5.2"
    yield ""
    yield "Which operators of real int8 models ([models.md](models.md)) the `u55-u65` profile and Vela 5.2 put on an"
    yield "Ethos-U55-128. Generated by `python -m tests.support.vela_agreement`; do not edit."
    yield ""
    yield "| Model | Operators | Both NPU | Both CPU | Only Vela's NPU | Only this NPU |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for name, table in found.items():
        pairs = Counter((row.ours, row.theirs) for row in table)
        counts = (pairs[ours, theirs] for ours, theirs in (("NPU", "NPU"), ("CPU", "CPU"), ("CPU", "NPU"), ("NPU", "CPU")))
        yield f"| {name} | {len(table)} | " + " | ".join(map(str, counts)) + " |"
    yield from ("", "## Differences", "")
    yield from ("| Model | Operator | Indices | This profile | Vela | Reason |", "| --- | --- | --- | --- | --- | --- |")
    for name, table in found.items():
        groups: dict[tuple[str, str, str, str], list[str]] = {}
        for row in table:
            if row.ours != row.theirs:
                groups.setdefault((row.kind, row.ours, row.theirs, row.reason), []).append(row.number)
        for (kind, ours, theirs, reason), indices in groups.items():
            yield f"| {name} | {kind} | {', '.join(indices)} | {ours} | {theirs} | {reason.replace('|', '/')} |"


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else PAGE).write_text(page(), encoding="utf-8")
