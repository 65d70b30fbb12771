"""What every error text fulfils, whatever names and lists a file brings."""

from __future__ import annotations

from npu.errors import LONGEST, ModelError, UserError


def test_a_long_message_keeps_its_place_and_what_to_do() -> None:
    text = str(ModelError(f"model.tflite: shape must be short, got {list(range(10_000))}; convert the model again"))
    assert len(text) <= LONGEST
    assert text.startswith("model.tflite: shape must be short, got [0, 1, 2")
    assert " characters ...] " in text
    assert text.endswith("9999]; convert the model again")


def test_a_message_of_usual_length_is_whole() -> None:
    assert str(UserError("x" * LONGEST)) == "x" * LONGEST


def test_escapes_count_as_what_is_shown() -> None:
    assert len(str(UserError("\x1b" * LONGEST))) <= LONGEST
