"""Streams that are read as columns: the same operations and the same refusals as one command after the other."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.hardware.variant import Variant
from npu.isa import columns
from npu.isa.columns import read_columns
from npu.isa.decode import decode
from npu.isa.decoded import Decoded, placed, places_of
from npu.isa.encode import encode
from npu.isa.operations import Dma, DmaSide, DmaWait, Operation, Stop
from npu.isa.stream import CommandStream

from tests.support.operations import operations
from tests.support.streams import VARIANTS

CHANGES = ("none", "bit", "word", "cut", "twice", "left out")


def changed(words: NDArray[np.uint32], change: str, rng: np.random.Generator) -> NDArray[np.uint32]:
    """A stream with something wrong somewhere."""
    at = int(rng.integers(words.size))
    words = words.copy()
    if change == "bit":
        words[at] ^= np.uint32(1 << int(rng.integers(32)))
    elif change == "word":
        words[at] = rng.choice([0, 1, 0x4000, 0xFFFFFFFF, words[int(rng.integers(words.size))]])
    elif change == "cut":
        words = words[:at]
    elif change == "twice":
        words = np.concatenate([words[: at + 1], words[at:]])
    elif change == "left out":
        words = np.delete(words, at)
    return words


def moved(operation: Operation, rng: np.random.Generator) -> Operation:
    """The operation at other places."""
    return placed(operation, [int(16 * rng.integers(1, 1 << 14)) if place else 0 for place in places_of(operation)])


def outcome(words: NDArray[np.uint32], variant: Variant, *, as_columns: bool) -> tuple[Decoded, ...] | str:
    """The operations, or the sentence with which the stream is refused."""
    try:
        return CommandStream(words, variant).operations if as_columns else decode(words, variant)
    except StreamError as error:
        return str(error)


@pytest.mark.parametrize("variant", [VARIANTS[2], VARIANTS[5]], ids=lambda variant: variant.name)
def test_columns_and_single_commands_give_the_same_operations_and_refusals(variant: Variant) -> None:
    taken = Counter[str]()

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(listed=operations(variant), seed=st.integers(0, 1 << 30))
    def check(listed: list[Operation], seed: int) -> None:
        rng = np.random.default_rng(seed)
        again = [moved(one, rng) for one in listed[:-1]]
        words = encode([*listed[:-1], *again, *listed], variant)
        for change in CHANGES:
            stream = changed(words, change, rng)
            assert outcome(stream, variant, as_columns=True) == outcome(stream, variant, as_columns=False)
            taken[change] += read_columns(stream, variant) is not None

    check()
    assert taken["none"] >= 40
    assert taken["bit"] >= 4


def transfers(count: int) -> NDArray[np.uint32]:
    """A stream of transfers that differ in their places."""
    sides = [(DmaSide(0, 16 * k), DmaSide(1, 32 * k)) for k in range(count)]
    return encode(
        [*(Dma(source=one, destination=other, length_bytes=16 + 16 * (k % 3)) for k, (one, other) in enumerate(sides)), Stop()],
        VARIANTS[2],
    )


def test_transfers_between_the_same_regions_are_alike_wherever_they_are() -> None:
    alike = CommandStream(transfers(9), VARIANTS[2]).alike
    assert alike.of.tolist() == [0] * 9 + [1]
    assert alike.firsts == [0, 9]
    assert [one.operation for one in alike.decoded] == [one.operation for one in decode(transfers(9), VARIANTS[2])]
    assert alike.places.tolist() == [places_of(one.operation) for one in alike.decoded]


def test_a_stream_of_very_many_operations_is_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_MAX_OPERATIONS", 9)
    assert read_columns(transfers(9), VARIANTS[2]) is None
    assert CommandStream(transfers(9), VARIANTS[2]).operations == decode(transfers(9), VARIANTS[2])


def test_a_decoded_operation_is_a_value() -> None:
    first, again = (CommandStream(transfers(3), VARIANTS[2]).operations for _ in range(2))
    assert first[1] == again[1] != first[0]
    assert {*first, *again} == {*first}
    assert pickle.loads(pickle.dumps(first)) == first
    assert repr(Decoded(DmaWait(0), 3, 5)) == "Decoded(operation=DmaWait(outstanding=0), command_index=3, word_index=5)"
