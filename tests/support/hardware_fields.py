"""Writes docs/hardware-fields.md: fields, docstrings and examples of the records in `npu/hardware/variant.py`."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from npu.hardware import variant as records
from npu.hardware.catalogue import load_variant

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "hardware-fields.md"
EXAMPLES = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-512")
SECTIONS = ("accelerator", "shram", "timing", "system", "memory_mode", "cpu")
HEAD = """# Fields of a hardware description

Every key of a description, with the values of three shipped targets; [configs/README.md](../configs/README.md) says how
descriptions are put together. Sizes are height x width x depth. A field of port `axi1` has the meaning of that of `axi0`.

Generated from `npu/hardware/variant.py` by `python -m tests.support.hardware_fields`; do not edit.
"""


def hardware_fields_page() -> str:
    """The page as Markdown."""
    documents = _documents()
    variants = [load_variant(name) for name in EXAMPLES]
    lines = [HEAD]
    for section in SECTIONS:
        shown = [getattr(variant, section) for variant in variants]
        lines += [f"## {section}", "", _head_of(type(shown[0])), ""]
        lines += [f"| key | {' | '.join(EXAMPLES)} | meaning |", "| --- " * (2 + len(EXAMPLES)) + "|"]
        lines += [f"| {' | '.join(row)} |" for row in _rows(section, shown, documents)]
        lines.append("")
    return "\n".join(lines)


def _documents() -> dict[tuple[str, str], str]:
    """(record, field) to the docstring below the field."""
    tree = ast.parse(Path(records.__file__).read_text(encoding="utf-8"))
    found: dict[tuple[str, str], str] = {}
    for record in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, after in zip(record.body, record.body[1:], strict=False):
            told = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(told, str):
                found[record.name, field.target.id] = " ".join(told.split())
    return found


def _head_of(record: type) -> str:
    return " ".join((record.__doc__ or "").split())


def _rows(key: str, shown: list[Any], documents: Mapping[tuple[str, str], str]) -> Iterator[list[str]]:
    blank = [""] * len(shown)
    for field in dataclasses.fields(shown[0]):
        values = [None if item is None else getattr(item, field.name) for item in shown]
        name = f"{key}.{field.name}"
        told = documents.get((type(shown[0]).__name__, field.name), "")
        first = values[0]
        if isinstance(first, records.Size) or not (dataclasses.is_dataclass(first) or isinstance(first, Mapping)):
            yield [f"`{name}`", *map(_text, values), told]
        elif isinstance(first, Mapping) and not dataclasses.is_dataclass(next(iter(first.values()))):
            yield [f"`{name}`", *(f"{len(value)} kinds" for value in values), told]
        elif isinstance(first, Mapping):
            yield [f"`{name}`", *blank, told]
            for port in first:
                inner = [value[port] for value in values]
                yield [f"`{name}.{port.value}`", *blank, _head_of(type(inner[0]))]
                yield from _rows(f"{name}.{port.value}", inner, documents if port is records.Port.AXI0 else {})
        else:
            yield [f"`{name}`", *blank, _head_of(type(first))]
            yield from _rows(name, values, documents)


def _text(value: Any) -> str:
    """Of a value; nothing for a key that a target does not have."""
    if value is None:
        return ""
    if isinstance(value, records.Size):
        return f"{value.height} x {value.width} x {value.depth}"
    if isinstance(value, Enum):
        return str(value.value) if isinstance(value.value, str) else value.name.lower()
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    PAGE.write_text(hardware_fields_page(), encoding="utf-8")
