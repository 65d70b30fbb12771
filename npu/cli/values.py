"""Numbers on the command line: the only place that says which texts they may be. argparse shows the messages."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError

_DIGITS = 18
"""Of the longest whole number; none that a command takes needs more."""


def whole_number(text: str) -> int:
    """An integer."""
    if not re.fullmatch(rf"[+-]?[0-9]{{1,{_DIGITS}}}", text):
        raise ArgumentTypeError(f"must be a whole number, got {_shown(text)}")
    return int(text)


def count(text: str) -> int:
    """An integer from 0 up."""
    if not re.fullmatch(rf"[0-9]{{1,{_DIGITS}}}", text):
        raise ArgumentTypeError(f"must be a whole number from 0 up, got {_shown(text)}")
    return int(text)


def positive(text: str) -> int:
    """An integer from 1 up."""
    if not re.fullmatch(rf"[0-9]{{1,{_DIGITS}}}", text) or int(text) < 1:
        raise ArgumentTypeError(f"must be a whole number from 1 up, got {_shown(text)}")
    return int(text)


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"must be a finite number, got {_shown(text)}")
    return value


def distance(text: str) -> float:
    """A finite number from 0 up."""
    value = number(text)
    if value < 0:
        raise ArgumentTypeError(f"must be a number from 0 up, got {_shown(text)}")
    return value


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The name of an input and its sizes: NAME=1,64,64,3."""
    name, separator, sizes = text.rpartition("=")
    if not separator or not name:
        raise ArgumentTypeError(f"must be NAME=N,H,W,C, got {_shown(text)}")
    return name, tuple(positive(size) for size in sizes.split(","))


def board(name: str) -> str:
    """The target that the name of a board stands for."""
    from npu.hardware.shipped import board_target

    return board_target(name)
