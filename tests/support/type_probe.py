"""LiteRT's answer to every cell of the operator x types table, asked in other processes because some cells stop them."""

from __future__ import annotations

import base64
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.tflite.reader import read_model

from tests.support.interpreters import run
from tests.support.type_cells import cell_inputs, make_cell

CRASH = "the process stopped"
NOT_IN_REFERENCE_RESOLVER = {"CEIL", "ROUND", "ELU"}
"""LiteRT has these only in its optimised resolver."""
Answer = list[Any] | str
"""Outputs, or why there are none."""


def model_and_inputs(cell: str, seed: int) -> tuple[bytes, list[Any]]:
    content = make_cell(cell, seed)
    graph = read_model(content).graphs[0]
    return content, cell_inputs(cell, seed, [graph.tensors[index] for index in graph.inputs])


def ask(cells: Sequence[str], seed: int) -> dict[str, Answer]:
    """LiteRT's reference kernels on every cell; a process that stops is replaced."""
    answers: dict[str, Answer] = {}
    while len(answers) < len(cells):
        rest = cells[len(answers) :]
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.type_probe", str(seed)], input="\n".join(rest), text=True, check=False,
            capture_output=True, cwd=Path(__file__).parents[2],
        )  # fmt: skip
        lines = [line.removeprefix("cell ") for line in done.stdout.splitlines() if line.startswith("cell ")]
        for cell, line in zip(rest, lines, strict=False):
            answers[cell] = pickle.loads(base64.b64decode(line))
        if len(answers) < len(cells):
            answers[cells[len(answers)]] = CRASH
    return answers


def _answer(cell: str, seed: int) -> Answer:
    content, inputs = model_and_inputs(cell, seed)
    kind = cell.split()[0]
    resolver = OpResolverType.BUILTIN_REF
    if kind in NOT_IN_REFERENCE_RESOLVER:
        resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        return run(Interpreter(model_content=content, experimental_op_resolver_type=resolver, num_threads=1), inputs)
    except (RuntimeError, ValueError) as error:
        return str(error)


def _main() -> None:
    for line in sys.stdin.read().splitlines():
        answer = base64.b64encode(pickle.dumps(_answer(line, int(sys.argv[1])))).decode()
        sys.stdout.write(f"\ncell {answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
