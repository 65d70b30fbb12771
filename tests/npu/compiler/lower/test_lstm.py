"""Integer LSTM cells as steps: their functions number by number, whole cells over several calls, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import npu
from npu.compiler.ir import ConvolutionStep, Storage, View
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.fixed_point import Curve, FixedPoint
from npu.compiler.lower.fusions import Fusions
from npu.compiler.lower.partition import lower_partition
from npu.compiler.lower.rooms import Rooms
from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.hardware.catalogue import load_variant
from npu.isa.operations import INT16
from npu.numerics.lstm_gates import LstmGates
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import RuntimeOptions
from npu.tflite.reader import read_model

from tests.naive import gemmlowp
from tests.naive.lstm import LITERT, STREAM
from tests.naive.lstm import Cell as NaiveCell
from tests.naive.steps import execute, run_step
from tests.support.builder import ModelBuilder
from tests.support.lowering import variant

LOGISTIC = Curve(1, is_tanh=False, integer_bits=3)
EVERY = np.arange(-(1 << 15), 1 << 15).astype(np.int16)


def computed(*curves: Curve, target: str = "ethos-u55-128") -> np.ndarray:
    """What the steps give for every int16 number, in each of the curves' channels."""
    graph, fusions = Graph("g", (), (Op("LOGISTIC", (), ()),), (), ()), Fusions({}, {}, {}, {}, (), ())
    rooms = Rooms(graph, (), fusions, 0, is_small=False)
    builder = Builder(graph, fusions, load_variant(target), rooms)
    builder.index = 0
    channels = sum(curve.channels for curve in curves)
    x, y = (View.whole(Storage(name, (256, 256, channels), INT16, is_boundary=True)) for name in "xy")
    FixedPoint(builder).functions(x, y, curves)
    memory = {x.storage: np.repeat(EVERY, channels)}
    for step in builder.program((), {}).steps:
        run_step(step, memory)
    return memory[y.storage].reshape(-1, channels)


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128"])
def test_gates_are_those_of_the_reference_for_every_number_without_and_with_a_table(target: str) -> None:
    found = computed(LOGISTIC, Curve(1, is_tanh=True, integer_bits=3), target=target)
    np.testing.assert_array_equal(found[:, 0], [gemmlowp.logistic(int(x)) for x in EVERY])
    np.testing.assert_array_equal(found[:, 1], [gemmlowp.tanh(int(x), 3) for x in EVERY])


@pytest.mark.parametrize("integer_bits", [4, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (2, 3, 5))])
def test_gate_and_tanh_of_the_cell_are_those_of_the_reference_for_every_number(integer_bits: int) -> None:
    found = computed(LOGISTIC, Curve(1, is_tanh=True, integer_bits=integer_bits))
    np.testing.assert_array_equal(found[:, 0], [gemmlowp.logistic(int(x)) for x in EVERY])
    np.testing.assert_array_equal(found[:, 1], [gemmlowp.tanh(int(x), integer_bits) for x in EVERY])


@pytest.mark.parametrize("integer_bits", [0, *(pytest.param(bits, marks=pytest.mark.slow) for bits in range(1, 6))])
def test_tanh_is_that_of_the_reference_for_every_number(integer_bits: int) -> None:
    found = computed(Curve(1, is_tanh=True, integer_bits=integer_bits))
    np.testing.assert_array_equal(found[:, 0], [gemmlowp.tanh(int(x), integer_bits) for x in EVERY])


def cell(
    seed: int, *, batches: int = 1, times: int = 3, is_coupled: bool = False, is_time_major: bool = False, clip: float = 10.0,
    exponent: int = -12, peephole: bool = False, hidden: int = 5, bias: int = 0, units: int = 10,
) -> bytes:  # fmt: skip
    """An int8 cell of 7 features."""
    rng, b, features = np.random.default_rng(seed), ModelBuilder(), 7
    shape = (times, batches) if is_time_major else (batches, times)
    x = b.input((*shape, features), DType.INT8, scale=0.03, zero_point=5)

    def matrices(width: int) -> list[int | None]:
        made = [b.constant(rng.integers(-127, 128, (units, width)).astype(np.int8), scale=0.01 + 0.002 * i) for i in range(4)]
        return [None if is_coupled else made[0], *made[1:]]

    biases = [b.constant((bias + rng.integers(-4000, 4000, units)).astype(np.int32), scale=0.0003) for _ in range(4)]
    weights = b.constant(rng.integers(-99, 99, units).astype(np.int8), scale=0.001) if peephole else None
    state = b.variable((batches, units), DType.INT8, scale=0.007, zero_point=-4)
    memory = b.variable((batches, units), DType.INT16, scale=2.0**exponent)
    y = b.tensor((*shape, units), DType.INT8, scale=0.007, zero_point=-4)
    between = [b.tensor((0,), DType.FLOAT32) for _ in range(4)] + [b.tensor((0,), DType.INT8, scale=0.007, zero_point=-4)]
    given = [x, *matrices(features), *matrices(units), None if is_coupled else weights, weights, weights,
             None if is_coupled else biases[0], *biases[1:], None, None, state, memory, *[None] * 4]  # fmt: skip
    options = at.UnidirectionalSequenceLSTMOptions(FusedActivation.TANH, clip, 0.0, is_time_major)
    b.multi_op("UNIDIRECTIONAL_SEQUENCE_LSTM", given, [y], attributes=options, version=1, intermediates=between[:hidden])
    b.output(y)
    return b.build()


