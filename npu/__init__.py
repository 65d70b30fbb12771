"""The NPU toolchain: what the commands do, as functions, and `Interpreter`, `OpResolverType` and `load_delegate`.

Arguments that the functions share:

- `model`: the path of a file (`str` or `Path`), or its bytes;
- `target`: a shipped description (`npu configs` lists them; ethos-u55-128, or what a compiled file was made for);
- `config`: a description of your own in its place, the path of a YAML file or a mapping of its fields;
- `memory_mode`, `system`: shipped ones, or YAML files, in place of those of the description;
- `profile`: the rules of placement, "u55-u65", "v0.1" or "xnnpack";
- `progress`: called with what is done, how many parts of it, and of how many.

Cycles are ticks of the NPU's clock. What is wrong with a model, a description, a stream or an argument is a
`npu.errors.UserError`: ModelError, ConfigError, CompileError, StreamError, SimulationError, InterpreterError (some are a
ValueError or RuntimeError too, as LiteRT raises them) or ArgumentTypeError (a TypeError too).

The names are served lazily, so that `import npu` costs nothing and imports no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from npu.version import __version__

if TYPE_CHECKING:
    from npu.runtime.interpreter import OpResolverType as OpResolverType
    from npu.runtime.plugins import load_delegate as load_delegate
    from npu.toolchain.check import check as check
    from npu.toolchain.compile import compile as compile
    from npu.toolchain.diff import diff as diff
    from npu.toolchain.explain import explain_model as explain
    from npu.toolchain.fix import fix as fix
    from npu.toolchain.inspect import verify as verify
    from npu.toolchain.interpreter import Interpreter as Interpreter
    from npu.toolchain.run import run as run
    from npu.toolchain.sources import load as load
    from npu.toolchain.timing import time_model as time_model

_PUBLIC = {
    "Interpreter": ("npu.toolchain.interpreter", "Interpreter"),
    "OpResolverType": ("npu.runtime.interpreter", "OpResolverType"),
    "check": ("npu.toolchain.check", "check"),
    "compile": ("npu.toolchain.compile", "compile"),
    "diff": ("npu.toolchain.diff", "diff"),
    "explain": ("npu.toolchain.explain", "explain_model"),
    "fix": ("npu.toolchain.fix", "fix"),
    "load": ("npu.toolchain.sources", "load"),
    "load_delegate": ("npu.runtime.plugins", "load_delegate"),
    "run": ("npu.toolchain.run", "run"),
    "time_model": ("npu.toolchain.timing", "time_model"),
    "verify": ("npu.toolchain.inspect", "verify"),
}
__all__ = [
    "Interpreter",
    "OpResolverType",
    "__version__",
    "check",
    "compile",
    "diff",
    "explain",
    "fix",
    "load",
    "load_delegate",
    "run",
    "time_model",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'npu' has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return list(__all__)
