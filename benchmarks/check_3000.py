"""CPU time of the checker on a chain of 3,000 convolutions, for every profile: `python benchmarks/check_3000.py`."""

from __future__ import annotations

import sys
import time

import numpy as np

from constraints.checker import check
from constraints.profiles import profile_names
from npu.graph.attributes import Conv2DOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor
from npu.hardware.catalogue import load_variant
from npu.rendering.text import render_text
from npu.reports.check_report import build_check_report

OPERATORS = 3000
LIMIT_SECONDS = 1.0


def chain(length: int) -> Model:
    """`length` convolutions 3x3 of 32 channels, each with weights of its own."""
    scale = Quantization(np.array([0.5], np.float32), np.zeros(1, np.int64))
    weights = np.ones((32, 3, 3, 32), np.int8)
    tensors = [Tensor("ifm", (1, 16, 16, 32), DType.INT8, scale)]
    ops = []
    for index in range(length):
        tensors.append(Tensor(f"weights {index}", weights.shape, DType.INT8, scale, weights))
        tensors.append(Tensor(f"ofm {index}", (1, 16, 16, 32), DType.INT8, scale))
        ops.append(Op("CONV_2D", (2 * index, 2 * index + 1), (2 * index + 2,), Conv2DOptions(stride_w=1, stride_h=1)))
    return Model((Graph("chain", tuple(tensors), tuple(ops), (0,), (2 * length,)),))


def main() -> int:
    """Seconds per profile; 1 if one of them takes too long."""
    model = chain(OPERATORS)
    slow = False
    for profile in profile_names():
        check(chain(1), profile=profile)
        start = time.process_time()
        check(model, profile=profile)
        seconds = time.process_time() - start
        slow = slow or seconds >= LIMIT_SECONDS
        sys.stdout.write(f"{profile:10} {OPERATORS} operators {seconds:.3f} s (limit {LIMIT_SECONDS} s)\n")
    variant = load_variant("ethos-u55-128")
    placement = check(model, variant=variant)
    start = time.process_time()
    render_text(build_check_report(model, placement, "chain", variant), 120)
    sys.stdout.write(f"the report with estimated costs, as text: {time.process_time() - start:.3f} s\n")
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
