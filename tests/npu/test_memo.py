"""What was asked for last is kept."""

from __future__ import annotations

from npu.memo import LastUsed, LazySequence


def test_what_was_asked_for_last_stays() -> None:
    memory: LastUsed[int, str] = LastUsed(4)
    made: list[int] = []

    def ask(key: int) -> str:
        def make() -> str:
            made.append(key)
            return str(key)

        return memory.get(key, make)

    for key in (1, 2, 3, 1, 4, 5):  # 5 takes the place of 2
        assert ask(key) == str(key)
    assert made == [1, 2, 3, 4, 5]
    for key in (1, 3, 4, 5):
        ask(key)
    assert made == [1, 2, 3, 4, 5]
    ask(2)
    assert made[-1] == 2


def test_items_of_a_sequence_are_made_when_they_are_looked_at() -> None:
    made: list[int] = []

    def square(index: int) -> int:
        made.append(index)
        return index * index

    items = LazySequence(4, square)
    assert (len(items), made) == (4, [])
    assert (items[2], items[2], made) == (4, 4, [2])
    assert (list(items), made) == ([0, 1, 4, 9], [2, 0, 1, 3])
