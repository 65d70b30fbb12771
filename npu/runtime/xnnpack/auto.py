"""The delegate as a process-wide default. Importing this module changes nothing; `enable_by_default` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from npu.runtime.defaults import set_default
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.options import XnnpackOptions, default_options

NAME = "xnnpack"


def make_delegate(num_threads: int, options: XnnpackOptions | None = None) -> XnnpackDelegate:
    """A delegate with the interpreter's number of threads and otherwise these options."""
    return XnnpackDelegate(replace(options or default_options(), num_threads=num_threads))


def make_switched(num_threads: int, switches: Sequence[str]) -> XnnpackDelegate:
    """The same with these switches of the options on."""
    on: dict[str, Any] = dict.fromkeys(switches, True)
    return make_delegate(num_threads, replace(default_options(), **on))


def enable_by_default(options: XnnpackOptions | None = None) -> None:
    """Give every later interpreter its own delegate with these options."""
    set_default(NAME, lambda num_threads: make_delegate(num_threads, options))


def disable_by_default() -> None:
    """Later interpreters start without the delegate again."""
    set_default(NAME, None)
