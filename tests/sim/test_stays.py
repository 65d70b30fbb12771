"""Boxes of memory over time: none overlaps another, and together they are what is in use."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

import npu
from npu.graph.ethos_u import Region
from sim.arena import arena_use
from sim.stays import COPY, INPUT, MAP, stays
from sim.timeline import owners_of

from tests.support.vela import compile_with_vela

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("compiler", ["ours", "vela"])
def test_no_two_boxes_hold_the_same_bytes_at_the_same_time(target: str, compiler: str) -> None:
    content = npu.compile(DIGITS, target).content if compiler == "ours" else compile_with_vela(DIGITS.read_bytes(), target)
    timed = npu.time_model(content)
    for job, stream in zip(timed.jobs, timed.streams, strict=True):
        operations = [item.operation for item in stream.decoded]
        for region in (Region.ARENA, Region.FAST):
            boxes = stays(operations, owners_of(job).tolist(), region)
            for one, other in combinations(boxes, 2):
                if (
                    one.start < other.end and other.start < one.end
                ):  # what is read last and written first by one operation may touch
                    assert one.last <= other.first or other.last <= one.first, (one, other)


def test_boxes_are_what_is_in_use() -> None:
    timed = npu.time_model(DIGITS)
    operations = [item.operation for item in timed.streams[0].decoded]
    boxes = stays(operations, owners_of(timed.jobs[0]).tolist())
    assert {box.kind for box in boxes} <= {INPUT, MAP, COPY}
    used = arena_use(operations)
    for index in range(len(operations)):
        held = sum(box.end - box.start for box in boxes if box.first <= index <= box.last)
        assert held >= used[index] - 16 * len(boxes)  # `arena_use` counts in granules of 16 bytes
    assert max(box.end for box in boxes) <= npu.compile(DIGITS).compiled_model.usage.arena_bytes
