"""DEPTH_TO_SPACE and SPACE_TO_DEPTH on the NPU: exact, in few operations, and on the NPU where a profile says so."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.graph import Graph, Model
from npu.graph.placement import Device
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch
from tests.support.random_graphs import random_inputs as random_arrays

Shape = tuple[int, ...]
OPTIONS = {"DEPTH_TO_SPACE": at.DepthToSpaceOptions, "SPACE_TO_DEPTH": at.SpaceToDepthOptions}


def moved(kind: str, shape: Shape, block: int) -> Shape:
    batch, height, width, depth = shape
    if kind == "DEPTH_TO_SPACE":
        return batch, height * block, width * block, depth // block**2
    return batch, height // block, width // block, depth * block**2


def graph_of(kind: str, shape: Shape, block: int, *, inside: bool = False) -> Graph:
    """The operator alone, or between two RELU, whose maps the compiler may lay out as it likes."""
    s = Sketch(np.random.default_rng(5))
    x = s.input(shape, 0.1, 3)
    if inside:
        x = s.op("RELU", [x], [s.tensor(shape, 0.1, 3)])
    y = s.op(kind, [x], [s.tensor(moved(kind, shape, block), 0.1, 3)], OPTIONS[kind](block))
    if inside:
        y = s.op("RELU", [y], [s.tensor(moved(kind, shape, block), 0.1, 3)])
    return s.graph([y])


CASES: dict[str, tuple[str, Shape, int]] = {
    "blocks of 2": ("DEPTH_TO_SPACE", (1, 5, 7, 12), 2),
    "blocks of 4 to one channel": ("DEPTH_TO_SPACE", (1, 3, 4, 16), 4),
    "a block of everything": ("DEPTH_TO_SPACE", (1, 1, 1, 27), 3),
    "batches": ("DEPTH_TO_SPACE", (3, 2, 5, 8), 2),
    "blocks of 1": ("DEPTH_TO_SPACE", (1, 4, 4, 3), 1),
    "space in blocks of 2": ("SPACE_TO_DEPTH", (1, 6, 8, 3), 2),
    "space in blocks of 3": ("SPACE_TO_DEPTH", (2, 9, 6, 1), 3),
    "all of space": ("SPACE_TO_DEPTH", (1, 4, 4, 5), 4),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_lowered_operator_equals_the_reference(case: str, inside: bool) -> None:
    graph = graph_of(*CASES[case], inside=inside)
    assert_exact(graph, random_arrays(graph, 1), case)


def test_random_blocks_are_exact() -> None:
    random = np.random.default_rng(7)
    for _ in range(40):
        batch, height, width, depth = (int(size) for size in random.integers(1, 7, 4))
        block = int(random.integers(1, 5))
        kind = list(OPTIONS)[int(random.integers(2))]
        many = block if kind == "SPACE_TO_DEPTH" else 1
        shape = (batch, height * many, width * many, depth * (1 if many > 1 else block**2))
        graph = graph_of(kind, shape, block, inside=bool(random.integers(2)))
        assert_exact(graph, random_arrays(graph, 2), f"{kind} {shape} by {block}")


def test_a_large_map_takes_few_operations() -> None:
    assert len(lowered(graph_of("DEPTH_TO_SPACE", (1, 128, 128, 64), 2)).steps) <= 4


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512"])
@pytest.mark.parametrize("kind", OPTIONS)
def test_the_compiled_operator_runs_on_the_npu_and_equals_litert(kind: str, target: str) -> None:
    content = write_model(Model((graph_of(kind, (1, 8, 12, 32), 2, inside=True),)))
    compiled = npu.compile(content, target)
    assert {op.device for op in compiled.compiled_model.placement.ops} == {Device.NPU}
    inputs = random_inputs(content, 3)
    (ours,) = npu.run(compiled.content, inputs).outputs
    (theirs,) = run_reference(content, inputs)
    assert np.array_equal(ours, theirs)


def test_a_map_of_another_scale_is_copied_as_litert_copies_it() -> None:
    s = Sketch(np.random.default_rng(5))
    x = s.input((1, 4, 4, 8), 0.1, 3)
    graph = s.graph([s.op("DEPTH_TO_SPACE", [x], [s.tensor((1, 8, 8, 2), 0.2, -7)], at.DepthToSpaceOptions(2))])
    assert_exact(graph, random_arrays(graph, 1))
