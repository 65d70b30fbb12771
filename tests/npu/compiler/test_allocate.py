"""Packing by lifetime: nothing that is live together overlaps, everything is aligned, good cases are optimal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from npu.compiler.allocate import ALIGNMENT, Allocation, LiveRange, Packer, allocate, live_bytes

BUFFERS = st.lists(
    st.builds(
        lambda size, first, length: LiveRange(size, first, first + length),
        st.integers(0, 500),
        st.integers(0, 20),
        st.integers(0, 8),
    ),
    max_size=25,
)


def assert_sound(buffers: list[LiveRange], offsets: list[int], total: int) -> None:
    """Pairwise check, independent of how the packing was found."""
    for buffer, offset in zip(buffers, offsets, strict=True):
        assert offset % 16 == 0
        assert 0 <= offset <= offset + buffer.size_bytes <= total
    for i, a in enumerate(buffers):
        for j in range(i):
            b = buffers[j]
            if a.first <= b.last and b.first <= a.last and a.size_bytes and b.size_bytes:
                assert offsets[i] + a.size_bytes <= offsets[j] or offsets[j] + b.size_bytes <= offsets[i]


@given(BUFFERS)
def test_live_buffers_never_overlap(buffers: list[LiveRange]) -> None:
    allocation = allocate(buffers)
    assert_sound(buffers, list(allocation.offsets), allocation.total_bytes)
    assert allocation == allocate(buffers)


@given(BUFFERS)
def test_the_total_is_at_least_the_live_bytes_of_every_event(buffers: list[LiveRange]) -> None:
    total = allocate(buffers).total_bytes
    for event in range(30):
        live = sum(-(-b.size_bytes // ALIGNMENT) * ALIGNMENT for b in buffers if b.first <= event <= b.last)
        assert total >= live
        assert live == live_bytes(buffers, 30)[event]


@given(BUFFERS, BUFFERS)
def test_a_packer_adds_without_overlap_and_within_its_limit(first: list[LiveRange], second: list[LiveRange]) -> None:
    fixed = allocate(first)
    packer = Packer(first, fixed)
    buffers, offsets = list(first), list(fixed.offsets)
    for buffer in second:
        offset = packer.place(buffer, 2000)
        if offset is not None:
            assert offset + buffer.size_bytes <= 2000
            buffers.append(buffer)
            offsets.append(offset)
    assert_sound(buffers, offsets, packer.total_bytes)


def test_a_chain_of_maps_takes_the_sum_of_its_largest_neighbours() -> None:
    sizes = (160, 480, 320, 96, 640, 16)
    chain = [LiveRange(size, index, index + 1) for index, size in enumerate(sizes)]
    assert allocate(chain).total_bytes == 480 + 320


def test_the_hill_climb_finds_a_packing_that_no_single_order_of_size_gives() -> None:
    # A long thin buffer between two pairs: placed by size it splits the space.
    buffers = [
        LiveRange(64, 0, 1),
        LiveRange(48, 1, 2),
        LiveRange(64, 2, 3),
        LiveRange(16, 0, 3),
        LiveRange(48, 3, 4),
        LiveRange(32, 4, 5),
    ]
    assert allocate(buffers).total_bytes == 64 + 48 + 16


def test_nothing_takes_no_memory() -> None:
    assert allocate([]) == Allocation((), 0)


def test_what_was_added_can_be_taken_out_again() -> None:
    packer = Packer([LiveRange(160, 0, 3)], Allocation((0,), 160))
    buffers = [LiveRange(16 * count, 1, 2) for count in range(1, 99)]  # more than there is room for at first
    first = [packer.place(buffer, 1 << 20) for buffer in buffers]
    packer.clear()
    assert packer.total_bytes == 160
    assert [packer.place(buffer, 1 << 20) for buffer in buffers] == first
