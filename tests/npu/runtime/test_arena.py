"""Arena planning: what lives at the same time never shares bytes, what does not may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from npu.runtime.arena import ALIGNMENT, Lifetime, lifetimes, plan_arena

_SPANS = st.tuples(st.integers(0, 300), st.integers(0, 12), st.integers(0, 12))


@given(st.lists(_SPANS, max_size=20))
def test_tensors_that_live_at_the_same_time_never_overlap(spans: list[tuple[int, int, int]]) -> None:
    items = [Lifetime(k, size, min(a, b), max(a, b)) for k, (size, a, b) in enumerate(spans)]
    offsets, total = plan_arena(items)
    for one in items:
        assert offsets[one.tensor] % ALIGNMENT == 0
        assert offsets[one.tensor] + one.size <= total
        for other in items:
            if one.tensor < other.tensor and one.first <= other.last and other.first <= one.last:
                apart = offsets[one.tensor] + one.size <= offsets[other.tensor]
                assert apart or offsets[other.tensor] + other.size <= offsets[one.tensor]


def test_a_chain_of_equal_tensors_needs_room_for_two() -> None:
    steps = [((k,), (k + 1,)) for k in range(6)]
    _, total = plan_arena(lifetimes(steps, dict.fromkeys(range(7), 128)))
    assert total == 256


def test_a_kept_tensor_shares_with_nothing_that_comes_later() -> None:
    steps = [((0,), (1,)), ((1,), (2,)), ((2,), (3,))]
    sizes = dict.fromkeys(range(4), 64)
    found = {lifetime.tensor: (lifetime.first, lifetime.last) for lifetime in lifetimes(steps, sizes, kept=(1,))}
    assert found == {0: (0, 0), 1: (0, 3), 2: (1, 2), 3: (2, 2)}


def test_a_tensor_lives_until_its_last_reader() -> None:
    steps = [((), (0,)), ((0,), (1,)), ((1,), (2,)), ((0, 2), (3,))]
    found = {lifetime.tensor: (lifetime.first, lifetime.last) for lifetime in lifetimes(steps, dict.fromkeys(range(4), 8))}
    assert found == {0: (0, 3), 1: (1, 2), 2: (2, 3), 3: (3, 3)}
