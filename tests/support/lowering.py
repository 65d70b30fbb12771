"""Runs a graph through the lowering and the naive executor, and through LiteRT's reference kernels."""

from __future__ import annotations

from functools import cache

import numpy as np

from npu.compiler.block_config import BlockChooser
from npu.compiler.ir import Program
from npu.compiler.lower.partition import lower_partition
from npu.compiler.passes.lower_partitions import estimates_of_ways
from npu.compiler.step_problems import StepEstimates
from npu.compiler.weights import Constants
from npu.graph.graph import Graph, Model
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.tflite.writer import write_model

from tests.naive.steps import execute
from tests.support.litert import run_reference


@cache
def variant() -> Variant:
    """The default target; lowering does not depend on much of it."""
    return load_variant("ethos-u55-128")


def ways_of(hardware: Variant, *, saves_memory: bool = False) -> StepEstimates:
    """What the compiler compares ways to make the same steps by."""
    return estimates_of_ways(BlockChooser(hardware), Constants(hardware), saves_memory=saves_memory)


def lowered(graph: Graph) -> Program:
    """The whole graph as one partition."""
    return lower_partition(graph, range(len(graph.ops)), variant())


def lowered_outputs(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of the lowered graph in model order, executed naively."""
    found = execute(lowered(graph), dict(zip(graph.inputs, inputs, strict=True)))
    return [found[t].reshape(graph.tensors[t].shape) for t in graph.outputs]


def reference_outputs(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Outputs of the reference kernels, FULLY_CONNECTED rounded twice."""
    return run_reference(write_model(Model((graph,))), inputs, fully_connected="npu")


def assert_exact(graph: Graph, inputs: list[np.ndarray], name: str = "graph") -> None:
    """Every output of the lowered graph equals the reference bit for bit."""
    expected = reference_outputs(graph, inputs)
    for tensor, ours, theirs in zip(graph.outputs, lowered_outputs(graph, inputs), expected, strict=True):
        wrong = int(np.count_nonzero(ours != theirs))
        assert wrong == 0, f"{name}: output {tensor} differs in {wrong} of {theirs.size} elements"
