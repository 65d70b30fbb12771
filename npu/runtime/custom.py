"""Custom operators written in Python; the only place that knows which names are registered."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from npu.errors import InterpreterError, UserError
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


class MutableOpResolver:
    """Collects the custom operators of one interpreter: what the registerers of `InterpreterWithCustomOps` are called with."""

    def __init__(self) -> None:
        self.operators: dict[str, CustomOperator] = {}

    def add_custom(self, name: str, operator: CustomOperator) -> None:
        """Let the interpreter run CUSTOM operators called `name` with these callbacks."""
        self.operators[name] = operator


def import_custom_operators(source: str) -> None:
    """Import a module, by name or as the path of a .py file, that registers operators when it is imported.

    UserError if it cannot be imported, whatever it raises.
    """
    try:
        if source.endswith(".py"):
            _import_file(Path(source))
        else:
            import_module(source)
    except Exception as error:  # somebody else's code
        raise UserError(f"custom operators '{source}': must be a module that can be imported, got {error!r}") from error


def _import_file(path: Path) -> None:
    """Once in a process: operators are registered once."""
    name = f"npulab_custom_operators_{path.resolve()}"
    if name not in sys.modules:
        loader = SourceFileLoader(name, str(path))
        module = module_from_spec(spec_from_loader(name, loader) or ModuleSpec(name, loader))
        loader.exec_module(module)
        sys.modules[name] = module


def find_custom_operator(name: str) -> CustomOperator | None:
    """The callbacks of a custom operator, None if nobody registered it."""
    return _registered.get(name)
