"""Operators with state against LiteRT's reference kernels: random shapes, options and values over several runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.kernels.fixed16 import logistic_table, tanh_table
from npu.runtime.registry import OPERATORS
from npu.tflite.reader import read_model

from tests.naive import gemmlowp
from tests.support.accuracy import assert_as_accurate
from tests.support.interpreters import invoke, run
from tests.support.litert import random_inputs, run_reference
from tests.support.operator_cases import F32, I8, I16, I32, In
from tests.support.recurrent_cases import STATEFUL, single

RUNS = 4


def _compare(name: str, seed: int) -> None:
    content = STATEFUL[name](np.random.default_rng(seed))
    reference = LiteRt(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    ours = CpuInterpreter(model_content=content)
    reference.allocate_tensors()
    ours.allocate_tensors()
    for turn in range(RUNS):
        if turn == RUNS - 1:
            reference.reset_all_variables()
            ours.reset_all_variables()
        inputs = random_inputs(content, 1000 * seed + turn)
        expected, results = invoke(reference, inputs), invoke(ours, inputs)
        assert_as_accurate(name.partition("-")[0], expected, results, None, name)


_GUIDE = {"SVDF": "T-N-2", "LSTM": "T-N-2", "RNN": "T-N-2"}


def _parameters() -> list[Any]:
    kinds = {name: _GUIDE.get(name.partition("-")[0]) for name in sorted(STATEFUL)}
    return [pytest.param(n, id=n, marks=[pytest.mark.seed(row)] if row else []) for n, row in kinds.items()]


@pytest.mark.parametrize("name", _parameters())
def test_cells_equal_the_reference_over_several_runs(name: str) -> None:
    for seed in range(4):
        _compare(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STATEFUL))
def test_cells_equal_the_reference_on_many_cases(name: str) -> None:
    for seed in range(4, 120):
        _compare(name, seed)


def test_every_kind_with_cases_has_a_kernel() -> None:
    assert {name.partition("-")[0] for name in STATEFUL} <= set(OPERATORS)


def _constant(*shape: int, dtype: DType = F32, scale: float | None = None) -> In:
    return In(shape, dtype, scale, data=np.ones(shape, dtype.numpy))


def _lstm_inputs(**changed: In | None) -> list[In | None]:
    """A cell of two features and three units; keywords replace an input by its position, as `i9=...`."""
    inputs: list[In | None] = [In((1, 2), F32), *[_constant(3, 2)] * 4, *[_constant(3, 3)] * 4, None, None, None]
    inputs += [*[_constant(3)] * 4, None, None, In((1, 3), F32, is_variable=True), In((1, 3), F32, is_variable=True)]
    inputs += [None] * 4
    for position, tensor in changed.items():
        inputs[int(position[1:])] = tensor
    return inputs


REFUSED = {
    "rank of the input": ({"i0": In((1, 1, 2), F32)}, r"input must have rank 2, got \[1, 1, 2\]"),
    "rank of weights": ({"i4": _constant(3)}, r"weights must have rank 2, got \[3\]"),
    "shape of weights": ({"i2": _constant(3, 5)}, r"weights must have shape \[3, 2\], got \[3, 5\]"),
    "shape of recurrent weights": ({"i6": _constant(3, 2)}, r"recurrent weights must have shape \[3, 3\], got \[3, 2\]"),
    "shape of a diagonal": ({"i6": _constant(4)}, r"diagonal recurrent weights must have shape \[3\], got \[4\]"),
    "shape of a bias": ({"i13": _constant(1)}, r"bias must have shape \[3\], got \[1\]"),
    "half an input gate": ({"i1": None}, "of the input gate must be given together"),
    "one peephole": ({"i10": _constant(3)}, "must be given for all gates or none"),
    "one normalisation": ({"i22": _constant(3)}, "must be given for all gates or none"),
    "projection bias alone": ({"i17": _constant(3)}, "without a projection there must be no projection bias"),
    "shape of the projection": ({"i16": _constant(2, 3)}, r"projection must have shape \[3, 3\], got \[2, 3\]"),
    "constant state": ({"i18": _constant(1, 3)}, "must be a variable tensor"),
    "size of the state": ({"i19": In((1, 4), F32, is_variable=True)}, r"must have the elements of \[1, 3\], got \[1, 4\]"),
    "mixed weights": ({"i3": _constant(3, 2, dtype=I8, scale=0.1)}, "types must be one of"),
    "missing weights": ({"i7": None}, "types must be one of"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_cells_that_do_not_fit_are_refused(case: str) -> None:
    changed, message = REFUSED[case]
    content = single("LSTM", _lstm_inputs(**changed), [In((1,), F32)], at.LSTMOptions(at.FusedActivation.TANH))
    with pytest.raises(InterpreterError, match=message):
        CpuInterpreter(model_content=content).allocate_tensors()


def test_a_cell_that_is_no_number_is_clipped_to_the_limit_as_by_the_reference_kernel() -> None:
    weights = _constant(3, 2)
    assert weights.data is not None
    spoilt = np.array(weights.data, np.float32)
    spoilt[0, 1] = np.nan
    inputs = _lstm_inputs(i3=replace(weights, data=spoilt))
    content = single("LSTM", inputs, [In((1,), F32)], at.LSTMOptions(at.FusedActivation.TANH, 0.5))
    values = [np.array([[0.5, -1]], np.float32)]
    (expected,) = run_reference(content, values)
    (got,) = run(CpuInterpreter(model_content=content), values)
    assert np.isfinite(expected[0, 0])
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_negative_clipping_and_unknown_activations_are_refused() -> None:
    for options, message in (
        (at.LSTMOptions(at.FusedActivation.TANH, -1.0), "clipping must be at 0"),
        (at.LSTMOptions(at.FusedActivation.TANH, 0.0, float("nan")), "clipping must be at 0"),
    ):
        with pytest.raises(InterpreterError, match=message):
            CpuInterpreter(model_content=single("LSTM", _lstm_inputs(), [In((1,), F32)], options)).allocate_tensors()


def _integer_inputs(cell_scale: float) -> list[In | None]:
    weights, recurrent = _constant(3, 2, dtype=I8, scale=0.1), _constant(3, 3, dtype=I8, scale=0.1)
    inputs: list[In | None] = [In((1, 2), I8, 0.1), *[weights] * 4, *[recurrent] * 4, None, None, None]
    inputs += [*[_constant(3, dtype=I32, scale=0.01)] * 4, None, None, In((1, 3), I8, 0.1, is_variable=True)]
    return [*inputs, In((1, 3), I16, cell_scale, is_variable=True), None, None, None, None]


@pytest.mark.parametrize(
    ("scale", "between", "message"),
    [(0.003, 5, "power of two"), (2.0**-20, 5, "power of two"), (2.0**-11, 12, "must be 5"), (2.0**-11, 0, "must be 5")],
)
def test_integer_cells_say_what_they_lack(scale: float, between: int, message: str) -> None:
    intermediates = [In((1,), I8, 0.1)] * between
    content = single(
        "LSTM",
        _integer_inputs(scale),
        [In((1,), I8, 0.1)],
        at.LSTMOptions(at.FusedActivation.TANH),
        intermediates=intermediates,
    )
    with pytest.raises(InterpreterError, match=message):
        CpuInterpreter(model_content=content).allocate_tensors()


def test_16_bit_activations_of_cells_are_refused_by_name() -> None:
    inputs = _integer_inputs(2.0**-11)
    inputs[0] = In((1, 2), I16, 0.1)
    content = single("LSTM", inputs, [In((1,), I16, 0.1)], at.LSTMOptions(at.FusedActivation.TANH))
    with pytest.raises(InterpreterError, match=r"lstm \(op 0 of subgraph 0\): types must be one of .*, got i16 i8 i8"):
        CpuInterpreter(model_content=content).allocate_tensors()


def test_merged_batches_of_a_batch_major_cell_are_refused() -> None:
    """LiteRT's kernel reads beyond the states then."""
    for seed in range(100):
        model = read_model(STATEFUL["BIDIRECTIONAL_SEQUENCE_LSTM-float32"](np.random.default_rng(seed)))
        (graph,) = model.graphs
        options: Any = graph.ops[0].attributes
        if not options.time_major and graph.tensors[graph.inputs[0]].shape[0] > 1:
            break
    op = replace(graph.ops[0], attributes=replace(options, merge_outputs=True), outputs=graph.ops[0].outputs[:1])
    interpreter = CpuInterpreter(model=replace(model, graphs=(replace(graph, ops=(op,), outputs=op.outputs),)))
    with pytest.raises(InterpreterError, match="merged outputs of several batches must be time-major"):
        interpreter.allocate_tensors()


EVERY_INT16 = range(-(1 << 15), 1 << 15)


@pytest.mark.parametrize("integer_bits", [0, 3, *(pytest.param(bits, marks=pytest.mark.slow) for bits in (1, 2, 4, 5, 6))])
def test_tanh_of_a_cell_is_that_of_the_twin_for_every_number(integer_bits: int) -> None:
    assert tanh_table(integer_bits).tolist() == [gemmlowp.tanh(x, integer_bits) for x in EVERY_INT16]


def test_logistic_of_a_gate_is_that_of_the_twin_for_every_number() -> None:
    assert logistic_table().tolist() == [gemmlowp.logistic(x) for x in EVERY_INT16]
