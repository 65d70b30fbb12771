"""Broken command streams: every tier of kernels ends in the same bytes, and a stream that is verified has one result.

The brute force of the second: transfers and kernels are two queues that the hardware empties in its own time between the
waits of the stream. The earliest and the latest moment of each must leave the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import npu
from npu.errors import UserError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.decoded import Decoded
from npu.isa.encode import encode
from npu.isa.operations import Dma, DmaWait, KernelOperation, KernelWait
from npu.tflite.writer import write_model
from sim.container import NpuJob, jobs_of
from sim.functional.prepared import Tier, best_tier
from sim.machine import Machine
from sim.memory import NpuMemory
from sim.verify.verifier import verify

from tests.fuzz.answer import attempt
from tests.sim.test_mutated_streams import mutated, random_commands
from tests.support.random_graphs import chains
from tests.support.streams import in_place_of

TARGETS = ("ethos-u55-128", "ethos-u65-512", "ethos-u65-256")
PER_TARGET = 500
"""Cases in a row for the same target: every base meets every target."""
BASES = (2, 4, 6, 7, 9, 11, 12, 14, 17, 23, 24, 26, 27, 28, 29, 30, 31, 32, 35, 36, 37, 38, 39, 40, 42, 45, 47)
"""Seeds of chains with streams of at most 20 operations: a change of one of them is a case, the others only take time."""


@dataclass(frozen=True, slots=True)
class Base:
    """A stream to break, with the constants that it reads."""

    job: NpuJob
    constants: npt.NDArray[np.uint8]


@cache
def _base(number: int, target: str) -> Base | None:
    model = npu.load(npu.compile(write_model(chains(1, number)[0].model), target=target).content)
    for graph in model.graphs:
        for op in graph.ops:
            if op.custom_code == "ethos-u":
                data = graph.tensors[op.inputs[1]].data
                return Base(next(iter(jobs_of(model))), np.zeros(0, np.uint8) if data is None else data)
    return None


def case(number: int) -> str:
    rng, target = np.random.default_rng([number, 3]), TARGETS[number // PER_TARGET % len(TARGETS)]
    base, variant = _base(BASES[number % len(BASES)], target), load_variant(target)
    if base is None:
        return "no stream to break"
    job = base.job
    if number % 4 == 0:
        words = random_commands(rng) if number % 16 == 0 else mutated(job.payload.words, rng)
        decoded = attempt("decode", lambda: decode(words, variant))
    else:
        decoded = _changed(decode(job.payload.words, variant), rng)
        attempt("encode", lambda: encode([item.operation for item in decoded], variant))
    sizes = {region: max(size, 16) for region, size in job.region_bytes.items()}
    contents = {0: np.pad(base.constants, (0, sizes[0] - base.constants.size))}
    findings = attempt("verify", lambda: verify(decoded, variant, sizes, job.given, contents=contents))
    results = {tier: _memory_after(decoded, variant, base, tier, number) for tier in _tiers()}
    first = results[Tier.GENERAL]
    for tier, result in results.items():
        assert type(result) is type(first), f"{tier.value} against general: {result if isinstance(result, str) else first}"
        assert isinstance(result, str) or _same(result, first), f"{tier.value} against general: other bytes"
    if isinstance(first, str):
        assert findings, f"verified, but not executed: {first}"
        return "execute: refused"
    if findings:
        return "ran, with findings"
    for order in (_eager_transfers(decoded, variant), _late_transfers(decoded, variant)):
        other = _memory_after(order, variant, base, Tier.GENERAL, number)
        assert not isinstance(other, str), "another legal order is refused"
        assert _same(other, first), "verified, but another legal order leaves other bytes"
    return "ran, verified, every order equal"


def _changed(decoded: tuple[Decoded, ...], rng: np.random.Generator) -> tuple[Decoded, ...]:
    """The operations with one to three of them left out, or with a field that has another value."""
    result = list(decoded)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(result) - 1))
        operation = result[at].operation
        if isinstance(operation, DmaWait | KernelWait) or rng.random() < 0.1:
            del result[at]
        elif isinstance(operation, Dma):
            way = {"source": replace(operation.source, address=operation.source.address + 16 * int(rng.integers(-4, 5)))}
            result[at] = in_place_of(result[at], replace(operation, **way))
        elif isinstance(operation, KernelOperation):
            result[at] = in_place_of(result[at], _changed_kernel(operation, rng))
        if len(result) < 2:
            break
    return tuple(result)


def _changed_kernel(operation: Any, rng: np.random.Generator) -> Any:
    if rng.random() < 0.2:
        return replace(operation, blockdep=int(rng.integers(4)))
    name = "ifm" if rng.random() < 0.5 else "ofm"
    fm = getattr(operation, name)
    near = [int(value) for value in rng.integers(-3, 4, 3)]
    addresses = tuple(address + 16 * int(rng.integers(-2, 3)) for address in fm.addresses)
    changes: dict[str, Any] = {
        "zero_point": int(rng.choice([-129, -128, 0, 127, 128, 300])),
        "stride_y": fm.stride_y + 16 * near[0],
        "stride_x": fm.stride_x + near[1],
        "stride_c": fm.stride_c + 16 * near[2],
        "addresses": addresses,
        "tile_height_0": int(rng.integers(1, 20)),
        "tile_width_0": int(rng.integers(1, 20)),
    }
    field = str(rng.choice(list(changes)))
    return replace(operation, **{name: replace(fm, **{field: changes[field]})})


def _tiers() -> tuple[Tier, ...]:
    return (Tier.GENERAL, Tier.PORTABLE, *((Tier.DOT_PRODUCT,) if best_tier() is Tier.DOT_PRODUCT else ()))


def _memory_after(
    decoded: tuple[Decoded, ...], variant: Variant, base: Base, tier: Tier, seed: int
) -> dict[int, npt.NDArray[np.uint8]] | str:
    """The regions after a run from random contents, or why there was none."""
    rng = np.random.default_rng([seed, 4])
    regions = {region: rng.integers(0, 256, max(size, 16), np.uint8) for region, size in base.job.region_bytes.items()}
    regions[0][: base.constants.size] = base.constants
    try:
        Machine(variant, tier).run(decoded, NpuMemory(regions, variant))
    except UserError as error:
        return str(error)
    return regions


def _same(first: dict[int, npt.NDArray[np.uint8]], second: dict[int, npt.NDArray[np.uint8]]) -> bool:
    return all(np.array_equal(first[region], second[region]) for region in first)


def _eager_transfers(decoded: tuple[Decoded, ...], variant: Variant) -> tuple[Decoded, ...]:
    """Every transfer at once, every kernel as late as a wait or a full queue allows."""
    limit = variant.accelerator.max_outstanding_kernels
    return tuple(_deferred(decoded, KernelOperation, KernelWait, limit))


def _late_transfers(decoded: tuple[Decoded, ...], variant: Variant) -> tuple[Decoded, ...]:
    return tuple(_deferred(decoded, Dma, DmaWait, variant.accelerator.max_outstanding_dma))


def _deferred(decoded: tuple[Decoded, ...], kind: type, wait: type, limit: int) -> Iterator[Decoded]:
    """Operations of one kind as late as possible; their own order stays."""
    held: list[Decoded] = []
    for item in decoded:
        if isinstance(item.operation, kind):
            held.append(item)
            allowed = limit
        elif isinstance(item.operation, wait):
            allowed = item.operation.outstanding  # type: ignore[attr-defined]
        else:
            yield item
            continue
        while len(held) > allowed:
            yield held.pop(0)
    yield from held
