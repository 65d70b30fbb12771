"""Look-up tables in SHRAM: which slot holds which table when, and which transfers that takes."""

from __future__ import annotations

from npu.hardware.variant import Variant
from npu.isa.shram import LUT_SLOT_BYTES
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class TableUse:
    """A job's table: read-only offset and length. None stands for a job without one."""

    offset: int
    length_bytes: int


@dataclass(frozen=True, slots=True)
class TableSlot:
    """Where a job finds its table: the number of its first slot, and whether it must be loaded before the job."""

    slot: int
    must_load: bool


class TableSlots:
    """Contents of the slots while jobs are walked in order. Least recently used tables give way."""

    def __init__(self, variant: Variant) -> None:
        self._count = variant.shram.lut_bytes // LUT_SLOT_BYTES
        self._keeps_tables = variant.shram.reserved_lut_banks > 0
        self._tables: dict[int, TableUse] = {}
        self._last_used: list[int] = [-1] * self._count
        self._time = 0

    def step(self, use: TableUse | None) -> TableSlot | None:
        """The slot of the next job's table. Where no bank is reserved for tables, a job without one destroys them all."""
        self._time += 1
        if use is None:
            if not self._keeps_tables:
                self._tables.clear()
                self._last_used = [-1] * self._count
            return None
        span = -(-use.length_bytes // LUT_SLOT_BYTES)
        for slot, table in self._tables.items():
            if table == use:
                self._touch(slot, span)
                return TableSlot(slot, must_load=False)
        slot = min(range(0, self._count - span + 1, span), key=lambda first: max(self._last_used[first : first + span]))
        self._evict(slot, span)
        self._tables[slot] = use
        self._touch(slot, span)
        return TableSlot(slot, must_load=True)

    def _touch(self, slot: int, span: int) -> None:
        self._last_used[slot : slot + span] = [self._time] * span

    def _evict(self, slot: int, span: int) -> None:
        for first, table in list(self._tables.items()):
            end = first + -(-table.length_bytes // LUT_SLOT_BYTES)
            if first < slot + span and slot < end:
                del self._tables[first]
