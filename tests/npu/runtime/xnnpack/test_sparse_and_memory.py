"""Sparse inference, and memory of indirection buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Model, Op
from npu.runtime.dummy import DummyDelegate
from npu.runtime.dummy import default_options as dummy_options
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.sparse import SparseConvolution
from npu.tflite.reader import read_model
from npu.tflite.schema import DimensionMetadata, DimensionType, Int32Vector, SparsityParameters

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs, run_reference
from tests.support.xnnpack import Layers, delegated, mobile_network, options, steps_apart

F32, INT8 = DType.FLOAT32, DType.INT8
Change = Callable[[Layers], Any]


def network(zeros: float = 0.8, *, size: int = 17, head: tuple[int, int, int] = (3, 2, 3), inside: Change | None = None,
            tail: str = "MEAN") -> bytes:  # fmt: skip
    """A sparse network; head (kernel, stride, channels)."""
    net = Layers(F32, (1, size, size, head[2]))
    net.conv(16, head[0], head[1])
    net.conv(24, share_of_zeros=zeros)
    net.depthwise(3, 1)
    if inside is not None:
        inside(net)
    start = net.at
    net.conv(24, share_of_zeros=zeros, activation=FusedActivation.NONE)
    net.add(start)
    if tail == "MEAN":
        net.mean()
    elif tail == "DEPTH_TO_SPACE":
        shape = (1, net.shape[1] * 2, net.shape[2] * 2, net.shape[3] // 4)
        net._add("DEPTH_TO_SPACE", [net.at], shape, at.DepthToSpaceOptions(2))
    return net.build()


def sparse_count(content: bytes) -> int:
    """How many 1x1 convolutions run over non-zero weights, all of them stored sparse; checks the result against the reference.

    The reference runs the file with dense weights.
    """
    delegate = XnnpackDelegate(options())
    interpreter = CpuInterpreter(model=with_densify(content), experimental_delegates=[delegate])
    assert delegate.refusal_table() == {}
    inputs = random_inputs(content, 0)
    assert steps_apart(run(interpreter, inputs)[0], run_reference(content, inputs)[0]) <= 32
    return sum(isinstance(operation, SparseConvolution) for p in delegate.partitions for operation in p.operations)


@pytest.mark.seed("X-S-1", "X-S-3", "X-S-5", "X-S-7", "X-S-12")
def test_a_sparse_network_skips_zero_weights() -> None:
    assert sparse_count(network()) == 2


@pytest.mark.seed("X-S-6")
@pytest.mark.parametrize(("zeros", "count"), [(0.75, 2), (0.5, 0), (0.0, 0)])
def test_below_two_thirds_of_zeros_weights_stay_dense(zeros: float, count: int) -> None:
    assert sparse_count(network(zeros)) == count


@pytest.mark.seed("X-S-4")
@pytest.mark.parametrize(("tail", "count"), [("MEAN", 2), ("DEPTH_TO_SPACE", 2), ("none", 0)])
def test_a_sparse_network_ends_in_a_mean_or_depth_to_space(tail: str, count: int) -> None:
    assert sparse_count(network(tail=tail)) == count


@pytest.mark.seed("X-S-3")
@pytest.mark.parametrize("head", [(3, 1, 3), (5, 2, 3), (3, 2, 4)])
def test_another_first_operator_makes_the_network_dense(head: tuple[int, int, int]) -> None:
    assert sparse_count(network(head=head)) == 0


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(lambda net: net.depthwise(3, 2), marks=pytest.mark.seed("X-S-8"), id="depthwise 3x3 stride 2"),
        pytest.param(lambda net: net.depthwise(5, 1), marks=pytest.mark.seed("X-S-9"), id="depthwise 5x5 stride 1"),
        pytest.param(lambda net: net.depthwise(5, 2), marks=pytest.mark.seed("X-S-10"), id="depthwise 5x5 stride 2"),
        pytest.param(lambda net: net.unary("ABS"), marks=pytest.mark.seed("X-S-13"), id="unary"),
        pytest.param(lambda net: _resize(net, 5), marks=pytest.mark.seed("X-S-11"), id="resize"),
    ],
)
def test_operators_inside_a_sparse_network(inside: Change) -> None:
    assert sparse_count(network(inside=inside)) == 2


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(lambda net: net.depthwise(7, 1), marks=pytest.mark.seed("X-S-9"), id="depthwise 7x7"),
        pytest.param(lambda net: net.conv(24, 3), marks=pytest.mark.seed("X-S-5"), id="inner 3x3"),
        pytest.param(lambda net: net.unary("SQRT"), marks=pytest.mark.seed("X-S-13"), id="unary"),
        pytest.param(lambda net: _resize(net, 1), marks=pytest.mark.seed("X-S-11"), id="resize to one"),
    ],
)
def test_other_operators_inside_make_the_network_dense(inside: Change) -> None:
    delegate = XnnpackDelegate(options())
    CpuInterpreter(model=with_densify(network(inside=inside)), experimental_delegates=[delegate])
    assert not any(partition.sparse for partition in delegate.partitions)


@pytest.mark.seed("X-S-2")
def test_weights_that_are_stored_dense_stay_dense_whatever_they_are() -> None:
    content = network()
    interpreter, delegate = delegated(content)
    inputs = random_inputs(content, 0)
    assert steps_apart(run(interpreter, inputs)[0], run_reference(content, inputs)[0]) <= 64
    assert not any(partition.sparse for partition in delegate.partitions)


def _resize(net: Layers, size: int) -> None:
    shape = net.builder.constant(np.array([size, size], np.int32))
    net._add("RESIZE_BILINEAR", [net.at, shape], (1, size, size, net.shape[3]), at.ResizeBilinearOptions())


def with_densify(content: bytes) -> Model:
    """Weights of the 1x1 convolutions stored sparse, each unpacked by a DENSIFY operator."""
    graph = read_model(content).graphs[0]
    tensors, ops = list(graph.tensors), []
    for op in graph.ops:
        weights = tensors[op.inputs[1]] if op.kind == "CONV_2D" else None
        if weights is not None and weights.data is not None and weights.shape[1:3] == (1, 1):
            matrix = weights.data.reshape(weights.shape[0], -1)
            rows, columns = np.nonzero(matrix)
            segments = np.searchsorted(rows, np.arange(matrix.shape[0] + 1))
            dense = [DimensionMetadata(DimensionType.DENSE, size) for size in (matrix.shape[0], 1, 1)]
            last = DimensionMetadata(DimensionType.SPARSE_CSR, 0, _vector(segments), _vector(columns))
            sparsity = SparsityParameters((0, 1, 2, 3), None, (*dense, last))
            stored = replace(weights, data=matrix[rows, columns], extra={**weights.extra, "sparsity": sparsity})
            tensors.append(stored)
            tensors[op.inputs[1]] = replace(weights, data=None)
            ops.append(Op("DENSIFY", (len(tensors) - 1,), (op.inputs[1],), at.DensifyOptions()))
        ops.append(op)
    return replace(read_model(content), graphs=(replace(graph, tensors=tuple(tensors), ops=tuple(ops)),))


def _vector(values: Any) -> Int32Vector:
    return Int32Vector(tuple(int(value) for value in values))


@pytest.mark.seed("X-S-2")
@pytest.mark.parametrize("moved", ["first", "before readers"])
def test_weights_stored_sparse_are_unpacked_wherever_their_operators_stand(moved: str) -> None:
    content = network(0.8)
    model = with_densify(content)
    graph = model.graphs[0]
    unpacking = tuple(op for op in graph.ops if op.kind == "DENSIFY")
    assert len(unpacking) == 2
    if moved == "first":
        model = replace(model, graphs=(replace(graph, ops=unpacking + tuple(op for op in graph.ops if op.kind != "DENSIFY")),))
    delegate = XnnpackDelegate(options())
    interpreter = CpuInterpreter(model=model, experimental_delegates=[delegate])
    inputs = random_inputs(content, 0)
    assert steps_apart(run(interpreter, inputs)[0], run_reference(content, inputs)[0]) <= 32
    operations = [operation for partition in delegate.partitions for operation in partition.operations]
    assert sum(isinstance(operation, SparseConvolution) for operation in operations) == 2


# Indirection buffers


def with_resize() -> bytes:
    net = Layers(F32, (1, 12, 12, 16))
    net.conv(16, 3)
    net.depthwise(3, 1)
    _resize(net, 9)
    return net.build()


@pytest.mark.seed("X-I-1", "X-I-3")
def test_indirection_buffers_are_kept_per_operator_by_default() -> None:
    interpreter, delegate = delegated(with_resize())
    run(interpreter, random_inputs(with_resize(), 0))
    memory = delegate.memory()
    # Eight bytes per address: 9 taps a pixel for CONV_2D, 3 a column of 12 rows of windows, 4 corners of a resized pixel.
    assert memory.indirection_bytes == 8 * (144 * 9 + 12 * 14 * 3 + 81 * 4)
    assert memory.persistent_indirection_bytes == memory.indirection_bytes
    assert delegate.workspace_bytes == 0


@pytest.mark.seed("X-I-2", "X-I-4")
@pytest.mark.parametrize("content", [with_resize(), mobile_network(), mobile_network(INT8)], ids=["resize", "float", "int8"])
def test_transient_indirection_buffers_share_a_workspace_and_change_no_result(content: bytes) -> None:
    inputs = random_inputs(content, 0)
    expected = run(delegated(content, qs8=True)[0], inputs)[0]
    interpreter, delegate = delegated(content, qs8=True, transient_indirection_buffer=True)
    for _ in range(2):
        np.testing.assert_array_equal(run(interpreter, inputs)[0], expected)
    memory = delegate.memory()
    assert memory.persistent_indirection_bytes == 0
    assert 0 < delegate.workspace_bytes < memory.indirection_bytes


# Tensors


def _in_turns() -> bytes:
    """NEG, ABS and SIN in turns on 4096 bytes, eight times; SIN is left to the interpreter."""
    b = ModelBuilder()
    tensor = b.input((1, 1024), F32)
    for kind in ("NEG", "ABS", "SIN") * 8:
        tensor = b.op(kind, [tensor], (1, 1024), F32)
    b.output(tensor)
    return b.build()


def test_what_partitions_read_and_write_lies_in_the_arena_of_the_interpreter() -> None:
    content = _in_turns()
    interpreter, delegate = delegated(content)
    inputs = random_inputs(content, 0)
    np.testing.assert_array_equal(run(interpreter, inputs)[0], run(CpuInterpreter(model_content=content), inputs)[0])
    assert len(delegate.partitions) == 8
    assert interpreter.arena_bytes() == 2 * 4096


def test_a_delegate_that_may_keep_addresses_has_tensors_of_its_own() -> None:
    content = _in_turns()
    dummy = DummyDelegate(replace(dummy_options(), allowed_builtins=("NEG", "ABS")))
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[dummy])
    interpreter.allocate_tensors()
    assert interpreter.arena_bytes() == 0


def test_partitions_share_the_memory_of_their_tensors() -> None:
    content = _in_turns()
    interpreter, delegate = delegated(content)
    run(interpreter, random_inputs(content, 0))
    assert [partition.memory().tensor_bytes for partition in delegate.partitions] == [4096] * 8
    assert delegate.memory().tensor_bytes == 4096


def test_partitions_that_share_memory_follow_a_resize() -> None:
    content = _in_turns()
    interpreter, _ = delegated(content)
    run(interpreter, random_inputs(content, 0))
    plain = CpuInterpreter(model_content=content)
    x = np.linspace(-3, 3, 4096, dtype=np.float32).reshape(4, 1024)
    for each in (interpreter, plain):
        each.resize_tensor_input(0, x.shape)
        each.allocate_tensors()
    np.testing.assert_array_equal(run(interpreter, [x])[0], run(plain, [x])[0])
