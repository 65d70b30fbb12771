"""What becomes of every field of every operation at the edges of what it may be, as golden files: the words, or the refusal.

The other tests here say what must hold; these notice that a limit, a place in a register or a sentence has moved. `make golden`
takes a change over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np

from npu.errors import UserError
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.disassemble import disassemble
from npu.isa.encode import encode
from npu.isa.operations import (
    INT16,
    INT32,
    UINT8,
    AddressRange,
    Block,
    Convolution,
    DepthwiseConvolution,
    DmaSide,
    DmaWait,
    ElementwiseMode,
    IfmPadding,
    Interrupt,
    KernelWait,
    KernelWindow,
    Operation,
    PmuMask,
    PoolingMode,
    Scale,
    ShramLayout,
    Stop,
    Traversal,
)
from npu.isa.registers import registers_before
from npu.isa.summary import summarise
from npu.isa.weight_stream.encode import encode_weights, stand_in
from npu.isa.weight_stream.order import WeightOrder

from tests.support.timing import addition, convolution, copy_operation, feature_map, transfer

TARGETS = ("ethos-u55-128", "ethos-u65-512")
BLOCK = Block(4, 4, 16)
EDGES = (-1, 0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 65_535, 65_536, 1 << 32, 1 << 40, -128, -129, -32_768, -32_769)


def _operations() -> dict[str, Operation]:
    made = convolution(8, 9, 24, 16, BLOCK, stream_bytes=640, kernel=KernelWindow(3, 3), padding=IfmPadding(1, 1, 1, 1))
    made = dataclasses.replace(made, scales=(AddressRange(1, 1024, 240),))
    fields = {
        field.name: getattr(made, field.name)
        for field in dataclasses.fields(Convolution)
        if field.name not in ("traversal", "ifm2")
    }
    two = dataclasses.replace(
        made, weights=(AddressRange(1, 0, 640), AddressRange(1, 640, 320)), scales=(AddressRange(1, 1024, 240),) * 2
    )
    words = {"ifm": dataclasses.replace(feature_map(5, 6, 8), element=INT16, stride_x=32, stride_y=32 * 6)}
    sums = {"ifm": dataclasses.replace(feature_map(5, 6, 8), element=INT32, stride_x=64, stride_y=64 * 6)}
    return {
        "convolution": made,
        "convolution of two cores": two,
        "depthwise": DepthwiseConvolution(**(fields | {"ifm": feature_map(8, 9, 24)})),
        "pooling": copy_operation(8, 9, 24, BLOCK, kernel=KernelWindow(2, 3, 2, 1), ifm=feature_map(16, 11, 24)),
        "sums": copy_operation(5, 6, 1, BLOCK, mode=PoolingMode.REDUCE_SUM, **sums),
        "addition": addition(8, 9, 24, BLOCK),
        "product with a scalar": addition(5, 6, 8, BLOCK, mode=ElementwiseMode.MUL, ifm2=None, scalar=-3, **words),
        "shift": addition(5, 6, 8, BLOCK, mode=ElementwiseMode.CLZ, ifm2=None, scale=None, shram=ShramLayout(16, 22), **sums),
        "unsigned": addition(
            3, 3, 8, BLOCK, ifm=dataclasses.replace(feature_map(3, 3, 8), element=UINT8), scale=Scale(7, 3), ifm2=None, scalar=2
        ),
        "transfer": transfer(4096),
        "transfer of planes": dataclasses.replace(transfer(64), source=DmaSide(0, 128), destination=DmaSide(None, 256)),
        "wait for transfers": DmaWait(1),
        "wait for kernels": KernelWait(2),
        "counters": PmuMask(True),
        "interrupt": Interrupt(3),
        "stop": Stop(5),
    }


def _outcome(operation: Operation, target: str) -> str:
    """The words that say an operation, after what they are read as; or why there are none."""
    variant = load_variant(target)
    stream = [operation] if isinstance(operation, Stop) else [operation, Stop()]
    try:
        words = encode(stream, variant)
        read = decode(words, variant)
    except UserError as error:
        return str(error)
    return f"{summarise(read[0].operation)} {read[0].operation} {words.tobytes().hex()}"


_NO_OPERATION = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


def _with(record: Any, **changes: Any) -> Any:
    """The record with other fields, or why there is none; where one of these is an exception, that one."""
    try:
        return next((one for one in changes.values() if isinstance(one, Exception)), None) or dataclasses.replace(
            record, **changes
        )
    except _NO_OPERATION as error:
        return error


def _changed(record: Any) -> Iterator[tuple[str, Any]]:
    """A record with one field, of it or of what it holds, set to each edge."""
    for field in (one for one in dataclasses.fields(record) if one.init):
        value = getattr(record, field.name)
        if dataclasses.is_dataclass(value):
            for name, inner in _changed(value):
                yield f"{field.name}.{name}", _with(record, **{field.name: inner})
        if isinstance(value, tuple):
            for place, item in enumerate(value):
                changed = _changed(item) if dataclasses.is_dataclass(item) else (("", edge) for edge in EDGES)
                for name, inner in changed:
                    new = (*value[:place], inner, *value[place + 1 :])
                    yield (
                        f"{field.name}[{place}]{name}",
                        _with(record, **{field.name: new}) if not isinstance(inner, Exception) else inner,
                    )
            yield f"{field.name} less", _with(record, **{field.name: value[:-1]})
        for edge in _edges_of(value):
            yield field.name, _with(record, **{field.name: edge})


def _edges_of(value: Any) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, IntEnum):
        yield from type(value)
    elif isinstance(value, int):
        yield from EDGES
    if value is not None:
        yield None if not isinstance(value, int) else value
    else:
        yield from (0, 5, -129)


def test_every_field_at_its_edges(golden: Callable[[str, str], None]) -> None:
    lines = []
    for target in TARGETS:
        for what, operation in _operations().items():
            found: dict[str, list[str]] = {"as it is": [_outcome(operation, target)]}
            for name, changed in _changed(operation):
                found.setdefault(name, []).append(_tried(changed, target))
            for name, outcomes in found.items():
                digest = blake2b("\n".join(outcomes).encode(), digest_size=5).hexdigest()
                lines.append(f"{target}, {what}, {name}: {len(set(outcomes))} outcomes, {digest}")
    golden("isa/fields.txt", "\n".join(lines) + "\n")


def _tried(operation: Operation | Exception, target: str) -> str:
    """As `_outcome`; what is no operation at all is told by the name of the exception."""
    try:
        return type(operation).__name__ if isinstance(operation, Exception) else _outcome(operation, target)
    except _NO_OPERATION as error:
        return type(error).__name__


def test_listings_and_registers(golden: Callable[[str, str], None]) -> None:
    lines = []
    for target in TARGETS:
        operations = [item for what, item in _operations().items() if _is_of(what, target) and what != "stop"]
        words, variant = encode([*operations, Stop()], load_variant(target)), load_variant(target)
        lines += [str(line) for line in disassemble(words, variant).lines]
        lines.append(str(registers_before(words, variant.accelerator.product, 60)))
    golden("isa/listings.txt", "\n".join(lines) + "\n")


def _is_of(what: str, target: str) -> bool:
    return ("two cores" in what) == (target == "ethos-u65-512") or "convolution" not in what


def test_weight_streams(golden: Callable[[str, str], None]) -> None:
    """Streams of weights of several kinds; and that their expected sizes are nearly theirs."""
    rng, lines = np.random.default_rng(4), []
    for number in range(60):
        shape = tuple(int(size) for size in rng.integers(1, (33, 4, 4, 50)))
        spread, zeros = float(rng.choice([0.6, 3, 12, 50, 150])), float(rng.choice([0, 0, 0.5, 0.9]))
        weights = np.clip(np.round(rng.normal(0, spread, shape)), -255, 255).astype(np.int16)
        if number % 3 == 0:
            weights = rng.choice(rng.integers(-255, 256, int(rng.choice([1, 2, 5, 30]))), shape).astype(np.int16)
        weights[rng.random(shape) < zeros] = 0
        order = WeightOrder(
            block_depth=int(rng.choice([8, 16, 32])), traversal=Traversal(int(rng.integers(2))),
            ifm_bits=int(rng.choice([8, 16])),
        )  # fmt: skip
        stream, expected = encode_weights(weights, order), stand_in(weights, order)
        assert len(expected) % 16 == 0
        assert abs(len(expected) - len(stream)) <= max(32, len(stream) // 10)
        digest = blake2b(stream, digest_size=5).hexdigest()
        lines.append(f"{number} {shape}: {len(stream)} bytes {digest}, expected {len(expected)} {expected[:5].hex()}")
    golden("isa/weight_streams.txt", "\n".join(lines) + "\n")
