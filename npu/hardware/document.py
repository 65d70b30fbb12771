"""Reads one YAML file (or JSON, which is YAML) into plain dictionaries, safely: the only place that parses YAML.

Refused before anything is built: files above 64 KiB, aliases and anchors (so no alias bombs), explicit tags, nesting above 16
levels, several documents, duplicate and non-text keys. `source` and `assumed` keys may stand beside any value and are dropped:
they tell where a number comes from, or why it was chosen where nothing is published, and have no effect.
"""

from __future__ import annotations

import functools
import re
import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from npu.errors import ConfigError

MAX_FILE_BYTES = 64 * 1024
_WIDEST_BITS = 1024
"""Of an integer: beyond any field, and still one that a message can hold."""
HARDWARE = "a hardware description"
MAX_NESTING = 16
COMMENT_KEYS = ("source", "assumed")

Document = dict[str, Any]


def read_document(path: Path, what: str = HARDWARE, *, example: str = "extends: ethos-u55-128") -> Document:
    """The mapping in a YAML file; ConfigError if it is not a mapping or not safe to build.

    Messages say `what` the file must be, and an `example` of its contents.
    """
    loaded = _parse(_read_text(path, f"{what}, that is a YAML file of text"), str(path))
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: must be {what}, that is a mapping such as '{example}', got {_describe(loaded)}")
    return _without_comments(loaded)  # makes new mappings, so what the cache holds is never changed


def parse_value(text: str, where: str) -> Any:
    """What a value means that a person gives as an argument: a number, text or mapping as in a file."""
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"{where}: must be at most {MAX_FILE_BYTES} characters, got {len(text)}")
    return _parse(text, where)


def checked_mapping(fields: Mapping[str, Any], where: str, depth: int = 1) -> Document:
    """A description that is no file, as new mappings without their sources. ConfigError for what YAML does not have."""
    if depth > MAX_NESTING:
        raise ConfigError(f"{where}: must not nest deeper than {MAX_NESTING} levels")
    result: Document = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise ConfigError(f"{where}: a key must be text, got {reprlib.repr(name)}")
        if isinstance(value, Mapping):
            value = checked_mapping(value, where, depth + 1)
        elif not (value is None or isinstance(value, bool | int | float | str)):
            kind = type(value).__name__
            raise ConfigError(f"{where}: {name}: must be a text, number, boolean or mapping, got a value of type {kind}")
        elif isinstance(value, int) and value.bit_length() > _WIDEST_BITS:
            raise ConfigError(f"{where}: {name}: must be a number of at most {_WIDEST_BITS} bits, got a longer one")
        result[name] = value
    return result if depth > 1 else _without_comments(result)


def place_in(path: Path, key: Sequence[str]) -> str:
    """For messages: a YAML file with the line of a key in it, or of the innermost mapping around it that the file has."""
    line = None
    try:
        node = yaml.compose(_read_text(path, HARDWARE), Loader=_Loader)
    except (yaml.YAMLError, ConfigError):  # changed since it was read
        return str(path)
    for name in key:
        entries = node.value if isinstance(node, yaml.MappingNode) else ()
        same = [entry for entry in entries if entry[0].value == name]
        if not same:
            break
        line, node = same[0][0].start_mark.line + 1, same[0][1]
    return str(path) if line is None else f"{path}:{line}"


@functools.lru_cache(maxsize=64)
def _parse(text: str, where: str) -> Any:
    """What a text holds. Cached because the shipped variants share their bases and parsing is most of a load."""
    try:
        _refuse_dangerous_events(text, where)
        return yaml.load(text, Loader=_Loader)
    except _RefusedValueError as error:
        raise ConfigError(f"{_at_line(where, error.line)}: {error}") from error
    except yaml.MarkedYAMLError as error:
        place = where if error.problem_mark is None else _at_line(where, error.problem_mark.line + 1)
        raise ConfigError(f"{place}: must be valid YAML, got: {error.problem or _one_line(error)}") from error
    except yaml.reader.ReaderError as error:
        raise ConfigError(f"{where}: must be text, got character {error.character:#x} at {error.position}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: must be valid YAML, got: {_one_line(error)}") from error
    except (ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{where}: holds a value that cannot be read: {_one_line(error)}") from error


def _at_line(where: str, line: int) -> str:
    """A place with a line; an argument has but one."""
    return where if where.startswith("--") else f"{where}:{line}"


def _read_text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: must be {what}, got: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: must be {what} of at most {MAX_FILE_BYTES} bytes, got more")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: must be {what}, got bytes that are no UTF-8 text, the first at {error.start}") from error


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
            raise ConfigError(f"{_line_of(event, where)}: must not nest deeper than {MAX_NESTING} levels")


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
        if value.bit_length() > _WIDEST_BITS:
            raise _RefusedValueError(node, f"must be a number of at most {_WIDEST_BITS} bits, got a longer one")
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


def _without_comments(value: Document) -> Document:
    """The mapping without comments. What holds nothing else is left out, for an empty mapping replaces what is inherited."""
    kept: Document = {}
    for key, item in value.items():
        said = _without_comments(item) if isinstance(item, dict) else item
        if key not in COMMENT_KEYS and not (said == {} and item):
            kept[key] = said
    return kept


def _describe(value: object) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return "an empty file" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
