"""What checks, compilations and runs say of memory, of the error of cycles and of overlap, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from npu.plain import printable
from npu.rendering.tables import kib
from npu.reports.report import OperatorReport, Totals

if TYPE_CHECKING:
    from npu.hardware.accuracy import TimingAccuracy


def memory_text(totals: Totals, memories: Mapping[str, str]) -> str:
    """What is needed of each memory, and which one holds the constants; empty where nothing was compiled."""
    holder = memories["constants"]
    place = f" in {holder.upper() if holder in ('sram', 'dram') else printable(holder)}"
    parts = (("SRAM", totals.sram_bytes, ""), ("DRAM", totals.dram_bytes, ""), ("constants", totals.flash_bytes, place))
    return ", ".join(f"{name} {kib(size)}{where}" for name, size, where in parts if size)


def error_text(band: TimingAccuracy | None, target: str) -> str:
    """How far cycles of the NPU are off."""
    if band is None:
        return f"unknown: no measurements of {target}"
    wider = f"; wider for what was not measured: {', '.join(band.unmeasured)}" if band.unmeasured else ""
    return (
        f"of NPU cycles: {band.mean_error_percent:g} % on average, {band.worst_error_percent:g} % at worst for "
        f"{band.models} networks that took no part in the calibration (docs/timing-accuracy.md){wider}"
    )


def counted_elsewhere(row: OperatorReport) -> str:
    """Which operator does the work of this one, or hides it; empty if its cycles are its own."""
    if row.absorbed_into is not None:
        return f"in {row.absorbed_into}"
    return f"hidden by {row.hidden_behind}" if row.hidden_behind is not None else ""
