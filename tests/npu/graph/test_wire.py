"""How declarations become field ids."""

from __future__ import annotations

from typing import ClassVar

import pytest

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
