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
