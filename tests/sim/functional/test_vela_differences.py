"""Files of Vela that give other results than LiteRT: each mechanism alone, against an independent model of it.

The files below `tests/golden/vela-4.2` are what Vela 4.2.0 makes for ethos-u55-128 of the models named alike.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

import npu
from npu.graph.attributes import BatchMatMulOptions
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.delegate import EthosUDelegate

from tests.naive.lstm import LITERT, STREAM, Cell
from tests.support.builder import ModelBuilder
from tests.support.compatibility import simulate
from tests.support.litert import random_inputs, run_reference
from tests.support.shared import shared_models
from tests.support.vela import compile_with_vela
from tests.support.vela_differences import lstm, slice_of_split, softmax_of_one, streaming

OLD = Path(__file__).parents[2] / "golden" / "vela-4.2"
TARGET = "ethos-u55-128"


def outputs(content: bytes, inputs: list[np.ndarray]) -> list[int]:
    return simulate(content, inputs)[0].reshape(-1).tolist()


def expected(model: bytes, inputs: list[np.ndarray]) -> list[int]:
    return run_reference(model, inputs)[0].reshape(-1).tolist()


def cell_of(model: bytes) -> Cell:
    graph = read_model(model).graphs[0]
    return Cell(graph, graph.ops[0])


@pytest.mark.parametrize(("seed", "cell_scale"), [(1, 2**-12), (2, 2**-11), (3, 2**-12)])
def test_an_lstm_differs_by_its_activation_tables_alone(seed: int, cell_scale: float) -> None:
    model = lstm(seed, cell_scale=cell_scale)
    inputs, cell = random_inputs(model, 1), cell_of(model)
    in_litert, in_stream = (cell.run(inputs[0][0], how).reshape(-1).tolist() for how in (LITERT, STREAM))
    assert in_litert == expected(model, inputs)
    compiled = compile_with_vela(model, TARGET)
    assert in_stream == outputs(compiled, inputs)
    assert npu.diff(model, compiled, lstm_gates="table").first is None
    assert (in_litert == in_stream) == (seed == 2)


@pytest.mark.slow
def test_the_tables_are_at_most_7_and_12_steps_from_litert() -> None:
    sums = range(-32768, 32768)
    assert max(abs(LITERT.sigmoid(v) - STREAM.sigmoid(v)) for v in sums) == 7
    assert max(abs(LITERT.tanh(v) - STREAM.tanh(v)) for v in sums) == 12


@pytest.mark.parametrize("name", sorted(shared_models().keys() & {"dtln_int8"}))
def test_the_lstms_of_a_real_model_differ_by_their_activation_tables_alone(name: str) -> None:
    model = read_model(shared_models()[name])
    graph = model.graphs[0]
    cells = [op for op in graph.ops if op.kind == "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    shown = tuple(op.outputs[0] for op in cells)
    content = write_model(replace(model, graphs=(replace(graph, outputs=shown),), signatures=()))
    inputs = random_inputs(content, 2)
    simulated = simulate(compile_with_vela(content, TARGET), inputs)
    reference = run_reference(content, inputs)
    for how, results in ((STREAM, simulated), (LITERT, reference)):
        x = inputs[0]
        for op, result in zip(cells, results, strict=True):
            found = Cell(graph, op).run(x.reshape(1, -1), how)
            assert found.reshape(-1).tolist() == result.reshape(-1).tolist()
            x = result
    assert int((simulated[1] != reference[1]).sum()) == 6


def test_variables_are_read_before_they_are_set() -> None:
    model = streaming(-100)
    compiled = compile_with_vela(model, TARGET)
    kinds = [op.kind for op in read_model(compiled).graphs[0].ops]
    assert kinds.index("READ_VARIABLE") < kinds.index("CALL_ONCE")
    frames = [random_inputs(model, seed) for seed in range(5)]
    interpreter = CpuInterpreter(model_content=compiled, experimental_delegates=[EthosUDelegate()])
    interpreter.allocate_tensors()
    found = []
    for (frame,) in frames:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], frame)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).reshape(-1).tolist())
    assert found == in_litert(streaming(0), frames)
    same = [ours == theirs for ours, theirs in zip(found, in_litert(model, frames), strict=True)]
    assert same == [False, False, True, True, True]


def in_litert(model: bytes, frames: list[list[np.ndarray]]) -> list[list[int]]:
    """Outputs of one interpreter of LiteRT for several inferences."""
    interpreter = LiteRt(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    found = []
    for (frame,) in frames:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], frame)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).reshape(-1).tolist())
    return found


def test_a_softmax_of_vela_4_gives_one_where_the_sum_is_one() -> None:
    model = softmax_of_one()
    inputs = random_inputs(model, 1)
    assert outputs((OLD / "softmax_of_one.tflite").read_bytes(), inputs) == expected(model, inputs) == [127] * 20


def test_a_slice_of_a_split_by_vela_4_starts_at_row_0() -> None:
    inputs = random_inputs(slice_of_split(3), 1)
    found = outputs((OLD / "slice_of_split_3.tflite").read_bytes(), inputs)
    assert found == expected(slice_of_split(0), inputs)
    assert found != expected(slice_of_split(3), inputs)


def test_a_slice_of_a_split_by_vela_5_starts_at_its_row() -> None:
    model = slice_of_split(3)
    inputs = random_inputs(model, 1)
    assert outputs(compile_with_vela(model, TARGET), inputs) == expected(model, inputs)


@pytest.mark.parametrize("target", [TARGET, "ethos-u85-256"])
def test_of_three_axes_of_batches_vela_5_makes_the_first_along_the_outermost(target: str) -> None:
    b = ModelBuilder()
    x = b.input((2, 2, 3, 4, 5), DType.INT8, scale=0.1, zero_point=3)
    y = b.input((2, 2, 3, 5, 6), DType.INT8, scale=0.1, zero_point=-4)
    b.output(b.op("BATCH_MATMUL", [x, y], (2, 2, 3, 4, 6), DType.INT8, 2.0, 5, attributes=BatchMatMulOptions()))
    model = b.build()
    inputs = random_inputs(model, 1)
    right = run_reference(model, inputs)[0]
    compiled = (compile_with_vela(model, target), npu.compile(model, target).content)
    theirs, ours = (simulate(made, inputs)[0] for made in compiled)
    assert np.array_equal(ours, right)
    assert np.array_equal(theirs[0], right[0])
    assert not np.array_equal(theirs[1], right[1])
