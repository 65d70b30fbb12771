"""Hybrid kernels: float activations are quantized as LiteRT does it, ties and what lies next to them too."""

from __future__ import annotations

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference


def _identity(count: int, *, asymmetric: bool) -> bytes:
    """FULLY_CONNECTED that gives back its input, as it was quantized."""
    b = ModelBuilder()
    x = b.input((1, count), DType.FLOAT32)
    weights = b.constant((127 * np.eye(count)).astype(np.int8), scale=1 / 127)
    options = at.FullyConnectedOptions(asymmetric_quantize_inputs=asymmetric)
    b.output(b.op("FULLY_CONNECTED", [x, weights, -1], (1, count), DType.FLOAT32, attributes=options))
    return b.build()


def _next_to_ties(ends: tuple[float, float]) -> np.ndarray:
    """Activations of scale 1: whole numbers and a half, and the floats on both sides of it.

    None below a half: LiteRT's vector code adds a half and cuts off, so that the last of them becomes 1, but for the rest of a
    row.
    """
    ties = np.arange(1.5, 30, dtype=np.float32)
    near = [np.nextafter(ties, np.float32(limit)) for limit in (0, 100)]
    return np.concatenate([np.array(ends, np.float32), ties, *near])[None]


CASES = {
    "asymmetric": (True, (0.0, 255.0)),
    "asymmetric both ways": (True, (-100.0, 155.0)),
    "symmetric": (False, (-127.0, 127.0)),
}


@pytest.mark.parametrize("case", CASES)
def test_activations_are_rounded_before_the_zero_point_is_added(case: str) -> None:
    asymmetric, ends = CASES[case]
    values = _next_to_ties(ends)
    content = _identity(values.size, asymmetric=asymmetric)
    (expected,) = run_reference(content, [values])
    np.testing.assert_array_equal(run(CpuInterpreter(model_content=content), [values])[0], expected)
