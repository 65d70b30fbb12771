"""Kinds of InterpreterError that are also the builtin errors which scripts written for LiteRT catch."""

from __future__ import annotations

from npu.errors import InterpreterError


class InterpreterValueError(InterpreterError, ValueError):
    """Wrong data or index; also a ValueError, which is what scripts written for LiteRT catch."""


class InterpreterStateError(InterpreterError, RuntimeError):
    """Wrong order of calls; also a RuntimeError, which is what scripts written for LiteRT catch."""
