"""Cold process times: npu --help, npu run, npu compile, and Vela as the peer of compile, in turn, medians.

Usage: python benchmarks/processes.py [MODEL.tflite ...]   (default: the shipped example)
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 7


def seconds(command: list[str]) -> float:
    """Wall-clock time of one process, which must succeed."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    return time.perf_counter() - start


def main() -> None:
    """Print one line per command: median, minimum, and the ratio to the peer of the same round."""
    models = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT / "examples" / "digits.tflite"]
    python, vela = sys.executable, str(Path(sys.executable).with_name("vela"))
    npu = [python, "-m", "npu"]
    with tempfile.TemporaryDirectory() as folder:
        commands: dict[str, list[str]] = {"python -c pass": [python, "-c", "pass"], "npu --help": [*npu, "--help"]}
        for model in models:
            commands[f"npu run {model.name}"] = [*npu, "run", str(model)]
            commands[f"npu compile {model.name}"] = [*npu, "compile", str(model), "-o", f"{folder}/ours.tflite"]
            target = ["--accelerator-config", "ethos-u55-128", "--output-dir", folder]
            commands[f"vela {model.name}"] = [vela, *target, str(model)]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for command in commands.values():
            seconds(command)
        for _ in range(RUNS):
            for name, command in commands.items():
                times[name].append(seconds(command))
    for name, values in times.items():
        line = f"{name:45s} median {statistics.median(values):.3f} s   min {min(values):.3f} s"
        if name.startswith("npu compile"):
            peer = times[name.replace("npu compile", "vela")]
            ratios = [ours / theirs for ours, theirs in zip(values, peer, strict=True)]
            line += f"   {statistics.median(ratios):.2f} x Vela"
        sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
