"""Custom operators written in Python; the only place that knows which names are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu.errors import InterpreterError
from npu.records import dataclass
from npu.runtime.delegate import Context, Node, Status


@dataclass(frozen=True, slots=True)
class CustomOperator:
    """Callbacks of one custom operator, as a TFLite registration has them.

    `init(context, custom_options)` returns the node's `user_data`; `prepare` sets the shapes with `context.resize_tensor` (the
    shapes of the file stay otherwise); `invoke` reads `context.tensors[i].data` of the inputs and writes that of the outputs.
    """

    invoke: Callable[[Context, Node], Status]
    prepare: Callable[[Context, Node], Status] | None = None
    init: Callable[[Context, bytes], Any] | None = None


_registered: dict[str, CustomOperator] = {}


def register_custom_operator(name: str, operator: CustomOperator) -> None:
    """Make every interpreter created from now on run CUSTOM operators called `name` with these callbacks."""
    if name in _registered:
        raise InterpreterError(f"custom operator '{name}': a kernel must be registered once, it is registered already")
    _registered[name] = operator


def unregister_custom_operator(name: str) -> None:
    """Forget a custom operator; InterpreterError if there is none of that name."""
    if _registered.pop(name, None) is None:
        raise InterpreterError(f"custom operator '{name}': must be registered before it is removed")


def find_custom_operator(name: str) -> CustomOperator | None:
    """The callbacks of a custom operator, None if nobody registered it."""
    return _registered.get(name)
