"""Operators whose inputs are parts of larger maps and whose outputs lie in a join, as maps in real graphs do, are exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.isa.operations import KernelOperation
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, run_reference
from tests.support.operator_cases import CASES as CASES_OF_CPU
from tests.support.operator_placement import REASONS
from tests.support.vela_operators import CPU_ONLY, VELA_CASES, with_shapes

CASES = {
    **{name: build for name, build in VELA_CASES.items() if name not in CPU_ONLY and name not in REASONS},
    **{name: CASES_OF_CPU[name] for name in ("DEPTH_TO_SPACE-int8", "SPACE_TO_DEPTH-int8")},
}
UNDEFINED = {"ELU-int8", "MUL-int32", "RSQRT-int16"}
"""Cases that have no reference kernel, or whose random inputs it wraps or refuses."""
JOINED = (DType.INT8, DType.UINT8, DType.INT16)


class _Among:
    """A graph with a SLICE before every input and a CONCATENATION behind every output that has a last axis."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.tensors = graph, list(graph.tensors)
        self.before = [self._sliced(tensor) for tensor in graph.inputs]
        self.behind = [self._joined(tensor) for tensor in graph.outputs]

    def _add(self, tensor: Tensor) -> int:
        self.tensors.append(replace(tensor, name=f"{tensor.name} {len(self.tensors)}"))
        return len(self.tensors) - 1

    def _numbers(self, values: list[int]) -> int:
        return self._add(Tensor("numbers", (len(values),), DType.INT32, None, np.array(values, np.int32)))

    def _sliced(self, index: int) -> tuple[int, Op | None]:
        """The new input, and what takes the old one from it."""
        tensor = self.tensors[index]
        if not tensor.shape:
            return index, None
        begin = [0] * (len(tensor.shape) - 2) + [1] * min(len(tensor.shape), 2)
        larger = self._add(replace(tensor, shape=tuple(n + 2 * b for n, b in zip(tensor.shape, begin, strict=True))))
        inputs = larger, self._numbers(begin), self._numbers(list(tensor.shape))
        return larger, Op("SLICE", inputs, (index,), at.SliceOptions(), 2)

    def _joined(self, index: int) -> tuple[int, Op | None, int | None]:
        """The new output, what makes it of the old one, and the input that lies in front of that."""
        tensor = self.tensors[index]
        if not tensor.shape or tensor.dtype not in JOINED:
            return index, None, None
        other, twice = self._add(tensor), (*tensor.shape[:-1], 2 * tensor.shape[-1])
        whole = self._add(replace(tensor, shape=twice))
        return whole, Op("CONCATENATION", (other, index), (whole,), at.ConcatenationOptions(len(twice) - 1), 2), other

    def made(self) -> Graph:
        ops = [op for _, op in self.before if op], [op for _, op, _ in self.behind if op]
        return replace(
            self.graph,
            tensors=tuple(self.tensors),
            ops=(*ops[0], *self.graph.ops, *ops[1]),
            inputs=(*(index for index, _ in self.before), *(other for *_, other in self.behind if other is not None)),
            outputs=tuple(index for index, *_ in self.behind),
        )


def _marked(name: str) -> Any:
    return name if name.endswith("-int8") else pytest.param(name, marks=pytest.mark.slow)


@pytest.mark.parametrize("name", [_marked(name) for name in sorted(CASES.keys() - UNDEFINED)])
def test_an_operator_among_views_is_exact(name: str) -> None:
    for seed in range(2):
        model = read_model(with_shapes(CASES[name](np.random.default_rng([seed, 3]))))
        content = write_model(Model((_Among(model.graphs[0]).made(),)))
        inputs = random_inputs(content, seed)
        found = npu.run(npu.compile(content, target="ethos-u55-128").content, inputs).outputs
        for ours, theirs in zip(found, run_reference(content, inputs, fully_connected="npu"), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_box_in_two_pieces_is_copied_into_its_place_at_once() -> None:
    b = ModelBuilder()
    x = b.input((2, 11, 33, 16), DType.INT8, scale=0.1)
    begin, size = (b.constant(np.array(values, np.int32)) for values in ((0, 1, 0, 0), (-1, 10, -1, -1)))
    b.output(b.op("SLICE", [x, begin, size], (2, 10, 33, 16), DType.INT8, 0.1, attributes=at.SliceOptions()))
    content = b.build()
    inputs, compiled = random_inputs(content, 1), npu.compile(content, target="ethos-u55-128")
    (partition,) = compiled.compiled_model.partitions
    assert sum(isinstance(operation, KernelOperation) for operation in partition.operations) == 1
    np.testing.assert_array_equal(npu.run(compiled.content, inputs).outputs[0], inputs[0][:, 1:])
