"""How threads come to a piece of work of another thread, and how that one knows that all have left: parts of compiled kernels.

The owner opens the gate of its work, does it itself, closes the gate and waits until nobody is inside. Whoever comes in between
takes part; nobody has to.
"""

from __future__ import annotations

import numpy as np

from npu.native.kernel import Inlined
from npu.native.memory import add_atomic, sleep_while, wake_all

GATE, ARGUMENTS, WORDS = 8, 16, 32
"""Words of a piece of work. The first: how often the gate was opened, or OVER; then whether it is open, and two for each who is
inside; then what the work is."""
OVER = -1
_SPINS = 200_000
"""How often a thread looks again, about a millisecond, before it sleeps: one that is woken comes late."""
_ONE_WHO_SLEEPS = 1 << 32
"""The high half of a number that threads wait for says how many of them sleep."""


@Inlined
def open_gate(work):  # type: ignore[no-untyped-def]
    """Let others in, to work at an address."""
    add_atomic(work, np.int64(1))
    add_atomic(work + 8 * GATE, np.int64(1))


@Inlined
def close_gate(work):  # type: ignore[no-untyped-def]
    """Let nobody in any more and wait for those who are inside."""
    add_atomic(work + 8 * GATE, np.int64(-1))
    wait_for(work + 8 * GATE, np.int64(0))


@Inlined
def enter_gate(work, last):  # type: ignore[no-untyped-def]
    """Wait for the gate to be opened more than `last` times, go in: how often it was, -1 if nothing happens or all is over."""
    spins = np.int64(0)
    while spins < _SPINS:
        opened = add_atomic(work, np.int64(0))
        if opened < 0:
            return np.int64(-1)
        if opened != last:
            if add_atomic(work + 8 * GATE, np.int64(2)) & 1 != 0:
                return opened
            leave_gate(work)
            last = opened
        spins += 1
    return np.int64(-1)


@Inlined
def leave_gate(work):  # type: ignore[no-untyped-def]
    """The end of what `enter_gate` began."""
    count(work + 8 * GATE, np.int64(-2))


@Inlined
def count(counter, change):  # type: ignore[no-untyped-def]
    """Change a number for which others may wait."""
    if add_atomic(counter, change) >= _ONE_WHO_SLEEPS:
        wake_all(counter)


@Inlined
def wait_for(counter, number):  # type: ignore[no-untyped-def]
    """Until the low half of the number at an address is this one."""
    spins, value = np.int64(0), add_atomic(counter, np.int64(0))
    while value & (_ONE_WHO_SLEEPS - 1) != number and spins < _SPINS:
        value = add_atomic(counter, np.int64(0))
        spins += 1
    if value & (_ONE_WHO_SLEEPS - 1) == number:
        return
    value = add_atomic(counter, np.int64(_ONE_WHO_SLEEPS)) & (_ONE_WHO_SLEEPS - 1)
    while value != number:
        sleep_while(counter, value)
        value = add_atomic(counter, np.int64(0)) & (_ONE_WHO_SLEEPS - 1)
    add_atomic(counter, np.int64(-_ONE_WHO_SLEEPS))
