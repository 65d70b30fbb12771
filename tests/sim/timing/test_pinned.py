"""The engine's results on fixed streams, bit by bit: a faster engine must not change any. `make golden` rewrites them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.api import time_model
from npu.hardware.catalogue import load_variant
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    AccumulatorFormat,
    Activation,
    ActivationFunction,
    Block,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaWait,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWait,
    KernelWindow,
    Layout,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    Stop,
    Traversal,
    Upscale,
)
from sim.timing import schedule
from sim.timing.counters import operation_events
from sim.timing.explain import explain_operation
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


def mixed() -> list[Operation]:
    """Operations of every kind at random: windows, types, layouts, ports, scales, functions, second operands."""
    rng = np.random.default_rng(11)
    stream: list[Operation] = []
    for _ in range(70):
        stream.append((_window, _window, _pooling, _elementwise)[rng.integers(4)](rng))
        if rng.random() < 0.2:
            stream.append(transfer(int(rng.integers(1, 3000)), source=2, destination=int(rng.integers(2))))
        if rng.random() < 0.2:
            stream.append((DmaWait, KernelWait)[rng.integers(2)](int(rng.integers(2))))
    return [*stream, Stop()]


def _map(rng: np.random.Generator, size: tuple[int, int, int], element: ElementType) -> FeatureMap:
    layout = Layout(int(rng.integers(2)))
    fm = feature_map(*size, layout=layout, region=int(rng.integers(3)))
    strides = {name: getattr(fm, name) * element.bytes for name in ("stride_y", "stride_x", "stride_c")}
    return replace(fm, element=element, **strides)


def _shared(rng: np.random.Generator, element: ElementType) -> dict[str, Any]:
    """What operations of all kinds have."""
    size = tuple(int(value) for value in rng.integers(1, (20, 20, 70)))
    low, high = (element.minimum, element.maximum) if rng.random() < 0.5 else (0, 100)
    function = rng.choice([ActivationFunction.NONE, ActivationFunction.TANH, ActivationFunction.LUT_0])
    return {
        "ofm": _map(rng, size, element),
        "block": Block(*(int(rng.choice(sizes)) for sizes in ((2, 4, 8), (2, 4, 8, 16), (8, 16, 32)))),
        "activation": Activation(low, high, ActivationFunction(int(function))),
        "blockdep": int(rng.integers(4)),
        "shram": ShramLayout(10, 14, 6),
    }


def _window(rng: np.random.Generator) -> Operation:
    element = (INT8, INT8, INT16)[rng.integers(3)]
    shared, window = _shared(rng, element), _window_fields(rng)
    ofm, is_depthwise = shared["ofm"], rng.random() < 0.4
    depth = ofm.depth if is_depthwise else int(rng.integers(1, 70))
    shared["ifm"] = _map(rng, (ofm.height * 3, ofm.width * 3, depth), element)
    shared["accumulator"] = AccumulatorFormat(int(rng.integers(2))) if element is INT16 else AccumulatorFormat.INT32
    if not is_depthwise:
        shared["traversal"] = Traversal(int(rng.integers(2)))
    made = convolution(1, 1, 1, 1, shared["block"], stream_bytes=int(rng.integers(16, 4000)))
    fields = {name: getattr(made, name) for name in ("scale", "weights", "scales")}
    kind = DepthwiseConvolution if is_depthwise else Convolution
    return kind(**(fields | shared | window), has_4x4_sub_kernels=bool(rng.random() < 0.2))


def _window_fields(rng: np.random.Generator) -> dict[str, Any]:
    window = KernelWindow(*(int(value) for value in rng.integers(1, (12, 12, 4, 4, 3, 3))))
    padding = IfmPadding(*(int(value) for value in rng.integers(0, 3, 4)))
    return {"kernel": window, "padding": padding, "upscale": Upscale(int(rng.integers(3)))}


def _pooling(rng: np.random.Generator) -> Operation:
    element = (INT8, INT16, INT32)[rng.integers(3)]
    shared, mode = _shared(rng, INT8 if element is INT32 else element), PoolingMode(int(rng.integers(3)))
    if element is INT32:
        mode = PoolingMode.REDUCE_SUM
    ofm = shared["ofm"]
    if mode is PoolingMode.REDUCE_SUM:
        shared["ofm"] = ofm = _map(rng, (ofm.height, ofm.width, 1), ofm.element)
    depth = 33 if mode is PoolingMode.REDUCE_SUM else ofm.depth
    shared["ifm"] = _map(rng, (ofm.height * 3, ofm.width * 3, depth), element)
    window = _window_fields(rng) if mode is not PoolingMode.REDUCE_SUM else {"kernel": KernelWindow()}
    return Pooling(**(shared | window), scale=Scale(), mode=mode)


def _elementwise(rng: np.random.Generator) -> Operation:
    ifm, ofm = ((INT8, INT16, INT32)[index] for index in rng.integers(0, 3, 2))
    shared, mode = _shared(rng, ofm), ElementwiseMode(int(rng.integers(10)))
    size = (shared["ofm"].height, shared["ofm"].width, shared["ofm"].depth)
    second: dict[str, Any] = {}
    if not mode.is_unary:
        way = rng.random()
        second = {"scalar": 3} if way < 0.3 else {"ifm2": _map(rng, (1, 1, size[2]) if way < 0.6 else size, ifm)}
    scaling = OperandScaling(int(rng.integers(3))) if mode.scales_operands else OperandScaling(0)
    return Elementwise(**shared, ifm=_map(rng, size, ifm), scale=Scale(), mode=mode, operand_scaling=scaling, **second)


STREAMS: dict[str, Callable[[], list[Operation]]] = {
    "layers": lambda: layers(dma=False),
    "layers behind transfers": lambda: layers(dma=True),
    "transfers": transfers,
    "mixed": mixed,
    "nothing": lambda: [Stop()],
}


def fingerprint(trace: Trace) -> dict[str, object]:
    """Cycles, idle tails, and digests: the table, busy intervals and what they carry, bounds, totals."""
    events = trace.events
    assert events is not None
    bounds = " ".join(bound.name for bound in trace.bounds).encode()
    parts = {
        "table": trace.table.tobytes(),
        "events": b"".join(item.tobytes() for item in (events.operation, events.unit, events.start, events.end)),
        "carried": events.bytes.tobytes() + events.cause.tobytes(),
        "bounds": bounds,
        "totals": repr(trace.totals).encode(),
    }
    digests = {name: hashlib.sha256(part).hexdigest()[:16] for name, part in parts.items()}
    return {"cycles": trace.totals.total_cycles, "tails": list(trace.tails), **digests}


def test_counters_of_fixed_streams(golden: Callable[[str, str], None]) -> None:
    lines = []
    for target in TARGETS:
        variant, operations = load_variant(target), mixed()
        trace = schedule(operations, variant, stream_words=len(operations) * 15)
        kinds = ["elementwise" if isinstance(operation, Elementwise) else "other" for operation in operations]
        for name, counts in operation_events(trace.table, kinds, variant).items():
            digest = hashlib.sha256(np.ascontiguousarray(counts, np.int64).tobytes()).hexdigest()[:8]
            lines.append(f"{target} {name}: {int(counts.sum())} {digest}")
    golden("timing/counters.txt", "\n".join(lines) + "\n")


def test_explanations_of_fixed_operations(golden: Callable[[str, str], None]) -> None:
    lines = []
    for number, operation in enumerate(item for item in mixed() if isinstance(item, KernelOperation)):
        target = TARGETS[number % len(TARGETS)]
        if number < 48:
            lines.append(f"{number} {target}: {_rounded(asdict(explain_operation(operation, load_variant(target))))}")
    golden("timing/explanations.txt", "\n".join(lines) + "\n")


def _rounded(value: Any) -> Any:
    """Numbers with six digits, whatever holds them."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
