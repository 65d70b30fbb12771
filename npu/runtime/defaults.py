"""Delegates that every interpreter of the process gets unless it asks for kernels without them; none at first.

The XNNPACK-like delegate is imported only when somebody wants it, because its kernels take time to load.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from npu.runtime.delegate import SimpleDelegate
from npu.runtime.misuse import InterpreterValueError

Factory = Callable[[int], SimpleDelegate]
"""Makes a delegate for an interpreter with this number of threads; the interpreter closes it."""

VARIABLE = "NPU_XNNPACK"
"""Environment variable, the counterpart of a build with XNNPACK on by default. The only one that this package reads: a
switch for programs that cannot be edited has no other place. Read whenever an interpreter is made."""
SWITCHES = ("qs8", "qu8", "force_fp16", "variable_operators", "transient_indirection_buffer")
"""The options of the delegate that are on or off."""

_factories: dict[str, Factory] = {}


def set_default(name: str, factory: Factory | None) -> None:
    """Give every later interpreter a delegate, or no longer (None)."""
    if factory is None:
        _factories.pop(name, None)
    else:
        _factories[name] = factory


def default_delegates(num_threads: int, *, use_xnnpack: bool = False) -> list[SimpleDelegate]:
    """New delegates for one interpreter; `use_xnnpack` adds that one if it is not among them."""
    factories = dict(_factories)
    switches = switches_from(os.environ.get(VARIABLE, ""))
    if switches is not None:
        make = import_module("npu.runtime.xnnpack.auto").make_switched
        factories.setdefault("xnnpack", lambda threads: make(threads, switches))
    if use_xnnpack:
        factories.setdefault("xnnpack", import_module("npu.runtime.xnnpack.auto").make_delegate)
    return [factory(num_threads) for factory in factories.values()]


def switches_from(text: str) -> tuple[str, ...] | None:
    """What NPU_XNNPACK asks for: None for "" and "0", () for "1", else names from SWITCHES between commas, which imply "1"."""
    if text.strip() in ("", "0"):
        return None
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in (*SWITCHES, "1")]
    if unknown:
        raise InterpreterValueError(f"{VARIABLE}: must be 0, 1 or names of {', '.join(SWITCHES)}, got '{unknown[0]}'")
    return tuple(name for name in names if name != "1")
