"""Compiled files through the interpreter with the simulated NPU, and compiled files that are damaged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import npu
from npu.errors import InterpreterError, UserError
from npu.graph.ethos_u import ARENA_METADATA, Input
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.isa.operations import Operation
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.delegate import EthosUDelegate
from sim.functional.prepared import Tier

from tests.support.litert import random_inputs, run_reference
from tests.support.random_graphs import chains
from tests.support.single_ops import changed
from tests.support.vela import compile_with_vela

TARGETS = ("ethos-u55-128", "ethos-u65-512")


def source_model() -> bytes:
    return write_model(Model((chains(1, seed=5)[0].graph,)))


def invoke(content: bytes, inputs: list[np.ndarray], delegate: EthosUDelegate) -> list[np.ndarray]:
    interpreter = CpuInterpreter(model_content=content, experimental_delegates=[delegate])
    interpreter.allocate_tensors()
    for _ in range(2):
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("tier", [None, Tier.GENERAL])
def test_a_compiled_file_gives_the_reference_outputs(target: str, tier: Tier | None) -> None:
    source = source_model()
    inputs = random_inputs(source, 3)
    found = invoke(compile_with_vela(source, target), inputs, EthosUDelegate(tier=tier))
    for ours, theirs in zip(found, run_reference(source, inputs, fully_connected="npu"), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_hook_sees_every_operation() -> None:
    seen: list[Operation] = []
    source = source_model()
    compiled = compile_with_vela(source, "ethos-u55-128")
    invoke(compiled, random_inputs(source, 0), EthosUDelegate(hook=lambda _, operation, __: seen.append(operation)))
    assert [type(operation).__name__ for operation in seen].count("Stop") == 2


def compiled_model() -> Model:
    return read_model(compile_with_vela(source_model(), "ethos-u55-128"))


def without_metadata(model: Model) -> Model:
    return replace(model, metadata={})


def with_short_metadata(model: Model) -> Model:
    return replace(model, metadata={ARENA_METADATA: model.metadata[ARENA_METADATA][:-4]})


def with_far_offsets(model: Model) -> Model:
    values = np.frombuffer(model.metadata[ARENA_METADATA], "<i4").copy()
    values[3:][values[3:] > 0] += 1 << 24
    values[3 + model.graphs[0].inputs[0]] = 1 << 24
    return replace(model, metadata={ARENA_METADATA: values.tobytes()})


def with_an_input_nowhere(model: Model) -> Model:
    values = np.frombuffer(model.metadata[ARENA_METADATA], "<i4").copy()
    values[3 + model.graphs[0].inputs[0]] = -1
    return replace(model, metadata={ARENA_METADATA: values.tobytes()})


def with_computed_constants(model: Model) -> Model:
    graph = model.graphs[0]
    return changed(model, graph.ops[0].inputs[Input.CONSTANTS], data=None)


def with_other_options(model: Model) -> Model:
    graph = model.graphs[0]
    ops = tuple(replace(op, custom_options=b"\x02\x04\x01") for op in graph.ops)
    return replace(model, graphs=(replace(graph, ops=ops),))


def with_other_payload(model: Model) -> Model:
    graph = model.graphs[0]
    index = graph.ops[0].inputs[Input.COMMANDS]
    return changed(model, index, data=np.zeros_like(graph.tensors[index].data))


DAMAGES = {
    "no metadata": (without_metadata, "must have the metadata OfflineMemoryAllocation"),
    "short metadata": (with_short_metadata, "metadata OfflineMemoryAllocation: must hold offsets of"),
    "offsets outside": (with_far_offsets, "of scratch, got offset"),
    "no offset": (with_an_input_nowhere, "'t0': must have a place in the arena, got none"),
    "computed constants": (with_computed_constants, "read-only tensor '.*' must be a constant, got a computed one"),
    "other custom options": (with_other_options, "custom options must be 01 04 01, got 02 04 01"),
    "no payload": (with_other_payload, "payload"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused_with_its_reason(name: str) -> None:
    damage, text = DAMAGES[name]
    content = write_model(damage(compiled_model()))
    with pytest.raises(UserError, match=text):
        invoke(content, random_inputs(source_model(), 0), EthosUDelegate())


def test_a_file_for_another_product_is_refused() -> None:
    content = compile_with_vela(source_model(), "ethos-u55-128")
    with pytest.raises(InterpreterError, match="must be compiled for ethos-u65-256, got one for ETHOS_U55 with 128 MACs"):
        invoke(content, random_inputs(source_model(), 0), EthosUDelegate(load_variant("ethos-u65-256")))


def test_a_compiled_operator_refuses_an_input_of_another_size() -> None:
    interpreter = npu.Interpreter(model_content=npu.compile(source_model()).content)
    (detail, *_) = interpreter.get_input_details()
    shape = [2, *detail["shape"][1:]]
    interpreter.resize_tensor_input(detail["index"], shape)
    with pytest.raises(
        InterpreterError, match=r"compiled operator 'ethos-u' .*: input \d+ 't0' must have the shape .* got \[2, "
    ):
        interpreter.allocate_tensors()
