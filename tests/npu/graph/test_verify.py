"""Each rule of a valid graph, broken once. Rules that a file can break are also tested through the reader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from npu.errors import ModelError
from npu.graph.attributes import CallOptions, IfOptions
from npu.graph.attributes_2 import StablehloCaseOptions
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Quantization, Signature, Tensor
from npu.graph.verify import called_graphs, verify, verify_model

WEIGHTS = Tensor("weights", (2, 3), DType.INT8, data=np.zeros((2, 3), np.int8))
SOUND = Graph(
    "main",
    (Tensor("x", (1, 3), DType.INT8), WEIGHTS, Tensor("y", (1, 2), DType.INT8), Tensor("scratch", (9,), DType.UINT8)),
    (Op("FULLY_CONNECTED", (0, 1, ABSENT), (2,)),),
    (0,),
    (2,),
)


def with_tensor(index: int, **changes: object) -> Graph:
    tensors = list(SOUND.tensors)
    tensors[index] = replace(tensors[index], **changes)  # type: ignore[arg-type]
    return replace(SOUND, tensors=tuple(tensors))


def with_op(**changes: object) -> Graph:
    return replace(SOUND, ops=(replace(SOUND.ops[0], **changes),))  # type: ignore[arg-type]


def quantized(scales: list[float], zero_points: list[int], axis: int = 0) -> Quantization:
    return Quantization(np.array(scales, np.float32), np.array(zero_points, np.int64), axis)


def test_a_sound_graph_passes() -> None:
    verify(SOUND)


def test_custom_operators_may_read_a_scratch_tensor_that_nothing_writes() -> None:
    verify(with_op(kind="CUSTOM", custom_code="mine", inputs=(0, 1, 3)))


def test_a_tensor_without_elements_needs_nobody_who_writes_it() -> None:
    verify(replace(with_tensor(3, shape=(0,)), ops=(Op("FULLY_CONNECTED", (0, 1, 3), (2,)),)))


def test_reading_a_variable_before_a_later_operator_writes_it_is_allowed() -> None:
    graph = with_tensor(3, is_variable=True)
    verify(replace(graph, ops=(Op("ADD", (0, 3), (2,)), Op("ADD", (0, 0), (3,)))))


def test_an_output_may_be_an_input() -> None:
    verify(replace(SOUND, outputs=(2, 0, 2)))


BROKEN: dict[str, tuple[Callable[[], Graph], str]] = {
    "read_of_nothing": (
        lambda: with_op(inputs=(0, 1, 3)),
        "must read what the file or an operator gives, got tensor 3 without data",
    ),
    "negative_dimension": (
        lambda: with_tensor(0, shape=(-1, 3)),
        r"tensor 0 'x': dimensions must be in \[0, 2147483647\], got",
    ),
    "huge_dimension": (lambda: with_tensor(0, shape=(2**31, 0)), r"dimensions must be in \[0, 2147483647\], got"),
    "too_large": (lambda: with_tensor(0, shape=(2**30,) * 9), "must have at most 68719476736 bytes"),
    "too_large_but_empty": (lambda: with_tensor(0, shape=(2**30, 2**30, 2**30, 0)), "must have at most 68719476736 bytes"),
    "too_many_dimensions": (lambda: with_tensor(0, shape=(1,) * 65), "must have at most 64 dimensions, got 65"),
    "signature": (lambda: with_tensor(0, shape_signature=(-7,)), "shape signature must hold sizes or -1"),
    "signature_rank": (lambda: with_tensor(0, shape_signature=(-1,)), "shape signature must have 2 dimensions, got 1"),
    "data_shape": (
        lambda: with_tensor(1, data=np.zeros((3, 2), np.int8)),
        r"data must have shape \[2, 3\], got \[3, 2\]",
    ),
    "data_size": (lambda: with_tensor(1, data=np.zeros((2, 4), np.int8)), "must have 6 bytes, got 8"),
    "data_type": (lambda: with_tensor(1, data=np.zeros((2, 3), np.uint8)), "data must be int8, got uint8"),
    "packed_data_type": (
        lambda: with_tensor(1, dtype=DType.INT4, data=np.zeros(3, np.int8)),
        "data must be bytes, got int8",
    ),
    "variable_constant": (lambda: with_tensor(1, is_variable=True), "a variable tensor must not have constant data"),
    "no_scales": (lambda: with_tensor(0, quantization=quantized([], [])), "must have one zero point per scale, got 0 for 0"),
    "scale_value": (lambda: with_tensor(0, quantization=quantized([-1], [0])), "scales must be finite and not negative"),
    "zero_point": (lambda: with_tensor(0, quantization=quantized([1], [128])), r"must be in \[-128, 127\], got \[128\]"),
    "axis": (lambda: with_tensor(1, quantization=quantized([1, 1], [0, 0], 2)), r"must be in \[0, 2\), got 2"),
    "channels": (
        lambda: with_tensor(1, quantization=quantized([1, 1], [0, 0], 1)),
        r"must have one scale or 3 \(dimension 1\), got 2",
    ),
    "graph_input": (lambda: replace(SOUND, inputs=(4,)), r"inputs must be tensors in \[0, 4\), got 4"),
    "graph_output": (lambda: replace(SOUND, outputs=(-1,)), r"outputs must be tensors in \[0, 4\), got -1"),
    "equal_inputs": (lambda: replace(SOUND, inputs=(0, 0)), "inputs must be different tensors"),
    "op_input": (lambda: with_op(inputs=(4,)), r"FULLY_CONNECTED \(op 0\): inputs must be tensors in \[-1, 4\), got 4"),
    "op_output": (lambda: with_op(outputs=(ABSENT,)), r"outputs must be tensors in \[0, 4\), got -1"),
    "intermediate": (lambda: with_op(intermediates=(9,)), r"intermediates must be tensors in \[-1, 4\), got 9"),
    "kind": (lambda: with_op(kind="CONV2D"), "kind must be a TFLite operator, got 'CONV2D'"),
    "custom_code": (lambda: with_op(custom_code="x"), "a custom code must stand with kind CUSTOM"),
    "no_custom_code": (lambda: with_op(kind="CUSTOM"), "a custom code must stand with kind CUSTOM"),
    "cycle": (lambda: with_op(inputs=(2,)), "must read what an earlier operator writes, got tensor 2 of op 0"),
    "variable_cycle": (
        lambda: replace(with_tensor(2, is_variable=True), ops=with_op(inputs=(2, 1, 1)).ops),
        "must read what an earlier operator writes, got tensor 2 of op 0",
    ),
    "two_writers": (lambda: replace(SOUND, ops=SOUND.ops * 2), "must not write tensor 2, op 0 does"),
    "written_input": (lambda: with_op(outputs=(0,)), "must not write tensor 0, an input or constant"),
    "written_constant": (lambda: with_op(outputs=(1,)), "must not write tensor 1, an input or constant"),
    "no_writer": (lambda: replace(SOUND, ops=()), "output tensor 2 must be written by an operator"),
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_a_broken_graph_is_refused_with_the_reason(case: str) -> None:
    make, message = BROKEN[case]
    with pytest.raises(ModelError, match=message):
        verify(make())


def test_messages_start_with_where_and_the_graph() -> None:
    with pytest.raises(ModelError, match=r"^after fuse_pad: graph 'main': output tensor 2 must be"):
        verify(replace(SOUND, ops=()), "after fuse_pad")


CALLERS = {
    "if": (Op("IF", (0,), (2,), IfOptions(1, 2)), (1, 2)),
    "call": (Op("CALL", (0,), (2,), CallOptions(1)), (1,)),
    "case": (Op("STABLEHLO_CASE", (0,), (2,), StablehloCaseOptions((1, 2))), (1, 2)),
    "other": (Op("ADD", (0, 0), (2,)), ()),
}


@pytest.mark.parametrize("case", list(CALLERS))
def test_the_subgraphs_that_an_operator_calls_are_found(case: str) -> None:
    op, expected = CALLERS[case]
    assert called_graphs(op) == expected


def calling(*callees: int) -> Graph:
    """A graph whose operators call the given subgraphs."""
    tensors = (SOUND.tensors[0], *(Tensor(f"y{index}", (1,), DType.INT8) for index in range(len(callees))))
    ops = tuple(Op("CALL", (0,), (index + 1,), CallOptions(callee)) for index, callee in enumerate(callees))
    return Graph("caller", tensors, ops, (0,), ())


def test_subgraphs_may_call_further_ones() -> None:
    verify_model(Model((calling(1, 2), calling(2, 2), SOUND)))


WRONG_MODELS: dict[str, tuple[Model, str]] = {
    "no_graph": (Model(()), "a model must have a subgraph"),
    "unknown_callee": (Model((calling(1),)), r"must call subgraphs in \[0, 1\), got 1"),
    "recursion": (Model((calling(1), calling(2), calling(1))), r"got a cycle through \[0, 1, 2\]"),
    "signature_graph": (Model((SOUND,), (Signature("s", 2, {}, {}),)), r"subgraph must be in \[0, 1\), got 2"),
    "signature_tensor": (
        Model((SOUND,), (Signature("s", 0, {}, {"a": 9}),)),
        r"output 'a' must be a tensor in \[0, \d\), got 9",
    ),
}


@pytest.mark.parametrize("case", list(WRONG_MODELS))
def test_a_broken_model_is_refused_with_the_reason(case: str) -> None:
    model, message = WRONG_MODELS[case]
    with pytest.raises(ModelError, match=message):
        verify_model(model)
