"""Shipped descriptions are read once; files of the user are read every time."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu.errors import ConfigError
from npu.hardware import catalogue, loader


def test_a_shipped_name_gives_the_same_object_again_and_equals_what_the_loader_reads() -> None:
    first = catalogue.load_variant("ethos-u55-128", memory_mode="Sram_Only")
    assert catalogue.load_variant("ethos-u55-128", memory_mode="Sram_Only") is first
    assert first == loader.read_variant("ethos-u55-128", memory_mode="Sram_Only")
    assert catalogue.load_variant("ethos-u55-128") == loader.read_variant("ethos-u55-128") != first


def test_a_file_of_the_user_is_read_again_after_a_change(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    for cycles in (7, 9):
        path.write_text(f"extends: ethos-u55-128\ntiming:\n  dma_setup_cycles: {cycles}\n")
        assert catalogue.load_variant(path).timing.dma_setup_cycles == cycles
        assert catalogue.load_variant(str(path)).timing.dma_setup_cycles == cycles


def test_an_unknown_name_is_refused_every_time() -> None:
    for _ in range(2):
        with pytest.raises(ConfigError, match="must be one of"):
            catalogue.load_variant("ethos-u99")
