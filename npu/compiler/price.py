"""What plans for SIZE cost: cycles, and the bytes that they take."""

from __future__ import annotations

from npu.records import dataclass

PRICE_OF_SRAM, PRICE_OF_BYTES = 1 / 4, 1 / 4
"""A small part less of the SRAM is worth a quarter of that part of the cycles, of SRAM and flash together another quarter."""
STEP_BYTES = 60
"""Of commands, in the mean of networks in stripes."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a plan takes, about: cycles, the arena for its maps, and encoded weights with commands."""

    cycles: float
    sram_bytes: int
    flash_bytes: int


def price(draft: Draft) -> float:
    """Of plans that are small, the one with the least is taken."""
    return _dear(draft, PRICE_OF_SRAM)


def price_of_least(draft: Draft) -> float:
    """The same where SRAM counts as much as cycles: which plans are small."""
    return _dear(draft, 1.0)


def _dear(draft: Draft, price_of_sram: float) -> float:
    sram, flash = draft.sram_bytes, draft.flash_bytes
    return float(draft.cycles * sram**price_of_sram * (sram + flash) ** PRICE_OF_BYTES)
