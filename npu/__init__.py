"""The NPU toolchain: `load`, `check`, `compile`, `run`, `Interpreter`, `OpResolverType` and `load_delegate`.

The names are served lazily, so that `import npu` costs nothing and imports no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from npu.runtime.interpreter import OpResolverType as OpResolverType
    from npu.runtime.plugins import load_delegate as load_delegate
    from npu.toolchain.check import check as check
    from npu.toolchain.compile import compile as compile
    from npu.toolchain.interpreter import Interpreter as Interpreter
    from npu.toolchain.run import run as run
    from npu.toolchain.sources import load as load

__version__ = "0.1.0"

_PUBLIC = {
    "Interpreter": "npu.toolchain.interpreter",
    "OpResolverType": "npu.runtime.interpreter",
    "check": "npu.toolchain.check",
    "compile": "npu.toolchain.compile",
    "load": "npu.toolchain.sources",
    "load_delegate": "npu.runtime.plugins",
    "run": "npu.toolchain.run",
}
__all__ = ["Interpreter", "OpResolverType", "__version__", "check", "compile", "load", "load_delegate", "run"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'npu' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
