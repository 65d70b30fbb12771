"""Kinds of errors that are also the builtin errors which scripts written for LiteRT catch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npu.errors import InterpreterError, ModelError


class InterpreterValueError(InterpreterError, ValueError):
    """Wrong data or index; also a ValueError, which is what scripts written for LiteRT catch."""


class InterpreterStateError(InterpreterError, RuntimeError):
    """Wrong order of calls, or an operator that cannot run; also a RuntimeError, as scripts written for LiteRT catch."""


class UnreadableModelError(ModelError, ValueError):
    """A file that is no model; also a ValueError, which is what scripts written for LiteRT catch."""


@contextmanager
def litert_errors() -> Iterator[None]:
    """Turn what an operator or the file is to blame for into the kinds that LiteRT has: RuntimeError and ValueError."""
    try:
        yield
    except (ValueError, RuntimeError):
        raise
    except ModelError as error:
        raise UnreadableModelError(str(error)) from error
    except InterpreterError as error:
        raise InterpreterStateError(str(error)) from error
