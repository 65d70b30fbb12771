"""The public face of hardware descriptions: list them, load one, summarise one."""

from __future__ import annotations

from dataclasses import dataclass

from npu.hardware.loader import load_variant
from npu.hardware.shipped import list_examples, list_section, list_variants
from npu.hardware.variant import Variant

__all__ = ["VariantSummary", "describe", "list_examples", "list_section", "list_variants", "load_variant"]


@dataclass(frozen=True, slots=True)
class VariantSummary:
    """One row of the table that `npu configs` prints."""

    name: str
    macs_per_cycle: int
    cores: int
    shram_kib: int
    """Of all cores together."""
    clock_mhz: float
    system: str
    memory_mode: str
    arena_cache_kib: int
    cpu: str


def describe(variant: Variant) -> VariantSummary:
    """What a table of variants shows."""
    accelerator = variant.accelerator
    return VariantSummary(
        name=variant.name,
        macs_per_cycle=accelerator.macs_per_cycle,
        cores=accelerator.cores,
        shram_kib=variant.shram.total_bytes * accelerator.cores // 1024,
        clock_mhz=variant.system.clock_hz / 1e6,
        system=variant.system.name,
        memory_mode=variant.memory_mode.name,
        arena_cache_kib=variant.memory_mode.arena_cache_bytes // 1024,
        cpu=variant.cpu.name,
    )
