"""LiteRT's answer to every cell of the operator x types table, asked in other processes because some cells stop them."""

from __future__ import annotations

import base64
import mmap
import os
import pickle
import signal
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
NOT_IN_REFERENCE_RESOLVER = {"CEIL", "ROUND", "ELU", "SEGMENT_SUM"}
"""LiteRT has these only in its optimised resolver."""
_SECONDS = 120
"""A cell that takes longer has stopped the process: LiteRT waits for itself after some that broke its memory."""
Answer = list[Any] | str
"""Outputs, or why there are none."""


def model_and_inputs(cell: str, seed: int) -> tuple[bytes, list[Any]]:
    content = make_cell(cell, seed)
    graph = read_model(content).graphs[0]
    return content, cell_inputs(cell, seed, [graph.tensors[index] for index in graph.inputs])


def ask(cells: Sequence[str], seed: int) -> dict[str, Answer]:
    """LiteRT's reference kernels on every cell."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.type_probe", str(seed)], input="\n".join(cells), text=True, check=True,
        capture_output=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    lines = [line.removeprefix("cell ") for line in done.stdout.splitlines() if line.startswith("cell ")]
    return {cell: pickle.loads(base64.b64decode(line)) for cell, line in zip(cells, lines, strict=True)}


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
    """One line per cell, from a fork that goes through them; one that stops is replaced behind the cell that stopped it."""
    cells, seed = sys.stdin.read().splitlines(), int(sys.argv[1])
    answered, fatal = mmap.mmap(-1, 8), -1
    while (first := _count(answered)) < len(cells):
        if (child := os.fork()) == 0:
            for number, cell in enumerate(cells[first:], first + 1):
                signal.alarm(_SECONDS)
                _tell(_answer(cell, seed), answered, number)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            if fatal == _count(answered):  # again: it dies of this cell, not of what an earlier one left in memory
                _tell(CRASH, answered, fatal + 1)
            fatal = _count(answered)


def _count(answered: mmap.mmap) -> int:
    return int.from_bytes(answered[:8], "little")


def _tell(answer: Answer, answered: mmap.mmap, count: int) -> None:
    sys.stdout.write(f"\ncell {base64.b64encode(pickle.dumps(answer)).decode()}\n")
    sys.stdout.flush()
    answered[:8] = count.to_bytes(8, "little")


if __name__ == "__main__":
    _main()
