"""The text of `npu/initialisers.py`: `python -m tests.support.initialisers > npu/initialisers.py`."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import sys
from collections.abc import Iterator

from npu.records import initialisation_of, initialiser_name, initialiser_text, is_made_here

SWITCHES = ("npu.runtime.xnnpack.registered",)
"""Modules whose import changes what every later interpreter of the process does."""
HEAD = '''"""Initialisers of records, which Python keeps compiled: `npu.records` gives them the names of fields.

Made by `python -m tests.support.initialisers`. To compile their text takes a process as long as to load twenty modules.
"""

# mypy: ignore-errors
# ruff: noqa: E501, F821
# fmt: off
'''


def product_records() -> Iterator[type]:
    """The records of the packages."""
    for package in ("npu", "sim", "constraints"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name.endswith(("__main__", *SWITCHES)):
                continue
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name and dataclasses.is_dataclass(value):
                    yield value


def text() -> str:
    """The module: what the initialisers of these records are."""
    forms = {initialisation_of(record) for record in product_records() if is_made_here(record)}
    parts = [initialiser_text(initialiser_name(form), form) for form in sorted(forms, key=initialiser_name)]
    return "\n\n\n".join([HEAD.rstrip("\n"), *parts]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
