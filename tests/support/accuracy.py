"""Whether results are as close to the reference as `npu.runtime.accuracy.ACCURACY` says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npu.graph.attributes import FusedActivation
from npu.numerics.arrays import Array
from npu.runtime.accuracy import ACCURACY
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.cell_templates import TEMPLATES
from tests.support.interpreters import run


def magnitudes(kind: str, content: bytes, inputs: list[Any]) -> list[Array]:
    """Sums of the magnitudes of the terms: of an elementwise function its input, else the operator on absolute values."""
    if len(inputs) == 1 and TEMPLATES[kind].patterns[0] == "T -> T":
        return [np.abs(inputs[0])]
    model = read_model(content)
    graph = model.graphs[0]
    tensors = tuple(
        replace(t, data=np.abs(np.maximum(t.data, -127)) if t.data.dtype == np.int8 else np.abs(t.data))
        if t.data is not None
        else t
        for t in graph.tensors
    )
    options = replace(graph.ops[0].attributes, fused_activation_function=FusedActivation.NONE)  # type: ignore[type-var]
    ops = (replace(graph.ops[0], attributes=options),)
    absolute = write_model(replace(model, graphs=(replace(graph, tensors=tensors, ops=ops),)))
    return run(CpuInterpreter(model_content=absolute), [np.abs(value) for value in inputs])


def needs_magnitudes(kind: str) -> bool:
    """Whether the bound of an operator counts its terms."""
    return kind in ACCURACY and ACCURACY[kind].measure == "terms"


def assert_as_accurate(kind: str, expected: list[Array], got: list[Array], sizes: list[Array] | None, what: str) -> None:
    """Integers and operators without a row of ACCURACY are equal; `sizes` are those of `magnitudes` where a row needs them."""
    bound = ACCURACY.get(kind)
    for position, (reference, ours) in enumerate(zip(expected, got, strict=True)):
        assert ours.dtype == reference.dtype, what
        assert ours.shape == reference.shape, what
        if bound is None or reference.dtype != np.float32:
            np.testing.assert_array_equal(ours, reference, err_msg=what)
            continue
        size = np.abs(reference)
        if bound.measure == "largest":
            size = np.full_like(reference, size.max(initial=np.float32(1 / 16)))
        elif bound.measure == "terms":
            assert sizes is not None
            size = sizes[position]
        step = np.spacing(np.maximum(size, np.float32(1e-30)).astype(np.float32))
        assert np.all(np.abs(ours.astype(np.float64) - reference) <= bound.steps * step), what
