"""Our compiler beside Vela on the simulator's clock: cycles, SRAM, flash and time to compile, one row a model and target.

Usage: python -m benchmarks.compiler_quality [--models a,b] [--targets x,y] [MODEL.tflite ...]

Every ratio is ours by Vela's (below 1.00 is better); both streams run on our own simulator with the default settings of the
target. Compile times are processes from start to end. Needs the test extra (Vela).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from npu.graph.ethos_u import Input, is_npu_job
from npu.graph.graph import Model
from npu.hardware.catalogue import list_variants, load_variant
from npu.reports.operator_map import map_of_file
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from npu.toolchain.timing import tasks_of, time_streams
from sim.container import CompiledFile
from sim.timeline import build_timeline

from tests.support.shared import shared_models

MODELS = (
    "mlperf_ad_int8",
    "mlperf_kws_int8",
    "mlperf_resnet8_int8",
    "mlperf_strww_int8",
    "mlperf_vww_int8",
    "kws_micronet_m_int8",
    "yolo-fastest_192_face_v4",
    "mobilenet_v2_1.0_224_INT8",
)
NOTEWORTHY = 1.05
"""A ratio from here on is marked."""


@dataclass(frozen=True, slots=True)
class Quality:
    """What one compiler made of a model: NPU cycles, arena with fast scratch, constants with streams, seconds to compile."""

    cycles: int
    sram_bytes: int
    flash_bytes: int
    seconds: float


def judge(model: Model, target: str, seconds: float) -> Quality:
    """Costs of the NPU part of a compiled model."""
    variant = load_variant(target)
    graph = model.graphs[0]
    jobs = [op for op in graph.ops if is_npu_job(op)]
    scratch = {index for op in jobs for index in op.inputs[Input.SCRATCH : Input.FIRST_MAP]}
    constants = {op.inputs[position] for op in jobs for position in (Input.COMMANDS, Input.CONSTANTS)}
    file = CompiledFile(model, variant)
    sources = map_of_file(file, target).sources
    timeline = build_timeline(list(tasks_of(graph, sources, time_streams(file), variant)), variant)
    return Quality(
        cycles=sum(segment.cycles for segment in timeline.segments if segment.device == "npu"),
        sram_bytes=sum(graph.tensors[index].elements for index in scratch),
        flash_bytes=sum(graph.tensors[index].elements for index in constants),
        seconds=seconds,
    )


def timed(command: Sequence[str], output: Path, target: str) -> Quality:
    """Run a compiler and judge its file."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0 or not output.exists():
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return judge(read_model(output), target, seconds)


def compare(content: bytes, target: str) -> tuple[Quality, Quality]:
    """Ours and Vela's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, ours = folder / "model.tflite", folder / "ours.tflite"
        source.write_bytes(content)
        vela = str(Path(sys.executable).with_name("vela"))
        npu = [sys.executable, "-m", "npu", "compile", str(source), "-o", str(ours), "--target", target]
        peer = [vela, str(source), "--accelerator-config", target, "--output-dir", str(folder)]
        return timed(npu, ours, target), timed(peer, folder / "model_vela.tflite", target)


def row(name: str, target: str, ours: Quality, theirs: Quality) -> str:
    """One line of the table."""
    cells = [f"{name:28s} {target:14s}"]
    for field, width in (("cycles", 10), ("sram_bytes", 9), ("flash_bytes", 9)):
        own, peer = getattr(ours, field), getattr(theirs, field)
        ratio = own / peer if peer else float("nan")
        cells.append(f"{own:{width}d} {ratio:5.2f}{'!' if ratio > NOTEWORTHY else ' '}")
    cells.append(f"{ours.seconds:6.1f} s {ours.seconds / theirs.seconds:5.2f}")
    return " ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("files", nargs="*", type=Path, help="models (default: the real models beside the project)")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--targets", type=lambda text: text.split(","), default=list(list_variants()))
    options = parser.parse_args()
    known = shared_models()
    files = options.files or [known[name] for name in options.models if name in known]
    sys.stdout.write(f"{'model':28s} {'target':14s} {'cycles':>16s} {'SRAM':>16s} {'flash':>16s} {'compile':>14s}\n")
    for path in files:
        content = write_model(read_model(path))
        for target in options.targets:
            sys.stdout.write(row(path.stem[:28], target, *compare(content, target)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
