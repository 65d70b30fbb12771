"""A detector that needs no training."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder


def write_detector(path: Path) -> Path:
    """Finds two boxes in any image: class 0 in the left half, class 1 in the right lower quarter; the third slot is unused."""
    b = ModelBuilder()
    x = b.input((1, 4, 4, 3), DType.FLOAT32)
    axes = b.constant(np.array([0, 1, 2, 3], np.int32))
    mean = b.op("MEAN", [x, axes], (), DType.FLOAT32, attributes=at.ReducerOptions())
    nothing = b.op("MUL", [mean, b.constant(np.zeros((), np.float32))], (), DType.FLOAT32, attributes=at.MulOptions())
    results = (
        np.array([[[0, 0, 1, 0.5], [0.5, 0.5, 1, 1], [0, 0, 1, 1]]], np.float32),
        np.array([[0, 1, 0]], np.float32),
        np.array([[0.9, 0.8, 0.7]], np.float32),
        np.array([2], np.float32),
    )
    for result in results:
        b.output(b.op("ADD", [nothing, b.constant(result)], result.shape, DType.FLOAT32, attributes=at.AddOptions()))
    path.write_bytes(b.build())
    return path
