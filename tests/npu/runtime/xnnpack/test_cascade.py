"""Convolutions around a depthwise one, in stripes: the floats of the operators one after another, whatever the sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack import cascade as cascade_module
from npu.runtime.xnnpack.cascade import Cascade
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import address
from npu.runtime.xnnpack.options import default_options

from tests.support.litert import Array, random_inputs
from tests.support.xnnpack import Layers


def bottlenecks(height: int, width: int, kernel: int, stride: int) -> bytes:
    """Three of them, the last with a sum around it."""
    net = Layers(DType.FLOAT32, (1, height, width, 3), seed=height * kernel + stride)
    net.conv(20, 3, 2)
    net.depthwise(kernel, stride)
    net.conv(16, activation=FusedActivation.NONE)
    start = net.at
    for channels, dilation in ((33, 1), (48, 2)):
        net.conv(channels)
        net.depthwise(kernel, dilation=dilation)
        net.conv(16, activation=FusedActivation.NONE)
    net.add(start)
    return net.build()


def outputs(content: bytes, threads: int, runs: int = 2) -> list[Array]:
    """Of inputs that differ from run to run."""
    delegate = XnnpackDelegate(replace(default_options(), num_threads=threads))
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    made = []
    for seed in range(runs):
        (values,) = random_inputs(content, seed)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        made.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy())
    interpreter.close()
    delegate.close()
    return made


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Cascade]:
    """The cascades of what runs: of maps of any size."""
    found: list[Cascade] = []
    make = Cascade.__init__

    def noted(self: Cascade, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        found.append(self)

    monkeypatch.setattr(Cascade, "__init__", noted)
    monkeypatch.setattr(cascade_module, "_SHARE", 1e9)
    monkeypatch.setattr(cascade_module, "_LARGE_BYTES", 0)
    return found


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("stripe_bytes", [0, 20_000, 1 << 20])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (2, 2), (5, 3), (1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize(("height", "width"), [(43, 22), (16, 61), (6, 5)])
def test_stripes_change_no_bit(
    height: int, width: int, kernel: int, stride: int, stripe_bytes: int, threads: int,
    made: list[Cascade], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    content = bottlenecks(height, width, kernel, stride)
    monkeypatch.setattr(cascade_module, "_STRIPE_BYTES", stripe_bytes)
    results = outputs(content, threads)
    assert len(made) == 3
    monkeypatch.setattr(cascade_module, "_LARGE_BYTES", 1 << 40)
    for result, expected in zip(results, outputs(content, 1), strict=True):
        np.testing.assert_array_equal(result, expected)
    assert len(made) == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_the_input_is_kept_until_the_last_row_is_written(
    threads: int, made: list[Cascade], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Layers(DType.FLOAT32, (1, 20, 20, 8))
    for _ in range(3):
        net.conv(64, activation=FusedActivation.NONE)  # large enough for results to find room in
        net.conv(24)
        net.depthwise(5)
        net.conv(16, activation=FusedActivation.NONE)
        net.unary("TANH")
    content = net.build()
    monkeypatch.setattr(cascade_module, "_STRIPE_BYTES", 0)
    results = outputs(content, threads)
    assert len(made) == 3
    for one in made:
        (before, *_), after = one.inputs, one.last.node.output()
        assert before is not None
        assert not np.may_share_memory(before.array, after.array)
    monkeypatch.setattr(cascade_module, "_LARGE_BYTES", 1 << 40)
    np.testing.assert_array_equal(results, outputs(content, 1))


def read_twice(net: Layers) -> None:
    net.conv(16)
    first = net.at
    net.depthwise()
    second = net.at
    net.conv(16)
    net.add(second)
    net.add(first)


def of_two_images(net: Layers) -> None:
    net.shape = (2, *net.shape[1:])
    net.conv(16)
    net.depthwise()
    net.conv(16)


def into_a_window(net: Layers) -> None:
    net.conv(16)
    net.depthwise()
    net.conv(16, 3)


@pytest.mark.parametrize("build", [read_twice, of_two_images, into_a_window])
def test_maps_that_are_needed_whole_are_made_whole(build: Callable[[Layers], None], made: list[Cascade]) -> None:
    net = Layers(DType.FLOAT32, (2 if build is of_two_images else 1, 12, 12, 8))
    build(net)
    outputs(net.build(), 2)
    assert not made


def test_small_maps_are_made_whole(made: list[Cascade], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade_module, "_LARGE_BYTES", 1 << 19)
    outputs(bottlenecks(43, 22, 3, 1), 2)
    assert not made


def test_buffers_that_take_more_than_the_maps_are_not_made(made: list[Cascade], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade_module, "_SHARE", 1.0)
    net = Layers(DType.FLOAT32, (1, 12, 12, 8))
    net.conv(16)
    net.depthwise(3, dilation=50_000)
    net.conv(16)
    outputs(net.build(), 2)
    assert len(made) == 1
    assert not made[0].is_worth_it
    assert made[0]._memory.bytes < made[0].buffer_bytes


def test_buffers_stay_when_another_model_needs_larger_ones(made: list[Cascade]) -> None:
    delegate = XnnpackDelegate(replace(default_options(), num_threads=2))
    interpreters = [
        CpuInterpreter(model_content=bottlenecks(height, 22, 3, 1), experimental_delegates=[delegate]) for height in (9, 61)
    ]
    for interpreter in (*interpreters, interpreters[0]):
        interpreter.allocate_tensors()
        interpreter.invoke()
    assert delegate._stripes.bytes > made[0].buffer_bytes
    for one in made:
        first = one._sets[0][: r.CASCADE_BYTES].view(r.CASCADE_OF_JOBS)["buffer"]
        assert first == address(one._room)
        assert one._room.size == one.buffer_bytes


def test_cascades_share_the_memory_of_stripes(made: list[Cascade]) -> None:
    content = bottlenecks(43, 22, 3, 1)
    delegate = XnnpackDelegate(replace(default_options(), num_threads=2))
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    interpreter.invoke()
    assert delegate._stripes.bytes == max(one.buffer_bytes for one in made)
    assert delegate.memory().tensor_bytes >= delegate._stripes.bytes
    assert delegate.memory().indirection_bytes > sum(one.table_bytes for one in made) > 0
