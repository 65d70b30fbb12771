"""What the Chrome trace-event format asks of a trace, written out from its documentation and from what its viewers do."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

REQUIRED = {"X": {"name", "cat", "ph", "ts", "dur", "pid", "tid"}, "C": {"name", "ph", "ts", "pid", "args"},
            "M": {"name", "ph", "pid", "tid", "args"}}  # fmt: skip
METADATA = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}


def nanoseconds(microseconds: float) -> int:
    """Viewers keep whole nanoseconds."""
    assert abs(microseconds * 1000 - round(microseconds * 1000)) < 1e-4, microseconds
    return round(microseconds * 1000)


def check_trace(data: dict[str, Any]) -> None:
    """Asserts keys per phase, types, named tracks of named processes, nesting of slices, and counters in the order of time."""
    assert data["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) for value in data["otherData"].values())
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    counters: dict[tuple[int, str], list[tuple[int, dict[str, float]]]] = defaultdict(list)
    metadata: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for event in data["traceEvents"]:
        assert REQUIRED[event["ph"]] <= set(event), event
        assert isinstance(event["pid"], int)
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            assert METADATA[event["name"]] in event["args"]
            assert (event["pid"], event["tid"]) not in metadata[event["name"]]
            metadata[event["name"]].add((event["pid"], event["tid"]))
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["tid"] > 0  # 0 is the idle task of viewers
            start = nanoseconds(event["ts"])
            tracks[event["pid"], event["tid"]].append((start, start + nanoseconds(event["dur"])))
        else:
            assert event["args"]
            assert all(math.isfinite(value) and value >= 0 for value in event["args"].values())
            counters[event["pid"], event["name"]].append((nanoseconds(event["ts"]), event["args"]))
    assert set(tracks) <= metadata["thread_name"] == metadata["thread_sort_index"]
    assert {pid for pid, _ in tracks} <= {pid for pid, _ in metadata["process_name"]}
    for spans in tracks.values():
        check_nesting(spans)
    for samples in counters.values():
        assert all(first[0] < second[0] for first, second in itertools.pairwise(samples))
        assert len({tuple(values) for _, values in samples}) == 1  # the same series each time
        assert not any(samples[-1][1].values())  # the last value would stay to the end of the trace


def check_nesting(spans: list[tuple[int, int]]) -> None:
    """Slices of a track lie inside one another or apart, and stand in the order of time."""
    assert spans == sorted(spans, key=lambda span: (span[0], -span[1]))
    open_until: list[int] = []
    for start, end in spans:
        assert end >= start
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert not open_until or end <= open_until[-1], (start, end)
        open_until.append(end)
