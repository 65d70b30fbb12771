"""The table of memory: nothing overlaps while it is in use, the peak is what the arena has, and files say the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.compiler.memory_map import MemoryMap, PlacedBuffer
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder
from tests.support.shared import ROOT

DIGITS = ROOT / "examples" / "digits.tflite"


def table(target: str) -> tuple[MemoryMap, int, int]:
    """Of the shipped digits."""
    result = npu.compile(DIGITS, target).compiled_model
    return result.memory, result.usage.arena_bytes, result.usage.fast_bytes


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
def test_everything_lies_within_its_memory_and_the_peaks_fill_it(target: str) -> None:
    found, arena, fast = table(target)
    sizes = {"arena": arena, "fast": fast}
    assert found.stays
    for stay in found.stays:
        assert 0 <= stay.offset <= stay.offset + stay.bytes <= sizes[stay.memory]
        assert stay.first <= stay.last
    for peak in found.peaks:
        assert peak.visible_bytes <= peak.bytes <= sizes[peak.memory]
        assert (peak.visible_bytes > 0) is (peak.memory == "arena")
        assert any(stay.first <= peak.ops[0] <= stay.last for stay in found.stays if stay.memory == peak.memory)


def apart(one: PlacedBuffer, other: PlacedBuffer) -> bool:
    return one.offset + one.bytes <= other.offset or other.offset + other.bytes <= one.offset


def test_what_is_in_use_before_and_after_an_operator_is_not_overwritten_by_it() -> None:
    found, _, _ = table("ethos-u55-128")
    for one in found.stays:
        for other in found.stays:
            if one.first < other.first and other.last < one.last:
                assert apart(one, other), (one, other)


def test_weights_of_every_weighted_operator_are_listed_once() -> None:
    found, _, _ = table("ethos-u55-128")
    assert [compression.op for compression in found.compressions] == [0, 1, 2, 5, 6, 8]
    first = found.compressions[0]
    assert (first.kind, first.original_bytes) == ("CONV_2D", 16 * 3 * 3)
    assert 0.5 < first.ratio < 3


def test_text_and_json_files_say_the_same(tmp_path: Path) -> None:
    text, data = tmp_path / "map.txt", tmp_path / "map.json"
    for path in (text, data):
        assert main(["compile", str(DIGITS), "-o", str(tmp_path / "o.tflite"), "--memory-map", str(path)]) == 0
    content = json.loads(data.read_text())
    assert len(text.read_text().splitlines()) == 1 + sum(map(len, content.values()))
    assert content["peaks"] == [{"graph": 0, "memory": "arena", "bytes": 6000, "ops": [2], "visible_bytes": 64}]
    assert "peak of arena: 6,000 bytes at operator(s) 2 of graph 0" in text.read_text()


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
def test_a_model_without_outputs_keeps_nothing(target: str) -> None:
    b = ModelBuilder()
    b.op(
        "RESHAPE", [b.input((4, 8), DType.INT8, scale=0.1), b.constant(np.array([32], np.int32))], (32,), DType.INT8, scale=0.1
    )
    assert npu.compile(b.build(), target).compiled_model.memory == MemoryMap()