def at_rest(tensor: Tensor) -> np.ndarray:
    """What LiteRT sets a variable to: 0 as a real number."""
    assert tensor.quantization is not None
    return np.full(tensor.shape, tensor.quantization.zero_point, tensor.dtype.numpy)


CELLS = {
    "one batch": {},
    "batches": {"batches": 3},
    "time major": {"batches": 2, "is_time_major": True},
    "coupled gates": {"is_coupled": True},
    "no clip": {"clip": 0.0},
    "tight clip": {"clip": 0.5},
    "wide cell": {"exponent": -10},
    "cell beyond 16": {"exponent": -10, "clip": 0.0, "bias": 60_000, "times": 16},
    "narrow cell": {"exponent": -15},
    "one time": {"times": 1},
    "many times": {"times": 65, "units": 4},
}


CELLS_ELSEWHERE = {
    "without table": {"batches": 2},
    "without table, narrow cell": {"exponent": -14},
    "long steps": {"units": 112, "times": 1},
    "long steps, coupled gates": {"units": 112, "times": 1, "is_coupled": True},
}
"""On the smallest array, whose table shares its memory with operands."""


CELLS_GATE_BY_GATE = {
    "one batch": {},
    "batches": {"batches": 2, "units": 40},
    "time major, coupled gates": {"batches": 3, "is_time_major": True, "is_coupled": True},
    "tight clip": {"clip": 0.5, "units": 48},
    "narrow cell": {"exponent": -14, "units": 40},
}
"""Of one time."""


@pytest.mark.parametrize(
    ("name", "target"), [*((name, "ethos-u55-128") for name in CELLS), *((name, "ethos-u55-32") for name in CELLS_ELSEWHERE)]
)
def test_a_cell_is_exact_over_several_calls(name: str, target: str) -> None:
    check_cell(cell(3, **(CELLS | CELLS_ELSEWHERE)[name]), target)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128"])
