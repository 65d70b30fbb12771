"""The libraries of this process: found, or made if they are missing, and loaded once each, by LLVM alone."""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from typing import TYPE_CHECKING, Any

from npu.native import requests, store
from npu.native.cpu import current
from npu.native.sources import group_of

if TYPE_CHECKING:
    from npu.native.kernel import Kernel
    from npu.native.makers import Maker

_lock = RLock()
_loaded: dict[str, Any] = {}
"""LLVM's engine for each group; it owns the code."""
_makers: dict[str, Maker] = {}
_told: set[str] = set()


def address_of(kernel: Kernel) -> int:
    """Machine address of the entry of a kernel."""
    with _lock:
        group = group_of(kernel.__module__)
        if group not in _loaded:
            _loaded[group] = _load(_object_of(group))
        address: int = _loaded[group].get_function_address(kernel.symbol)
    if not address:
        raise LookupError(f"{kernel} is not in the library of {group}")
    return address


def prepare(groups: Iterable[str]) -> None:
    """Make the libraries of groups that are missing, all at the same time."""
    with _lock:
        wanted = list(groups)
        requests.expect(wanted)
        for group in wanted:
            _object_of(group)


def _object_of(group: str) -> bytes:
    found = store.find(group, current())
    return found[0] if found else _made(group)


def _made(group: str) -> bytes:
    from npu.native import makers

    tier = current()
    if group not in _makers:
        missing = [
            each for each in dict.fromkeys([group, *requests.expected]) if each not in _makers and not store.find(each, tier)
        ]
        _tell_once(requests.MAKING)
        _makers.update({maker.group: maker for maker in makers.start(missing, tier)})
    content = _makers[group].content()
    try:
        store.keep(store.cache_path(group, tier), content)
    except OSError as error:
        _tell_once(f"the compiled kernels cannot be kept ({error}): set NPULAB_CACHE_DIR to a folder that can be written")
    code = store.decode(group, tier, content)
    assert code is not None  # `content` has checked it
    return code


def _tell_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        requests.tell(message)


def _load(code: bytes) -> Any:
    """The engine that holds an object. It must have been made for this CPU."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine
