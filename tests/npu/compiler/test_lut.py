"""Slots of look-up tables: reuse, replacement of the least recently used, and loss where no bank is reserved."""

from __future__ import annotations

from npu.compiler.lut import TableSlot, TableSlots, TableUse
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant

SMALL = [TableUse(256 * index, 256) for index in range(9)]
KEEPS, LOSES = load_variant("ethos-u55-128"), load_variant("ethos-u55-64")


def slots_of(uses: list[TableUse | None], variant: Variant) -> list[TableSlot | None]:
    slots = TableSlots(variant)
    return [slots.step(use) for use in uses]


def test_a_table_that_is_still_there_is_not_loaded_again() -> None:
    assert slots_of([SMALL[0], None, SMALL[0]], KEEPS) == [TableSlot(0, True), None, TableSlot(0, False)]


def test_an_operation_without_a_table_destroys_tables_where_no_bank_is_reserved() -> None:
    assert slots_of([SMALL[0], SMALL[0], None, SMALL[0]], LOSES) == [
        TableSlot(0, True),
        TableSlot(0, False),
        None,
        TableSlot(0, True),
    ]


def test_eight_small_tables_fit_and_the_ninth_replaces_the_least_recently_used() -> None:
    slots = slots_of([*SMALL[:8], SMALL[0], SMALL[8], SMALL[0], SMALL[1]], KEEPS)
    assert [slot.slot for slot in slots[:8] if slot] == list(range(8))
    assert slots[8:11] == [TableSlot(0, False), TableSlot(1, True), TableSlot(0, False)]
    assert slots[11] is not None
    assert slots[11].must_load


def test_large_tables_start_at_multiples_of_their_size_and_evict_what_lies_under_them() -> None:
    middle, large = TableUse(4096, 1024), TableUse(8192, 2048)
    slots = slots_of([SMALL[0], middle, large, SMALL[0]], KEEPS)
    assert slots == [TableSlot(0, True), TableSlot(4, True), TableSlot(0, True), TableSlot(0, True)]
