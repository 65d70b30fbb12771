"""How far predicted cycles are from measured ones: the figures that reports print and docs/timing-accuracy.md explains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from npu.hardware.catalogue import load_variant
from npu.hardware.document import read_document
from npu.hardware.shipped import configs_folder
from npu.hardware.variant import Variant
from npu.records import dataclass

FILE = Path("accuracy") / "timing.yaml"
"""In the folder of the shipped descriptions; `benchmarks/timing_accuracy.py --write` makes it."""

UNMEASURED_PERCENT = 50.0
"""What operations of a kind without a measurement may be off at worst, and half of it on average: once they were so much."""
UNMEASURED_MEMORY_FACTOR = 2.0
"""How much wider the band is with memories without a measurement."""
SMALL_SHARE = 0.005
"""Kinds below this part of the cycles are not spoken of."""


@dataclass(frozen=True, slots=True)
class TimingAccuracy:
    """Errors of NPU cycles in percent: of `measurements` of `models`, each predicted with constants chosen without it.

    `unmeasured` names what no measurement is behind; the figures are wider for it.
    """

    system: str
    memory_mode: str
    models: int
    measurements: int
    mean_error_percent: float
    worst_error_percent: float
    unmeasured: tuple[str, ...] = ()


def accuracy_of(variant: Variant, work: Mapping[str, float]) -> TimingAccuracy | None:
    """The band for a job on a shipped product with any memories; None for other hardware.

    `work`: the share of the cycles of every kind of operation (`sim.work`).
    """
    table = _table(configs_folder())
    product = _product_of(variant, table["targets"])
    if product is None:
        return None
    figures = table["targets"][product]
    missing = {kind: share for kind, share in work.items() if kind not in table["kinds"] and share >= SMALL_SHARE}
    unmeasured = tuple(f"{kind} ({share:.0%} of the cycles)" for kind, share in sorted(missing.items()))
    factor, more = 1.0, UNMEASURED_PERCENT * min(1.0, sum(missing.values()))
    if not _has_measured_memories(variant, product, table["memories"]):
        factor, unmeasured = UNMEASURED_MEMORY_FACTOR, (*unmeasured, f"the memories of {variant.system.name}")
    mean = round(factor * figures["mean_error_percent"] + more / 2, 1)
    worst = round(factor * figures["worst_error_percent"] + more, 1)
    models, measurements = figures["models"], figures["measurements"]
    return TimingAccuracy(variant.system.name, variant.memory_mode.name, models, measurements, mean, worst, unmeasured)


@lru_cache(maxsize=4)
def _table(folder: Path) -> dict[str, Any]:
    return read_document(folder / FILE, "the table of measured accuracy", example="targets: {}")


def _product_of(variant: Variant, targets: Iterable[str]) -> str | None:
    """The target whose compute the variant has, be it on a board of another name; None for other compute."""
    names = [variant.name] if variant.name in targets else targets
    return next((name for name in names if _compute_of(load_variant(name), variant) == variant), None)


def _has_measured_memories(variant: Variant, product: str, measured: Sequence[Mapping[str, str]]) -> bool:
    """Whether system and memory mode are those of a measurement, with no field changed."""
    names = {"system": variant.system.name, "memory_mode": variant.memory_mode.name}
    if names not in measured:
        return False
    shipped = load_variant(product, **names)
    return (shipped.system, shipped.memory_mode) == (variant.system, variant.memory_mode)


def _compute_of(shipped: Variant, around: Variant) -> Variant:
    """A shipped target on the board of another."""
    return replace(shipped, name=around.name, system=around.system, memory_mode=around.memory_mode, cpu=around.cpu)