@pytest.mark.parametrize("name", CELLS_GATE_BY_GATE)
def test_a_cell_that_saves_memory_is_exact_over_several_calls(name: str, target: str) -> None:
    check_cell(cell(3, times=1, **CELLS_GATE_BY_GATE[name]), target, saves_memory=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128"])
def test_size_keeps_one_gate_and_four_maps_of_the_next_beside_the_states_and_the_input(target: str) -> None:
    units = 128
    content = cell(3, times=1, units=units)
    usage = npu.compile(content, target, optimise="size").compiled_model.usage
    assert usage.arena_bytes <= (1 + 2) * units + 16 + (1 + 4) * 2 * units
    assert usage.arena_bytes < 0.6 * npu.compile(content, target).compiled_model.usage.arena_bytes
    other = {"target": "ethos-u65-256", "optimise": "size"}
    fast = npu.compile(content, **other).compiled_model.usage.fast_bytes  # type: ignore[arg-type]
    assert fast > usage.arena_bytes  # of a memory that the NPU has for itself


@pytest.mark.parametrize("layout", [{}, {"batches": 2}, {"batches": 2, "is_time_major": True}])
def test_where_memory_counts_the_products_of_the_input_are_made_for_a_few_times(layout: dict[str, Any]) -> None:
    """A time has 4 gates of 2 units in 16 bits; half of a map of 7 features, one of 2 units and the state hold two of them."""
    content = cell(3, times=9, units=2, **layout)
    check_cell(content, "ethos-u55-128", keeps_maps=True)
    rows = {keeps: _rows_of_entries(content, keeps_maps=keeps) for keeps in (False, True)}
    assert rows == {False: [9] * 2, True: [2] * 8 + [1] * 2}


def _rows_of_entries(content: bytes, *, keeps_maps: bool) -> list[int]:
    """Times of each convolution that reads the input, the most first; two groups of gates have their own."""
    graph = read_model(content).graphs[0]
    batches = graph.tensors[graph.ops[0].inputs[18]].shape[0]
    steps = lower_partition(graph, [0], load_variant("ethos-u55-128"), keeps_maps=keeps_maps).steps
    of_input = [step for step in steps if isinstance(step, ConvolutionStep) and step.ifm.shape[2] == 7]
    return sorted((step.ofm.shape[0] * step.ofm.shape[1] // batches for step in of_input), reverse=True)


def check_cell(content: bytes, target: str, *, saves_memory: bool = False, keeps_maps: bool = False) -> None:
    """The steps give what LiteRT's reference gives, call after call."""
    graph = read_model(content).graphs[0]
    reference = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    reference.allocate_tensors()
    program = lower_partition(graph, [0], load_variant(target), saves_memory=saves_memory, keeps_maps=keeps_maps)
    rng = np.random.default_rng(5)
    states = {t: at_rest(graph.tensors[t]) for t, _ in program.inputs}
    for _ in range(3):
        values = rng.integers(-128, 128, graph.tensors[graph.inputs[0]].shape).astype(np.int8)
        reference.set_tensor(reference.get_input_details()[0]["index"], values)
        reference.invoke()
        found = execute(program, {**states, graph.inputs[0]: values})
        expected = reference.get_tensor(reference.get_output_details()[0]["index"])
        np.testing.assert_array_equal(found[graph.outputs[0]].reshape(expected.shape), expected)
        states.update({tensor: value for tensor, value in found.items() if tensor in states})


def interpreter_by_table(content: bytes) -> CpuInterpreter:
    interpreter = CpuInterpreter(model=read_model(content), options=RuntimeOptions(lstm_gates=LstmGates.TABLE))
    interpreter.allocate_tensors()
    return interpreter


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_by_the_table_is_that_of_the_interpreter_over_several_calls(name: str) -> None:
    content = cell(3, **CELLS[name])  # type: ignore[arg-type]
    graph, reference = read_model(content).graphs[0], interpreter_by_table(content)
    program = lower_partition(graph, [0], variant(), LstmGates.TABLE)
    rng = np.random.default_rng(5)
    states = {t: at_rest(graph.tensors[t]) for t, _ in program.inputs}
    for _ in range(3):
        values = rng.integers(-128, 128, graph.tensors[graph.inputs[0]].shape).astype(np.int8)
        reference.set_tensor(reference.get_input_details()[0]["index"], values)
        reference.invoke()
        found = execute(program, {**states, graph.inputs[0]: values})
        expected = reference.get_tensor(reference.get_output_details()[0]["index"])
        np.testing.assert_array_equal(found[graph.outputs[0]].reshape(expected.shape), expected)
        states.update({tensor: value for tensor, value in found.items() if tensor in states})


@pytest.mark.parametrize("name", ["one batch", "no clip", "tight clip", "wide cell"])
def test_a_cell_by_the_table_is_computed_as_in_streams_of_vela(name: str) -> None:
    content = cell(3, **{**CELLS[name], "times": 16})  # type: ignore[arg-type]
    graph, reference = read_model(content).graphs[0], interpreter_by_table(content)
    values = np.random.default_rng(7).integers(-128, 128, graph.tensors[graph.inputs[0]].shape).astype(np.int8)
    reference.set_tensor(reference.get_input_details()[0]["index"], values)
    reference.invoke()
    found = reference.get_tensor(reference.get_output_details()[0]["index"])[0]
    twin = NaiveCell(graph, graph.ops[0])
    np.testing.assert_array_equal(found, twin.run(values[0], STREAM))
    assert (found != twin.run(values[0], LITERT)).any()


def test_gates_have_steps_of_their_own_where_their_elements_take_long() -> None:
    def convolutions(target: str, **changes: int) -> int:
        graph = read_model(cell(3, units=112, **changes)).graphs[0]  # type: ignore[arg-type]
        return sum(isinstance(step, ConvolutionStep) for step in lower_partition(graph, [0], load_variant(target)).steps)

    assert convolutions("ethos-u55-128", times=1) == 4
    assert convolutions("ethos-u55-32", times=1) == 6
    assert convolutions("ethos-u55-32", times=2) == 6  # two of the inputs, two of each output before


REFUSED = {
    "peepholes": ({"peephole": True}, "neither peepholes nor projection"),
    "too few intermediates": ({"hidden": 4}, "must have 5 intermediate tensors, got 4"),
    "cell of another scale": ({"exponent": -9}, "power of two in"),
    "many times": ({"times": 257}, "at most 256 times, got 257"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_cell_that_is_not_lowered_says_why(name: str) -> None:
    changes, message = REFUSED[name]
    graph = read_model(cell(1, **changes)).graphs[0]  # type: ignore[arg-type]
    with pytest.raises(LoweringError, match=message):
        lower_partition(graph, [0], variant())
