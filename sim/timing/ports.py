"""The two memory ports as scalars for the engine: what a timing adapter or a memory does to rate and latency."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Memory, Port, TimingAdapter, Variant
from sim.timing.kernels import rows as p
from sim.timing.plan import burst_bytes


def port_scalars(variant: Variant) -> NDArray[np.float64]:
    """(2, PORT_SCALARS) float64: AXI0 and AXI1. A port without a memory is never used and counts as ideal."""
    return np.stack([_scalars(variant, Port.AXI0), _scalars(variant, Port.AXI1)])


def _scalars(variant: Variant, port: Port) -> NDArray[np.float64]:
    scalars = np.zeros(p.PORT_SCALARS, np.float64)
    scalars[p.P_BURST_BYTES] = burst_bytes(variant, port)
    scalars[p.P_BEAT_CYCLES] = variant.timing.port_beat_cycles
    burst_beats = float(scalars[p.P_BURST_BYTES]) / variant.accelerator.axi_data_bytes
    held_beats = burst_beats * variant.timing.burst_hold_fraction
    adapter = variant.system.adapters.get(port)
    memory = variant.system.memories.get(port)
    if adapter is not None:
        _apply_adapter(scalars, adapter, burst_beats, held_beats)
    elif memory is not None:
        _apply_memory(scalars, memory, held_beats)
    return scalars


def _apply_memory(scalars: NDArray[np.float64], memory: Memory, held_beats: float) -> None:
    """A memory takes 1 / clock_scale cycles per beat and holds a slot from the address until `held_beats` have passed."""
    beat = scalars[p.P_BEAT_CYCLES] / memory.clock_scale
    scalars[p.P_BEAT_CYCLES] = beat
    scalars[p.P_READ_LATENCY] = memory.read_latency_cycles
    scalars[p.P_WRITE_LATENCY] = memory.write_latency_cycles
    read, write = memory.read_latency_cycles + held_beats * beat, memory.write_latency_cycles + held_beats * beat
    _apply_slots(scalars, read, memory.max_outstanding_reads, write, memory.max_outstanding_writes)


def _apply_adapter(scalars: NDArray[np.float64], adapter: TimingAdapter, burst_beats: float, held_beats: float) -> None:
    """An adapter replaces the memory's figures, passes addresses for part of a window, and caps the window's beats.

    The cap works on whole transactions. The slots empty in rounds, and every round that starts while addresses pass is
    served, so the open part of a window admits whole rounds.
    """
    scalars[p.P_READ_LATENCY] = adapter.read_latency_cycles
    scalars[p.P_WRITE_LATENCY] = adapter.write_latency_cycles
    held, written = adapter.read_latency_cycles + held_beats, adapter.write_latency_cycles + held_beats
    _apply_slots(scalars, held, adapter.max_outstanding_reads, written, adapter.max_outstanding_writes)
    if adapter.max_outstanding_reads:
        rounds = math.ceil(adapter.pulse_on_cycles / held)
        in_rounds = adapter.pulse_on_cycles / (rounds * adapter.max_outstanding_reads)
        scalars[p.P_READ_BURST_CYCLES] = min(scalars[p.P_READ_BURST_CYCLES], in_rounds)
    if adapter.pulse_off_cycles or adapter.beats_per_window:
        scalars[p.P_WINDOW] = adapter.pulse_on_cycles + adapter.pulse_off_cycles
        scalars[p.P_OPEN] = adapter.pulse_on_cycles
    if adapter.beats_per_window:
        scalars[p.P_CAP] = math.ceil(adapter.beats_per_window / burst_beats) * burst_beats


def _apply_slots(scalars: NDArray[np.float64], read: float, read_slots: int, write: float, write_slots: int) -> None:
    """How long a burst holds a slot, and what it costs of all slots together; 0 slots = as many as wanted."""
    for held, slots, at_held, at_burst in (
        (read, read_slots, p.P_READ_HELD, p.P_READ_BURST_CYCLES),
        (write, write_slots, p.P_WRITE_HELD, p.P_WRITE_BURST_CYCLES),
    ):
        scalars[at_held] = held if slots else 0.0
        scalars[at_burst] = held / slots if slots else 0.0
