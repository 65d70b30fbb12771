"""Cases that go wrong in every way that the campaign must notice."""

from __future__ import annotations

import os

import numpy as np

from npu.errors import UserError

from tests.fuzz.answer import attempt

HUNGER = 1 << 27
"""Bytes that one of the cases takes."""


def case(number: int) -> str:
    if number == 4:
        raise KeyError("a bug")
    if number == 5:
        np.zeros(HUNGER, np.uint8)[::4096] = 1  # every page of it
    if number == 7:
        os._exit(3)
    if number == 8:
        attempt("file", _refuse)
    return "fine"


def _refuse() -> None:
    raise UserError("file: must be sound, got a broken one")
