"""The slow twin of a port's windows: a transfer is given to one window after the other."""

from __future__ import annotations

import math

FAR = 1e18


def admit(
    start: float,
    cycles: float,
    beats: float,
    window: float,
    opened: float,
    cap: float,
    current: float,
    used: float,
    before: float,
) -> tuple[float, float, float, float]:
    """(end, window, beats used in it, in the one before) of a transfer; no cap: FAR.

    Window `current` has admitted `used` beats, the one before it `before`; earlier ones are gone.
    """
    is_long = cycles >= 1.9 * opened or beats >= 1.9 * cap
    left, time = 1.0, max(start, (current - 1.0) * window)
    while True:
        index = current
        if not current * window <= time < (current + 1.0) * window * (1.0 - 1e-14):
            index = float(math.floor(time / window))
            if index > current:
                current, used, before = index, 0.0, used if index == current + 1.0 else 0.0
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
            used, before = (spent, before) if index == current else (used, spent)
        if left <= 1e-9:
            return time, current, used, before
        index += 1.0
        time = max(time, index * window)
        if is_long:
            # As the model defines a transfer of many windows: all of them but the last in one step.
            full = min(opened / cycles if cycles > 0.0 else FAR, cap / beats if cap < FAR else FAR)
            skip = math.floor(left / full) - 1.0
            if skip > 0.0:
                left -= skip * full
                time += skip * window
                index += skip
                if index - 1.0 > current:
                    current, used = index - 1.0, full * beats
