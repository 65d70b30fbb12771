"""What a memory port sustains, for choices that weigh traffic against work; the rules are those of `npu.machine.parameters`."""

from __future__ import annotations

from npu.hardware.variant import Port, Variant
from npu.machine.parameters import PORT_NUMBERS, machine_rows, port_rows
from npu.memo import LastUsed
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class PortRate:
    """Bytes per cycle and latency in cycles of reads and of writes, alone on the port.

    `weights` and `copy` are how fast the weight decoder and the DMA engine read: no more than their windows are on their way at
    a time.

    What they come from: `beat_cycles` per beat of a direction, `read_burst_cycles` and `write_burst_cycles` per burst of
    at most `burst_bytes` (however short it is). `copies` are those of the DMA engine that are unfinished at a time.
    """

    read: float
    write: float
    weights: float
    copy: float
    read_latency: float
    burst_bytes: int
    beat_cycles: float
    read_burst_cycles: float
    write_burst_cycles: float
    copies: int

    def copy_cycles(self, size: float) -> tuple[float, float]:
        """Cycles until the engine has read a copy of so many bytes, and until these are there: the latency of one copy passes
        while the engine reads the next."""
        read = size / self.copy
        there = read + self.read_latency
        return max(read, there / self.copies), there


_KNOWN: LastUsed[tuple[int, Port], tuple[Variant, PortRate]] = LastUsed(16)
"""By the identity of a variant, which is kept, and port."""


def port_rate(variant: Variant, port: Port) -> PortRate:
    """The rate of a port: its data beats, as far as outstanding bursts hide the latency, capped by an adapter."""
    return _KNOWN.get((id(variant), port), lambda: (variant, _port_rate(variant, port)))[1]


def _port_rate(variant: Variant, port: Port) -> PortRate:
    row = port_rows(variant)[PORT_NUMBERS[port]]
    burst, beat_cycles = float(row["burst_bytes"]), max(float(row["beat_cycles"]), float(row["cap_beat_cycles"]))
    burst_beats = burst / variant.accelerator.axi_data_bytes
    read_burst, write_burst = (float(row[channel]["burst_cycles"]) for channel in ("read", "write"))
    read, latency = burst / max(burst_beats * beat_cycles, read_burst), float(row["read"]["latency"])
    window, copied = float(machine_rows(variant)[0]["weight_window_bytes"]), variant.timing.dma_window_bytes
    return PortRate(
        read=read,
        write=burst / max(burst_beats * beat_cycles, write_burst),
        weights=1 / max(1 / read, latency / window),
        copy=1 / max(1 / read, latency / copied) if copied else read,
        read_latency=latency,
        burst_bytes=int(burst),
        beat_cycles=float(row["beat_cycles"]),
        read_burst_cycles=read_burst,
        write_burst_cycles=write_burst,
        copies=variant.accelerator.max_outstanding_dma,
    )
