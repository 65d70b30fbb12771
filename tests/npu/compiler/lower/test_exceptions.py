"""The differences to the reference that docs/exactness.md lists, each pinned: what is different, and by how much."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.errors import CompileError
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import run_reference
from tests.support.lowering import lowered_outputs, reference_outputs
from tests.support.random_graphs import Sketch, cases, random_inputs


def litert(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return run_reference(write_model(Model((graph,))), inputs, fully_connected="litert")


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(5))


def test_fully_connected_differs_from_litert_by_one_step_at_most_and_by_one_somewhere() -> None:
    largest = 0
    for seed, case in enumerate(cases("FULLY_CONNECTED", 60, seed=3)):
        inputs = random_inputs(case.graph, seed)
        ours, theirs = lowered_outputs(case.graph, inputs), litert(case.graph, inputs)
        largest = max(largest, *(int(abs(a.astype(int) - b).max()) for a, b in zip(ours, theirs, strict=True)))
    assert largest == 1


def test_a_product_beyond_32_bits_saturates_where_litert_keeps_the_low_bits() -> None:
    s = sketch()
    x = s.input((1, 1, 256, 16), 1.0, 0)
    weights = s.add((1, 1, 1, 16), 1.0, 0, np.full((1, 1, 1, 16), 127, np.int8))
    bias = s.bias(x, weights, 1, 0)
    y = s.op("CONV_2D", [x, weights, bias], [s.tensor((1, 1, 256, 1), 2.0**-14, 0)], at.Conv2DOptions(Padding.SAME, 1, 1))
    graph = s.graph([y])
    values = np.arange(-128, 128, dtype=np.int8)
    inputs = [np.repeat(values, 16).reshape(1, 1, 256, 16)]
    sums = 16 * 127 * values.astype(np.int64)
    (ours,), (theirs,) = lowered_outputs(graph, inputs), litert(graph, inputs)
    assert ours.reshape(-1).tolist() == np.clip(sums << 14, -128, 127).tolist()
    # The multiplier is 0.5 * 2**15.
    assert theirs.reshape(-1).tolist() == np.clip((sums << 15).astype(np.int32) >> 1, -128, 127).tolist()


def test_samples_of_a_float_function_are_rounded_once_where_the_c_library_may_be_off() -> None:
    """A network in which one line of the table begins a step lower with the library of glibc 2.36."""
    b, values = ModelBuilder(), np.arange(-32768, 32768, dtype=np.int16).reshape(1, 256, 256)
    x = b.input(values.shape, DType.INT16, scale=6.4903725e-05)
    b.output(b.op("GELU", [x], values.shape, DType.INT16, 2.6413743e-05, attributes=at.GeluOptions(approximate=True)))
    (ours,), (theirs,) = npu.run(b.build(), [values]).outputs, run_reference(b.build(), [values])
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert np.count_nonzero(ours != theirs) <= 2 * 128


@pytest.mark.parametrize(("half_pixels", "size"), [(False, 55), (True, 1537)])
def test_a_resize_of_one_element_is_that_element_where_litert_reads_behind_it(half_pixels: bool, size: int) -> None:
    s = sketch()
    x = s.input((1, 1, 1, 2), 1.0, 0)
    options = at.ResizeBilinearOptions(False, half_pixels)
    made = [(size - 1, 1), (size, 1), (1, size)]
    outputs = [s.op("RESIZE_BILINEAR", [x, s.numbers(n)], [s.tensor((1, *n, 2), 1.0, 0)], options) for n in made]
    graph = s.graph(outputs)
    inputs = [np.array([55, -77], np.int8).reshape(1, 1, 1, 2)]
    ours, theirs = lowered_outputs(graph, inputs), litert(graph, inputs)
    assert all((output.reshape(-1, 2) == (55, -77)).all() for output in ours)
    assert np.array_equal(ours[0], theirs[0])
    # The last position but one of the larger ones is still inside.
    assert all(np.array_equal(a.reshape(-1, 2)[:-1], b.reshape(-1, 2)[:-1]) for a, b in zip(ours, theirs, strict=True))


def test_a_fused_tanh_is_applied_though_litert_ignores_it() -> None:
    s = sketch()
    x = s.input((1, 1, 1, 256), 1 / 64, 0)
    zero = s.add((1,), 1 / 64, 0, np.zeros(1, np.int8))
    plain = s.op("ADD", [x, zero], [s.tensor((1, 1, 1, 256), 1 / 64, 0)], at.AddOptions())
    fused = s.op("ADD", [x, zero], [s.tensor((1, 1, 1, 256), 1 / 64, 0)], at.AddOptions(FusedActivation.TANH))
    graph = s.graph([plain, fused])
    inputs = [np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 1, 256)]
    theirs, ours = litert(graph, inputs), lowered_outputs(graph, inputs)
    assert np.array_equal(theirs[0], theirs[1])
    wanted = np.round(np.tanh(np.arange(-128, 128) / 64) * 64).astype(np.int8)
    assert np.array_equal(ours[0], theirs[0])
    assert np.array_equal(ours[1].reshape(-1), wanted)


def test_a_softmax_of_a_long_flat_row_is_right_where_the_reference_aborts() -> None:
    s = sketch()
    x = s.input((1, 1000), 0.1, 0)
    y = s.op("SOFTMAX", [x], [s.tensor((1, 1000), 1 / 256, -128)], at.SoftmaxOptions(1.0))
    values = np.full((1, 1000), -90, np.int8)
    values[0, 3] = 20
    (peak,) = lowered_outputs(s.graph([y]), [values])
    assert peak[0, 3] == 127 - 3  # exp(-11) * 999 = 0.0167 takes four of the 256 steps
    (flat,) = lowered_outputs(s.graph([y]), [np.full((1, 1000), 5, np.int8)])
    assert np.array_equal(np.unique(flat), [-128])  # 0.256 steps each


def test_a_softmax_of_a_tiny_scale_shares_equally_where_the_reference_aborts() -> None:
    s = sketch()
    x = s.input((1, 4), 1e-9, 0)
    y = s.op("SOFTMAX", [x], [s.tensor((1, 4), 1 / 256, -128)], at.SoftmaxOptions(1.0))
    (found,) = lowered_outputs(s.graph([y]), [np.array([[-128, 0, 5, 127]], np.int8)])
    assert np.array_equal(found, [[-64, -64, -64, -64]])


@pytest.mark.parametrize("kind", ["CONCATENATION", "PACK"])
def test_joined_inputs_of_other_quantization_are_refused_as_litert_refuses_them(kind: str) -> None:
    s = sketch()
    a, b = s.input((1, 1, 256), 0.5, 0), s.input((1, 1, 256), 0.25, 10)
    options = at.ConcatenationOptions(0) if kind == "CONCATENATION" else at.PackOptions(2, 0)
    shape = (2, 1, 256) if kind == "CONCATENATION" else (2, 1, 1, 256)
    graph = s.graph([s.op(kind, [a, b], [s.tensor(shape, 0.5, 0)], options)])
    values = np.zeros((1, 1, 256), np.int8)
    with pytest.raises(RuntimeError):
        litert(graph, [values, values])
    with pytest.raises(CompileError, match=r"scale 0\.5 and zero point 0 of 't2', got 0\.25 and 10"):
        lowered_outputs(graph, [values, values])


def test_a_concatenation_with_an_activation_applies_it_where_litert_refuses() -> None:
    s = sketch()
    a, b = s.input((1, 1, 256), 0.5, 3), s.input((1, 1, 256), 0.5, 3)
    y = s.op("CONCATENATION", [a, b], [s.tensor((2, 1, 256), 0.5, 3)], at.ConcatenationOptions(0, FusedActivation.RELU6))
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256)
    with pytest.raises(RuntimeError):
        litert(s.graph([y]), [values, values])
    (found,) = lowered_outputs(s.graph([y]), [values, values])
    assert np.array_equal(found.reshape(2, 256), [np.clip(values.reshape(-1), 3, 3 + 12)] * 2)


def test_a_convolution_without_bias_has_a_bias_of_zero_where_litert_refuses() -> None:
    s = sketch()
    x = s.input((1, 4, 4, 3), 0.05, 2)
    w = s.weights((4, 1, 1, 3), 0, per_channel=True)
    bias = s.bias(x, w, 4, 0)
    options = at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    with_bias = s.op("CONV_2D", [x, w, bias], [s.tensor((1, 4, 4, 4), 0.3, 1)], options)
    without = s.op("CONV_2D", [x, w, -1], [s.tensor((1, 4, 4, 4), 0.3, 1)], options)
    inputs = random_inputs(s.graph([with_bias]), 1)
    with pytest.raises(RuntimeError):
        litert(s.graph([without]), inputs)
    first, second = lowered_outputs(s.graph([with_bias, without]), inputs)
    assert np.array_equal(first, second)


def test_a_logistic_to_another_scale_has_a_table_where_litert_refuses() -> None:
    s = sketch()
    x = s.input((1, 256), 1 / 32, 0)
    y = s.op("LOGISTIC", [x], [s.tensor((1, 256), 1 / 128, 0)])
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    with pytest.raises(RuntimeError):
        reference_outputs(s.graph([y]), [values])
    (found,) = lowered_outputs(s.graph([y]), [values])
    wanted = np.minimum(np.floor(128 / (1 + np.exp(-np.arange(-128, 128) / 32)) + 0.5), 127)
    assert np.array_equal(found.reshape(-1), wanted)
