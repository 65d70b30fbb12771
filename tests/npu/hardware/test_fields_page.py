"""The page of hardware fields: checked in as generated, and it names every key that a description may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from npu.hardware.catalogue import list_section, list_variants
from npu.hardware.shipped import SECTION_FOLDERS, configs_folder

from tests.support.hardware_fields import PAGE, hardware_fields_page


def test_the_page_is_checked_in_as_generated() -> None:
    assert PAGE.read_text(encoding="utf-8") == hardware_fields_page(), "run: make docs"


def keys_of(content: dict[str, Any], above: str) -> Iterator[str]:
    for key, value in content.items():
        if key in ("source", "extends"):
            continue
        name = f"{above}.{key}" if above else key
        yield name
        is_open = isinstance(value, dict) and not re.search(r"ublock|max_block|cycles_per_(mac|element)$", name)
        yield from keys_of(value, name) if is_open else ()


@pytest.mark.parametrize("section", ["", *SECTION_FOLDERS])
def test_the_page_names_every_key_of_the_shipped_descriptions(section: str) -> None:
    named = set(re.findall(r"^(?:\| `|## )([a-z0-9_.]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)) | {"name"}
    folder = configs_folder() / SECTION_FOLDERS.get(section, "")
    names = list_section(section) if section else list_variants()
    for name in names:
        content = yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8"))
        assert set(keys_of(content, section)) <= named
