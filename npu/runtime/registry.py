"""The one table of operators that the interpreter can run: kind to implementation with its type combinations."""

from __future__ import annotations

from npu.errors import InterpreterError
from npu.runtime.custom import CustomOperator, find_custom_operator
from npu.runtime.implementation import Implementation
from npu.runtime.operators import (
    activation,
    arithmetic,
    comparison,
    control,
    convolution,
    detection,
    elementwise,
    embedding,
    fully_connected,
    gather,
    layout,
    lstm,
    normalization,
    pooling,
    quantize,
    reduction,
    resize,
    rnn,
    shape,
    slicing,
    svdf,
    text,
)

_MODULES = (
    activation, arithmetic, comparison, control, convolution, elementwise, fully_connected, gather, layout, normalization,
    pooling, quantize, reduction, resize, shape, slicing, embedding, lstm, rnn, svdf, text,
)  # fmt: skip

OPERATORS: dict[str, Implementation] = {row.kind: row for module in _MODULES for row in module.OPERATORS}


def find_operator(kind: str, label: str) -> Implementation:
    """The implementation of an operator; InterpreterError if there is none."""
    if kind not in OPERATORS:
        raise InterpreterError(f"{label}: must be an operator that has a CPU kernel, got {kind}")
    return OPERATORS[kind]


def find_custom(name: str) -> CustomOperator | None:
    """The kernel of a custom operator: one that was registered, else one of this project, None if there is neither."""
    return find_custom_operator(name) or detection.CUSTOM_OPERATORS.get(name)
