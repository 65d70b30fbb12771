"""What the command line says about libraries of kernels, and the command that makes them ahead."""

from __future__ import annotations

import argparse
import sys

from npu.native import requests

_COMPILE = ("npu.compiler.kernels", "npu.isa.weight_stream.kernels")
_TIME = (*_COMPILE, "npu.machine.kernels", "sim.timing.kernels")
_RUN = (*_TIME, "sim.functional.kernels")
NEEDED: dict[str, tuple[str, ...]] = {"run": _RUN, "export": _RUN, "compile": _COMPILE, "verify": _COMPILE[1:]}
NEEDED |= dict.fromkeys(("check", "compare", "explain"), _TIME)
"""What a command will use nearly always; the rest is made when it is used."""
_BAR = 24


def prepare(command: str | None) -> None:
    """Say what a command will need, and show on a terminal that it is being made."""
    requests.expect(NEEDED.get(command or "", ()))
    requests.tell = _tell
    if sys.stderr.isatty():
        requests.progress = _show


def _tell(message: str) -> None:
    if message != requests.MAKING or sys.stderr.isatty():
        sys.stderr.write(f"npu: {message}\n")


def _show(done: int, total: int) -> None:
    filled = _BAR * done // total
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {done} of {total}{end}")
    sys.stderr.flush()


def warm_up(options: argparse.Namespace) -> int:
    """Make what is missing: libraries, and bytecode, which a process may not be allowed to write (PYTHONDONTWRITEBYTECODE)."""
    import compileall

    from npu.native import cpu, library, sources

    tiers = cpu.TIERS if options.cpu == "all" else (cpu.named(options.cpu) if options.cpu else cpu.current(),)
    for tier in tiers:
        library.prepare(sources.GROUPS, tier)
    for package in sources.PACKAGES:
        compileall.compile_dir(str(sources.ROOT / package), quiet=2)
    return 0


def describe() -> str:
    """Which libraries this CPU uses and where they are, for `npu --version --verbose`."""
    from npu.native import cpu, sources, store

    tier = cpu.current()
    lines = [f"kernels for {tier.name} (this CPU runs {', '.join(usable.name for usable in cpu.usable())})"]
    for group in sources.GROUPS:
        find = store.find(group, tier)
        lines.append(f"  {group:<30} {find[1] if find else 'not made yet'}")
    return "\n".join([*lines, f"  others are kept in {store.cache_folder()}"]) + "\n"
