"""Search for keyword networks that are fast on a board: Optuna proposes, npulab compiles and times, nothing is trained.

    pip install npulab optuna
    python examples/nas/keyword_search.py --trials 500 --board himax-we2

Weights are random: cycles and memory depend on trained ones only by how far these can be compressed, and random ones compress
least. What a network may learn is told by its multiplications here; put the accuracy of a trained candidate in their place.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import optuna

import npu
from npu.graph.attributes import (
    Attributes,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    FullyConnectedOptions,
    Padding,
    Pool2DOptions,
    SoftmaxOptions,
)
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor
from npu.tflite.writer import write_model

FRAMES, FEATURES, CLASSES = 49, 10, 12
"""Of the input: frames of features of a second of speech, as in MLPerf Tiny's keyword spotting; and the words to tell apart."""


class Network:
    """A chain of int8 operators with random weights, each on the output of the one before."""

    def __init__(self, seed: int = 0) -> None:
        self.tensors: list[Tensor] = []
        self.ops: list[Op] = []
        self.random = np.random.default_rng(seed)
        self.shape: tuple[int, ...] = (1, FRAMES, FEATURES, 1)
        self.last = self._tensor(self.shape, 0.1)

    def convolution(self, channels: int, kernel: tuple[int, int], stride: int = 1) -> None:
        """A convolution with ReLU-free int8 output, padded to SAME."""
        weights = self._weights((channels, *kernel, self.shape[3]), channels)
        options = Conv2DOptions(padding=Padding.SAME, stride_h=stride, stride_w=stride)
        self._add("CONV_2D", (weights,), self._strided(stride, channels), options)

    def depthwise(self, kernel: int, stride: int = 1) -> None:
        """A depthwise convolution, padded to SAME."""
        channels = self.shape[3]
        weights = self._weights((1, kernel, kernel, channels), channels, axis=3)
        options = DepthwiseConv2DOptions(padding=Padding.SAME, stride_h=stride, stride_w=stride, depth_multiplier=1)
        self._add("DEPTHWISE_CONV_2D", (weights,), self._strided(stride, channels), options)

    def classify(self) -> None:
        """The mean of each channel, a fully connected layer and a softmax."""
        _, height, width, channels = self.shape
        pool = Pool2DOptions(padding=Padding.VALID, filter_height=height, filter_width=width, stride_h=1, stride_w=1)
        self._add("AVERAGE_POOL_2D", (), (1, 1, 1, channels), pool)
        weights = self._weights((CLASSES, channels), 1)
        self._add("FULLY_CONNECTED", (weights,), (1, CLASSES), FullyConnectedOptions())
        self._add("SOFTMAX", (), (1, CLASSES), SoftmaxOptions(beta=1.0), scale=1 / 256, zero_point=-128)

    def file(self) -> bytes:
        """The bytes of a .tflite file."""
        return write_model(Model(graphs=(Graph("main", tuple(self.tensors), tuple(self.ops), (0,), (self.last,)),)))

    def _strided(self, stride: int, channels: int) -> tuple[int, ...]:
        return (1, -(-self.shape[1] // stride), -(-self.shape[2] // stride), channels)

    def _weights(self, shape: tuple[int, ...], scales: int, axis: int = 0) -> int:
        return self._tensor(shape, [0.01] * scales, axis=axis, data=self.random.integers(-127, 128, shape, np.int8))

    def _tensor(
        self,
        shape: tuple[int, ...],
        scale: float | list[float],
        zero_point: int = 0,
        axis: int = 0,
        data: np.ndarray | None = None,
    ) -> int:
        scales = np.atleast_1d(np.asarray(scale, np.float32))
        quantization = Quantization(scales, np.full(scales.shape, zero_point, np.int64), axis)
        self.tensors.append(Tensor(f"t{len(self.tensors)}", shape, DType.INT8, quantization, data))
        return len(self.tensors) - 1

    def _add(
        self,
        kind: str,
        weights: tuple[int, ...],
        shape: tuple[int, ...],
        options: Attributes,
        *,
        scale: float = 0.2,
        zero_point: int = 0,
    ) -> None:
        output = self._tensor(shape, scale, zero_point)
        inputs = (self.last, *weights, *(-1 for _ in weights))  # no bias
        self.ops.append(Op(kind, inputs, (output,), options, version=3 if weights else 2))
        self.shape, self.last = shape, output


def propose(trial: optuna.Trial) -> bytes:
    """The network of a trial."""
    network = Network(trial.number)
    kernel = trial.suggest_int("kernel_height", 3, 10), trial.suggest_int("kernel_width", 3, 5)
    network.convolution(trial.suggest_int("channels_0", 16, 96, step=8), kernel, stride=2)
    for block in range(1, trial.suggest_int("blocks", 2, 6) + 1):
        stride = 2 if network.shape[1] > 6 and trial.suggest_categorical(f"halves_{block}", (False, True)) else 1
        network.depthwise(trial.suggest_categorical(f"kernel_{block}", (3, 5)), stride)
        network.convolution(trial.suggest_int(f"channels_{block}", 16, 128, step=8), (1, 1))
    network.classify()
    return network.file()


def search(board: str, trials: int, seed: int) -> optuna.Study:
    """Few milliseconds, little SRAM, many multiplications: the three pull against each other."""
    session = npu.Session(npu.Hardware(f"boards/{board}"))

    def objective(trial: optuna.Trial) -> tuple[float, int, int]:
        totals = npu.time_model(propose(trial), session=session).report.totals
        return totals.time_ms or 0.0, totals.sram_bytes or 0, totals.macs

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(seed=seed)
    study = optuna.create_study(directions=["minimize", "minimize", "maximize"], sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return study


def main() -> int:
    """The front as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--board", default="himax-we2")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.process_time()
    study = search(options.board, options.trials, options.seed)
    seconds = time.process_time() - start
    front = sorted(study.best_trials, key=lambda trial: trial.values)
    sys.stdout.write(
        f"{options.trials} trials on {options.board} in {seconds:.0f} s of processor time; {len(front)} on the front\n\n"
    )
    sys.stdout.write("      ms   SRAM bytes   million MACs   network\n")
    for trial in front[:20]:
        milliseconds, sram, macs = trial.values
        widths = "-".join(str(value) for name, value in trial.params.items() if name.startswith("channels"))
        sys.stdout.write(f"{milliseconds:8.3f} {sram:12,.0f} {macs / 1e6:14.2f}   {widths}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
