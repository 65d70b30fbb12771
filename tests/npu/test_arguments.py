"""What callers in Python give is judged before it is used: one message that says where, what must be given, and what was."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu
from npu.arguments import whole_numbers
from npu.errors import ArgumentTypeError, InterpreterError, UserError
from npu.graph.attributes import AddOptions
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "digits.tflite"
INPUT = "serving_default_keras_tensor:0"


def test_the_array_of_the_only_input_may_stand_alone() -> None:
    image = np.load(MODEL.parent / "digit_7.npy")
    expected = npu.run(MODEL, [image]).outputs[0]
    for inputs in (image, np.stack([image])):  # the latter is a sequence of one array
        assert np.array_equal(npu.run(MODEL, inputs).outputs[0], expected)
    with pytest.raises(InterpreterError, match=r"must be int8 of shape \[1, 8, 8, 1\], got int8 of shape \[1, 4, 8, 1\]"):
        npu.run(MODEL, image[:, :4])


def ready() -> npu.Interpreter:
    interpreter = npu.Interpreter(MODEL)
    interpreter.allocate_tensors()
    return interpreter


CASES: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "load": (npu.load, None, "model: must be a path, or the bytes of a file, got None of type NoneType"),
    "check": (npu.check, [1, 2], r"model: must be a path, or the bytes of a file, got \[1, 2\] of type list"),
    "compile": (npu.compile, 1.5, "model: must be a path"),
    "run": (npu.run, np.zeros(3, np.uint8), "model: must be a path, .* of type ndarray"),
    "target": (lambda value: npu.check(MODEL, value), 128, "target: must be a name, or the path of a YAML file, got 128"),
    "config": (
        lambda value: npu.compile(MODEL, config=value),
        5.0,
        "config: must be the path of a YAML file, or a mapping of fields, got 5.0",
    ),
    "memory mode": (lambda value: npu.compile(MODEL, memory_mode=value), b"x", "memory_mode: must be a name"),
    "system": (lambda value: npu.run(MODEL, system=value), True, "system: must be a name"),
    "profile": (lambda value: npu.check(MODEL, profile=value), ["v0.1"], "profile: must be a name"),
    "inputs": (lambda value: npu.run(MODEL, value), 5, "inputs: must be arrays in model order, or by name, got 5"),
    "seed": (lambda value: npu.run(MODEL, seed=value), "1", "seed: must be a whole number from 0 up, got '1'"),
    "save": (lambda value: npu.compile(MODEL).save(value), None, "path: must be the path of a file, got None"),
    "model path": (npu.Interpreter, 5, "interpreter: model_path: must be the path of a file, got 5 of type int"),
    "model content": (lambda value: npu.Interpreter(model_content=value), "x", "interpreter: model_content: must be the bytes"),
    "model": (lambda value: npu.Interpreter(model=value), "x", "interpreter: model: must be a Model"),
    "options": (lambda value: npu.Interpreter(MODEL, options=value), {}, "interpreter: options: must be RuntimeOptions"),
    "delegates": (lambda value: npu.Interpreter(MODEL, experimental_delegates=value), 3, "must be a list of delegates, got 3"),
    "plug-in": (npu.load_delegate, None, "load_delegate: must be the name or path of a plug-in"),
    "plug-in options": (lambda value: npu.load_delegate("dummy", value), [1], "'dummy': options: must be a mapping"),
    "tensor": (lambda value: ready().get_tensor(value), "0", "tensor index: must be a whole number, got '0' of type str"),
    "tensor to set": (lambda value: ready().set_tensor(value, 0), None, "tensor index: must be a whole number"),
    "subgraph": (lambda value: ready().get_tensor(0, value), None, "subgraph index: must be a whole number"),
    "input to resize": (lambda value: ready().resize_tensor_input(value, [1]), 0.5, "input_index: must be a whole number"),
    "new shape": (
        lambda value: ready().resize_tensor_input(0, value),
        8,
        "tensor_size: must be a list of whole numbers, got 8",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_argument_of_a_wrong_type_is_the_callers_fault(name: str) -> None:
    call, value, text = CASES[name]
    with pytest.raises(UserError, match=text) as caught:
        call(value)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("key", [3, ["serving_default"], np.zeros(2)])
def test_a_signature_that_is_no_name_is_a_wrong_value(key: Any) -> None:
    with pytest.raises(UserError, match="signature_key must be one of") as caught:
        ready().get_signature_runner(key)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_all_kinds_of_bytes_are_a_model(make: Callable[[bytes], Any]) -> None:
    content = make(MODEL.read_bytes())
    assert len(npu.load(content).graphs) == 1
    assert len(npu.check(content).ops) == len(npu.compile(content).compiled_model.placement.ops)
    assert npu.run(content, seed=1).report.model == "<bytes>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((1, 8, 8, 1), np.float32), "must be int8 of shape .1, 8, 8, 1., got float32"),
        (np.zeros((8, 8), np.int8), "must be int8 of shape .1, 8, 8, 1., got int8 of shape .8, 8."),
        ([[1, "a"]], "got <U21 of shape .1, 2."),
        (None, "got object of shape .."),
    ],
)
def test_an_array_that_does_not_fit_an_input_is_refused_by_name(value: Any, text: str) -> None:
    for inputs in ([value], {INPUT: value}):
        with pytest.raises(UserError, match=f"input 0 '{INPUT}': .*{text}"):
            npu.run(MODEL, inputs)


def test_the_order_of_several_inputs_is_told_where_a_shape_does_not_fit() -> None:
    b = ModelBuilder()
    left = b.input((1, 4), DType.FLOAT32, name="left")
    right = b.input((1, 1), DType.FLOAT32, name="right")
    b.output(b.op("ADD", [left, right], (1, 4), DType.FLOAT32, attributes=AddOptions()))
    arrays = [np.zeros((1, 1), np.float32), np.zeros((1, 4), np.float32)]
    with pytest.raises(InterpreterError, match=r"the model's inputs are, in this order, left, right$"):
        npu.run(b.build(), arrays)


def test_whole_numbers_come_from_lists_and_arrays() -> None:
    assert whole_numbers("x", [1, 2]) == whole_numbers("x", np.array([1, 2])) == (1, 2)
    for wrong in ([[1]], ["a"], [None], 5):
        with pytest.raises(UserError, match="x: must be a list of whole numbers, got"):
            whole_numbers("x", wrong)  # type: ignore[arg-type]


def test_the_signature_of_a_verb_names_the_keywords_that_all_share() -> None:
    shared = list(inspect.signature(npu.check).parameters.values())[3:]
    assert [parameter.name for parameter in shared] == [
        *("memory_mode", "system", "arena_cache_size", "profile", "optimise", "lstm_gates", "session")
    ]
    for verb in (npu.compile, npu.diff, npu.explain, npu.export, npu.fix, npu.run, npu.time_model, npu.verify):
        assert list(inspect.signature(verb).parameters.values())[-len(shared) :] == shared


def test_a_keyword_that_no_verb_has_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"keywords: must be those of the function or memory_mode, .*, got profiel"):
        npu.check(MODEL, profiel="v0.1")  # type: ignore[call-arg]


def test_the_bytes_of_the_arena_are_a_keyword() -> None:
    needed, given = (npu.compile(MODEL, arena_cache_size=size).compiled_model.usage.arena_bytes for size in (None, 5120))
    assert needed > 5120 >= given
    with pytest.raises(ArgumentTypeError, match="arena_cache_size: must be a number of bytes, got '5K' of type str"):
        npu.compile(MODEL, arena_cache_size="5K")  # type: ignore[call-arg]
