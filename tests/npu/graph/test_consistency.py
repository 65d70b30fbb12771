"""What a file declares against what TFLite's kernels compute; LiteRT is the judge of what runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph import attributes as at
from npu.graph.consistency import Inconsistency, inconsistencies, inconsistency
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder

Build = Callable[[ModelBuilder], None]
MAP = (1, 4, 4, 2)
POOL = at.Pool2DOptions(at.Padding.VALID, 2, 2, 2, 2)


def one(
    kind: str, inputs: Sequence[Any], outputs: Sequence[Sequence[int]], options: at.Attributes | None = None, scale: float = 0.1
) -> bytes:
    """A model of one int8 operator: tuples are maps of scale 0.1, lists are constants; `scale` is that of the outputs."""
    b = ModelBuilder()
    given = [b.input(x, DType.INT8, scale=0.1) if isinstance(x, tuple) else b.constant(np.array(x, np.int32)) for x in inputs]
    made = [b.tensor(shape, DType.INT8, scale=scale) for shape in outputs]
    b.multi_op(kind, given, made, attributes=options)
    b.output(*made)
    return b.build()


def is_run_by_litert(model: bytes) -> bool:
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    try:
        interpreter.allocate_tensors()
        interpreter.invoke()
    except (RuntimeError, ValueError):
        return False
    return True


CONSISTENT = {
    "reshape": one("RESHAPE", [MAP, [32]], [(32,)]),
    "pool": one("MAX_POOL_2D", [MAP], [(1, 2, 2, 2)], POOL),
    "mean": one("MEAN", [MAP, [1, 2]], [(1, 2)], at.ReducerOptions()),
    "split": one("SPLIT", [[3], MAP], [(1, 4, 4, 1)] * 2, at.SplitOptions(2)),
    "unequal scales of a slice": one("SLICE", [MAP, [0] * 4, [1, 2, 2, 2]], [(1, 2, 2, 2)], scale=0.2),
    "unequal scales of a transpose": one("TRANSPOSE", [MAP, [0, 2, 1, 3]], [MAP], scale=0.2),
}
"""Models without a finding."""

DECLARED_OTHERWISE = {
    "reshape operand": (one("RESHAPE", [MAP, [16, 2]], [(32,)]), "output 't2' must have shape [16, 2], got [32]"),
    "kept dimensions": (one("MEAN", [MAP, [1, 2]], [(1, 1, 1, 2)], at.ReducerOptions()), "shape [1, 2], got [1, 1, 1, 2]"),
    "lost dimensions": (one("MEAN", [MAP, [1, 2]], [(1, 2)], at.ReducerOptions(True)), "shape [1, 1, 1, 2], got [1, 2]"),
    "slice": (
        one("STRIDED_SLICE", [MAP, [0] * 4, [1, 2, 2, 2], [1] * 4], [(1, 2, 4, 2)], at.StridedSliceOptions()),
        "shape [1, 2, 2, 2], got [1, 2, 4, 2]",
    ),
    "padding": (one("PAD", [MAP, [[0, 0], [1, 1], [1, 1], [0, 0]]], [(1, 4, 4, 2)]), "shape [1, 6, 6, 2], got [1, 4, 4, 2]"),
    "wide stride": (
        one("MAX_POOL_2D", [MAP], [(1, 1, 1, 2)], replace(POOL, stride_w=1, stride_h=1)),
        "shape [1, 3, 3, 2], got [1, 1, 1, 2]",
    ),
    "join": (
        one("CONCATENATION", [MAP, MAP], [(1, 4, 4, 3)], at.ConcatenationOptions(3)),
        "shape [1, 4, 4, 4], got [1, 4, 4, 3]",
    ),
    "operands of a sum": (one("ADD", [MAP, MAP], [(1, 4, 4, 1)], at.AddOptions()), "shape [1, 4, 4, 2], got [1, 4, 4, 1]"),
    "pack": (one("PACK", [(4,), (4,)], [(8,)], at.PackOptions(2, 0)), "shape [2, 4], got [8]"),
    "squeeze": (one("SQUEEZE", [MAP], [(32,)], at.SqueezeOptions((0,))), "shape [4, 4, 2], got [32]"),
}
"""Models that LiteRT runs with other shapes than they declare."""

IMPOSSIBLE = {
    "new shape of other size": (one("RESHAPE", [MAP, [31]], [(31,)]), "new shape must hold 32 elements, got [31]"),
    "stride of 0": (one("MAX_POOL_2D", [MAP], [MAP], at.Pool2DOptions()), "kernel and stride must be positive"),
    "unequal scales of a join": (
        one("CONCATENATION", [MAP, MAP], [(1, 4, 4, 4)], at.ConcatenationOptions(3), scale=0.2),
        "'t0' must have the scale 0.2",
    ),
    "unequal scales of a pack": (
        one("PACK", [(4,), (4,)], [(2, 4)], at.PackOptions(2, 0), scale=0.2),
        "'t0' must have the scale 0.2",
    ),
    "unequal scales of an unpack": (
        one("UNPACK", [(2, 4)], [(4,), (4,)], at.UnpackOptions(2, 0), scale=0.2),
        "'t0' must have the scale 0.2",
    ),
    "unequal scales of an added axis": (one("EXPAND_DIMS", [(4,), [0]], [(1, 4)], scale=0.2), "'t0' must have the scale 0.2"),
    "pieces that are not there": (one("SPLIT", [[3], MAP], [(1, 4, 4, 1)] * 2, at.SplitOptions(3)), "num_splits must be"),
    "inputs that are not there": (one("PACK", [(4,), (4,)], [(2, 4)], at.PackOptions(3, 0)), "values_count must be"),
    "axis": (one("CONCATENATION", [MAP, MAP], [MAP], at.ConcatenationOptions(4)), "axis must be in [-4, 4), got 4"),
    "unequal maps of a join": (
        one("CONCATENATION", [MAP, (1, 4, 3, 2)], [MAP], at.ConcatenationOptions(3)),
        "inputs must agree in all dimensions but 3",
    ),
    "permutation": (one("TRANSPOSE", [MAP, [0, 1, 2, 4]], [MAP]), "axis must be in [-4, 4), got 4"),
    "sum": (one("ADD", [MAP, (1, 4, 3, 2)], [MAP], at.AddOptions()), "shapes must be broadcastable"),
    "box": (one("SLICE", [MAP, [0, 3, 0, 0], [1, 2, 4, 2]], [(1, 2, 4, 2)]), "slice must lie inside [1, 4, 4, 2]"),
    "squeezed extent": (one("SQUEEZE", [MAP], [(1, 4, 2)], at.SqueezeOptions((1,))), "squeezed dimensions must be 1"),
}
"""Models that LiteRT refuses."""


def graph_of(model: bytes) -> Graph:
    return read_model(model).graphs[0]


@pytest.mark.parametrize("case", CONSISTENT)
def test_a_model_that_agrees_with_itself_has_no_finding(case: str) -> None:
    assert is_run_by_litert(CONSISTENT[case])
    assert inconsistencies(graph_of(CONSISTENT[case])) == {}


@pytest.mark.parametrize("case", DECLARED_OTHERWISE)
def test_other_shapes_than_the_kernels_compute_are_found(case: str) -> None:
    model, message = DECLARED_OTHERWISE[case]
    assert is_run_by_litert(model)
    (found,) = inconsistencies(graph_of(model)).values()
    assert found.runs
    assert message in found.message


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_operands_that_no_kernel_takes_are_found(case: str) -> None:
    model, message = IMPOSSIBLE[case]
    assert not is_run_by_litert(model)
    (found,) = inconsistencies(graph_of(model)).values()
    assert not found.runs
    assert message in found.message


def chain(reshaped: Sequence[int], **tensor: Any) -> Graph:
    """A RESHAPE of 4 elements to a declared shape, then RELU of the same; `tensor` changes the operand of the RESHAPE."""
    b = ModelBuilder()
    x = b.input((4,), DType.INT8, scale=0.1)
    wanted = b.constant(np.array([2, 2], np.int32))
    y = b.op("RESHAPE", [x, wanted], reshaped, DType.INT8, scale=0.1)
    b.output(b.op("RELU", [y], reshaped, DType.INT8, scale=0.1))
    graph = graph_of(b.build())
    tensors = list(graph.tensors)
    tensors[wanted] = replace(tensors[wanted], **tensor)
    return replace(graph, tensors=tuple(tensors))


def test_what_reads_a_tensor_of_another_shape_is_found_too() -> None:
    found = inconsistencies(chain((4,)))
    assert found[1] == Inconsistency("input 't2' must have shape [2, 2], got [4]", runs=True)
    assert list(found) == [0, 1]


def test_an_operator_by_itself_takes_its_inputs_as_declared() -> None:
    graph = chain((4,))
    assert inconsistency(graph, graph.ops[1]) is None


def test_behind_a_computed_shape_the_declared_ones_are_believed() -> None:
    assert inconsistencies(chain((4,), data=None)) == {}


def test_in_a_graph_that_others_call_nothing_is_known_to_run_nowhere() -> None:
    graph = graph_of(IMPOSSIBLE["sum"][0])
    (found,) = inconsistencies(graph, is_entry=False).values()
    assert found.runs
