"""The NPU toolchain: what the commands do, as functions, and `Interpreter`, `OpResolverType` and `load_delegate`.

Arguments that the functions share:

- `model`: the path of a file (`str` or `Path`), or its bytes;
- `target`: a shipped description (`npu configs` lists them; ethos-u55-128, or what a compiled file was made for);
- `config`: a description of your own in its place, the path of a YAML file or a mapping of its fields;
- `memory_mode`, `system`: shipped ones, or YAML files, in place of those of the description;
- `arena_cache_size`: bytes for feature maps and copies of constants, in place of the memory mode's;
- `optimise`: "performance" (the default: cycles, within the arena's bytes) or "size" (SRAM), where the verb compiles;
- `lstm_gates`: "exact" (the default) or "table": gates of int8 LSTM cells by the hardware's table, faster and not exact;
- `profile`: the rules of placement, "u55-u65" (the default), "v0.1" or "xnnpack";
- `session`: a `Session(Hardware(target, config, ...), profile)` in place of all these, which any number of calls and threads
  share;
- `origin`: `Origin(source, database)`, which gives the operators of another compiler's file their names;
- `progress`: called with what is done, how many parts of it, and of how many.

Cycles are ticks of the NPU's clock. What is wrong with a model, a description, a stream or an argument is a
`npu.errors.UserError`: ModelError, ConfigError, CompileError, StreamError, SimulationError, InterpreterError (some are a
ValueError or RuntimeError too, as LiteRT raises them) or ArgumentTypeError (a TypeError too).

The names are served lazily, so that `import npu` costs nothing and imports no compiler.
"""

from __future__ import annotations

from npu.packages import require_own_packages
from npu.version import __version__

require_own_packages()

TYPE_CHECKING = False  # that of `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from npu.api import check as check
    from npu.api import check_report as check_report
    from npu.api import compare as compare
    from npu.api import compile as compile
    from npu.api import diff as diff
    from npu.api import explain as explain
    from npu.api import export as export
    from npu.api import fix as fix
    from npu.api import run as run
    from npu.api import sweep as sweep
    from npu.api import time_model as time_model
    from npu.api import verify as verify
    from npu.errors import UserError as UserError
    from npu.explore.pareto import pareto as pareto
    from npu.hardware.choice import Hardware as Hardware
    from npu.runtime.custom import CustomOperator as CustomOperator
    from npu.runtime.custom import register_custom_operator as register_custom_operator
    from npu.runtime.delegate import Delegate as Delegate
    from npu.runtime.delegate import SimpleDelegate as SimpleDelegate
    from npu.runtime.interpreter import OpResolverType as OpResolverType
    from npu.runtime.plugins import load_delegate as load_delegate
    from npu.toolchain.interpreter import Interpreter as Interpreter
    from npu.toolchain.interpreter import InterpreterWithCustomOps as InterpreterWithCustomOps
    from npu.toolchain.origin import Origin as Origin
    from npu.toolchain.session import Session as Session
    from npu.toolchain.sources import load as load

_VERBS = (
    "check",
    "check_report",
    "compare",
    "compile",
    "diff",
    "explain",
    "export",
    "fix",
    "run",
    "sweep",
    "time_model",
    "verify",
)
_PUBLIC = {
    "CustomOperator": "npu.runtime.custom",
    "Delegate": "npu.runtime.delegate",
    "Hardware": "npu.hardware.choice",
    "Interpreter": "npu.toolchain.interpreter",
    "InterpreterWithCustomOps": "npu.toolchain.interpreter",
    "OpResolverType": "npu.runtime.interpreter",
    "Origin": "npu.toolchain.origin",
    "Session": "npu.toolchain.session",
    "SimpleDelegate": "npu.runtime.delegate",
    "UserError": "npu.errors",
    "load": "npu.toolchain.sources",
    "load_delegate": "npu.runtime.plugins",
    "pareto": "npu.explore.pareto",
    "register_custom_operator": "npu.runtime.custom",
} | dict.fromkeys(_VERBS, "npu.api")
"""The module of every public name."""

__all__ = [
    "CustomOperator",
    "Delegate",
    "Hardware",
    "Interpreter",
    "InterpreterWithCustomOps",
    "OpResolverType",
    "Origin",
    "Session",
    "SimpleDelegate",
    "UserError",
    "__version__",
    "check",
    "check_report",
    "compare",
    "compile",
    "diff",
    "explain",
    "export",
    "fix",
    "load",
    "load_delegate",
    "pareto",
    "register_custom_operator",
    "run",
    "sweep",
    "time_model",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'npu' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
