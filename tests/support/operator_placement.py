"""Placements of single operators beside Vela 5.2's, by kind and type: `python -m tests.support.operator_placement`.

Each row is what both compilers do with some random models: on the NPU all, some or none of them. For Ethos-U55 the rows are
those of `VELA_CASES`, for Ethos-U85 all operators of which Vela places a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np

from npu.compiler.block_config import BlockChooser
from npu.graph.ethos_u import is_npu_job
from npu.graph.placement import Device
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile_in_memory

from tests.support import operator_cases as base
from tests.support.shared import ROOT
from tests.support.vela import compile_with_vela
from tests.support.vela_operators import CPU_ONLY, VELA_CASES, with_shapes

PAGE = ROOT / "docs" / "operator-placement.md"
TARGETS = ("ethos-u55-128", "ethos-u85-256")
SEEDS = range(4)
NO_KERNEL = "LiteRT has no kernel for this type: there is no reference to be exact against, and no such model runs anywhere"
REASONS = {
    **dict.fromkeys(
        (
            "ABS-uint8", "EXP-uint8", "NEG-uint8", "RELU_0_TO_1-int16", "RELU_N1_TO_1-int16",
            "UNIDIRECTIONAL_SEQUENCE_LSTM-int16", "SQUARED_DIFFERENCE-int16", "SQUARED_DIFFERENCE-uint8", "HARD_SWISH-int16",
            "QUANTIZE-int16-uint8",
        ),
        NO_KERNEL,
    ),
    **dict.fromkeys(
        ("SUM-int16", "SUM-int8"),
        "LiteRT scales the sum in float32, whose rounding no factor of 31 bits gives",
    ),
    "PRELU-int16": "LiteRT takes slopes of 16 bits for numbers of 8: its result is not slope times input",
    "SUM-int32": "sums that leave 32 bits wrap in LiteRT; not lowered",
    "UNIDIRECTIONAL_SEQUENCE_LSTM-int8": "cells as small as these are faster on the CPU (`N-LSTM-5`); larger ones are placed",
}  # fmt: skip
"""Why an operator that Vela takes stays on the CPU."""
MORE_REASONS = {
    **dict.fromkeys(
        ("ABS-int32", "CAST-int32-int64", "CONCATENATION-int64", "REVERSE_V2-int32"), "not lowered: no network at hand has it"
    ),
    **dict.fromkeys(("REDUCE_MAX-int32", "REDUCE_MIN-int32"), "not lowered; Vela's stream reads the first row alone"),
    "BATCH_MATMUL-uint8": NO_KERNEL,
    "DIV-int32": "no public source says how Ethos-U85 rounds a quotient",
}  # fmt: skip
"""The same for Ethos-U85."""


def cases(target: str = TARGETS[0]) -> list[str]:
    """Names of the rows: for Ethos-U55 all that Vela takes of some shape, for Ethos-U85 those of the page."""
    if target == TARGETS[0]:
        return sorted(name for name in VELA_CASES if name not in CPU_ONLY)
    return sorted("-".join((kind, *types)) for kind, *types in told(target))


def told(target: str) -> Mapping[tuple[str, ...], str]:
    """Where the page says that operators run here, by operator and types."""
    section = PAGE.read_text(encoding="utf-8").split(f"## {target}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][2:]
    return {(row[0], *row[1].split(", ")): row[2] for row in rows}


@cache
def models(name: str) -> tuple[bytes, ...]:
    """Of a row."""
    build = (base.CASES | VELA_CASES)[name]
    return tuple(with_shapes(build(np.random.default_rng([seed, 7]))) for seed in SEEDS)


def _has_models(name: str) -> bool:
    """Whether LiteRT, which gives models their shapes, takes the operator at all."""
    try:
        return bool(models(name))
    except RuntimeError:
        return False


@cache
def ours(name: str, target: str = TARGETS[0]) -> list[bool]:
    """Whether each model of a row goes to the NPU as a whole."""
    chooser = BlockChooser(load_variant(target))
    found = (compile_in_memory(read_model(model), name, chooser).compiled_model.placement.ops for model in models(name))
    return [all(op.device is Device.NPU for op in ops) for ops in found]


def theirs(name: str, target: str) -> list[bool]:
    return [_all_jobs(model, target) for model in models(name)]


def _all_jobs(model: bytes, target: str) -> bool:
    try:
        compiled = read_model(compile_with_vela(model, target))
    except RuntimeError:  # it refuses the model
        return False
    return all(is_npu_job(op) for graph in compiled.graphs for op in graph.ops)


def shown(placed: list[bool]) -> str:
    return "NPU" if all(placed) else f"{sum(placed)} of {len(placed)}" if any(placed) else "CPU"


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Placement of every operator, beside Vela 5.2"
    yield ""
    yield f"Every operator that Vela 5.2 puts on the NPU, by type; {len(SEEDS)} random models each. What this compiler puts on"
    yield "the NPU equals LiteRT's reference kernels bit for bit ([exactness.md](exactness.md)). SHAPE, what is computed of"
    yield "fixed shapes alone and DENSIFY of int8 weights is known when a model is compiled, and nobody may read an operator's"
    yield "result: such operators, which have no row here, count as the NPU's and take no time."
    yield "Generated by `python -m tests.support.operator_placement`; do not edit."
    for target in TARGETS:
        yield ""
        yield f"## {target}"
        yield ""
        yield "| Operator | Type | This compiler | Vela 5.2 | Reason |"
        yield "| --- | --- | --- | --- | --- |"
        yield from _rows(target)


def _rows(target: str) -> Iterator[str]:
    names = cases(target) if target == TARGETS[0] else filter(_has_models, sorted(base.CASES | VELA_CASES))
    for name in names:
        kind, *types = name.split("-")
        other = theirs(name, target)
        if target != TARGETS[0] and not any(other):
            continue
        mine = ours(name, target)
        worse = any(b and not a for a, b in zip(mine, other, strict=True))
        reason = (REASONS | MORE_REASONS)[name] if worse else ""
        yield f"| {kind} | {', '.join(types)} | {shown(mine)} | {shown(other)} | {reason} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
