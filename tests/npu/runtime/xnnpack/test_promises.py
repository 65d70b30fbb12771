"""Single promises of the delegate that other tests take for granted, with names and values written out."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import HalfPrecision
from npu.runtime.xnnpack.reduced_precision import with_reduced_precision
from npu.runtime.xnnpack.sparse import SparseConvolution
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.npu.runtime.xnnpack.test_sparse_and_memory import network, with_densify
from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import random_inputs
from tests.support.xnnpack import delegated, mobile_network, options

F32 = DType.FLOAT32
PAGE = (Path(__file__).parents[4] / "docs" / "xnnpack-delegate.md").read_text(encoding="utf-8")


def product() -> bytes:
    b = ModelBuilder()
    x, y = b.input((64,), F32), b.input((64,), F32)
    b.output(b.op("MUL", [x, y], (64,), F32, attributes=at.MulOptions()))
    return b.build()


def operations(content: bytes, **changes: object) -> list[str]:
    """The operations of the only partition."""
    interpreter, delegate = delegated(content, **changes)
    names = [operation.name for operation in delegate.partitions[0].operations]
    interpreter.close()
    return names


@pytest.mark.seed("X-E-11")
def test_the_number_of_threads_cannot_be_changed_after_the_delegate_is_made() -> None:
    interpreter, delegate = delegated(product(), num_threads=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        delegate.options.num_threads = 4  # type: ignore[misc]
    assert not hasattr(interpreter, "set_num_threads")


# Half precision


@pytest.mark.seed("X-H-5", "X-H-2")
def test_the_metadata_has_the_converter_s_name_and_text() -> None:
    model = read_model(product())
    literal = replace(model, metadata={**model.metadata, "reduced_precision_support": b"fp16accfp16"})
    assert "CONVERT_TO_FP16" in operations(write_model(literal), half_precision=HalfPrecision.NATIVE)
    assert with_reduced_precision(model).metadata["reduced_precision_support"] == b"fp16accfp16"


@pytest.mark.seed("X-H-3")
def test_conversions_stand_at_the_inputs_and_outputs_of_a_chain_only() -> None:
    b = ModelBuilder()
    x = b.input((8,), F32)
    y = b.op("ABS", [x], (8,), F32)
    z = b.op("NEG", [y], (8,), F32)
    b.output(z)
    content = write_model(with_reduced_precision(read_model(b.build())))
    assert operations(content, half_precision=HalfPrecision.NATIVE) == ["CONVERT_TO_FP16", "ABS", "NEG", "CONVERT_TO_FP32"]
    interpreter, _ = delegated(content, half_precision=HalfPrecision.NATIVE)
    assert [detail["dtype"] for detail in (*interpreter.get_input_details(), *interpreter.get_output_details())] == [
        np.float32
    ] * 2
    values = np.array([1.0, 1.0002, 1.0005, -2049, 65504, 65519, 1e-8, 0], np.float32)
    expected = np.array([-1, -1, -1.0009765625, -2048, -65504, -65504, 0, 0], np.float32)
    np.testing.assert_array_equal(run(interpreter, [values])[0], expected)


@pytest.mark.seed("X-H-6")
@pytest.mark.parametrize("text", [None, b"fp16accfp32", b"bf16accfp32"])
def test_forced_half_precision_does_not_look_at_the_metadata(text: bytes | None) -> None:
    model = read_model(product())
    if text is not None:
        model = replace(model, metadata={**model.metadata, "reduced_precision_support": text})
    for cpu in (HalfPrecision.EMULATED, HalfPrecision.NATIVE):
        assert "CONVERT_TO_FP16" in operations(write_model(model), force_fp16=True, half_precision=cpu)


@pytest.mark.seed("X-H-1", "X-S-2")
def test_a_network_of_sparse_weights_runs_in_half_precision_too() -> None:
    content = network()
    model = with_densify(content)
    inputs = random_inputs(content, 0)
    results = []
    for forced in (False, True):
        delegate = XnnpackDelegate(options(force_fp16=forced))
        interpreter = CpuInterpreter(model=model, experimental_delegates=[delegate])
        assert delegate.refusal_table() == {}
        results.append(run(interpreter, inputs)[0])
    half, dense = results[1], run(delegated(content, force_fp16=True)[0], inputs)[0]
    np.testing.assert_array_equal(half, dense)
    np.testing.assert_array_equal(half, half.astype(np.float16).astype(np.float32))
    assert 0 < np.abs(half - results[0]).max() < 0.05


@pytest.mark.seed("X-S-1")
def test_only_the_1x1_convolutions_of_a_sparse_network_skip_zeros() -> None:
    delegate = XnnpackDelegate(options())
    interpreter = CpuInterpreter(model=with_densify(network()), experimental_delegates=[delegate])
    (partition,) = delegate.partitions
    sparse = [operation.node for operation in partition.operations if isinstance(operation, SparseConvolution)]
    assert [node.input(1).shape for node in sparse] == [(24, 1, 1, 16), (24, 1, 1, 24)]
    interpreter.close()


# Transient indirection buffers


def one_window(kind: str) -> bytes:
    """One operator that reads through an indirection buffer."""
    b = ModelBuilder()
    x = b.input((1, 12, 12, 16), F32)
    bias = b.constant(np.zeros(16, np.float32))
    if kind == "CONV_2D":
        weights = b.constant(np.ones((16, 3, 3, 16), np.float32))
        made: at.Attributes = at.Conv2DOptions(Padding.SAME, 1, 1)
        b.output(b.op(kind, [x, weights, bias], (1, 12, 12, 16), F32, attributes=made))
    elif kind == "DEPTHWISE_CONV_2D":
        weights = b.constant(np.ones((1, 3, 3, 16), np.float32))
        made = at.DepthwiseConv2DOptions(Padding.SAME, 1, 1, 1)
        b.output(b.op(kind, [x, weights, bias], (1, 12, 12, 16), F32, attributes=made))
    else:
        size = b.constant(np.array([9, 9], np.int32))
        b.output(b.op(kind, [x, size], (1, 9, 9, 16), F32, attributes=at.ResizeBilinearOptions()))
    return b.build()


ENTRIES = {"CONV_2D": 144 * 9, "DEPTHWISE_CONV_2D": 12 * 14 * 3, "RESIZE_BILINEAR": 81 * 4}


@pytest.mark.seed("X-I-1", "X-I-2", "X-I-3")
@pytest.mark.parametrize("kind", ENTRIES)
def test_each_kind_with_an_indirection_buffer_can_have_it_persistent_or_transient(kind: str) -> None:
    content = one_window(kind)
    inputs = random_inputs(content, 1)
    results = []
    for transient in (False, True):
        interpreter, delegate = delegated(content, transient_indirection_buffer=transient)
        results.append(run(interpreter, inputs)[0])
        memory = delegate.memory()
        assert memory.indirection_bytes == 8 * ENTRIES[kind]
        assert memory.persistent_indirection_bytes == (0 if transient else 8 * ENTRIES[kind])
        assert delegate.workspace_bytes == (8 * ENTRIES[kind] if transient else 0)
    np.testing.assert_array_equal(results[0], results[1])


@pytest.mark.seed("X-I-4")
def test_the_workspace_is_as_large_as_the_largest_buffer_and_the_rest_is_saved() -> None:
    content = mobile_network()
    inputs = random_inputs(content, 0)
    kept, transient = (delegated(content, transient_indirection_buffer=on) for on in (False, True))
    for interpreter, _ in (kept, transient):
        run(interpreter, inputs)
    assert kept[1].memory().persistent_indirection_bytes == transient[1].memory().indirection_bytes
    assert transient[1].workspace_bytes < kept[1].memory().persistent_indirection_bytes


# What is only to be explained


@pytest.mark.parametrize(
    ("identifier", "sentence"),
    [
        pytest.param(name, text, marks=pytest.mark.seed(name))
        for name, text in {
            "X-Q0-2": "the signed scheme that post-training integer quantization and quantization-aware training give",
            "X-Q0-3": "(dynamic-range quantization) are never taken",
            "X-Q0-4": "experimental and slower on processors with dot-product instructions",
            "X-W-10": "The cache lives in memory only",
            "X-R-2": "keep resource variables in the delegate, where nothing else can read them",
        }.items()
    ],
)
def test_the_page_of_the_delegate_says_it(identifier: str, sentence: str) -> None:
    assert sentence in PAGE.replace("\n", " ")
