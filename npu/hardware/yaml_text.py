"""Parses YAML (or JSON, which is YAML) into plain values, safely: the only place that does.

Refused before anything is built: aliases and anchors (so no alias bombs), explicit tags, nesting above 16 levels, several
documents, duplicate and non-text keys. Imported only for text that has not been parsed before (`npu.hardware.parsed`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from npu.errors import ConfigError
from npu.hardware.limits import MAX_NESTING, WIDEST_BITS

_MUCH_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml says, from 0.2.6 on, of more than 1,000 levels: it looks ahead before it tells of the first."""


def parse(text: str, where: str) -> Any:
    """What a text holds. ConfigError with the line, if it is no YAML or not safe to build."""
    try:
        _refuse_dangerous_events(text, where)
        return yaml.load(text, Loader=_Loader)
    except _RefusedValueError as error:
        raise ConfigError(f"{_at_line(where, error.line)}: {error}") from error
    except yaml.MarkedYAMLError as error:
        place = where if error.problem_mark is None else _at_line(where, error.problem_mark.line + 1)
        if error.problem == _MUCH_TOO_DEEP:
            raise ConfigError(_too_deep(place)) from error
        raise ConfigError(f"{place}: must be valid YAML, got: {error.problem or _one_line(error)}") from error
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{where}: must be text, got character {error.character:#x} at {error.position}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: must be valid YAML, got: {_one_line(error)}") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where}: holds a value that cannot be read: {_one_line(error)}") from error


def line_of(text: str, key: Sequence[str]) -> int | None:
    """The line of a key in a text, or of the innermost mapping around it that the text has. None if it is no YAML any more."""
    line = None
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        return None
    for name in key:
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        same = [entry for entry in entries if entry[0].value == name]
        if not same:
            break
        line, node = same[0][0].start_mark.line + 1, same[0][1]
    return line


def _at_line(where: str, line: int) -> str:
    """A place with a line; an argument has but one."""
    return where if where.startswith("--") else f"{where}:{line}"


def _refuse_dangerous_events(text: str, where: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Base):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ConfigError(f"{_line_of(event, where)}: must not use anchors and aliases; repeat the value or use 'extends'")
        tag = getattr(event, "tag", None)
        if tag:
            raise ConfigError(f"{_line_of(event, where)}: must not use explicit tags, got '{tag}'")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_NESTING:
            raise ConfigError(_too_deep(_line_of(event, where)))


def _too_deep(place: str) -> str:
    return f"{place}: must not nest deeper than {MAX_NESTING} levels"


def _line_of(event: yaml.Event, where: str) -> str:
    return _at_line(where, event.start_mark.line + 1) if event.start_mark else where


_Base: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML brings the parser of libyaml where it was built with it: ten times as fast."""


class _RefusedValueError(Exception):
    """A value that YAML has, but descriptions do not: the message says what it must be."""

    def __init__(self, node: yaml.Node, message: str) -> None:
        super().__init__(message)
        self.line: int = node.start_mark.line + 1


class _Loader(_Base):  # type: ignore[misc]
    """A safe loader that refuses duplicate and non-text keys, and numbers that mean something else than they seem to."""

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        """An integer; the error does not repeat a long one, for Python may not want to print it."""
        if not _INTEGER.fullmatch(node.value):  # YAML takes 010 for 8 and 1:30 for 90
            raise _RefusedValueError(node, f"must be a decimal or hexadecimal number, got {node.value[:80]!r}")
        value: int = super().construct_yaml_int(node)
        if value.bit_length() > WIDEST_BITS:
            raise _RefusedValueError(node, f"must be a number of at most {WIDEST_BITS} bits, got a longer one")
        return value

    def construct_yaml_float(self, node: yaml.ScalarNode) -> float:
        """A number without the base of 60 that YAML reads out of colons."""
        if ":" in node.value:
            raise _RefusedValueError(node, f"must be a decimal number, got {node.value[:80]!r}")
        value: float = super().construct_yaml_float(node)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                got = repr(key.value[:80]) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                raise _RefusedValueError(key, f"a key must be text, got {got}")
            if key.value in seen:
                raise _RefusedValueError(key, f"{key.value[:80]}: must stand here once, got it twice")
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_yaml_float)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)")
# Numbers as YAML 1.2 and JSON write them; PyYAML takes 1e-06 and 1.5e3 for text.
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
