"""Two shared memory ports: when a request gets its turn and when it has passed, under latency, slots, windows and caps."""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import inlined
from npu.machine.kernels.rows import FAR
from npu.native import types as ty
from npu.native.kernel import kernel

_F = ty.float64

_SURE = 1.0 - 1e-14
"""A division rounds: it can put a time just before the end of a window into the next one."""


@inlined
def open_port(port):  # type: ignore[no-untyped-def]
    """Fills the state of a port at time 0."""
    port.window = port.used = port.before = port.start = 0.0
    port.read.free = port.write.free = -FAR
    limited = port.window_cycles > 0.0
    port.closes = port.open_cycles if limited else FAR
    port.cap = port.window_beats if limited and port.window_beats > 0.0 else FAR


@inlined
def reserve(port, channel, time, cycles, beats):  # type: ignore[no-untyped-def]
    """(begin, end) of a transfer of `beats` on a channel of a port, asked for at `time`; it takes `cycles` (`turn`) of it.

    The slots are a counter: while a channel rests they come free, and so many bursts then pass at once.
    """
    begin = max(time, channel.free)
    if cycles < 0.0:
        rest = min(begin - channel.free, channel.held_cycles)
        cycles = max(-cycles - rest, beats * port.beat_cycles)
    passed = begin + cycles
    used = port.used + beats
    # What ends in the open part of a window has begun before its end.
    fits = (port.start <= begin) & (passed <= port.closes)
    if fits & (used <= port.cap):
        port.used = used
    elif port.window_cycles > 0.0 and beats > 0.0:
        window, opened = port.window_cycles, port.open_cycles
        passed, index, used, before = admit(begin, cycles, beats, window, opened, port.cap, port.window, port.used, port.before)
        port.window, port.used, port.before, port.start = index, used, before, index * window
        port.closes = index * window + opened
    channel.free = passed
    return begin, passed


@kernel(ty.several(_F, 4)(*(_F,) * 9), error_model="numpy")
def admit(start, cycles, beats, window, opened, cap, current, used, before):  # type: ignore[no-untyped-def]
    """(end, last window, beats used in it, in the one before) of a transfer that does not fit into what is left of a window.

    The transfer has `beats` (above 0) and takes `cycles` on an open port from `start`; it is spread over the port's windows, of
    `window` (a whole number of) cycles each. Behind what has gone on into window `current` it finds what that left of the
    window before, and nothing of earlier ones.
    """
    # What a window takes of the transfer that it takes from its start.
    full = min(opened / cycles if cycles > 0.0 else FAR, cap / beats if cap < FAR else FAR)
    # Most transfers need less than two whole windows.
    is_long = cycles >= 1.9 * opened or beats >= 1.9 * cap
    left = 1.0
    time = max(start, (current - 1.0) * window)
    while True:
        index = current
        if not current * window <= time < (current + 1.0) * window * _SURE:
            index = np.floor(time / window)
            if index > current:
                before = used if index == current + 1.0 else 0.0
                current = index
                used = 0.0
        spent = used if index == current else before
        part = left
        if cycles > 0.0:
            part = min(part, (index * window + opened - time) / cycles)
        if cap < FAR:
            part = min(part, (cap - spent) / beats)
        if part > 0.0:
            spent += part * beats
            left -= part
            time += part * cycles
            if index == current:
                used = spent
            else:
                before = spent
        # The windows that follow, without a division as long as the transfer has each of them from its start.
        while True:
            if left <= 1e-9:
                return time, current, used, before
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
                    if index - 1.0 > current:
                        current, used = index - 1.0, full * beats
            if is_behind or index <= current:
                break
            before = used if index == current + 1.0 else 0.0
            current = index
            part = min(left, full)
            used = part * beats
            left -= part
            time += part * cycles
