"""How threads come to a piece of work of another thread, and how that one knows that all have left: parts of compiled kernels.

The owner opens the gate of its work, does it itself, closes the gate and waits until nobody is inside. Whoever comes in between
takes part; nobody has to.
"""

from __future__ import annotations

import numpy as np

from npu.native.kernel import Inlined
from npu.native.memory import add_atomic, load_atomic, sleep_while, wake_all

GATE, ARGUMENTS, WORDS = 8, 16, 32
"""Words of a piece of work. The first: how often the gate was opened, or OVER; then whether it is open, and two for each who is
inside; then what the work is."""
OVER = -1
_SPINS = 1_000_000
"""How often a thread looks again, about a millisecond, before it sleeps: one that is woken comes late."""
_ONE_WHO_SLEEPS = 1 << 48
"""The highest bits of a word that threads wait for say how many of them sleep; the lowest 32 change before they are woken."""
_INSIDE = (1 << 32) - 1
"""The bits of the word of a gate."""


@Inlined
def open_gate(work):  # type: ignore[no-untyped-def]
    """Let others in, to work at an address."""
    add_atomic(work, np.int64(1))
    add_atomic(work + 8 * GATE, np.int64(1))


@Inlined
def close_gate(work):  # type: ignore[no-untyped-def]
    """Let nobody in any more and wait for those who are inside."""
    add_atomic(work + 8 * GATE, np.int64(-1))
    wait_for(work + 8 * GATE, np.int64(_INSIDE), np.int64(0))


@Inlined
def enter_gate(work, last):  # type: ignore[no-untyped-def]
    """Wait for the gate to be opened more than `last` times, go in: how often it was, -1 if nothing happens or all is over."""
    spins = np.int64(0)
    while spins < _SPINS:
        opened = load_atomic(work)
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
    """Change a word for which others may wait; what it was before."""
    before = add_atomic(counter, change)
    if before >= _ONE_WHO_SLEEPS:
        wake_all(counter)
    return before


@Inlined
def wait_for(counter, bits, number):  # type: ignore[no-untyped-def]
    """Until these bits of the word at an address, of its lowest 32, are this number."""
    spins, value = np.int64(0), load_atomic(counter)
    while value & bits != number and spins < _SPINS:
        value = load_atomic(counter)
        spins += 1
    if value & bits == number:
        return
    value = add_atomic(counter, np.int64(_ONE_WHO_SLEEPS))
    while value & bits != number:
        sleep_while(counter, value)
        value = load_atomic(counter)
    add_atomic(counter, np.int64(-_ONE_WHO_SLEEPS))
