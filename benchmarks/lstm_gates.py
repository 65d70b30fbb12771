"""LSTM gates by the hardware's table beside exact ones: how far results differ, and what is saved.

Usage: python -m benchmarks.lstm_gates [--inputs 100] [MODEL.tflite ...]

Differences are of the functions for every sum, and of all outputs for random inputs, one after the other with the state kept,
in steps of the output. The simulated NPU gives the same numbers as the interpreter by either (tests/npu/toolchain/
test_lstm_gates.py). Cycles are ours with either choice by those of exact gates.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import npu
from npu.compiler.targets import compiler_targets
from npu.numerics.arrays import Array
from npu.numerics.lstm_gates import SIGMOID_RANGE, LstmGates
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.kernels.fixed16 import logistic_table, tanh_table
from npu.runtime.kernels.softmax import sigmoid_16bit, tanh_16bit
from npu.runtime.operator import RuntimeOptions
from npu.tflite.reader import read_model

from tests.support.litert import random_inputs, repaired
from tests.support.shared import shared_models
from tests.support.vela_differences import lstm

MODELS = ("dtln_int8", "mnist_lstm_int8")


def differences(a: Array, b: Array) -> str:
    """Values, share that differs, largest and mean difference: cells of a table."""
    by = np.abs(a.astype(np.int64) - b.astype(np.int64))
    return f"{by.size:,} | {100 * np.mean(by > 0):.2f} % | {by.max()} | {by.mean():.5f}"


def functions() -> Iterator[str]:
    """Rows of the functions of all sums of a gate."""
    sums = np.arange(-32768, 32768, dtype=np.int64)
    yield f"| logistic of every sum | {differences(np.clip(sigmoid_16bit(sums, 3, 0), *SIGMOID_RANGE), logistic_table())} |"
    yield f"| tanh of every sum | {differences(tanh_16bit(sums, 3, 0), tanh_table(3))} |"


def outputs(content: bytes, gates: LstmGates, inputs: int) -> Array:
    """All outputs for that many random inputs, one after the other."""
    options = RuntimeOptions(fully_connected_rounding="npu", lstm_gates=gates)
    interpreter = CpuInterpreter(model=read_model(content), options=options)
    interpreter.allocate_tensors()
    found = []
    for seed in range(inputs):
        for detail, values in zip(interpreter.get_input_details(), random_inputs(content, seed), strict=True):
            interpreter.set_tensor(detail["index"], values)
        interpreter.invoke()
        found += [interpreter.get_tensor(detail["index"]).reshape(-1) for detail in interpreter.get_output_details()]
    return np.concatenate(found)


def savings(name: str, content: bytes) -> Iterator[str]:
    """Rows of the cycles of a model, by target."""
    for target in compiler_targets():
        times = [npu.time_model(content, target, lstm_gates=gates.value) for gates in LstmGates]
        exact, table = (timed.timeline.total_cycles for timed in times)
        yield f"| {name} | {target} | {exact:,} | {table:,} | {table / exact:.2f} |"


def models(files: list[Path]) -> dict[str, bytes]:
    """Contents by name: files that are given, or real models and cells with random weights."""
    if files:
        return {path.stem: repaired(path.read_bytes()) for path in files}
    real = {name: repaired(shared_models()[name].read_bytes()) for name in MODELS if name in shared_models()}
    sizes = ((1, 12, 16), (3, 40, 64), (16, 64, 128))
    made = {f"cell of {f} features and {u} units, {s} times": lstm(1, steps=s, features=f, units=u) for s, f, u in sizes}
    return {**real, **made}


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100)
    parser.add_argument("files", nargs="*", type=Path)
    options = parser.parse_args()
    contents = models(options.files)
    lines = ["| results | values | differ | largest | mean |", "| --- | ---: | ---: | ---: | ---: |", *functions()]
    for name, content in contents.items():
        exact, table = (outputs(content, gates, options.inputs) for gates in (LstmGates.EXACT, LstmGates.TABLE))
        lines.append(f"| {name} | {differences(exact, table)} |")
    lines += ["", "| model | target | exact, cycles | table | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for name in contents if options.files else contents.keys() & {"dtln_int8"}:
        lines += savings(name, contents[name])
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
