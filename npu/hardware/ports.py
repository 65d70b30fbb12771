"""What a memory port sustains, for choices that weigh traffic against work: by its adapter if there is one, else by its memory.

The rates are rounded ones without contention; `sim.timing` has the whole rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from npu.hardware.variant import Memory, Port, TimingAdapter, Variant


@dataclass(frozen=True, slots=True)
class PortRate:
    """Bytes per cycle and latency in cycles of reads and of writes.

    What they come from: `beat_cycles` per beat of a direction, `read_burst_cycles` and `write_burst_cycles` per burst of
    at most `burst_bytes` (however short it is), `shared_beat_cycles` per beat of both directions together.
    """

    read: float
    write: float
    read_latency: int
    write_latency: int
    burst_bytes: int
    beat_cycles: float
    read_burst_cycles: float
    write_burst_cycles: float
    shared_beat_cycles: float


def port_rate(variant: Variant, port: Port) -> PortRate:
    """The rate of a port: its data beats, as far as outstanding bursts hide the latency, capped by an adapter's windows."""
    memory, adapter = variant.system.memories[port], variant.system.adapters.get(port)
    beat = variant.accelerator.axi_data_bytes
    burst = min(memory.burst_bytes, variant.timing.max_burst_bytes)
    slots: Memory | TimingAdapter = memory if adapter is None else adapter
    beat_cycles = 1 / memory.clock_scale if adapter is None else 1.0
    held = burst / beat * variant.timing.burst_hold_fraction * beat_cycles
    shared = 0.0
    if adapter is not None and adapter.beats_per_window:
        shared = (adapter.pulse_on_cycles + adapter.pulse_off_cycles) / adapter.beats_per_window
    rate = beat / max(beat_cycles, shared)
    read_burst = _burst_cycles(slots.max_outstanding_reads, slots.read_latency_cycles, held)
    write_burst = _burst_cycles(slots.max_outstanding_writes, slots.write_latency_cycles, held)
    return PortRate(
        read=min(rate, burst / read_burst if read_burst else rate),
        write=min(rate, burst / write_burst if write_burst else rate),
        read_latency=slots.read_latency_cycles,
        write_latency=slots.write_latency_cycles,
        burst_bytes=burst,
        beat_cycles=beat_cycles * variant.timing.port_beat_cycles,
        read_burst_cycles=read_burst,
        write_burst_cycles=write_burst,
        shared_beat_cycles=shared,
    )


def _burst_cycles(slots: int, latency: int, held: float) -> float:
    """Cycles that one burst takes of `slots` bursts, each in flight for the latency and `held`; 0 slots = as many as wanted."""
    return (latency + held) / slots if slots else 0.0
