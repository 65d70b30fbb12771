"""Two shared memory ports: when a request gets its turn and when it has passed, under latency, slots, closed parts and caps.

Slots and caps are buckets: what a transfer takes of one is booked behind what was booked before, at the rate that it sustains,
and the transfer has passed when the bucket is no further ahead than it may be. A bucket forgets nothing and closes for nobody,
so that a request that comes earlier delays another by what it moves and not by more.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import inlined


@inlined
def open_port(port):  # type: ignore[no-untyped-def]
    """Fills the state of a port at time 0."""
    port.booked = port.read.booked = port.write.booked = 0.0
    port.read.free = port.write.free = 0.0


@inlined
def reserve(port, channel, time, cycles, beats):  # type: ignore[no-untyped-def]
    """(begin, end) of a transfer of `beats` on a channel of a port, asked for at `time`; it takes `cycles` (`turn`) of it."""
    begin = max(time, channel.free)
    if port.closed_cycles > 0.0:
        begin += opening_wait(begin - channel.free, port)
    data = cycles if cycles >= 0.0 else beats * port.beat_cycles
    channel.booked = max(channel.booked, begin) + abs(cycles) * (1.0 + port.closed_share)
    passed = max(begin + data, channel.booked - channel.ahead_cycles)
    if port.cap_beat_cycles > 0.0:
        port.booked = max(port.booked, begin) + (beats + lost_beats(port, beats)) * port.cap_beat_cycles
        passed = max(passed, port.booked - port.cap_ahead_cycles)
    channel.free = passed
    return begin, passed


@inlined
def lost_beats(port, beats):  # type: ignore[no-untyped-def]
    """Beats that the cap of a port loses in the mean where the last of the bursts that move `beats` is a short one.

    A window of whole bursts goes beyond the cap, by the `spill_beats` of its last one; one with a short burst meets the cap
    sooner. Half of that is lost, because a second short burst in a window loses nothing.
    """
    if port.spill_beats <= 0.0:
        return 0.0
    short = np.ceil(beats / port.burst_beats) * port.burst_beats - beats
    return 0.5 * min(short, port.spill_beats)


@inlined
def opening_wait(idle, port):  # type: ignore[no-untyped-def]
    """Cycles that an address waits in the mean because addresses do not pass, `idle` cycles after one has passed.

    They have stopped passing since with the same likelihood at each of these cycles: when they do is not known.
    """
    gap = min(idle, port.closed_cycles)
    return gap * (1.0 - gap / (2.0 * port.closed_cycles)) * port.closed_share
