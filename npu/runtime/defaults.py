"""Delegates that every interpreter of the process gets unless it asks for kernels without them; none at first.

The XNNPACK-like delegate is imported only when somebody wants it, because its kernels take time to load.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from npu.runtime.delegate import SimpleDelegate

Factory = Callable[[int], SimpleDelegate]
"""Makes a delegate for an interpreter with this number of threads; the interpreter closes it."""

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
    if use_xnnpack:
        factories.setdefault("xnnpack", import_module("npu.runtime.xnnpack.auto").make_delegate)
    return [factory(num_threads) for factory in factories.values()]
