"""The NPU toolchain: `load`, `check`, `compile`, `run` and `Interpreter`.

The names are served lazily, so that `import npu` costs nothing and imports no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu.runtime.interpreter import Interpreter as Interpreter
    from npu.toolchain.check import check as check
    from npu.toolchain.compile import compile as compile
    from npu.toolchain.run import run as run
    from npu.toolchain.sources import load as load

_PUBLIC = {
    "Interpreter": "npu.runtime.interpreter",
    "check": "npu.toolchain.check",
    "compile": "npu.toolchain.compile",
    "load": "npu.toolchain.sources",
    "run": "npu.toolchain.run",
}
__all__ = ["Interpreter", "check", "compile", "load", "run"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("npulab")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'npu' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
