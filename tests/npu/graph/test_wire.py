"""How declarations become field ids."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import ClassVar

import pytest

from npu.graph import wire
from npu.graph.wire import Table, i32, wire_fields


class WithGaps(Table):
    deprecated_ids: ClassVar[tuple[int, ...]] = (0, 2, 3)

    first: i32 = 7
    second: i32 = 0


class Undeclared(Table):
    plain: int = 0


def test_deprecated_ids_are_skipped() -> None:
    assert [(field.name, field.id, field.default) for field in wire_fields(WithGaps)] == [("first", 1, 7), ("second", 4, 0)]


def test_a_field_without_wire_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Undeclared\.plain: must have an Annotated wire type"):
        wire_fields(Undeclared)


def test_a_table_that_another_thread_is_making_is_read_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Table):
        count: i32 = 0

    begun = threading.Event()

    def dataclass_in_two_steps(**options: bool) -> Callable[[type], type]:
        def decorate(cls: type) -> type:
            types, cls.__annotations__ = cls.__annotations__, dict.fromkeys(cls.__annotations__, object)
            made = dataclasses.dataclass(**options)(cls)
            begun.set()
            time.sleep(0.2)
            for item in dataclasses.fields(made):
                item.type = types[item.name]
            return made

        return decorate

    monkeypatch.setattr(wire, "dataclass", dataclass_in_two_steps)
    maker = threading.Thread(target=dataclasses.fields, args=(Slow,))
    maker.start()
    begun.wait()
    assert [(field.name, field.default) for field in wire_fields(Slow)] == [("count", 0)]
    maker.join()
