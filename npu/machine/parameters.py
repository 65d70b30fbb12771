"""The parameters of a variant as the machine model takes them: the row of its compute part and those of its two ports."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Memory, Port, TimingAdapter, Variant
from npu.machine.kernels.rows import MACHINE, PORT

PORT_NUMBERS = {Port.AXI0: 0, Port.AXI1: 1}


def machine_rows(variant: Variant) -> NDArray[Any]:
    """One MACHINE row."""
    accelerator, timing = variant.accelerator, variant.timing
    rows = np.zeros(1, MACHINE)
    machine = rows[0]
    machine["cores"] = accelerator.cores
    machine["ublock_mac_cycles"] = timing.ublock_mac_cycles
    machine["weights_per_cycle"] = timing.weights_per_cycle
    machine["bubble_cycles"] = timing.bubble_cycles
    machine["bubble_cycles_40_bit"] = timing.bubble_cycles_40_bit
    machine["pooling_16_bit_factor"] = timing.pooling_16_bit_factor
    machine["weight_switch_cycles"] = timing.weight_switch_cycles
    machine["beat_bytes"] = accelerator.axi_data_bytes
    machine["ifm_buffer_bytes"] = timing.ifm_buffer_bytes
    machine["decode_bytes_per_cycle"] = timing.weight_decode_bits_per_cycle / 8 * accelerator.cores
    machine["weight_window_bytes"] = timing.weight_window_bytes * accelerator.cores
    machine["scale_window_bytes"] = timing.scale_window_bytes
    taken = timing.core_input_bytes_per_cycle * accelerator.cores
    machine["take_cycles"] = accelerator.axi_data_bytes / taken if taken else 0.0
    return rows


def working_ublock(variant: Variant, plane: tuple[int, int], kernel_height: int, *, is_convolution: bool) -> tuple[int, int]:
    """Height and width of the micro-blocks that an OFM of this height and width is made of.

    One of 2x2 works as 1x4 on one-row convolutions with a one-row kernel and an even width.
    """
    ublock, (height, width) = variant.accelerator.ofm_ublock, plane
    if ublock.height > 1 and is_convolution and height == kernel_height == 1 and width % 2 == 0:
        return 1, ublock.width * ublock.height
    return ublock.height, ublock.width


def burst_bytes(variant: Variant, port: Port) -> int:
    """Bytes of one full transaction of a port: what the memory takes, as far as the AXI_LIMIT registers allow."""
    memory = variant.system.memories.get(port)
    longest = variant.timing.max_burst_bytes
    return longest if memory is None else min(memory.burst_bytes, longest)


def port_rows(variant: Variant) -> NDArray[Any]:
    """Two PORT rows, AXI0 and AXI1. A port without a memory is never used and counts as ideal."""
    rows = np.zeros(len(PORT_NUMBERS), PORT)
    for port, number in PORT_NUMBERS.items():
        _fill_port(rows[number], variant, port)
    return rows


def _fill_port(row: np.void, variant: Variant, port: Port) -> None:
    memory = variant.system.memories.get(port)
    accelerator = variant.accelerator
    ports = accelerator.sram_ports if port is Port.AXI0 else accelerator.ext_ports
    ports = ports if memory is None else min(memory.ports, ports)
    row["burst_bytes"] = burst_bytes(variant, port)
    row["beat_cycles"] = variant.timing.port_beat_cycles / ports
    burst_beats = row["burst_beats"] = float(row["burst_bytes"]) / accelerator.axi_data_bytes
    held_beats = burst_beats * variant.timing.burst_hold_fraction
    adapter = variant.system.adapters.get(port)
    if adapter is not None:
        _apply_adapter(row, adapter, burst_beats, held_beats)
    elif memory is not None:
        _apply_memory(row, memory, held_beats)
    for channel in (row["read"], row["write"]):
        channel["burst_cycles"] /= ports
    row["cap_beat_cycles"] /= ports
    row["spill_beats"] *= ports


def _apply_memory(row: np.void, memory: Memory, held_beats: float) -> None:
    """A memory takes 1 / clock_scale cycles per beat and holds a slot from the address until `held_beats` have passed."""
    row["beat_cycles"] = row["beat_cycles"] / memory.clock_scale
    held = held_beats * row["beat_cycles"]
    _fill_channel(row["read"], memory.read_latency_cycles, held, memory.max_outstanding_reads)
    _fill_channel(row["write"], memory.write_latency_cycles, held, memory.max_outstanding_writes)


def _apply_adapter(row: np.void, adapter: TimingAdapter, burst_beats: float, held_beats: float) -> None:
    """An adapter replaces the memory's figures, passes addresses for part of a window, and caps the window's beats.

    The slots empty in rounds, and every round that starts while addresses pass is served, so the open part of a window admits
    whole rounds. Who had to wait for the opening finds the open part whole: half of the closed part is gained in the mean.
    """
    read, write, opened = row["read"], row["write"], adapter.pulse_on_cycles
    _fill_channel(read, adapter.read_latency_cycles, held_beats, adapter.max_outstanding_reads)
    _fill_channel(write, adapter.write_latency_cycles, held_beats, adapter.max_outstanding_writes)
    if adapter.max_outstanding_reads:
        rounds = math.ceil(opened / read["held_cycles"])
        read["burst_cycles"] = min(read["burst_cycles"], opened / (rounds * adapter.max_outstanding_reads))
    for channel in (read, write):
        channel["ahead_cycles"] += adapter.pulse_off_cycles / 2
    row["closed_cycles"], row["closed_share"] = adapter.pulse_off_cycles, adapter.pulse_off_cycles / opened
    if adapter.beats_per_window:
        _apply_cap(row, adapter, burst_beats)


def _apply_cap(row: np.void, adapter: TimingAdapter, burst_beats: float) -> None:
    """The cap admits whole bursts, as fast as the slots bring them: ahead of it is the part of a window that these leave.

    Where they fill the window, the bursts that may be outstanding are ahead, but the one that meets the cap.
    """
    window = adapter.pulse_on_cycles + adapter.pulse_off_cycles
    bursts = math.ceil(adapter.beats_per_window / burst_beats)
    brought = bursts * max(row["read"]["burst_cycles"], burst_beats * row["beat_cycles"])
    slots = adapter.max_outstanding_reads + adapter.max_outstanding_writes
    outstanding = min((slots - 1) / bursts, 1.0) if slots else 1.0
    row["cap_beat_cycles"] = window / (bursts * burst_beats)
    row["spill_beats"] = bursts * burst_beats - adapter.beats_per_window
    row["cap_ahead_cycles"] = window * max(1.0 - brought / adapter.pulse_on_cycles, outstanding)


def _fill_channel(channel: np.void, latency: int, held: float, slots: int) -> None:
    """How long a burst holds a slot, and what it costs of all slots together; 0 slots = as many as wanted."""
    channel["latency"] = latency
    if slots:
        channel["held_cycles"] = channel["ahead_cycles"] = latency + held
        channel["burst_cycles"] = (latency + held) / slots
