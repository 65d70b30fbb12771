"""Cycles that a transfer takes of a memory port."""

from __future__ import annotations

from npu.machine.kernels.arithmetic import inlined


@inlined
def turn(data, slots):  # type: ignore[no-untyped-def]
    """Cycles that a transfer takes of an open port whose slots are all taken: of its data, or, below 0, longer of its slots."""
    return -slots if slots > data else data


@inlined
def read_cycles(port, beats, bursts, take):  # type: ignore[no-untyped-def]
    """`turn` of a read whose reader takes in a beat in `take` cycles: until then the port cannot pass the next one."""
    return turn(beats * max(port.beat_cycles, take), bursts * port.read.burst_cycles)


@inlined
def write_cycles(port, beats, bursts):  # type: ignore[no-untyped-def]
    """`turn` of a write."""
    return turn(beats * port.beat_cycles, bursts * port.write.burst_cycles)
