"""Two shared memory ports: when a request gets its turn and when it has passed, under latency, slots, windows and caps."""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel
from sim.timing.kernels.rows import (
    FAR,
    HELD_OF,
    P_BEAT_CYCLES,
    P_CAP,
    P_OPEN,
    P_READ_BURST_CYCLES,
    P_WINDOW,
    P_WRITE_BURST_CYCLES,
    S_CAP,
    S_CLOSES,
    S_READ_FREE,
    S_START,
    S_USED,
    S_WINDOW,
    S_WRITE_FREE,
)

_I = nb.int64
_F = nb.float64
_TABLE = nb.float64[:, ::1]

_SURE = 1.0 - 1e-14
"""A division rounds: it can put a time just before the end of a window into the next one."""


@nb.njit(inline="always", error_model="numpy")
def open_ports(ports):  # type: ignore[no-untyped-def]
    """Fills the state of both ports at time 0."""
    for p in range(2):
        ports[p, S_WINDOW] = ports[p, S_USED] = ports[p, S_START] = 0.0
        ports[p, S_READ_FREE] = ports[p, S_WRITE_FREE] = -FAR
        limited = ports[p, P_WINDOW] > 0.0
        ports[p, S_CLOSES] = ports[p, P_OPEN] if limited else FAR
        ports[p, S_CAP] = ports[p, P_CAP] if limited and ports[p, P_CAP] > 0.0 else FAR


@nb.njit(inline="always", error_model="numpy")
def claim(ports, port, channel, time, cycles, beats):  # type: ignore[no-untyped-def]
    """(begin, end) of a transfer of `beats` on a channel of a port, asked for at `time`; it takes `cycles` (`turn`) of it.

    The slots are a counter: while a channel rests they come free, and so many bursts then pass at once.
    """
    begin = max(time, ports[port, channel])
    if cycles < 0.0:
        rest = min(begin - ports[port, channel], ports[port, channel + HELD_OF])
        cycles = max(-cycles - rest, beats * ports[port, P_BEAT_CYCLES])
    passed = begin + cycles
    used = ports[port, S_USED] + beats
    # What ends in the open part of a window has begun before its end.
    fits = (ports[port, S_START] <= begin) & (passed <= ports[port, S_CLOSES])
    if fits & (used <= ports[port, S_CAP]):
        ports[port, S_USED] = used
    elif ports[port, P_WINDOW] > 0.0 and beats > 0.0:
        window, opened = ports[port, P_WINDOW], ports[port, P_OPEN]
        passed, index, used = admit(
            begin, cycles, beats, window, opened, ports[port, S_CAP], ports[port, S_WINDOW], ports[port, S_USED]
        )
        ports[port, S_WINDOW], ports[port, S_USED], ports[port, S_START] = index, used, index * window
        ports[port, S_CLOSES] = index * window + opened
    ports[port, channel] = passed
    return begin, passed


@kernel(nb.types.UniTuple(_F, 3)(*(_F,) * 8), error_model="numpy")
def admit(start, cycles, beats, window, opened, cap, current, used):  # type: ignore[no-untyped-def]
    """(end, current window, beats used in it) of a transfer that does not fit into what is left of the current window.

    The transfer has `beats` (above 0) and takes `cycles` on an open port from `start`; it is spread over the port's windows, of
    `window` (a whole number of) cycles each.
    """
    # What a window takes of the transfer that it takes from its start.
    full = min(opened / cycles if cycles > 0.0 else FAR, cap / beats if cap < FAR else FAR)
    # Most transfers need less than two whole windows.
    is_long = cycles >= 1.9 * opened or beats >= 1.9 * cap
    left = 1.0
    time = start
    while True:
        index = current
        if not current * window <= time < (current + 1.0) * window * _SURE:
            index = np.floor(time / window)
            if index > current:
                current = index
                used = 0.0
        part = left
        if cycles > 0.0:
            part = min(part, (index * window + opened - time) / cycles)
        if cap < FAR:
            part = min(part, (cap - used) / beats)
        if part > 0.0:
            used += part * beats
            left -= part
            time += part * cycles
        # The windows that follow, without a division as long as the transfer has each of them from its start.
        while True:
            if left <= 1e-9:
                return time, current, used
            is_behind = time > (index + 1.0) * window
            index += 1.0
            time = max(time, index * window)
            if is_long:
                # Whole windows in one step.
                skip = np.floor(left / full) - 1.0
                if skip > 0.0:
                    left -= skip * full
                    time += skip * window
                    index += skip
            if is_behind or index <= current:
                break
            current = index
            part = min(left, full)
            used = part * beats
            left -= part
            time += part * cycles


@kernel(_F(_F, _F), error_model="numpy")
def turn(data, slots):  # type: ignore[no-untyped-def]
    """Cycles that a transfer takes of an open port whose slots are all taken: of its data, or, below 0, longer of its slots."""
    return -slots if slots > data else data


@kernel(_F(_TABLE, _I, _F, _F, _F), error_model="numpy")
def read_cycles(ports, p, beats, bursts, take):  # type: ignore[no-untyped-def]
    """`turn` of a read whose reader takes in a beat in `take` cycles: until then the port cannot pass the next one."""
    return turn(beats * max(ports[p, P_BEAT_CYCLES], take), bursts * ports[p, P_READ_BURST_CYCLES])


@kernel(_F(_TABLE, _I, _F, _F), error_model="numpy")
def write_cycles(ports, p, beats, bursts):  # type: ignore[no-untyped-def]
    """`turn` of a write."""
    return turn(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_WRITE_BURST_CYCLES])
