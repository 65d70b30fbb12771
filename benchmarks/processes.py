"""Processes from start to end: --help, check, run, timing alone and compile, Vela as the peer of compile; in turn, medians.

Usage: python benchmarks/processes.py [MODEL.tflite ...]   (default: the shipped example)

The time of `python -c "import numpy"` stands beside them, since every command but --help needs it. CPU time is that of the
process and its children, which a busy machine lengthens less than the time on the wall.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 7


@dataclass
class Command:
    """A command and the seconds that it took, on the wall and of processors."""

    arguments: list[str]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self) -> None:
        """Add one process, which must succeed."""
        start, before = time.perf_counter(), os.times()
        subprocess.run(self.arguments, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
        after = os.times()
        self.wall.append(time.perf_counter() - start)
        self.cpu.append(sum(after[2:4]) - sum(before[2:4]))


def commands_for(models: list[Path], folder: str) -> dict[str, Command]:
    """Commands by name; `vela NAME` is the peer of `npu compile NAME`."""
    python, vela = sys.executable, str(Path(sys.executable).with_name("vela"))
    npu = [python, "-m", "npu"]
    commands = {
        "python -c pass": [python, "-c", "pass"],
        "python -c 'import numpy'": [python, "-c", "import numpy"],
        "npu --help": [*npu, "--help"],
    }
    for model in models:
        commands[f"npu check {model.name}"] = [*npu, "check", str(model)]
        commands[f"npu run {model.name}"] = [*npu, "run", str(model)]
        commands[f"npu run --timing-only {model.name}"] = [*npu, "run", "--timing-only", str(model)]
        commands[f"npu compile {model.name}"] = [*npu, "compile", str(model), "-o", f"{folder}/ours.tflite"]
        commands[f"vela {model.name}"] = [vela, "--accelerator-config", "ethos-u55-128", "--output-dir", folder, str(model)]
    return {name: Command(arguments) for name, arguments in commands.items()}


def main() -> None:
    """Print one line per command: medians, minimum, and the ratio to the peer of the same round."""
    models = [Path(item).resolve() for item in sys.argv[1:]] or [ROOT / "examples" / "digits.tflite"]
    with tempfile.TemporaryDirectory() as folder:
        commands = commands_for(models, folder)
        for command in commands.values():  # files into memory, kernels into their cache
            command.run()
            command.wall.clear()
            command.cpu.clear()
        for _ in range(RUNS):
            for command in commands.values():
                command.run()
    for name, command in commands.items():
        wall, cpu = command.wall, command.cpu
        line = f"{name:52s} wall {statistics.median(wall):.3f} s (min {min(wall):.3f})   CPU {statistics.median(cpu):.3f} s"
        line += f" (min {min(cpu):.3f})"
        if name.startswith("npu compile"):
            peer = commands[name.replace("npu compile", "vela")].wall
            line += f"   {statistics.median([ours / theirs for ours, theirs in zip(wall, peer, strict=True)]):.2f} x Vela"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
