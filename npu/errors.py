"""The errors that a person can cause; the only place that defines them.

`UserError` and its kinds mean that a model, a configuration, a command stream or a command line is at fault: the command
line prints them without a traceback and exits with 1. Anything else is a defect of this project and is allowed to crash.

Wording: *where: what must be what, got value*; add what to do where it helps.
"""

from __future__ import annotations

from npu.plain import printable


class UserError(Exception):
    """The input is at fault. The message is one line that a person can act on; names in it cannot steer a terminal."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ArgumentTypeError(UserError, TypeError):
    """A caller in Python gave something of a type that the function does not take."""


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
