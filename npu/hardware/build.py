"""Turns plain dictionaries into the frozen records of `npu.hardware.variant`, by reflection over their fields.

The records are the schema: a new field there is a new required key here, without any change in this file.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import types
import typing
from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from npu.errors import ConfigError
from npu.hardware.shipped import closest
from npu.hardware.validate import field_range

T = TypeVar("T")
Locate = Callable[[tuple[str, ...]], str]
"""Gives a key with its place, for the message."""

_REQUIRED = dataclasses.MISSING


def build_record(cls: type[T], raw: Any, key: tuple[str, ...], locate: Locate) -> T:
    """A record of class `cls` from a mapping; ConfigError names file, dotted key, what is allowed and the value."""
    if not isinstance(raw, dict):
        raise _error(key, locate, "must be a mapping", raw)
    fields = _fields(typing.cast("Any", cls))
    for name in raw:
        if name not in fields:
            allowed = ", ".join(fields)
            raise ConfigError(f"{locate((*key, name))}: is no known key{closest(name, fields)}; allowed are {allowed}")
    values: dict[str, Any] = {}
    for name, (annotation, default) in fields.items():
        if name in raw:
            values[name] = _convert(annotation, raw[name], (*key, name), locate, (cls, name))
        elif default is _REQUIRED:
            raise ConfigError(f"{locate((*key, name))}: is missing; it must be {_expected(annotation)}")
    return cls(**values)


@functools.cache
def _fields(cls: type) -> dict[str, tuple[Any, Any]]:
    fields = dataclasses.fields(cls)
    names = vars(sys.modules[cls.__module__])
    types = eval(f"[{','.join(str(one.type) for one in fields)}]", names)  # typing.get_type_hints looks at every part again
    return {field.name: (annotation, field.default) for field, annotation in zip(fields, types, strict=True)}


def _convert(annotation: Any, raw: Any, key: tuple[str, ...], locate: Locate, owner: tuple[type, str]) -> Any:
    if _is_optional(annotation):
        if raw is None:
            return None
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    if typing.get_origin(annotation) is not None:
        return _convert_mapping(annotation, raw, key, locate, owner)
    if dataclasses.is_dataclass(annotation):
        return build_record(typing.cast("type[Any]", annotation), raw, key, locate)
    if issubclass(annotation, Enum):
        return _convert_enum(annotation, raw, key, locate)
    if annotation is bool or annotation is str:
        if not isinstance(raw, annotation) or raw == "":
            raise _error(key, locate, f"must be {_expected(annotation)}", raw)
        return raw
    return _convert_number(annotation, raw, key, locate, owner)


def _convert_number(annotation: Any, raw: Any, key: tuple[str, ...], locate: Locate, owner: tuple[type, str]) -> Any:
    low, high = field_range(*owner)
    expected = f"must be {_expected(annotation)} in [{_limit(low)}, {_limit(high)}]"
    is_number = isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw)
    if not is_number or not low <= raw <= high or annotation(raw) != raw:
        raise _error(key, locate, expected, raw)
    return annotation(raw)


def _limit(value: float) -> str:
    """A limit as a person writes it: 10,000,000,000 instead of 1e+10."""
    return f"{value:,.0f}" if value >= 10_000 else f"{value:g}"


def _convert_mapping(annotation: Any, raw: Any, key: tuple[str, ...], locate: Locate, owner: tuple[type, str]) -> Any:
    key_type, value_type = typing.get_args(annotation)
    if not isinstance(raw, dict):
        raise _error(key, locate, "must be a mapping", raw)
    result: dict[Any, Any] = {}
    for name, value in raw.items():
        converted = name if key_type is str else _convert_enum(key_type, name, (*key, name), locate)
        if value is None and dataclasses.is_dataclass(value_type):
            continue  # `axi1: null` takes away what the base has there
        result[converted] = _convert(value_type, value, (*key, name), locate, owner)
    return result


def _convert_enum(annotation: type[Enum], raw: Any, key: tuple[str, ...], locate: Locate) -> Enum:
    names = {member.name.lower(): member for member in annotation}
    if isinstance(raw, str) and raw.lower().replace("-", "_") in names:
        return names[raw.lower().replace("-", "_")]
    raise _error(key, locate, f"must be one of {', '.join(names)}", raw)


def _is_optional(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType) and type(None) in typing.get_args(annotation)


def _expected(annotation: Any) -> str:
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a non-empty text"}
    if annotation in names:
        return names[annotation]
    if typing.get_origin(annotation) is None and issubclass(annotation, Enum):
        return f"one of {', '.join(member.name.lower() for member in annotation)}"
    return "a mapping"


def _error(key: tuple[str, ...], locate: Locate, expected: str, raw: Any) -> ConfigError:
    text = repr(raw)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    remedy = "; write the number without unit and quotes" if isinstance(raw, str) and raw[:1].isdigit() else ""
    return ConfigError(f"{locate(key)}: {expected}, got {shown}{remedy}")
