"""What YAML files hold, remembered beside the compiled kernels: to import the parser and parse takes longer than most results.

The file is JSON. Texts are compared as a whole, so that none is taken for another. A file that is broken or foreign counts
as missing.
"""

from __future__ import annotations

import functools
import json
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

from npu.native import store

MOST_TEXTS = 64
"""That are remembered; then all are forgotten."""
_MOST_BYTES = 1 << 22
_PARSER = Path(__file__).with_name("yaml_text.py")


@functools.lru_cache(maxsize=MOST_TEXTS)
def parsed(text: str, where: str) -> Any:
    """What a text holds. ConfigError that says `where` it stands, if it is no YAML or not safe to build."""
    known = _remembered()
    if text in known:
        return known[text]
    from npu.hardware.yaml_text import parse

    value = parse(text, where)
    _remember({**(known if len(known) < MOST_TEXTS else {}), text: value})
    return value


@functools.cache
def _path() -> Path:
    """Of this parser: copies of this project that differ in it do not take each other's."""
    return store.cache_folder() / f"descriptions-{zlib.crc32(_PARSER.read_bytes()):08x}.json"


def _remembered() -> dict[str, Any]:
    return _read(_path())


@functools.lru_cache(maxsize=1)
def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError, RecursionError), open(path, "rb") as file:
        texts = json.loads(file.read(_MOST_BYTES))
        if isinstance(texts, dict):
            return texts
    return {}


def _remember(texts: dict[str, Any]) -> None:
    """Nothing is lost where it cannot be kept, or holds what JSON has not, such as dates."""
    with suppress(OSError, TypeError):
        store.keep(_path(), json.dumps(texts).encode())
    _read.cache_clear()
