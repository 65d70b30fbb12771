"""Batches of inferences: each must be what it is alone, however many threads share them."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.runtime.misuse import InterpreterValueError

from tests.support.processes import ROOT

DIGITS = ROOT / "examples" / "digits.tflite"


def images() -> np.ndarray:
    """The shipped digits, in the model's input shape."""
    return np.stack([np.load(ROOT / "examples" / f"digit_{k}.npy") for k in range(10)])


@pytest.mark.parametrize("num_threads", [1, 2, 3, 12])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_batch_gives_what_single_inferences_give(is_compiled: bool, num_threads: int) -> None:
    content = npu.compile(str(DIGITS), "ethos-u55-128").content if is_compiled else DIGITS.read_bytes()
    alone = npu.Interpreter(model_content=content)
    alone.allocate_tensors()
    expected = []
    for image in images():
        alone.set_tensor(alone.get_input_details()[0]["index"], image)
        alone.invoke()
        expected.append(alone.get_tensor(alone.get_output_details()[0]["index"]))
    interpreter = npu.Interpreter(model_content=content, num_threads=num_threads)
    interpreter.allocate_tensors()
    for _ in range(4):
        (found,) = interpreter.invoke_batch(images())
        np.testing.assert_array_equal(found, np.stack(expected))
    assert len({array.tobytes() for array in expected}) > 1
    interpreter.close()


def interpreter_of(content: bytes) -> npu.Interpreter:
    interpreter = npu.Interpreter(model_content=content)
    interpreter.allocate_tensors()
    return interpreter


def one_by_one(interpreter: npu.Interpreter, batch: np.ndarray) -> np.ndarray:
    outputs = []
    for values in batch:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
        interpreter.invoke()
        outputs.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return np.stack(outputs)


@pytest.fixture(scope="module")
def compiled_digits() -> bytes:
    return npu.compile(str(DIGITS), "ethos-u55-128").content


def test_a_compiled_graph_runs_many_inferences_in_one_call(compiled_digits: bytes) -> None:
    batch = np.random.default_rng(0).integers(-128, 128, (100, *images().shape[1:])).astype(np.int8)
    interpreter = interpreter_of(compiled_digits)
    outputs = [np.empty((100, 1, 10), np.int8) for _ in range(2)]
    given, made = [[values] for values in batch], [[[values] for values in output] for output in outputs]
    assert interpreter.invoke_many(given, made[0]) == 0  # nothing is prepared
    interpreter.invoke_batch(batch[:3])
    assert interpreter.invoke_many(given, made[0]) == 100
    assert interpreter.invoke_many(given[:7], made[1][:7]) == 7
    expected = one_by_one(interpreter_of(compiled_digits), batch)
    np.testing.assert_array_equal(outputs[0], expected)
    np.testing.assert_array_equal(outputs[1][:7], expected[:7])
    assert len(np.unique(expected, axis=0)) > 10


def test_inputs_with_gaps_and_of_other_types_are_inferred_as_set_tensor_takes_them(compiled_digits: bytes) -> None:
    interpreter, pixels = interpreter_of(compiled_digits), images()
    wide = np.zeros((*pixels.shape[:-1], 2), np.int8)
    wide[..., :1] = pixels
    expected = one_by_one(interpreter_of(compiled_digits), pixels)
    for _ in range(4):
        np.testing.assert_array_equal(interpreter.invoke_batch(wide[..., :1])[0], expected)
    with pytest.raises(InterpreterValueError, match="must get values of type"):
        interpreter.invoke_batch(pixels.astype(np.int16))


def test_what_a_profile_watches_is_not_run_in_one_call(compiled_digits: bytes) -> None:
    interpreter = interpreter_of(compiled_digits)
    interpreter.invoke_batch(images())
    interpreter.start_profile()
    interpreter.invoke_batch(images())
    assert len(interpreter.take_profile()) == 10


def test_graphs_with_other_operators_are_run_one_by_one() -> None:
    interpreter = interpreter_of(DIGITS.read_bytes())
    interpreter.invoke_batch(images())
    assert interpreter.invoke_many([[image] for image in images()], [[np.empty((1, 10), np.int8)] for _ in range(10)]) == 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((), "must have 1 inputs, got 0"),
        ((np.zeros((2, 8, 8, 1), np.int8),), "must have a first axis and then"),
        ((np.int8(1),), "must have a first axis and then"),
    ],
)
def test_a_batch_of_another_shape_is_refused(inputs: tuple[np.ndarray, ...], message: str) -> None:
    interpreter = npu.Interpreter(model_path=str(DIGITS))
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterValueError, match=message):
        interpreter.invoke_batch(*inputs)


def test_an_empty_batch_has_no_outputs_to_stack() -> None:
    interpreter = npu.Interpreter(model_path=str(DIGITS))
    interpreter.allocate_tensors()
    with pytest.raises(InterpreterValueError, match="at least one"):
        interpreter.invoke_batch(np.zeros((0, 1, 8, 8, 1), np.int8))
