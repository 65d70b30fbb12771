"""Flatbuffer bytes to and from dataclass tables: the only place that knows offsets, vtables and alignment.

The reader trusts nothing: every offset and length is checked against the file before use, and the number of Python objects
that a file can ask for is bounded (tables may be shared, so a small file can describe an exponential amount of data).
The writer lays tables out front to back, vtables shared, every value on its natural alignment.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from npu.errors import ModelError
from npu.graph.wire import (
    Blob,
    NumberArray,
    NumberField,
    StringField,
    SubTable,
    SubTables,
    Table,
    UnionMember,
    UnknownMember,
    Vector,
    WireField,
    wire_fields,
)

MAX_TABLES = 250_000
"""Tables in one file; a graph of 600 operators has 3,500."""
MAX_ELEMENTS = 4_000_000
"""Numbers that become Python objects (shapes, indices, options; never tensor contents)."""
MAX_FIELDS = 64
"""Fields of a table that are looked at; the largest table of the schema has 17."""
SLACK_BYTES = 16 << 20
"""Bytes of strings, blobs and arrays beyond the size of the file itself; more only comes from overlaps."""

_LFS_POINTER = b"version https://git-lfs.github.com/"
"""What a checkout without Git LFS has in place of a large file begins so."""

_STRUCTS = {
    "bool": struct.Struct("<?"),
    "int8": struct.Struct("<b"),
    "uint8": struct.Struct("<B"),
    "int16": struct.Struct("<h"),
    "uint16": struct.Struct("<H"),
    "int32": struct.Struct("<i"),
    "uint32": struct.Struct("<I"),
    "int64": struct.Struct("<q"),
    "uint64": struct.Struct("<Q"),
    "float32": struct.Struct("<f"),
    "float64": struct.Struct("<d"),
}
_OFFSET = _STRUCTS["uint32"]
_I32 = _STRUCTS["int32"]
_unpack_offset, _unpack_distance = _OFFSET.unpack_from, _I32.unpack_from

AnyTable = TypeVar("AnyTable", bound=Table)
_ReadField = Callable[["TableReader", WireField, int, str], Any]


class TableReader:
    """Reads tables out of `data`. `source` is the file's name for messages. All methods raise ModelError."""

    def __init__(self, data: bytes, source: str) -> None:
        self.data = data
        self.source = source
        self._tables = 0
        self._elements = 0
        self._bytes = 0
        self._vtables: dict[int, tuple[int, ...]] = {}

    def root(self, table: type[AnyTable], identifier: bytes, kind: str = "a TFLite model") -> AnyTable:
        """The table that the file starts with; `kind` is what messages call such a file."""
        if len(self.data) < 8 or self.data[4:8] != identifier:
            got = repr(self.data[4:8].decode("latin-1")) if len(self.data) >= 8 else f"a file of {len(self.data)} bytes"
            if bytes(self.data[: len(_LFS_POINTER)]) == _LFS_POINTER:
                got = "a pointer of Git LFS to it; bring the file itself with: git lfs pull"
            raise ModelError(f"{self.source}: must be {kind} (identifier {identifier.decode()} at byte 4), got {got}")
        return self.table(table, self.follow(0, "root"), "")

    def table(self, table: type[AnyTable], position: int, path: str) -> AnyTable:
        """The table of class `table` at byte `position`; `path` names it in messages."""
        self._tables += 1
        if self._tables > MAX_TABLES:
            raise self.error(path, f"the file must describe at most {MAX_TABLES} tables")
        slots = self._slots(position, path)
        defaults, by_id = _fields_of(table)
        values = defaults.copy()
        for offset, known in zip(slots, by_id, strict=False):
            if offset and known is not None:
                field, read = known
                if read is None:
                    values[field.name] = self._union(field, slots, position, path)
                else:
                    values[field.name] = read(self, field, position + offset, path)
        result = table.__new__(table)
        vars(result).update(values)  # as the initialiser does one by one
        return result

    def error(self, path: str, what: str) -> ModelError:
        """The error to raise about the place that `path` names."""
        return ModelError(f"{self.source}: {path + ': ' if path else ''}{what}")

    def scalar(self, type_name: str, position: int, path: str) -> Any:
        """The number of wire type `type_name` at byte `position`."""
        packing = _STRUCTS[type_name]
        if position < 0 or position + packing.size > len(self.data):
            raise self.error(path, f"{type_name} at byte {position} must lie inside the file of {len(self.data)} bytes")
        return packing.unpack_from(self.data, position)[0]

    def span(self, position: int, element_bytes: int, path: str, name: str = "") -> tuple[int, int]:
        """First byte and length (in elements) of the vector that the offset at `position` points to: field `name` of `path`."""
        start = position + _unpack_offset(self.data, position)[0] if position + 4 <= len(self.data) else position
        if start == position or start + 4 > len(self.data):
            start = self.follow(position, path, name)
        count = _unpack_offset(self.data, start)[0]
        if start + 4 + count * element_bytes > len(self.data):
            rule = f"{count} elements from byte {start} must lie inside the file of {len(self.data)} bytes"
            raise self.error(_within(path, name), rule)
        return start + 4, count

    def count_elements(self, count: int, path: str, name: str = "") -> None:
        self._elements += count
        if self._elements > MAX_ELEMENTS:
            raise self.error(_within(path, name), f"the file must hold at most {MAX_ELEMENTS} shape, index and option values")

    def count_bytes(self, count: int, path: str) -> None:
        self._bytes += count
        if self._bytes > len(self.data) + SLACK_BYTES:
            raise self.error(path, "strings, blobs and arrays must not overlap so often that they exceed the file's size")

    def copy(self, start: int, count: int, path: str) -> bytes:
        """`count` bytes of the file."""
        self.count_bytes(count, path)
        return self.data[start : start + count]

    def _slots(self, position: int, path: str) -> tuple[int, ...]:
        """Field offsets, relative to the table at `position`, out of its vtable; 0 for an absent field."""
        vtable = position - _unpack_distance(self.data, position)[0]  # what `follow` gives has four bytes
        known = self._vtables.get(vtable)
        if known is None:
            size = self.scalar("uint16", vtable, path)
            if size < 4 or size % 2 or vtable + size > len(self.data):
                raise self.error(path, f"vtable at byte {vtable} must have an even size of at least 4 in the file, got {size}")
            count = min(size // 2, 2 + MAX_FIELDS)
            known = self._vtables[vtable] = struct.unpack_from(f"<{count}H", self.data, vtable)[2:]
        return known

    def follow(self, position: int, path: str, name: str = "") -> int:
        """Target of the unsigned offset at `position`, which is that of field `name` of `path`."""
        if position + 4 > len(self.data):
            self.scalar("uint32", position, _within(path, name))
        offset: int = _unpack_offset(self.data, position)[0]
        if offset == 0 or position + offset + 4 > len(self.data):
            hint = f"; the file ends at byte {len(self.data)} and may be cut short" if offset else ""
            rule = f"offset at byte {position} must point into the file, got {offset}{hint}"
            raise self.error(_within(path, name), rule)
        return position + offset

    def _union(self, field: WireField, slots: tuple[int, ...], position: int, path: str) -> Table | UnknownMember | None:
        assert isinstance(field.wire, UnionMember)
        path = f"{path}.{field.name}"
        number = self.scalar("uint8", position + slots[field.id - 1], path)
        if number == 0:
            return None
        if number > len(field.wire.members):
            return UnknownMember(number)
        value_slot = slots[field.id] if field.id < len(slots) else 0
        if not value_slot:
            return None
        member: type[Table] = field.wire.members[number - 1]
        return self.table(member, self.follow(position + value_slot, path), path)


def _within(path: str, name: str) -> str:
    """How messages call a field of what they call `path`; made where there is a message."""
    return f"{path}.{name}" if path and name else path or name


def _read_scalar(reader: TableReader, field: WireField, position: int, path: str) -> Any:
    assert isinstance(field.wire, NumberField)
    value = reader.scalar(field.wire.type, position, path)
    return value if field.convert is None else _enum(reader, field, value, path)


def _enum(reader: TableReader, field: WireField, value: int, path: str) -> Any:
    assert field.convert is not None
    try:
        return field.convert(value)
    except ValueError:
        known = ", ".join(f"{member.value} ({member.name})" for member in field.convert)
        raise reader.error(f"{path}.{field.name}", f"must be one of {known}, got {value}") from None


def _read_vector(reader: TableReader, field: WireField, position: int, path: str) -> tuple[Any, ...]:
    assert isinstance(field.wire, Vector)
    code = _STRUCTS[field.wire.type]
    start, count = reader.span(position, code.size, path, field.name)
    reader.count_elements(count, path, field.name)
    values = struct.unpack_from(f"<{count}{code.format[1:]}", reader.data, start)
    return values if field.convert is None else tuple(_enum(reader, field, value, path) for value in values)


def _read_array(reader: TableReader, field: WireField, position: int, path: str) -> npt.NDArray[Any]:
    assert isinstance(field.wire, NumberArray)
    dtype = np.dtype(field.wire.type)
    start, count = reader.span(position, dtype.itemsize, path, field.name)
    reader.count_bytes(count * dtype.itemsize, path)
    return aligned_view(reader.data, dtype, start, count)


def _read_text(reader: TableReader, field: WireField, position: int, path: str) -> str:
    start, count = reader.span(position, 1, path, field.name)
    return reader.copy(start, count, path).decode("utf-8", errors="replace")


def _read_blob(reader: TableReader, field: WireField, position: int, path: str) -> bytes:
    start, count = reader.span(position, 1, path, field.name)
    return reader.copy(start, count, path)


def _read_table(reader: TableReader, field: WireField, position: int, path: str) -> Table:
    assert field.convert is not None
    path = f"{path}.{field.name}"
    result: Table = reader.table(field.convert, reader.follow(position, path), path)
    return result


def _read_tables(reader: TableReader, field: WireField, position: int, path: str) -> tuple[Table, ...]:
    assert field.convert is not None
    path = f"{path}.{field.name}" if path else field.name
    start, count = reader.span(position, 4, path)
    items = []
    for index in range(count):
        item_path = f"{path}[{index}]"
        items.append(reader.table(field.convert, reader.follow(start + 4 * index, item_path), item_path))
    return tuple(items)


def aligned_view(data: bytes, dtype: np.dtype[Any], start: int, count: int) -> npt.NDArray[Any]:
    """`count` elements of `data` from byte `start`: a read-only view, or a read-only copy where the file is misaligned."""
    if count == 0:
        return _frozen(np.empty(0, dtype))
    view = np.frombuffer(data, dtype, count, start)
    return view if view.flags.aligned else _frozen(view.copy())


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.flags.writeable = False
    return array


_READ: dict[type[Any], _ReadField] = {
    NumberField: _read_scalar,
    Vector: _read_vector,
    NumberArray: _read_array,
    StringField: _read_text,
    Blob: _read_blob,
    SubTable: _read_table,
    SubTables: _read_tables,
}


_TableFields = tuple[dict[str, Any], list[tuple[WireField, _ReadField | None] | None]]
_KNOWN_TABLES: dict[type[Table], _TableFields] = {}


def _fields_of(table: type[Table]) -> _TableFields:
    """The defaults of a table, and by id: the field and how to read it (None: a union, at the id of its number)."""
    if table not in _KNOWN_TABLES:
        fields = wire_fields(table)
        by_id: list[tuple[WireField, _ReadField | None] | None] = [None] * (1 + max((field.id for field in fields), default=-1))
        for field in fields:
            is_union = isinstance(field.wire, UnionMember)
            by_id[field.id - is_union] = (field, None if is_union else _READ[type(field.wire)])
        _KNOWN_TABLES[table] = {field.name: field.default for field in fields}, by_id
    return _KNOWN_TABLES[table]


class _TableLayout(NamedTuple):
    """Where fields stand in a table: their places in order, their offsets by id, the vtable that says so."""

    order: tuple[int, ...]
    slots: dict[int, int]
    vtable: int
    alignment: int


class TableWriter:
    """Writes one tree of tables; make a new one per file."""

    def __init__(self, byte_alignment: int) -> None:
        self._out = bytearray()
        self._vtables: dict[bytes, int] = {}
        self._layouts: dict[tuple[type[Table], tuple[int, ...]], _TableLayout] = {}
        self._byte_alignment = byte_alignment

    def file(self, root: Table, identifier: bytes) -> bytes:
        """The whole file. `byte_alignment` of the constructor applies to every `NumberArray("uint8")`. Raises ModelError."""
        self._out += bytes(4) + identifier
        self._point(0, self._table(root))
        self._pad(self._byte_alignment)
        return bytes(self._out)

    def _pad(self, alignment: int, ahead: int = 0) -> None:
        """Fills with zeros until the position `ahead` bytes on is a multiple of `alignment`."""
        missing = -(len(self._out) + ahead) % alignment
        if missing:
            self._out += bytes(missing)

    def _point(self, slot: int, target: int) -> None:
        _OFFSET.pack_into(self._out, slot, target - slot)

    def _table(self, table: Table) -> int:
        """Appends the table, then what it points to; returns its position."""
        ids, packed, children = _split(table)
        layout = self._layouts.get((type(table), ids))
        if layout is None:
            layout = self._layouts[type(table), ids] = self._layout(ids, packed)
        self._pad(layout.alignment, ahead=4)
        position = len(self._out)
        self._out += _I32.pack(position - layout.vtable)
        for place in layout.order:
            self._out += packed[place]
        for field_id, write, value in children:
            self._point(position + layout.slots[field_id], write(self, value))
        return position

    def _layout(self, ids: Sequence[int], packed: Sequence[bytes]) -> _TableLayout:
        """Where these fields stand in a table: the widest first, without gaps once the first one is aligned."""
        order = sorted(range(len(ids)), key=lambda place: -len(packed[place]))
        offset = 4
        slots: dict[int, int] = {}
        for place in order:
            slots[ids[place]] = offset
            offset += len(packed[place])
        alignment = 8 if order and len(packed[order[0]]) == 8 else 4
        return _TableLayout(tuple(order), slots, self._vtable(slots, offset), alignment)

    def _vtable(self, slots: dict[int, int], table_bytes: int) -> int:
        """Position of a vtable with these field offsets, an earlier one if there is an equal one."""
        count = max(slots, default=-1) + 1
        packed = struct.pack(f"<{count + 2}H", 4 + 2 * count, table_bytes, *(slots.get(i, 0) for i in range(count)))
        if packed not in self._vtables:
            self._pad(2)
            self._vtables[packed] = len(self._out)
            self._out += packed
        return self._vtables[packed]

    def vector(self, count: int, packed: bytes | memoryview, alignment: int) -> int:
        """Appends a vector whose first element is aligned; returns its position."""
        self._pad(max(alignment, 4), ahead=4)
        position = len(self._out)
        self._out += _OFFSET.pack(count)
        self._out += packed
        return position

    def array(self, values: npt.NDArray[Any]) -> int:
        alignment = self._byte_alignment if values.dtype.itemsize == 1 else values.dtype.itemsize
        return self.vector(values.size, np.ascontiguousarray(values).data.cast("B"), alignment)

    def text(self, value: str) -> int:
        encoded = value.encode("utf-8", errors="replace")
        return self.vector(len(encoded), encoded + b"\0", 1)

    def tables(self, values: tuple[Table, ...]) -> int:
        self._pad(4)
        position = len(self._out)
        self._out += _OFFSET.pack(len(values)) + bytes(4 * len(values))
        for index, value in enumerate(values):
            self._point(position + 4 + 4 * index, self._table(value))
        return position


_WriteChild = Callable[[TableWriter, Any], int]


def _split(table: Table) -> tuple[tuple[int, ...], list[bytes], list[tuple[int, _WriteChild, Any]]]:
    """What a table stores in itself (ids; bytes, four zero ones for an offset), and what it points to (id, writer, value)."""
    inline: list[tuple[int, bytes]] = []
    children: list[tuple[int, _WriteChild, Any]] = []
    values = vars(table)
    for field, pack, write in _written_fields(type(table)):
        value = values[field.name]
        if pack is not None:
            if value != field.default:
                inline.append((field.id, pack(value)))
        elif write is None:
            _split_union(table, field, value, inline, children)
        elif not (value is None or (isinstance(field.wire, StringField | Blob) and not value)):
            inline.append((field.id, _NO_OFFSET))
            children.append((field.id, write, value))
    return tuple([entry[0] for entry in inline]), [entry[1] for entry in inline], children


_NO_OFFSET = bytes(4)
_Pack = Callable[[Any], bytes]
_KNOWN_FIELDS: dict[type[Table], list[tuple[WireField, _Pack | None, _WriteChild | None]]] = {}


def _written_fields(table: type[Table]) -> list[tuple[WireField, _Pack | None, _WriteChild | None]]:
    """The fields of a table with what packs a number, or what writes that which is pointed to (neither: a union)."""
    if table not in _KNOWN_FIELDS:
        _KNOWN_FIELDS[table] = [
            (field, _number_packer(table, field), _child_writer(table, field)) for field in wire_fields(table)
        ]
    return _KNOWN_FIELDS[table]


def _number_packer(table: type[Table], field: WireField) -> _Pack | None:
    wire = field.wire
    if not isinstance(wire, NumberField):
        return None
    pack_number, type_name = _STRUCTS[wire.type].pack, wire.type

    def pack(value: Any) -> bytes:
        try:
            return pack_number(value)
        except (struct.error, OverflowError):  # a member of an enumeration, or a number that does not fit
            return _pack(table, field, type_name, (value,))

    return pack


def _split_union(
    table: Table, field: WireField, value: Any, inline: list[tuple[int, bytes]], children: list[tuple[int, _WriteChild, Any]]
) -> None:
    assert isinstance(field.wire, UnionMember)
    if isinstance(value, UnknownMember):
        inline.append((field.id - 1, bytes([value.number])))
    elif value is not None:
        if type(value) not in field.wire.members:
            raise ModelError(f"{type(table).__name__}.{field.name}: must not hold a {type(value).__name__}")
        inline.append((field.id - 1, bytes([field.wire.members.index(type(value)) + 1])))
        inline.append((field.id, bytes(4)))
        children.append((field.id, TableWriter._table, value))


def _child_writer(table: type[Table], field: WireField) -> _WriteChild | None:
    wire = field.wire
    if isinstance(wire, Vector):
        size = _STRUCTS[wire.type].size
        return lambda writer, value: writer.vector(len(value), _pack(table, field, wire.type, value), size)
    return _WRITE.get(type(wire))


_WRITE: dict[type[Any], _WriteChild] = {
    NumberArray: TableWriter.array,
    StringField: TableWriter.text,
    Blob: lambda writer, value: writer.vector(len(value), value, 16),
    SubTable: TableWriter._table,
    SubTables: TableWriter.tables,
}


def _pack(table: type[Table], field: WireField, type_name: str, values: tuple[Any, ...]) -> bytes:
    plain = [value.value if isinstance(value, Enum) else value for value in values]
    try:
        return struct.pack(f"<{len(plain)}{_STRUCTS[type_name].format[1:]}", *plain)
    except (struct.error, OverflowError):
        raise ModelError(f"{table.__name__}.{field.name}: must fit {type_name}, got {plain}") from None
