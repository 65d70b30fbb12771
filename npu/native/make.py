"""Makes the library of a group for a tier. Runs in a process of its own, which ends with the one that wants the library,
and says on standard error how many kernels are compiled:

python -c "from npu.native.make import main; main()" GROUP TIER     writes the file, or what went wrong, to standard output
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from threading import Thread
from types import ModuleType

from npu.garbage import collect_rarely
from npu.native import cpu, sources, store
from npu.native.kernel import DECLARED
from npu.progress import counted

_BEFORE = frozenset(sys.modules)


def main() -> None:
    """The process: with an end of standard input it stops at once."""
    group, tier = sys.argv[1:]
    Thread(target=_end_with_parent, daemon=True).start()
    collect_rarely()
    try:
        content = make(group, cpu.named(tier))
    except Exception as error:
        content = f"{type(error).__name__}: {error}".encode()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    os._exit(0)  # numba holds functions without machine code; nothing is left to do


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def make(group: str, tier: cpu.CpuTier) -> bytes:
    """The content of a library's file."""
    os.environ["NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING"] = "1"  # of messages that nobody reads: a twentieth of the time
    cpu.use(tier)
    modules = sources.modules_of(group)
    _skip_packages(group)
    for module in modules:
        import_module(module)
    _check_imports(group)
    kernels = [kernel for module in modules for kernel in DECLARED[module]]
    from npu.native.compile import modules_of
    from npu.native.link import ALL, OF_GROUP, make_object

    written, entries = modules_of(counted(kernels, group, _tell)), [kernel.symbol for kernel in kernels]
    return store.encode(group, tier, make_object(written, entries, tier, OF_GROUP.get(group, ALL)))


def _tell(_group: str, done: int, total: int) -> None:
    sys.stderr.write(f"{done} {total}\n")
    sys.stderr.flush()


def _skip_packages(group: str) -> None:
    """Import the modules that a group depends on without what their packages import."""
    for module in sources.files_of(group):
        parts = module.split(".")
        for package in (".".join(parts[:k]) for k in range(1, len(parts))):
            if package not in sys.modules:
                sys.modules[package] = empty = ModuleType(package)
                empty.__path__ = [str(sources.ROOT.joinpath(*package.split(".")))]


def _check_imports(group: str) -> None:
    """A library is known by its sources: none may be missing from them."""
    known = sources.files_of(group)
    ours = [name for name in sys.modules.keys() - _BEFORE if name.split(".")[0] in ("npu", "sim", "constraints")]
    unknown = [name for name in ours if name not in known and not hasattr(sys.modules[name], "__path__")]
    if unknown:
        raise ImportError(f"{group}: kernels must depend on what they import by name, got {', '.join(sorted(unknown))}")
