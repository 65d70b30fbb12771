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


@kernel(_F(_TABLE, _TABLE, _I, _F, _F, _F), error_model="numpy")
def admit(ports, state, p, start, cycles, beats):  # type: ignore[no-untyped-def]
    """End of a transfer of `beats` that takes `cycles` on an open port from `start`, spread over the port's windows."""
    window = ports[p, P_WINDOW]
    if window <= 0.0 or beats <= 0.0:
        return start + cycles
    opened = ports[p, P_OPEN]
    cap = state[p, S_CAP]
    # A division rounds: it can put a time just before the end of a window into the next one.
    sure_end = state[p, S_END] * (1.0 - 1e-14)
    # Most transfers need less than two whole windows.
    is_long = cycles >= 1.9 * opened or beats >= 1.9 * cap
    left = 1.0
    time = start
    while True:
        index = state[p, S_WINDOW]
        if not state[p, S_START] <= time < sure_end:
            index = np.floor(time / window)
            if index > state[p, S_WINDOW]:
                state[p, S_WINDOW] = index
                state[p, S_USED] = 0.0
                state[p, S_START] = index * window
                state[p, S_CLOSES] = index * window + opened
                state[p, S_END] = (index + 1.0) * window
                sure_end = state[p, S_END] * (1.0 - 1e-14)
        part = left
        if cycles > 0.0:
            part = min(part, (index * window + opened - time) / cycles)
        if cap < FAR:
            part = min(part, (cap - state[p, S_USED]) / beats)
        if part > 0.0:
            state[p, S_USED] += part * beats
            left -= part
            time += part * cycles
        if left <= 1e-9:
            return time
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


@kernel(_F(_TABLE, _TABLE, _I, _F, _F, _F), error_model="numpy")
def transfer_end(ports, state, p, start, cycles, beats):  # type: ignore[no-untyped-def]
    """End of a transfer from `start`: at once when it fits into what is left of the current window, else by `admit`."""
    end = start + cycles
    used = state[p, S_USED] + beats
    if (state[p, S_START] <= start) & (start < state[p, S_END]) & (end <= state[p, S_CLOSES]) & (used <= state[p, S_CAP]):
        state[p, S_USED] = used
        return end
    return admit(ports, state, p, start, cycles, beats)


@kernel(nb.types.UniTuple(_F, 2)(_TABLE, _TABLE, _I, _F, _F, _F), error_model="numpy")
def read(ports, state, p, time, cycles, beats):  # type: ignore[no-untyped-def]
    """(start, end) on the port of a read asked for at `time`; the data come one read latency later."""
    start = max(time, state[p, S_READ_FREE])
    end = transfer_end(ports, state, p, start, cycles, beats)
    state[p, S_READ_FREE] = end
    return start, end


@kernel(_F(_TABLE, _TABLE, _I, _F, _F, _F), error_model="numpy")
def write(ports, state, p, time, cycles, beats):  # type: ignore[no-untyped-def]
    """End of the data of a write asked for at `time`; the response comes one write latency later."""
    start = max(time, state[p, S_WRITE_FREE])
    end = transfer_end(ports, state, p, start, cycles, beats)
    state[p, S_WRITE_FREE] = end
    return end


@kernel(_F(_TABLE, _I, _F, _F), error_model="numpy")
def read_cycles(ports, p, beats, bursts):  # type: ignore[no-untyped-def]
    """Cycles that a read takes of an open port."""
    return max(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_READ_BURST_CYCLES])


@kernel(_F(_TABLE, _I, _F, _F), error_model="numpy")
def write_cycles(ports, p, beats, bursts):  # type: ignore[no-untyped-def]
    """Cycles that a write takes of an open port."""
    return max(beats * ports[p, P_BEAT_CYCLES], bursts * ports[p, P_WRITE_BURST_CYCLES])
