"""Every declared table against two published renderings of the schema: the `tflite` package and LiteRT's own module."""

from __future__ import annotations

import importlib
from enum import Enum
from types import SimpleNamespace
from typing import Any

import ai_edge_litert.schema_py_generated as litert
import numpy as np
import pytest
import tflite

from npu.graph import attributes, attributes_2
from npu.graph.attributes import BUILTIN_OPTIONS
from npu.graph.attributes_2 import BUILTIN_OPTIONS_2
from npu.graph.dtype import DType
from npu.graph.wire import (
    Blob,
    NumberArray,
    NumberField,
    StringField,
    SubTable,
    SubTables,
    Table,
    UnionMember,
    Vector,
    WireField,
    wire_fields,
)
from npu.tflite import schema
from npu.tflite.flatbuffer import TableReader, TableWriter

TABLES: dict[str, type[Table]] = {
    cls.__name__.removesuffix("Table"): cls
    for cls in (*BUILTIN_OPTIONS, *BUILTIN_OPTIONS_2, *vars(schema).values())
    if isinstance(cls, type) and issubclass(cls, Table) and cls not in (Table, attributes.Attributes)
}
IN_PACKAGE = sorted(name for name in TABLES if hasattr(tflite, name))

ENUMS = {
    attributes.Padding: "Padding",
    attributes.FusedActivation: "ActivationFunctionType",
    attributes.LshProjectionType: "LSHProjectionType",
    attributes.WeightsFormat: "FullyConnectedOptionsWeightsFormat",
    attributes.LstmKernelType: "LSTMKernelType",
    attributes.CombinerType: "CombinerType",
    attributes.MirrorPadMode: "MirrorPadMode",
    attributes_2.ReduceWindowFunction: "ReduceWindowFunction",
    attributes.CustomOptionsFormat: "CustomOptionsFormat",
    attributes_2.RngAlgorithm: "RngAlgorithm",
    attributes_2.PrecisionConfig: "StablehloPrecisionConfig",
    attributes_2.ComparisonDirection: "StablehloComparisonDirection",
    attributes_2.ComparisonType: "StablehloComparisonType",
    schema.DimensionType: "DimensionType",
    DType: "TensorType",
}


