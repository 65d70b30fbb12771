"""Two shared memory ports: when a request gets its turn and when it has passed, under latency, slots, windows and caps."""

from __future__ import annotations

import numba as nb
import numpy as np

from npu.numerics.kernel import kernel

# Scalars of a port: latencies, cycles that one burst takes of the port because its slot is held until the data are there
# (held cycles / slots), cycles per beat, window length (0: none), cycles of the window in which addresses pass, beats
# admitted per window (0: no cap), bytes of a burst.
(
    P_READ_LATENCY,
    P_WRITE_LATENCY,
    P_READ_BURST_CYCLES,
    P_WRITE_BURST_CYCLES,
    P_BEAT_CYCLES,
    P_WINDOW,
    P_OPEN,
    P_CAP,
    P_BURST_BYTES,
) = range(9)
PORT_SCALARS = 9

# State of a port: when its read and write channels are free; of the current window its number, the beats admitted in it, its
# start, the end of its open part and its end. What is not limited is FAR.
S_READ_FREE, S_WRITE_FREE, S_WINDOW, S_USED, S_START, S_CLOSES, S_END, S_CAP = range(8)
STATE_COLUMNS = 8

FAR = 1e18
"""Time of what is not yet known."""

_I = nb.int64
_F = nb.float64
_TABLE = nb.float64[:, ::1]


@kernel(nb.void(_TABLE, _TABLE), error_model="numpy")
def open_ports(ports, state):  # type: ignore[no-untyped-def]
    """Fills the state (2, STATE_COLUMNS) of ports (2, PORT_SCALARS) at time 0."""
    for p in range(2):
        state[p, :] = 0.0
        limited = ports[p, P_WINDOW] > 0.0
        state[p, S_CLOSES] = ports[p, P_OPEN] if limited else FAR
        state[p, S_END] = ports[p, P_WINDOW] if limited else FAR
        state[p, S_CAP] = ports[p, P_CAP] if limited and ports[p, P_CAP] > 0.0 else FAR


@kernel(nb.types.UniTuple(_F, 3)(*(_F,) * 8), error_model="numpy")
def admit(start, cycles, beats, window, opened, cap, current, used):  # type: ignore[no-untyped-def]
    """(end, current window, beats used in it) of a transfer that does not fit into what is left of the current window.

    The transfer has `beats` (above 0) and takes `cycles` on an open port from `start`; it is spread over the port's windows, of
    `window` cycles each. Only scalars go in and out: a call counts references to arrays, which takes longer than the rest.
    """
    first = current * window
    # A division rounds: it can put a time just before the end of a window into the next one.
    sure_end = (current + 1.0) * window * (1.0 - 1e-14)
    # Most transfers need less than two whole windows.
    is_long = cycles >= 1.9 * opened or beats >= 1.9 * cap
    left = 1.0
    time = start
    while True:
        index = current
        if not first <= time < sure_end:
            index = np.floor(time / window)
            if index > current:
                current = index
                used = 0.0
                first = index * window
                sure_end = (index + 1.0) * window * (1.0 - 1e-14)
        part = left
        if cycles > 0.0:
            part = min(part, (index * window + opened - time) / cycles)
        if cap < FAR:
            part = min(part, (cap - used) / beats)
        if part > 0.0:
            used += part * beats
            left -= part
            time += part * cycles
        if left <= 1e-9:
            return time, current, used
        time = max(time, (index + 1.0) * window)
        if is_long:
            # Whole windows in one step.
            full = opened / cycles if cycles > 0.0 else FAR
            if cap < FAR:
                full = min(full, cap / beats)
            skip = np.floor(left / full) - 1.0
            if skip > 0.0:
                left -= skip * full
                time += skip * window


@kernel(_F(_TABLE, _I, _F, _F), error_model="numpy")
def read_cycles(ports, p, beats, bursts):  # type: ignore[no-untyped-def]
    """Cycles that a read takes of an open port."""
    return max(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_READ_BURST_CYCLES])


@kernel(_F(_TABLE, _I, _F, _F), error_model="numpy")
def write_cycles(ports, p, beats, bursts):  # type: ignore[no-untyped-def]
    """Cycles that a write takes of an open port."""
    return max(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_WRITE_BURST_CYCLES])
