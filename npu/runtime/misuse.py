"""Kinds of errors that are also the builtin errors which scripts written for LiteRT catch."""

from __future__ import annotations

from types import TracebackType

from npu.errors import InterpreterError, ModelError


class InterpreterValueError(InterpreterError, ValueError):
    """Wrong data or index; also a ValueError, which is what scripts written for LiteRT catch."""


class UnreadableLibraryError(InterpreterValueError, OSError):
    """A shared library that cannot be loaded; also an OSError, which is what LiteRT lets through."""


class InterpreterStateError(InterpreterError, RuntimeError):
    """Wrong order of calls, or an operator that cannot run; also a RuntimeError, as scripts written for LiteRT catch."""


class UnreadableModelError(ModelError, ValueError):
    """A file that is no model; also a ValueError, which is what scripts written for LiteRT catch."""


class _LitertErrors:
    """A context manager without state, because every inference enters it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None or isinstance(error, ValueError | RuntimeError):
            return
        if isinstance(error, ModelError):
            raise UnreadableModelError(str(error)) from error
        if isinstance(error, InterpreterError):
            raise InterpreterStateError(str(error)) from error


_LITERT_ERRORS = _LitertErrors()


def litert_errors() -> _LitertErrors:
    """Turn what an operator or the file is to blame for into the kinds that LiteRT has: RuntimeError and ValueError."""
    return _LITERT_ERRORS
