"""The errors that a person can cause; the only place that defines them.

`UserError` and its kinds mean that a model, a configuration, a command stream or a command line is at fault: the command
line prints them without a traceback and exits with 1. Anything else is a defect of this project and is allowed to crash.

Wording: *where: what must be what, got value*; add what to do where it helps.
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from npu.plain import printable, shortened

Kind = TypeVar("Kind", bound="UserError")


LONGEST = 800
"""Characters of a message; a file's own names and lists can have any number."""


class UserError(Exception):
    """The input is at fault. The message is one line that a person can act on; names in it cannot steer a terminal.

    `operator` and `command` are the place in a compiled file, where it is known: the index of an `ethos-u` operator, and that
    of a command in its stream.
    """

    operator: int | None = None
    command: int | None = None

    def __str__(self) -> str:
        return shortened(printable(super().__str__()), LONGEST)

    def at(self: Kind, where: str, *, operator: int | None = None, command: int | None = None) -> Kind:
        """The same error with `where` before its message, unless it begins so already."""
        message = str(self)
        moved = type(self)(message if message.startswith(f"{where}: ") else f"{where}: {message}")
        moved.operator = self.operator if operator is None else operator
        moved.command = self.command if command is None else command
        return moved


class ArgumentTypeError(UserError, TypeError):
    """A caller in Python gave something of a type that the function does not take."""


class UsageError(UserError):
    """The command line asks for what does not exist; the exit code is that of wrong usage."""


class ModelError(UserError):
    """A TFLite model is malformed, or asks for something that does not exist."""


class ConfigError(UserError):
    """A hardware or board description is malformed or contradicts itself."""


class StreamError(UserError):
    """A command stream, weight stream or driver payload is not one that the hardware accepts."""


class CompileError(UserError):
    """The compiler was given a placement or a model that it cannot honour."""


class SimulationError(UserError):
    """A command stream does something that the simulated machine refuses, such as leaving its memory regions."""


class InterpreterError(UserError):
    """The interpreter was used in the wrong order, or given data that do not fit the model."""


class _StreamErrorsAt:
    """A context manager that may be entered again, because every inference does."""

    __slots__ = ("_operator", "_where")

    def __init__(self, where: str, operator: int | None) -> None:
        self._where, self._operator = where, operator

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None and isinstance(error, StreamError | SimulationError | InterpreterError):
            raise error.at(self._where, operator=self._operator) from error


def stream_errors_at(where: str, *, operator: int | None = None) -> _StreamErrorsAt:
    """Faults of command streams, and of delegates that run them, tell where they are: a file, or an operator of one."""
    return _StreamErrorsAt(where, operator)
