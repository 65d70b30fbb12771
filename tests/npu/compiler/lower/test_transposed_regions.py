"""Models whose channels come before their places: what lies between transposes works on the maps as they were, exactly."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.isa.operations import Convolution, KernelOperation

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
SCALE, ZERO = 0.05, -9


class ChannelsFirst:
    """A model of maps (1, channels, places ...), in one or two dimensions."""

    def __init__(self, seed: int, places: tuple[int, ...] = (12,)) -> None:
        self.b, self.rng, self.dims = ModelBuilder(), np.random.default_rng(seed), len(places)
        self.tensor = self.b.input(
            (1, *places, 16) if self.dims == 2 else (1, 1, *places, 16), DType.INT8, scale=SCALE, zero_point=ZERO
        )
        self.shape: tuple[int, ...] = (1, *((1, *places) if self.dims == 1 else places), 16)
        self.made: list[tuple[int, tuple[int, ...]]] = []

    def op(
        self,
        kind: str,
        inputs: list[int],
        shape: tuple[int, ...],
        options: at.Attributes | None = None,
        scale: float = SCALE,
        zero: int = ZERO,
    ) -> None:
        self.tensor = self.b.op(kind, inputs, shape, DType.INT8, scale, zero, attributes=options)
        self.shape = shape

    def numbers(self, values: object) -> int:
        return self.b.constant(np.array(values, np.int32))

    def reshape(self, shape: tuple[int, ...]) -> None:
        self.op("RESHAPE", [self.tensor, self.numbers(shape)], shape, at.ReshapeOptions(shape))

    def convolve(self, channels: int = 16, kernel: int = 1) -> None:
        """A convolution of (1, height, width, channels), as such."""
        depth = self.shape[-1]
        weights = self.rng.integers(-90, 90, (channels, 1, kernel, depth)).astype(np.int8)
        w = self.b.constant(weights, scale=[0.004] * channels, zero_point=[0] * channels, axis=0)
        bias = self.b.constant(self.rng.integers(-900, 900, channels).astype(np.int32), scale=[SCALE * 0.004] * channels)
        options = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
        self.op("CONV_2D", [self.tensor, w, bias], (*self.shape[:3], channels), options)

    def enter(self) -> None:
        """From (1, height, width, channels) to (1, channels, places ...)."""
        _, height, width, channels = self.shape
        if self.dims == 1:
            self.op("TRANSPOSE", [self.tensor, self.numbers((0, 3, 1, 2))], (1, channels, height, width), at.TransposeOptions())
            self.reshape((1, channels, width))
        else:
            self.op("TRANSPOSE", [self.tensor, self.numbers((0, 3, 1, 2))], (1, channels, height, width), at.TransposeOptions())
        self.made.append((self.tensor, self.shape))

    def leave(self) -> None:
        """Back to (1, height, width, channels)."""
        if self.dims == 1:
            self.reshape((1, self.shape[1], 1, self.shape[2]))
        _, channels, height, width = self.shape
        self.op("TRANSPOSE", [self.tensor, self.numbers((0, 2, 3, 1))], (1, height, width, channels), at.TransposeOptions())

    def constant(self, shape: tuple[int, ...], scale: float = 0.03) -> int:
        return self.b.constant(self.rng.integers(-60, 60, shape).astype(np.int8), scale=scale, zero_point=3)

    def function(self, kind: str) -> None:
        if kind in ("TANH", "LOGISTIC"):
            self.op(
                kind, [self.tensor], self.shape, scale=1 / (128 if kind == "TANH" else 256), zero=0 if kind == "TANH" else -128
            )
            self.op("QUANTIZE", [self.tensor], self.shape, at.QuantizeOptions())
        else:
            self.op(kind, [self.tensor], self.shape)

    def combine(self, kind: str, other: int) -> None:
        options = {"ADD": at.AddOptions(), "SUB": at.SubOptions(), "MUL": at.MulOptions(), "PRELU": None}[kind]
        self.op(kind, [self.tensor, other], self.shape, options)

    def pad(self, axis: int, before: int, after: int, kind: str = "PAD") -> None:
        table = [(before, after) if place == axis else (0, 0) for place in range(len(self.shape))]
        shape = tuple(extent + sum(pair) for extent, pair in zip(self.shape, table, strict=True))
        options: at.Attributes = at.PadOptions() if kind == "PAD" else at.MirrorPadOptions(at.MirrorPadMode.REFLECT)
        self.op(kind, [self.tensor, self.numbers(table)], shape, options)

    def slice(self, axis: int, begin: int, size: int) -> None:
        begins = [begin if place == axis else 0 for place in range(len(self.shape))]
        shape = tuple(size if place == axis else extent for place, extent in enumerate(self.shape))
        self.op("SLICE", [self.tensor, self.numbers(begins), self.numbers(shape)], shape, at.SliceOptions())

    def join(self, other: int, channels: int) -> None:
        shape = (1, self.shape[1] + channels, *self.shape[2:])
        self.op("CONCATENATION", [self.tensor, other], shape, at.ConcatenationOptions(1))

    def reduce(self, kind: str, *, keeps: bool) -> None:
        axes = tuple(range(2, len(self.shape)))
        shape = (*self.shape[:2], *((1,) * len(axes) if keeps else ()))
        self.op(kind, [self.tensor, self.numbers(axes)], shape, at.ReducerOptions(keeps))

    def multiply(self, units: int = 5) -> None:
        """All values as one row by a matrix."""
        count = int(np.prod(self.shape))
        self.reshape((1, count))
        w = self.b.constant(self.rng.integers(-90, 90, (units, count)).astype(np.int8), scale=0.002, zero_point=0)
        bias = self.b.constant(self.rng.integers(-900, 900, units).astype(np.int32), scale=SCALE * 0.002)
        self.op("FULLY_CONNECTED", [self.tensor, w, bias], (1, units), at.FullyConnectedOptions(), scale=0.2)

    def build(self, *, also: int | None = None) -> bytes:
        self.b.output(self.tensor)
        if also is not None:
            self.b.output(also)
        return self.b.build()


def kernels(model: bytes, target: str) -> list[KernelOperation]:
    parts = npu.compile(model, target=target).compiled_model.partitions
    return [operation for part in parts for operation in part.operations if isinstance(operation, KernelOperation)]


def assert_exact(model: bytes, target: str) -> None:
    inputs = random_inputs(model, 1)
    result = npu.run(model, inputs, target=target)
    for found, expected in zip(result.outputs, run_reference(model, inputs, fully_connected="npu"), strict=True):
        np.testing.assert_array_equal(found, expected)


BETWEEN = {
    "RELU": 0, "TANH": 0, "ADD": 1, "MUL": 1, "SUB": 1, "PRELU": 4, "PAD": 3, "MIRROR_PAD": 4, "PAD of channels": 2, "SLICE": 0,
    "SLICE of channels": 0, "join": 2, "sum": 1,
}  # fmt: skip
"""Kernels of each between two convolutions: a function rides on the first, and a slice is where it is read."""


def work(net: ChannelsFirst, what: str) -> None:
    """One operator between transposes."""
    channels, (first, first_shape) = net.shape[1], net.made[0]
    if what in ("RELU", "TANH", "LOGISTIC"):
        net.function(what)
    elif what in ("ADD", "MUL", "SUB", "PRELU"):
        net.combine(what, net.constant((channels, *(1,) * net.dims)))
    elif what in ("PAD", "MIRROR_PAD"):
        net.pad(len(net.shape) - 1, 2, 1, what)
    elif what == "PAD of channels":
        net.pad(1, 3, 0)
    elif what == "SLICE" and net.shape[-1] > 3:
        net.slice(len(net.shape) - 1, 1, net.shape[-1] - 2)
    elif what == "SLICE of channels":
        net.slice(1, channels // 2, channels - channels // 2)
    elif what == "join" and first_shape[2:] == net.shape[2:]:
        net.join(first, first_shape[1])
    elif what == "sum" and first_shape == net.shape:
        net.combine("ADD", first)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("places", [(12,), (6, 5)], ids=["sequence", "plane"])
@pytest.mark.parametrize("what", BETWEEN)
def test_nothing_is_transposed_around_an_operator(what: str, places: tuple[int, ...], target: str) -> None:
    net = ChannelsFirst(2, places)
    net.convolve()
    net.enter()
    work(net, what)
    net.leave()
    net.convolve()
    model = net.build()
    assert len(kernels(model, target)) == 2 + BETWEEN[what]
    assert_exact(model, target)


def test_a_transpose_takes_more_kernels_where_it_stays() -> None:
    """What the counts above are about: a tensor that is an output, too, keeps both."""
    counts = []
    for is_seen in (False, True):
        net = ChannelsFirst(2)
        net.convolve()
        net.enter()
        work(net, "RELU")
        seen = net.tensor
        net.leave()
        net.convolve()
        model = net.build(also=seen if is_seen else None)
        counts.append(len(kernels(model, "ethos-u55-128")))
        assert_exact(model, "ethos-u55-128")
    assert counts[0] == 2 < counts[1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("places", [(12,), (6, 5)], ids=["sequence", "plane"])
@pytest.mark.parametrize("kind", ["MEAN", "REDUCE_MAX"])
def test_a_reduction_over_the_places_ends_a_region(kind: str, places: tuple[int, ...], target: str, *, keeps: bool) -> None:
    net = ChannelsFirst(2, places)
    net.convolve()
    net.enter()
    work(net, "MUL")
    net.reduce(kind, keeps=keeps)
    model = net.build()
    assert len(kernels(model, target)) == 3
    assert_exact(model, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("places", [(12,), (6, 5)], ids=["sequence", "plane"])
def test_columns_of_a_matrix_change_places_instead(places: tuple[int, ...], target: str) -> None:
    net = ChannelsFirst(2, places)
    net.convolve()
    net.enter()
    work(net, "RELU")
    net.multiply()
    model = net.build()
    assert [type(one) for one in kernels(model, target)] == [Convolution, Convolution]
    assert_exact(model, target)


@pytest.mark.parametrize("seed", range(40))
def test_random_sequences_are_exact(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = ChannelsFirst(seed, (12,) if rng.random() < 0.6 else (6, 5))
    net.convolve()
    for _ in range(int(rng.integers(1, 3))):
        net.made.clear()
        net.enter()
        for _ in range(int(rng.integers(1, 5))):
            work(net, str(rng.choice(list(BETWEEN))))
        seen = net.tensor
        if rng.random() < 0.3:
            break
        net.leave()
        net.convolve(16, int(rng.choice([1, 3])))
    end = rng.choice(["none", "MEAN", "matrix"])
    if len(net.shape) == 2 + net.dims and end == "matrix":
        net.multiply()
    elif len(net.shape) == 2 + net.dims and end == "MEAN" and net.tensor != seen:
        net.enter()
        net.reduce("MEAN", keeps=bool(rng.integers(2)))
    model = net.build(also=seen if rng.random() < 0.2 else None)
    for target in ("ethos-u55-128", "ethos-u85-256"):
        assert_exact(model, target)


def with_sum(places: tuple[int, ...], seed: int) -> bytes:
    """A function and a sum with a constant of the seed, in a region; all else is the same."""
    net = ChannelsFirst(2, places)
    net.convolve()
    net.enter()
    work(net, "TANH")
    net.rng = np.random.default_rng(seed)
    work(net, "ADD")
    net.rng = np.random.default_rng(5)
    work(net, "SLICE")
    net.leave()
    net.convolve()
    return net.build()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("places", [(12,), (6, 5)], ids=["sequence", "plane"])
def test_values_in_another_order_are_compared_in_their_own(places: tuple[int, ...], target: str) -> None:
    compiled = npu.compile(with_sum(places, 1), target=target).content
    same = npu.diff(with_sum(places, 1), compiled)
    assert same.first is None
    assert {"ADD", "QUANTIZE"} <= {title.split()[1] for title in same.compared}
    other = npu.diff(with_sum(places, 2), compiled).first
    assert other is not None
    assert other.type == "ADD"
