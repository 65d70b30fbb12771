"""The libraries of this process: found, or made if they are missing, and loaded once each."""

from __future__ import annotations

from collections.abc import Iterable
from threading import RLock
from typing import TYPE_CHECKING, Any

from npu.native import requests, store
from npu.native.cpu import CpuTier, current
from npu.native.load import load
from npu.native.sources import group_of

if TYPE_CHECKING:
    from npu.native.kernel import Kernel
    from npu.native.makers import Maker

_lock = RLock()
_loaded: dict[str, Any] = {}
"""The code of each group in memory."""
_makers: dict[tuple[str, CpuTier], Maker] = {}
_told: set[str] = set()
_PROGRESS_SECONDS = 0.2


def address_of(kernel: Kernel) -> int:
    """Machine address of the entry of a kernel."""
    with _lock:
        group = group_of(kernel.__module__)
        if group not in _loaded:
            _loaded[group] = load(_object_of(group))
        address: int = _loaded[group].get_function_address(kernel.symbol)
    if not address:
        raise LookupError(f"{kernel} is not in the library of {group}")
    return address


def prepare(groups: Iterable[str], tier: CpuTier | None = None) -> None:
    """Make the libraries of groups that are missing, all at the same time."""
    with _lock:
        tier = tier or current()
        _start(groups, tier)
        for group in groups:
            if store.find(group, tier) is None:
                _made(group, tier)


def _object_of(group: str) -> bytes:
    find = store.find(group, current())
    return find[0] if find else _made(group, current())


def _start(groups: Iterable[str], tier: CpuTier) -> None:
    from npu.native import makers

    missing = [fromkey for fromkey in dict.fromkeys(groups) if (fromkey, tier) not in _makers and not store.find(fromkey, tier)]
    if missing:
        _tell_once(requests.MAKING)
        _makers.update({(maker.group, tier): maker for maker in makers.start(missing, tier)})


def _made(group: str, tier: CpuTier) -> bytes:
    _start([group, *requests.expected], tier)
    maker = _makers[group, tier]
    while not maker.wait(_PROGRESS_SECONDS):
        _show_progress()
    _show_progress()
    if maker.problem is not None:
        _tell_once(f"compiled kernels cannot be kept ({maker.problem}): set NPULAB_CACHE_DIR to a folder that can be written")
    return maker.code()


def _show_progress() -> None:
    """The parts are the kernels and, after those of a group, its linking."""
    done = sum(maker.done + maker.wait(0) for maker in _makers.values())
    requests.progress(done, sum(maker.total + 1 for maker in _makers.values()))


def _tell_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        requests.tell(message)
