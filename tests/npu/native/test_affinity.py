"""Threads that help run beside the one that they help, not in turn with it."""

from __future__ import annotations

import os
import threading

import pytest

from npu.native import affinity
from npu.native.affinity import Affinity

ALLOWED = {0, 1, 2, 5}


class System:
    """One whose caller runs on the processor `here`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, allowed: set[int]) -> None:
        self.here = 0
        self.calls: list[tuple[int, set[int]]] = []
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: allowed, raising=False)
        monkeypatch.setattr(os, "sched_setaffinity", self.set, raising=False)
        monkeypatch.setattr(affinity, "_current_processor", lambda: lambda: self.here)

    def set(self, thread: int, processors: set[int]) -> None:
        self.calls.append((thread, processors))
        if thread == -1:
            raise OSError("no such thread")


def thread(number: int) -> threading.Thread:
    made = threading.Thread()
    made._native_id = number  # type: ignore[attr-defined]
    return made


def test_threads_use_all_processors_but_the_caller_s(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, ALLOWED)
    kept_away, threads = Affinity(), [thread(7), thread(-1), thread(8)]
    for system.here in (0, 0, 5, 0):
        kept_away.keep_away(threads)
    expected = [(number, ALLOWED - {here}) for here in (0, 5, 0) for number in (7, -1, 8)]
    assert system.calls == expected


def test_where_there_is_one_processor_threads_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, {0})
    Affinity().keep_away([thread(7)])
    assert system.calls == []


def test_where_the_system_does_not_tell_processors_threads_go_where_they_like(monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(monkeypatch, ALLOWED)
    monkeypatch.setattr(affinity, "_current_processor", lambda: None)
    Affinity().keep_away([thread(7)])
    monkeypatch.delattr(os, "sched_getaffinity")
    Affinity().keep_away([thread(7)])
    assert system.calls == []