class Recorder:
    """Stands in for a flatbuffers builder and keeps the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append((name, arguments))


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def recorded(module: Any, function: str, *arguments: Any) -> tuple[str, tuple[Any, ...]]:
    recorder = Recorder()
    getattr(module, function)(recorder, *arguments)
    assert len(recorder.calls) == 1
    return recorder.calls[0]


def number(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def expected_slots(field: WireField) -> dict[str, tuple[str, int, Any]]:
    """What a generated Add function must record for each id that the field has."""
    if isinstance(field.wire, UnionMember):
        return {
            f"{camel(field.name)}Type": ("PrependUint8Slot", field.id - 1, 0),
            camel(field.name): ("PrependUOffsetTRelativeSlot", field.id, 0),
        }
    if isinstance(field.wire, NumberField):
        slot = f"Prepend{field.wire.type.capitalize()}Slot"
        return {camel(field.name): (slot, field.id, number(field.default))}
    return {camel(field.name): ("PrependUOffsetTRelativeSlot", field.id, 0)}


def assert_same_fields(module: Any, name: str) -> None:
    fields = wire_fields(TABLES[name])
    expected = {f"{name}Add{key}": value for field in fields for key, value in expected_slots(field).items()}
    published = {key for key in vars(module) if key.startswith(f"{name}Add") and callable(getattr(module, key))}
    missing = published - set(expected)
    assert not missing, f"{name} lacks {missing}"
    for function in published:
        slot, index, default = expected[function]
        found, (found_index, _, found_default) = recorded(module, function, 1)
        assert (found, found_index, found_default) == (slot, index, default), function
    for field in fields:
        start = getattr(module, f"{name}Start{camel(field.name)}Vector", None)
        if isinstance(field.wire, Vector | NumberArray) and start is not None:
            size = np.dtype(field.wire.type).itemsize
            assert recorded(module, start.__name__, 1) == ("StartVector", (size, 1, size))


@pytest.mark.parametrize("name", IN_PACKAGE)
def test_a_table_has_the_fields_ids_types_and_defaults_of_the_published_schema(name: str) -> None:
    assert_same_fields(importlib.import_module(f"tflite.{name}"), name)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_has_every_field_of_the_newer_schema(name: str) -> None:
    prefix = f"{name}Add"
    others = [other for other in TABLES if other != name and other.startswith(name)]
    mine = {
        key: value
        for key, value in vars(litert).items()
        if key.startswith((prefix, f"{name}Start")) and not any(key.startswith((f"{o}Add", f"{o}Start")) for o in others)
    }
    published = {key for key in mine if key.startswith(prefix)}
    expected = {f"{prefix}{key}" for field in wire_fields(TABLES[name]) for key in expected_slots(field)}
    assert published == expected
    assert_same_fields(SimpleNamespace(**mine), name)


def test_every_published_table_is_declared() -> None:
    tables = {name for name, value in vars(litert).items() if isinstance(value, type) and hasattr(value, "GetRootAs")}
    assert tables == set(TABLES)


@pytest.mark.parametrize("cls", list(ENUMS), ids=lambda cls: cls.__name__)
def test_an_enum_has_the_published_names_and_values(cls: type[Enum]) -> None:
    for module in (litert, tflite):
        published = {
            key.removeprefix("STABLEHLO_COMPARISON_DIRECTION_").removeprefix("STABLEHLO_COMPARISON_TYPE_"): value
            for key, value in vars(getattr(module, ENUMS[cls])).items()
            if not key.startswith("_")
        }
        known = {item.name: item.value for item in cls}
        assert published.items() <= known.items()
        if module is litert:
            assert published == known


@pytest.mark.parametrize(("union", "name"), [(BUILTIN_OPTIONS, "BuiltinOptions"), (BUILTIN_OPTIONS_2, "BuiltinOptions2")])
def test_the_options_unions_number_their_members_as_published(union: tuple[type[Table], ...], name: str) -> None:
    published = {key: value for key, value in vars(getattr(litert, name)).items() if not key.startswith("_")}
    assert {cls.__name__: index + 1 for index, cls in enumerate(union)} | {"NONE": 0} == published


SMALL_UNIONS = {
    "QuantizationDetails": schema.QuantizationParameters,
    "SparseIndexVector": schema.DimensionMetadata,
}


@pytest.mark.parametrize("name", list(SMALL_UNIONS))
def test_the_other_unions_number_their_members_as_published(name: str) -> None:
    published = {key: value for key, value in vars(getattr(litert, name)).items() if not key.startswith("_")}
    for field in wire_fields(SMALL_UNIONS[name]):
        if isinstance(field.wire, UnionMember):
            assert {cls.__name__: index + 1 for index, cls in enumerate(field.wire.members)} | {"NONE": 0} == published


def sample(field: WireField, generator: np.random.Generator, depth: int) -> Any:
    """A random value of a field; tables of tables three levels deep."""
    wire = field.wire
    if isinstance(wire, NumberField | Vector | NumberArray):
        count = 1 if isinstance(wire, NumberField) else int(generator.integers(1, 5))
        values = numbers(wire.type, count, generator)
        if isinstance(wire, NumberArray):
            return values
        choices = list(field.convert) if field.convert is not None else None
        plain = tuple(choices[int(generator.integers(len(choices)))] if choices else value.item() for value in values)
        return plain[0] if isinstance(wire, NumberField) else plain
    if isinstance(wire, StringField):
        return f"name {int(generator.integers(1000))} é"
    if isinstance(wire, Blob):
        return bytes(generator.integers(0, 256, 5, np.uint8))
    if isinstance(wire, UnionMember):
        return random_table(wire.members[int(generator.integers(len(wire.members)))], generator, depth + 1)
    assert isinstance(wire, SubTable | SubTables)
    assert field.convert is not None
    one = random_table(field.convert, generator, depth + 1)
    return one if isinstance(wire, SubTable) else (one, random_table(field.convert, generator, depth + 1))


def numbers(type_name: str, count: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(type_name)
    if dtype.kind == "b":
        return generator.integers(0, 2, count).astype(bool)
    if dtype.kind == "f":
        return generator.standard_normal(count).astype(dtype)
    return generator.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, count, dtype, endpoint=True)


def random_table(cls: type[Table], generator: np.random.Generator, depth: int = 0) -> Table:
    return cls(**{field.name: sample(field, generator, depth) for field in wire_fields(cls)})


def assert_equal(ours: Any, theirs: Any, name: str) -> None:
    """`theirs` is the value in the object form of LiteRT's module."""
    if isinstance(ours, Table):
        for field in wire_fields(type(ours)):
            attribute = camel(field.name)
            key = attribute[0].lower() + attribute[1:]
            assert_equal(getattr(ours, field.name), getattr(theirs, key), f"{name}.{field.name}")
    elif isinstance(ours, tuple) and ours and isinstance(ours[0], Table):
        for a, b in zip(ours, theirs, strict=True):
            assert_equal(a, b, name)
    elif isinstance(ours, str):
        assert theirs.decode() == ours, name
    elif isinstance(ours, bytes):
        assert bytes(theirs) == ours, name
    elif isinstance(ours, tuple | np.ndarray):
        np.testing.assert_array_equal(np.asarray([number(v) for v in ours]), np.asarray(theirs), err_msg=name)
    else:
        assert number(ours) == theirs, name


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_reads_back_equal_through_the_published_module(name: str) -> None:
    generator = np.random.default_rng(len(name))
    for _ in range(3):
        table = random_table(TABLES[name], generator)
        content = TableWriter(16).file(table, b"TFL3")
        theirs = getattr(litert, f"{name}T").InitFromPackedBuf(bytearray(content))
        assert_equal(table, theirs, name)
        back = TableReader(content, "test").root(TABLES[name], b"TFL3")
        assert_equal(back, theirs, name)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_of_defaults_reads_back_as_defaults(name: str) -> None:
    table = TABLES[name]()
    content = TableWriter(16).file(table, b"TFL3")
    back = TableReader(content, "test").root(TABLES[name], b"TFL3")
    for field in wire_fields(TABLES[name]):
        found, default = getattr(back, field.name), field.default
        assert found is default or found == default
