"""Reads one YAML file into plain dictionaries, safely: at most 64 KiB of what `npu.hardware.yaml_text` takes.

`source` and `assumed` keys may stand beside any value and are dropped: they tell where a number comes from, or why it was
chosen where nothing is published, and have no effect.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npu.errors import ConfigError
from npu.hardware.limits import MAX_FILE_BYTES, MAX_NESTING, WIDEST_BITS
from npu.hardware.parsed import parsed

HARDWARE = "a hardware description"
COMMENT_KEYS = ("source", "assumed")

Document = dict[str, Any]


def read_document(path: Path, what: str = HARDWARE, *, example: str = "extends: ethos-u55-128") -> Document:
    """The mapping in a YAML file; ConfigError if it is not a mapping or not safe to build.

    Messages say `what` the file must be, and an `example` of its contents.
    """
    loaded = parsed(_read_text(path, f"{what}, that is a YAML file of text"), str(path))
    if not isinstance(loaded, dict):
        raise ConfigError(f"{path}: must be {what}, that is a mapping such as '{example}', got {_describe(loaded)}")
    return _without_comments(loaded)  # makes new mappings, so what the cache holds is never changed


def parse_value(text: str, where: str) -> Any:
    """What a value means that a person gives as an argument: a number, text or mapping as in a file."""
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"{where}: must be at most {MAX_FILE_BYTES} characters, got {len(text)}")
    from npu.hardware.yaml_text import parse

    return parse(text, where)


def checked_mapping(fields: Mapping[str, Any], where: str, depth: int = 1) -> Document:
    """A description that is no file, as new mappings without their sources. ConfigError for what YAML does not have."""
    if depth > MAX_NESTING:
        raise ConfigError(f"{where}: must not nest deeper than {MAX_NESTING} levels")
    mapping: Document = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise ConfigError(f"{where}: a key must be text, got {reprlib.repr(name)}")
        if isinstance(value, Mapping):
            value = checked_mapping(value, where, depth + 1)
        elif not (value is None or isinstance(value, bool | int | float | str)):
            kind = type(value).__name__
            raise ConfigError(f"{where}: {name}: must be a text, number, boolean or mapping, got a value of type {kind}")
        elif isinstance(value, int) and value.bit_length() > WIDEST_BITS:
            raise ConfigError(f"{where}: {name}: must be a number of at most {WIDEST_BITS} bits, got a longer one")
        mapping[name] = value
    return mapping if depth > 1 else _without_comments(mapping)


def place_in(path: Path, key: Sequence[str]) -> str:
    """For messages: a YAML file with the line of a key in it, or of the innermost mapping around it that the file has."""
    from npu.hardware.yaml_text import line_of

    try:
        line = line_of(_read_text(path, HARDWARE), key)
    except ConfigError:  # changed since it was read
        line = None
    return str(path) if line is None else f"{path}:{line}"


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


def _without_comments(value: Document) -> Document:
    """The mapping without comments. What holds nothing else is left out, for an empty mapping replaces what is inherited."""
    kept: Document = {}
    for key, inner in value.items():
        said = _without_comments(inner) if isinstance(inner, dict) else inner
        if key not in COMMENT_KEYS and not (said == {} and inner):
            kept[key] = said
    return kept


def _describe(value: object) -> str:
    names = {list: "a list", str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return "an empty file" if value is None else names.get(type(value), f"a {type(value).__name__}")
