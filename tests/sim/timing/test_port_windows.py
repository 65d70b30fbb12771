"""The windows of a port give every transfer the time that going through them one by one gives it, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.timing.kernels.ports import admit

from tests.naive import port_windows

_EIGHTHS = st.integers(0, 80_000).map(lambda value: value / 8)


@given(
    opened=st.integers(1, 5000),
    closed=st.integers(0, 1500),
    cap=st.one_of(st.just(port_windows.FAR), st.integers(1, 4000).map(float)),
    cycles=st.one_of(_EIGHTHS, st.floats(0.0, 5000.0)),
    beats=st.integers(1, 40_000).map(lambda value: value / 8),
    current=st.integers(0, 100_000),
    offset=st.floats(-3.0, 3.0),
    share=st.integers(0, 8),
    share_before=st.integers(0, 8),
)
@example(opened=320, closed=80, cap=56.0, cycles=256.0, beats=64.0, current=7, offset=0.5, share=3, share_before=5)
@example(opened=3999, closed=1, cap=4000.0, cycles=0.0, beats=9000.0, current=0, offset=0.0, share=8, share_before=0)
@example(opened=5, closed=0, cap=port_windows.FAR, cycles=0.1, beats=1.0, current=3, offset=1 - 1e-9, share=0, share_before=8)
@settings(max_examples=1000, deadline=None)
def test_a_transfer_takes_what_window_after_window_gives_it(
    opened: int,
    closed: int,
    cap: float,
    cycles: float,
    beats: float,
    current: int,
    offset: float,
    share: int,
    share_before: int,
) -> None:
    window = float(opened + closed)
    used, before = (part / 8 * cap if cap < port_windows.FAR else 0.0 for part in (share, share_before))
    start = max((current + offset) * window, 0.0)
    arguments = (start, cycles, beats, window, float(opened), cap, float(current), used, before)
    assert admit(*map(np.float64, arguments)) == port_windows.admit(*arguments)


def test_what_spills_into_a_window_leaves_the_one_before_full_for_what_comes_later() -> None:
    """A read of 192 beats from cycle 0 fills window 0 (128 beats) and half of window 1; a write at cycle 50 finds that half."""
    limits = 1000.0, 900.0, 128.0
    read = admit(*map(np.float64, (0.0, 192.0, 192.0, *limits, 0.0, 0.0, 0.0)))
    assert read == pytest.approx((1064.0, 1.0, 64.0, 128.0))
    write = admit(*map(np.float64, (50.0, 16.0, 16.0, *limits, *read[1:])))
    assert write == pytest.approx((1016.0, 1.0, 80.0, 128.0))
    # What began in window 1 used nothing of the one before.
    assert admit(*map(np.float64, (50.0, 16.0, 16.0, *limits, 1.0, 64.0, 0.0))) == pytest.approx((66.0, 1.0, 64.0, 16.0))
