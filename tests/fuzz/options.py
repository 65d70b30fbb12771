"""Options of the shipped delegates with values that they were not made for: a delegate, or an error that names the option."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np

from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.plugins import load_delegate

from tests.fuzz.answer import attempt
from tests.support.operator_cases import CASES

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"
DELEGATES = ("xnnpack", "ethos-u", "dummy")
NAMES = (
    *(
        "num_threads",
        "qs8",
        "qu8",
        "force_fp16",
        "target",
        "config",
        "memory_mode",
        "system",
        "profile",
        "allowed_builtin_code",
    ),
    *(
        "error_during_init",
        "error_during_prepare",
        "error_during_invoke",
        "min_nodes_per_partition",
        "max_delegated_partitions",
    ),
    *("weights_cache", "half_precision", "", "no such", "\x1b[31m", "a" * 300),
)
VALUES = (
    *(
        "",
        "0",
        "1",
        "-1",
        "true",
        "false",
        "yes",
        "1e9",
        "nan",
        "99999999999999999999",
        "ethos-u55-128",
        "ethos-u99",
        "/dev/zero",
    ),
    *("\x1b[31mred", "a" * 5000, "é", "0x10", " 1", "1 ", "none", "Shared_Sram", "../..", "NULL"),
)
PLAIN = ("true", "false", "1", "2")
"""What most options take, so that several that are right meet."""
KINDS = sorted(CASES)


def case(number: int) -> str:
    rng = Random(number)
    delegate = rng.choice(DELEGATES)
    options = {rng.choice(NAMES): rng.choice(VALUES if rng.random() < 0.5 else PLAIN) for _ in range(rng.randint(0, 4))}
    loaded = attempt(delegate, lambda: load_delegate(delegate, options))
    content = CASES[rng.choice(KINDS)](np.random.default_rng(number)) if rng.random() < 0.5 else DIGITS.read_bytes()
    attempt(f"{delegate}: model", lambda: _run(content, loaded))
    return f"{delegate}: ran"


def _run(content: bytes, delegate: object) -> None:
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[delegate])  # type: ignore[list-item]
    interpreter.allocate_tensors()
    interpreter.invoke()
