"""The types of what callers in Python give to public functions: the only place that judges them."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import SupportsInt

import numpy as np

from npu.errors import ArgumentTypeError

PATH = (str, Path)
INTEGER = (int, np.integer)
BYTES = (bytes, bytearray, memoryview)


def require_type(where: str, value: object, types: type | tuple[type, ...], what: str) -> None:
    """ArgumentTypeError, a UserError and a TypeError, unless `value` is one of `types`; `what` says them in words."""
    if not isinstance(value, types):
        raise ArgumentTypeError(f"{where}: must be {what}, got {reprlib.repr(value)} of type {type(value).__name__}")


def require_type_or_none(where: str, value: object, types: type | tuple[type, ...], what: str) -> None:
    """As `require_type`, for an argument that may be left out."""
    if value is not None:
        require_type(where, value, types, what)


def whole_numbers(where: str, values: Iterable[SupportsInt]) -> tuple[int, ...]:
    """The numbers of a list or an array of one dimension; ArgumentTypeError for what is none."""
    try:
        return tuple(int(value) for value in values)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"{where}: must be a list of whole numbers, got {reprlib.repr(values)}") from error
