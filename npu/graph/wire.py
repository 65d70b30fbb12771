"""How a class declares a flatbuffer table: the only place that derives field ids, wire types and defaults.

A table is a frozen dataclass whose fields stand in schema order. A field's flatbuffer id is its place in that order (ids in
`deprecated_ids` are skipped), its wire type is the `Annotated` marker, its default is the dataclass default:

    class SoftmaxOptions(Table):
        beta: f32 = 0.0

Reader, writer and tests take all of it from `wire_fields`. Of the schema's 170 tables a file uses about 20, so a class becomes
a dataclass when it is first used: making all of them would be half of the time that reading a small model takes.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, fields
from enum import Enum
from threading import RLock
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union, get_args, get_origin

from npu.records import dataclass

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda cls: cls


@dataclass(frozen=True, slots=True)
class NumberField:
    """One number, stored in the table itself and left out where it equals the default; `type` is numpy's name of it."""

    type: str


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of numbers as a tuple. An empty one is written; only None is left out."""

    type: str


@dataclass(frozen=True, slots=True)
class NumberArray:
    """A vector of numbers as a one-dimensional numpy view of the file, None where the file has none."""

    type: str


@dataclass(frozen=True, slots=True)
class StringField:
    """A string; the empty one is left out."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A vector of bytes as `bytes`; the empty one is left out."""


@dataclass(frozen=True, slots=True)
class SubTable:
    """A table of the annotated class, None where the file has none."""


@dataclass(frozen=True, slots=True)
class SubTables:
    """A vector of tables of the annotated class, as a tuple."""


@dataclass(frozen=True, slots=True)
class UnionMember:
    """A union: two ids, the member's number (1 for the first class) and the member."""

    members: tuple[type[Table], ...]


Wire = NumberField | Vector | NumberArray | StringField | Blob | SubTable | SubTables | UnionMember

boolean = Annotated[bool, NumberField("bool")]
i8 = Annotated[int, NumberField("int8")]
i32 = Annotated[int, NumberField("int32")]
u32 = Annotated[int, NumberField("uint32")]
i64 = Annotated[int, NumberField("int64")]
u64 = Annotated[int, NumberField("uint64")]
f32 = Annotated[float, NumberField("float32")]
booleans = Annotated[tuple[bool, ...], Vector("bool")]
i32s = Annotated[tuple[int, ...], Vector("int32")]
i64s = Annotated[tuple[int, ...], Vector("int64")]
f32s = Annotated[tuple[float, ...], Vector("float32")]
text = Annotated[str, StringField()]
blob = Annotated[bytes, Blob()]


_MAKING = RLock()


class _Unmade:
    """`__dataclass_fields__` of a table that is no dataclass yet: makes it one."""

    def __init__(self, *, eq: bool) -> None:
        self._eq = eq

    def __get__(self, instance: object, table: type[Table]) -> dict[str, Field[Any]]:
        with _MAKING:
            if vars(table)["__dataclass_fields__"] is self:
                if not vars(table).get("__annotations__"):  # keeps the initialiser of Table, for the classes derived from it
                    table.__init__ = Table.__init__  # type: ignore[method-assign]
                dataclass(frozen=True, eq=self._eq)(table)
        return table.__dataclass_fields__


@dataclass_transform(frozen_default=True)
class Table:
    """Base of every flatbuffer table."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    deprecated_ids: ClassVar[tuple[int, ...]] = ()
    """Ids that the schema once used; never read nor written."""

    def __init_subclass__(cls, *, eq: bool = True) -> None:
        cls.__dataclass_fields__ = _Unmade(eq=eq)  # type: ignore[assignment]

    if not TYPE_CHECKING:

        def __init__(self, *values: Any, **named: Any) -> None:
            """Of a class that is no dataclass yet, or that has no fields."""
            with _MAKING:  # another thread may be about to make it
                fields(type(self))
            if type(self).__init__ is not Table.__init__:
                type(self).__init__(self, *values, **named)
            elif values or named:
                raise TypeError(f"{type(self).__name__} must be made without arguments, it has no fields")


@dataclass(frozen=True, slots=True)
class UnknownMember:
    """A union's member whose number is not in `UnionMember.members`: its fields cannot be known, only its number."""

    number: int


@dataclass(frozen=True, slots=True)
class WireField:
    """What reader and writer need to know of one field.

    `id` is the flatbuffer id (of a union: the id of the member, whose number has id - 1). `convert` is the enum class of a
    scalar or of a vector's elements, the table class of sub-tables, else None.
    """

    name: str
    id: int
    wire: Wire
    default: Any
    convert: type[Any] | None


_KNOWN: dict[type[Table], tuple[WireField, ...]] = {}


def wire_fields(table: type[Table]) -> tuple[WireField, ...]:
    """The fields of `table` in id order. Raises TypeError for a declaration without wire type: a defect, not user input."""
    if table not in _KNOWN:
        _KNOWN[table] = _derive(table)
    return _KNOWN[table]


def _derive(table: type[Table]) -> tuple[WireField, ...]:
    names = vars(sys.modules[table.__module__])
    wires: list[WireField] = []
    next_id = 0
    with _MAKING:  # another thread may be about to make it, and has put in the fields, but not yet their types
        declarations = fields(table)
    # Most are names; typing.get_type_hints looks at every part again.
    types = [names[one.type] if one.type in names else eval(str(one.type), names) for one in declarations]
    for declared, declaration in zip(declarations, types, strict=True):
        if get_origin(declaration) is not Annotated:
            raise TypeError(f"{table.__name__}.{declared.name}: must have an Annotated wire type")
        value_type, wire = get_args(declaration)[:2]
        next_id += isinstance(wire, UnionMember)
        while next_id in table.deprecated_ids:
            next_id += 1
        default = declared.default if declared.default is not MISSING else None
        wires.append(WireField(declared.name, next_id, wire, default, _class_inside(value_type)))
        next_id += 1
    return tuple(wires)


def _class_inside(value_type: Any) -> type[Any] | None:
    """The enum or table class that a value type mentions: X, X | None, tuple[X, ...] or tuple[X, ...] | None."""
    if get_origin(value_type) in (tuple, Union, UnionType):
        return next((class_inside for part in get_args(value_type) if (class_inside := _class_inside(part)) is not None), None)
    is_class = isinstance(value_type, type) and get_origin(value_type) is None  # Python 3.10 takes list[int] for a class
    return value_type if is_class and issubclass(value_type, Enum | Table) else None
