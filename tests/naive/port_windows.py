"""The slow twin of a port's windows: a transfer is given to one window after the other."""

from __future__ import annotations

import math

FAR = 1e18


def admit(
    start: float, cycles: float, beats: float, window: float, opened: float, cap: float, current: float, used: float
) -> tuple[float, float, float]:
    """(end, window, beats used in it) of a transfer, where window `current` has admitted `used` beats; no cap: FAR."""
    is_long = cycles >= 1.9 * opened or beats >= 1.9 * cap
    left, time = 1.0, start
    while True:
        index = current
        if not current * window <= time < (current + 1.0) * window * (1.0 - 1e-14):
            index = float(math.floor(time / window))
            if index > current:
                current, used = index, 0.0
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
            # As the model defines a transfer of many windows: all of them but the last in one step.
            full = min(opened / cycles if cycles > 0.0 else FAR, cap / beats if cap < FAR else FAR)
            skip = math.floor(left / full) - 1.0
            if skip > 0.0:
                left -= skip * full
                time += skip * window
