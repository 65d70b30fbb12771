"""The engine's results on fixed streams, bit by bit: a faster engine must not change any. `make golden` rewrites them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from npu.api import time_model
from npu.hardware.catalogue import load_variant
from npu.isa.operations import Block, Dma, DmaWait, KernelWait, Operation, Stop
from sim.timing import schedule
from sim.trace import Trace

from tests.support.timing import addition, convolution, copy_operation, feature_map, transfer

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
TARGETS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")
SMALL, WIDE, FLAT = Block(4, 4, 16), Block(8, 8, 32), Block(2, 16, 16)


def layers(*, dma: bool) -> list[Operation]:
    """Convolutions of several shapes with streamed weights, each behind a transfer if `dma`, additions and copies between."""
    stream: list[Operation] = []
    for size, depth, block in (
        (24, 32, SMALL),
        (17, 48, WIDE),
        (9, 96, FLAT),
        (16, 16, SMALL),
        (5, 250, WIDE),
        (1, 333, SMALL),
    ):
        if dma:
            stream += [transfer(depth * size * 31 + 7), transfer(1000 + depth, destination=2), DmaWait(1)]
        for blockdep in (3, 1, 0):
            kernel = convolution(size, size + 3, depth, 40, block, stream_bytes=depth * 43)
            stream.append(replace(kernel, blockdep=blockdep))
        stream.append(addition(size, size + 3, depth, block, ifm2=feature_map(size, size + 3, depth, region=0)))
        stream.append(copy_operation(size, size + 3, depth, block, ofm=feature_map(size, size + 3, depth, region=2)))
    return [*stream, Stop()]


def transfers() -> list[Operation]:
    """Transfers of many sizes between all ports, with waits, and kernels that use the same ports meanwhile."""
    moves: list[Dma] = [transfer(size) for size in (1, 8, 511, 512, 513, 4096, 100_000, 20_000_000)]
    moves += [transfer(70_000, source=1, destination=0), transfer(70_000, source=1, destination=2)]
    moves += [transfer(33_333, destination=None), transfer(33_333, source=None)]
    kernel = convolution(20, 20, 64, 64, WIDE, stream_bytes=5000)
    stream: list[Operation] = []
    for number, move in enumerate(moves):
        stream += [move, kernel] if number % 2 else [kernel, move, KernelWait(0), move]
        if number % 3 == 0:
            stream.append(DmaWait(0))
    return [*stream, Stop()]


STREAMS: dict[str, Callable[[], list[Operation]]] = {
    "layers": lambda: layers(dma=False),
    "layers behind transfers": lambda: layers(dma=True),
    "transfers": transfers,
    "nothing": lambda: [Stop()],
}


def fingerprint(trace: Trace) -> dict[str, object]:
    """Cycles, idle tails, and digests of the table and of the times of the busy intervals."""
    assert trace.events is not None
    events = (trace.events.operation, trace.events.unit, trace.events.start, trace.events.end)
    digests = [hashlib.sha256(b"".join(item.tobytes() for item in part)).hexdigest()[:16] for part in ((trace.table,), events)]
    return {"cycles": trace.totals.total_cycles, "tails": list(trace.tails), "table": digests[0], "events": digests[1]}


def test_results_of_fixed_streams_on_every_target_with_and_without_adapters(golden: Callable[[str, str], None]) -> None:
    found: dict[str, dict[str, object]] = {}
    for target in TARGETS:
        adapted = load_variant(target)
        plain = replace(adapted, system=replace(adapted.system, adapters={}))
        for system, variant in (("adapters", adapted), ("no adapters", plain)):
            for name, stream in STREAMS.items():
                operations = stream()
                trace = schedule(operations, variant, stream_words=len(operations) * 15, with_events=True)
                found[f"{name}, {target}, {system}"] = fingerprint(trace)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    golden("timing/streams.json", f"{{\n{lines}\n}}\n")


def test_results_of_the_example_on_every_target(golden: Callable[[str, str], None]) -> None:
    """These also change when the compiler makes another stream."""
    found: dict[str, object] = {}
    for target in TARGETS:
        timed = time_model(DIGITS, target, with_events=True)
        found[target] = [fingerprint(job.trace) for job in timed.jobs]
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    golden("timing/digits.json", f"{{\n{lines}\n}}\n")


@pytest.mark.parametrize("name", ["layers behind transfers", "transfers"])
def test_events_do_not_change_the_table(name: str) -> None:
    variant = load_variant("ethos-u55-128")
    first, second = (
        schedule(STREAMS[name](), variant, stream_words=500, with_events=with_events) for with_events in (False, True)
    )
    assert (first.table == second.table).all()
    assert first.events is None
    assert first.totals == second.totals
