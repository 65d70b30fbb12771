"""Runs of an interpreter, LiteRT's or this project's: they have the same calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu.numerics.arrays import Array


def run(interpreter: Any, inputs: Sequence[Array]) -> list[Array]:
    """`invoke` after allocation."""
    interpreter.allocate_tensors()
    return invoke(interpreter, inputs)


def invoke(interpreter: Any, inputs: Sequence[Array]) -> list[Array]:
    """Outputs of one run, in model order."""
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
