"""What a memory port sustains, for choices that weigh traffic against work: by its adapter if there is one, else by its memory.

The rates are rounded ones without contention; `sim.timing` has the whole rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from npu.hardware.variant import Memory, Port, TimingAdapter, Variant


@dataclass(frozen=True, slots=True)
class PortRate:
    """Bytes per cycle and latency in cycles of reads and of writes."""

    read: float
    write: float
    read_latency: int
    write_latency: int


def port_rate(variant: Variant, port: Port) -> PortRate:
    """The rate of a port: its data beats, as far as outstanding bursts hide the latency, capped by an adapter's windows."""
    memory, adapter = variant.system.memories[port], variant.system.adapters.get(port)
    beat = variant.accelerator.axi_data_bytes
    burst = min(memory.burst_bytes, variant.timing.max_burst_bytes)
    slots: Memory | TimingAdapter = memory if adapter is None else adapter
    rate = beat * memory.clock_scale if adapter is None else float(beat)
    if adapter is not None and adapter.beats_per_window:
        window = adapter.pulse_on_cycles + adapter.pulse_off_cycles
        rate = min(rate, beat * adapter.beats_per_window / window)
    return PortRate(
        min(rate, _hidden(slots.max_outstanding_reads, burst, slots.read_latency_cycles, rate)),
        min(rate, _hidden(slots.max_outstanding_writes, burst, slots.write_latency_cycles, rate)),
        slots.read_latency_cycles,
        slots.write_latency_cycles,
    )


def _hidden(slots: int, burst: int, latency: int, rate: float) -> float:
    """Bytes per cycle that `slots` bursts in flight reach; 0 slots = as many as wanted."""
    return slots * burst / latency if slots and latency else rate
