"""Typed parameters of tools by name, and the flags that set them; the only place that knows how a flag becomes a value."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, TypeVar

from npu.errors import UserError
from npu.records import dataclass
from npu.runtime.plugins import convert

ParameterValue = bool | int | float | str
V = TypeVar("V", bool, int, float, str)


@dataclass(frozen=True, slots=True)
class Flag:
    """A command-line flag `--name`; its type is that of the parameter of this name."""

    name: str
    help: str


class ToolParameters:
    """Values by name. A parameter keeps the type it was added with.

    >>> parameters = ToolParameters()
    >>> parameters.add("use_dummy_delegate", False)
    >>> parameters.get("use_dummy_delegate", bool)
    False
    """

    def __init__(self) -> None:
        self._values: dict[str, ParameterValue] = {}

    def add(self, name: str, default: ParameterValue) -> None:
        """A new parameter; UserError if the name is taken."""
        if name in self._values:
            raise UserError(f"parameter '{name}': must be added once, it exists already")
        self._values[name] = default

    def set(self, name: str, value: ParameterValue) -> None:
        """Give a parameter a value of its type."""
        expected = type(self._known(name))
        if type(value) is not expected:
            raise UserError(f"parameter '{name}': must be of type {expected.__name__}, got {value!r}")
        self._values[name] = value

    def get(self, name: str, kind: type[V]) -> V:
        """The value of a parameter; UserError if it does not exist or is not of type `kind`."""
        value = self._known(name)
        if type(value) is not kind:
            raise UserError(f"parameter '{name}': must be read as {type(value).__name__}, got {kind.__name__}")
        return value

    def copy(self) -> ToolParameters:
        """Parameters of their own with the same values."""
        copied = ToolParameters()
        copied.merge(self)
        return copied

    def changed(self, defaults: ToolParameters) -> list[str]:
        """The names in `defaults` that have another value here."""
        return [name for name in defaults if self._known(name) != defaults._values[name]]

    def merge(self, other: ToolParameters) -> None:
        """Add all parameters of `other`."""
        for name in other:
            self.add(name, other._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def _known(self, name: str) -> ParameterValue:
        if name not in self._values:
            raise UserError(f"parameter '{name}': must be one of {', '.join(sorted(self._values))}")
        return self._values[name]


def create_flag(name: str, parameters: ToolParameters, help: str) -> Flag:
    """A flag for an existing parameter; UserError if there is none of that name."""
    parameters._known(name)
    return Flag(name, help)


def add_flags(group: argparse._ArgumentGroup, flags: list[Flag], parameters: ToolParameters) -> None:
    """Declare flags: `--name` or `--name=true` switches a bool on, `--name=false` off; the others take a value."""
    for flag in flags:
        default = parameters._known(flag.name)

        def parse(text: str, default: ParameterValue = default) -> ParameterValue:
            value: ParameterValue = convert(text, default)
            return value

        parse.__name__ = type(default).__name__  # argparse names the type in its errors
        if isinstance(default, bool):
            # Not nargs="?": that would swallow a model's name after the flag.
            group.add_argument(f"--{flag.name}", dest=flag.name, action="store_true", default=default, help=flag.help)
            for text in ("true", "false"):
                action: Any = f"store_{text}"
                group.add_argument(
                    f"--{flag.name}={text}", dest=flag.name, action=action, default=default, help=argparse.SUPPRESS
                )
        else:
            metavar = type(default).__name__.upper().replace("STR", "TEXT")
            group.add_argument(f"--{flag.name}", type=parse, default=default, metavar=metavar, help=flag.help)


def take_flags(options: argparse.Namespace, parameters: ToolParameters) -> None:
    """Set the parameters from parsed arguments."""
    for name in parameters:
        if hasattr(options, name):
            parameters.set(name, getattr(options, name))
