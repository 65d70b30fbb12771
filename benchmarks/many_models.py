"""How many models a minute one process judges: random variants of a keyword network, as an architecture search makes them.

    python -m benchmarks.many_models [--models 1000] [--target ethos-u55-128] [--seed 0]

Every variant is a chain of depthwise-separable blocks with other channels, kernels, strides and depth. One session serves all.
CPU time of the calling thread for `npu.check` (placement by the rules alone), for `npu.check_report` (what `npu check` says:
compiled, timed, with memory), for `npu.time_model` (compiled and timed), for the same with sizes of weights that are estimated,
and of models that were seen before.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import npu
from npu.graph.attributes import (
    Conv2DOptions,
    DepthwiseConv2DOptions,
    FullyConnectedOptions,
    Padding,
    Pool2DOptions,
    SoftmaxOptions,
)
from npu.graph.dtype import DType
from npu.toolchain.session import Session

from tests.support.builder import ModelBuilder

CLASSES = 12
_COMPARED = 100
"""Models whose cycles are compared with and without weights."""


def keyword_network(random: np.random.Generator) -> bytes:
    """A random variant of a keyword network: 49 frames of 10 features, a convolution, separable blocks, a classifier."""
    model = ModelBuilder()
    height, width, channels = 49, 10, int(random.choice((16, 24, 32, 40, 48, 64, 72, 96)))
    x = model.input((1, height, width, 1), DType.INT8, scale=0.1)
    kernel = int(random.integers(3, 11)), int(random.integers(3, 6))
    height, width = -(-height // 2), -(-width // 2)
    weights = model.constant(_weights(random, channels, *kernel, 1), scale=[0.01] * channels)
    options = Conv2DOptions(padding=Padding.SAME, stride_h=2, stride_w=2)
    x = model.op("CONV_2D", [x, weights, None], (1, height, width, channels), DType.INT8, 0.2, attributes=options)
    for _ in range(int(random.integers(2, 7))):
        stride = 2 if height > 6 and random.random() < 0.2 else 1
        height, width = -(-height // stride), -(-width // stride)
        size = int(random.choice((3, 5)))
        weights = model.constant(_weights(random, 1, size, size, channels), scale=[0.01] * channels, axis=3)
        depthwise = DepthwiseConv2DOptions(padding=Padding.SAME, stride_h=stride, stride_w=stride, depth_multiplier=1)
        shape = (1, height, width, channels)
        x = model.op("DEPTHWISE_CONV_2D", [x, weights, None], shape, DType.INT8, 0.2, attributes=depthwise)
        outputs = int(random.choice((16, 24, 32, 40, 48, 64, 72, 96, 128)))
        weights = model.constant(_weights(random, outputs, 1, 1, channels), scale=[0.01] * outputs)
        pointwise = Conv2DOptions(padding=Padding.SAME, stride_h=1, stride_w=1)
        x = model.op("CONV_2D", [x, weights, None], (1, height, width, outputs), DType.INT8, 0.2, attributes=pointwise)
        channels = outputs
    pool = Pool2DOptions(padding=Padding.VALID, filter_height=height, filter_width=width, stride_h=1, stride_w=1)
    x = model.op("AVERAGE_POOL_2D", [x], (1, 1, 1, channels), DType.INT8, 0.2, attributes=pool)
    weights = model.constant(_weights(random, CLASSES, channels), scale=0.01)
    x = model.op("FULLY_CONNECTED", [x, weights, None], (1, CLASSES), DType.INT8, 0.3, attributes=FullyConnectedOptions())
    model.output(model.op("SOFTMAX", [x], (1, CLASSES), DType.INT8, 1 / 256, -128, attributes=SoftmaxOptions(beta=1.0)))
    return model.build()


def _weights(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.integers(-127, 128, shape, np.int8)


def models_a_minute(judge: Callable[[bytes], object], models: Sequence[bytes]) -> float:
    """Of CPU time of the calling thread."""
    start = time.thread_time()
    for model in models:
        judge(model)
    return 60 * len(models) / (time.thread_time() - start)


def main() -> int:
    """A Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    models = [keyword_network(random) for _ in range(options.models)]
    session = Session(npu.Hardware(options.target))
    npu.time_model(keyword_network(random), session=session)  # loads the kernels
    npu.check(keyword_network(random), session=session)
    verbs: dict[str, Callable[[bytes], object]] = {
        "`npu.check`": lambda model: npu.check(model, session=session),
        "`npu.check_report`": lambda model: npu.check_report(model, session=session),
        "`npu.time_model`": lambda model: npu.time_model(model, session=session),
        "`npu.time_model` without weights": lambda model: npu.time_model(model, session=session, with_weights=False),
        "`npu.time_model`, seen before": lambda model: npu.time_model(models[-1], session=session),
    }
    sys.stdout.write(f"{options.models} models, {options.target}\n\n| | models a minute |\n|---|---|\n")
    for name, verb in verbs.items():
        sys.stdout.write(f"| {name} | {models_a_minute(verb, models):,.0f} |\n")
    errors = [_error_without_weights(model, session) for model in models[:_COMPARED]]
    sys.stdout.write(f"\nCycles without weights differ by up to {max(errors):.2%} in {len(errors)} models.\n")
    return 0


def _error_without_weights(model: bytes, session: Session) -> float:
    exact, estimated = (
        npu.time_model(model, session=session, with_weights=with_weights).report.totals for with_weights in (True, False)
    )
    return abs((estimated.total_cycles or 0) / (exact.total_cycles or 1) - 1)


if __name__ == "__main__":
    sys.exit(main())
