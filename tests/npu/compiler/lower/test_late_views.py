"""Functions behind a view of a result ride on what makes it, whatever the view's rows, columns and channels are."""

from __future__ import annotations

import numpy as np
import pytest

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding

from tests.support.lowering import assert_exact, lowered
from tests.support.random_graphs import Sketch, random_inputs

SHAPES = [(1, 12, 8), (12, 8), (1, 1, 1, 12, 8), (1, 4, 24), (1, 3, 4, 8), (96,)]
"""Views of a map of 1 x 12 x 8: the first three have its rows, columns and channels."""
FUNCTIONS = [("TANH",), ("LEAKY_RELU", "LOGISTIC"), ("swish",), ("RELU", "swish", "plus")]


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(4))


def seen_as(s: Sketch, shape: tuple[int, ...]) -> tuple[int, int]:
    """A convolution, and a view of what it makes."""
    x = s.input((1, 1, 12, 16), 0.05, 3)
    w = s.weights((8, 1, 1, 16), 0, per_channel=True)
    made, options = s.tensor((1, 1, 12, 8), 0.25, 5), at.Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    y = s.op("CONV_2D", [x, w, s.bias(x, w, 8, 1000)], [made], options)
    return y, s.op("RESHAPE", [y, s.numbers(shape)], [s.tensor(shape, 0.25, 5)], at.ReshapeOptions(shape))


def function(s: Sketch, kind: str, x: int) -> int:
    shape = s.shape(x)
    if kind == "swish":
        gate = s.op("LOGISTIC", [x], [s.tensor(shape, 1 / 256, -128)])
        return s.op("MUL", [x, gate], [s.tensor(shape, 0.1, -100)], at.MulOptions())
    if kind == "plus":
        number = s.add((1,), 0.1, 3, np.array([17], np.int8))
        return s.op("ADD", [x, number], [s.tensor(shape, 0.12, -90)], at.AddOptions())
    quantization = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(kind, (0.25, 5))
    return s.op(kind, [x], [s.tensor(shape, *quantization)], at.LeakyReluOptions(0.1) if kind == "LEAKY_RELU" else None)


def steps(s: Sketch, *outputs: int) -> int:
    graph = s.graph(list(outputs))
    assert_exact(graph, random_inputs(graph, 1))
    return len(lowered(graph).steps)


@pytest.mark.parametrize("functions", FUNCTIONS, ids="-".join)
@pytest.mark.parametrize("shape", SHAPES)
def test_functions_ride_on_the_convolution(shape: tuple[int, ...], functions: tuple[str, ...]) -> None:
    s = sketch()
    _, x = seen_as(s, shape)
    for kind in functions:
        x = function(s, kind, x)
    assert steps(s, x) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_what_others_see_is_made(shape: tuple[int, ...]) -> None:
    for seen in range(3):
        s = sketch()
        y, x = seen_as(s, shape)
        between = function(s, "TANH", x)
        last = function(s, "swish", between)
        assert steps(s, last, (y, x, between)[seen]) == 2


@pytest.mark.parametrize("shape", [(1, 4, 24), (1, 3, 4, 8)])
def test_a_function_in_front_of_a_join_writes_into_it(shape: tuple[int, ...]) -> None:
    """Its view would have to be copied there: no step is saved."""
    s = sketch()
    _, x = seen_as(s, shape)
    other = s.input(shape, 1 / 128, 0)
    both = (*shape[:-2], 2 * shape[-2], shape[-1])
    joined = s.op("CONCATENATION", [function(s, "TANH", x), other], [s.tensor(both, 1 / 128, 0)], at.ConcatenationOptions(-2))
    assert steps(s, joined) == 3
    convolution, tanh, _ = lowered(s.graph([joined])).steps
    assert (convolution.source, tanh.source) == (0, 2)
    assert tanh.ofm.storage.tensor == joined


def test_two_branches_of_a_view_stay_behind_it() -> None:
    s = sketch()
    _, x = seen_as(s, (1, 4, 24))
    assert steps(s, function(s, "TANH", x), function(s, "LOGISTIC", x)) == 3


def test_operators_keep_their_names_where_they_change_places() -> None:
    """The functions are carried, and the view is one."""
    s = sketch()
    _, x = seen_as(s, (1, 4, 24))
    last = function(s, "swish", x)
    added = s.op("ADD", [last, s.input((1, 4, 24), 0.1, 3)], [s.tensor((1, 4, 24), 0.3, 4)], at.AddOptions())
    program = lowered(s.graph([added]))
    assert dict(program.absorbed) == {1: None, 2: 0, 3: 0}
    assert [step.source for step in program.steps] == [0, 4]


@pytest.mark.parametrize("is_read", [True, False])
def test_functions_pass_several_views_at_once(is_read: bool) -> None:
    """Where an operator reads the result: as an output of the model the last of several views would be copied."""
    s = sketch()
    _, x = seen_as(s, (1, 4, 24))
    x = s.op("RESHAPE", [x, s.numbers((1, 96))], [s.tensor((1, 96), 0.25, 5)], at.ReshapeOptions((1, 96)))
    x = function(s, "swish", function(s, "TANH", x))
    if is_read:
        x = s.op("ADD", [x, s.input((1, 96), 0.1, 3)], [s.tensor((1, 96), 0.3, 4)], at.AddOptions())
    assert steps(s, x) == 2
    absorbed = dict(lowered(s.graph([x])).absorbed)
    assert absorbed == ({1: None, 2: None, 3: 0, 4: 0, 5: 0} if is_read else {1: None, 2: None, 4: 3, 5: 3})
