"""What plans for SIZE cost: cycles, and the bytes that they take."""

from __future__ import annotations

from npu.records import dataclass

PRICE_OF_SRAM, PRICE_OF_BYTES = 1 / 4, 1 / 2
"""A small part less of the SRAM is worth a quarter of that part of the cycles, of SRAM and flash together a half."""
STEP_BYTES = 60
"""Of commands, in the mean of networks in stripes."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a plan takes, about: cycles, the arena for its maps, and encoded weights with commands."""

    cycles: float
    sram_bytes: int
    flash_bytes: int

    @property
    def price(self) -> float:
        """Of plans for SIZE the one with the least is taken."""
        return float(self.cycles * self.sram_bytes**PRICE_OF_SRAM * (self.sram_bytes + self.flash_bytes) ** PRICE_OF_BYTES)
