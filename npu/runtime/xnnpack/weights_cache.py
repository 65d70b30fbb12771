"""Packed weights shared between delegates: found by their contents, usable only after finalising."""

from __future__ import annotations

import threading
from enum import Enum
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from npu.digests import blake2b
from npu.records import dataclass
from npu.runtime.misuse import InterpreterStateError

Packed = npt.NDArray[np.uint8]
PAGE_BYTES = 4096


class CacheState(Enum):
    """OPEN takes new weights; SOFT only gives out what it has; HARD gives nothing out any more."""

    OPEN = "open"
    SOFT = "soft"
    HARD = "hard"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What a cache holds. `saved_bytes` is what users would hold more without it; `reserve_bytes` what later look-ups need."""

    state: CacheState
    entries: int
    bytes: int
    hits: int
    misses: int
    saved_bytes: int
    reserve_bytes: int
    users: int


class WeightsCache:
    """Packed weights by contents. Delegates register as users, until they are closed or gone; the cache must outlive them.

    Order of use: make delegates and interpreters, finalise, run. All errors are InterpreterStateError.
    """

    def __init__(self) -> None:
        self._state = CacheState.OPEN
        self._entries: dict[bytes, list[Packed]] = {}
        self._users: WeakSet[object] = WeakSet()
        self._hits = self._misses = self._saved = self._largest = 0
        self._lock = threading.Lock()

    @property
    def state(self) -> CacheState:
        """Whether the cache takes new weights."""
        return self._state

    @property
    def is_finalized(self) -> bool:
        """Whether inference may run."""
        return self._state in (CacheState.SOFT, CacheState.HARD)

    def add_user(self, user: object) -> None:
        """A delegate instance begins to use the cache; refused after hard finalising."""
        if self._state in (CacheState.HARD, CacheState.CLOSED):
            raise InterpreterStateError(
                f"weights cache: a delegate must be made before hard finalising, got one in state '{self._state.value}'"
            )
        self._users.add(user)

    def remove_user(self, user: object) -> None:
        """A delegate instance is gone."""
        self._users.discard(user)

    def look_up(self, packed: Packed) -> Packed:
        """The shared, read-only copy of packed weights (uint8, 1-D); the argument itself on a miss, which it then is.

        Refused if they are new after soft finalising, and altogether after hard finalising.
        """
        key = blake2b(packed.data, digest_size=16).digest()
        with self._lock:
            if self._state in (CacheState.HARD, CacheState.CLOSED):
                raise InterpreterStateError(
                    f"weights cache: must not be asked for weights after hard finalising, got state '{self._state.value}'"
                )
            for entry in self._entries.get(key, ()):
                if np.array_equal(entry, packed):
                    self._hits += 1
                    self._saved += entry.nbytes
                    return entry
            if self._state is CacheState.SOFT:
                raise InterpreterStateError(
                    "weights cache: after soft finalising a delegate must find all its weights in the cache,"
                    f" got {packed.nbytes} bytes that are not there"
                )
            return self._insert(key, packed)

    def _insert(self, key: bytes, packed: Packed) -> Packed:
        self._misses += 1
        self._largest = max(self._largest, packed.nbytes)
        packed.flags.writeable = False
        self._entries.setdefault(key, []).append(packed)
        return packed

    def finalize_soft(self) -> None:
        """Allow inference; later delegates are allowed as long as their weights are in the cache."""
        self._finalize(CacheState.SOFT)

    def finalize_hard(self) -> None:
        """Allow inference; no further delegates, lowest memory."""
        self._finalize(CacheState.HARD)

    def _finalize(self, state: CacheState) -> None:
        if self._state is not CacheState.OPEN:
            raise InterpreterStateError(f"weights cache: must be finalised once, got state '{self._state.value}'")
        self._state = state

    def close(self) -> None:
        """Release the weights; refused while delegates use them."""
        if self._users:
            raise InterpreterStateError(
                f"weights cache: must be closed after the delegates that use it, got {len(self._users)} left"
            )
        self._entries.clear()
        self._state = CacheState.CLOSED

    def report(self) -> CacheReport:
        """Entries, bytes, hits and misses so far."""
        entries = [entry for same in self._entries.values() for entry in same]
        reserve = 0 if self._state in (CacheState.HARD, CacheState.CLOSED) else self._largest
        return CacheReport(
            state=self._state,
            entries=len(entries),
            bytes=sum(entry.nbytes for entry in entries),
            hits=self._hits,
            misses=self._misses,
            saved_bytes=self._saved,
            reserve_bytes=-(-reserve // PAGE_BYTES) * PAGE_BYTES,
            users=len(self._users),
        )
