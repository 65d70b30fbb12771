"""What is written for Ethos-U85: Vela's streams come back from their operations, and no field says something else."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
import pytest

from npu.errors import StreamError, UserError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product
from npu.isa.command import Command, CommandKind
from npu.isa.decode import decode, read_commands
from npu.isa.encode import encode
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.operations import (
    INT32,
    AccumulatorFormat,
    Activation,
    ActivationFunction,
    Block,
    ClipRange,
    Convolution,
    Dma,
    DmaIndices,
    DmaSide,
    DmaStride,
    DmaWait,
    Elementwise,
    Interrupt,
    KernelOperation,
    KernelWait,
    MapStorage,
    Operation,
    PmuMask,
    Resizing,
    ShramLayout,
    Stop,
    WeightedOperation,
)
from npu.tflite.reader import read_model
from sim.container import jobs_of
from sim.verify.registers import unread_writes

from tests.support import operator_cases as base
from tests.support.operator_sketches import OPERATORS, sketch
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import VELA_CASES, with_shapes

SIZES = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
CASES = base.CASES | VELA_CASES
MODELS = (
    *("CONV_2D-int8", "CONV_2D-int16", "DEPTHWISE_CONV_2D-int16", "SOFTMAX-int8", "RESIZE_BILINEAR-int8", "TRANSPOSE-int8"),
    *("LEAKY_RELU-int8", "ARG_MAX-int8", "AVERAGE_POOL_2D-int8", "UNIDIRECTIONAL_SEQUENCE_LSTM-int8", "SELECT_V2-int8"),
    *("SUM-int16", "GATHER-uint8", "GREATER-int8", "ADD-int8-scalar", "SUB-int16", "REVERSE_V2-int8", "BATCH_MATMUL-int8"),
    *("TANH-int16", "EXP-int16", "LOGICAL_NOT-bool", "RSQRT-int8", "CONCATENATION-int32"),
)
NETWORKS = (0, 9, 17, 31, 38, 41, 57)
"""Of `sketch`: sums that stay, a table behind a convolution, maps that are handed on, a resize."""


def model_of(what: str | int) -> bytes:
    return sketch(what).content if isinstance(what, int) else with_shapes(CASES[what](np.random.default_rng([1, 7])))


@cache
def streams_of(what: str | int, target: str) -> list[tuple[np.ndarray, tuple[Operation, ...]]]:
    """The words and operations of the jobs of Vela's file, without those that are not modelled."""
    variant, found = load_variant(target), []
    for job in jobs_of(read_model(compile_forked(model_of(what), target))):
        words = np.array(job.payload.words, np.uint32)
        try:
            found.append((words, tuple(one.operation for one in decode(words, variant))))
        except StreamError as error:
            assert "modelled" in str(error)  # noqa: PT017
    return found


def assert_comes_back(what: str | int, target: str) -> None:
    variant = load_variant(target)
    for theirs, operations in streams_of(what, target):
        ours = encode(operations, variant)
        decoded = decode(ours, variant)
        assert tuple(one.operation for one in decoded) == operations
        assert len(ours) <= len(theirs)
        assert not list(unread_writes(ours, decoded, variant))


@pytest.mark.parametrize("what", [*MODELS, *NETWORKS])
def test_a_stream_of_vela_comes_back_from_its_operations(what: str | int) -> None:
    for target in SIZES[:: 4 if what == "UNIDIRECTIONAL_SEQUENCE_LSTM-int8" else 1]:
        assert_comes_back(what, target)


@pytest.mark.slow
@pytest.mark.parametrize("what", [*sorted(CASES), *range(3 * len(OPERATORS))])
def test_every_stream_of_vela_comes_back(what: str | int) -> None:
    for target in SIZES:
        try:
            assert_comes_back(what, target)
        except RuntimeError:
            assert isinstance(what, str)  # Vela makes no file


def read_registers(words: np.ndarray) -> Iterator[tuple[Command, dict[str, dict[str, int]]]]:
    """Each kick-off of a stream, and what the registers hold then."""
    held: dict[str, dict[str, int]] = {}
    for raw in read_commands(words, Product.ETHOS_U85):
        if raw.command.kind is CommandKind.OPERATION:
            yield raw.command, dict(held)
        else:
            held[raw.command.name] = raw.values


IGNORED = {"NPU_SET_OFM_SCALE", "NPU_SET_IFM_DEPTH_M1"}
"""Where channels have scales Vela writes that of the first; it leaves the depth where a chain goes on."""


@pytest.mark.parametrize("what", MODELS)
def test_registers_hold_what_vela_writes(what: str) -> None:
    target = SIZES[len(what) % len(SIZES)]
    accelerator = load_variant(target).accelerator
    for theirs, operations in streams_of(what, target):
        ours = encode(operations, load_variant(target))
        for operation, (_, held), (_, expected) in zip(operations, read_registers(ours), read_registers(theirs), strict=True):
            for register in ETHOS_U85.registers_read_by(operation, accelerator):
                if register.name not in IGNORED:
                    assert held[register.name] == expected[register.name], (register.name, operation)


@cache
def examples() -> dict[str, tuple[str, Operation]]:
    """One operation of each kind that Vela writes, with its target."""
    kinds: dict[str, tuple[str, Operation]] = {}
    for number, what in enumerate((*MODELS, *NETWORKS)):
        target = SIZES[number % len(SIZES)]
        for _, operations in streams_of(what, target):
            for operation in operations:
                kinds.setdefault(kind_of(operation), (target, operation))
    return kinds | {
        "IRQ": (SIZES[0], Interrupt(3)),
        "counters": (SIZES[0], PmuMask(1)),
        "planes by indices": (SIZES[0], PLANES),
        "table of 32 bits": (SIZES[1], kinds_with_table(kinds)),
    }


def kind_of(operation: Operation) -> str:
    parts = [type(operation).__name__]
    if isinstance(operation, KernelOperation):
        parts += [fm.storage.name for fm in (*operation.ifms, operation.ofm)]
        parts += ["of channels"] if operation.scale is None else []
        parts += ["table"] if operation.activation.function.lut_index is not None else []
    if isinstance(operation, Elementwise):
        parts.append("unary" if operation.mode.is_unary else f"scalar {operation.is_reversed}" if operation.has_scalar else "")
    if isinstance(operation, WeightedOperation):
        parts.append(f"{len(operation.weights)} streams")
    if isinstance(operation, Dma):
        parts += [operation.stride.name, str(operation.destination.is_internal), str(operation.indices is not None)]
    return " ".join(parts)


PLANES = Dma(
    source=DmaSide(1, 256, DmaStride.PLANES, steps=(64, 4096)),
    destination=DmaSide(2, 0, DmaStride.PLANES, steps=(48, -960)),
    length_bytes=48,
    rows=5,
    planes=3,
    indices=DmaIndices(1, 64, 30, 12, is_of_destination=True),
)


def kinds_with_table(kinds: dict[str, tuple[str, Operation]]) -> Operation:
    name, (_, known) = next((name, one) for name, one in kinds.items() if name.startswith("Pooling TILES_2X2 TILES_2X2"))
    assert isinstance(known, KernelOperation), name
    table = Activation(-(1 << 15), (1 << 15) - 1, ActivationFunction.LUT_4, ClipRange.FORCE_INT8)
    ublock = Block(1, 4, 8)
    assert known.options is not None
    return replace(
        known,
        ofm=replace(known.ofm, element=INT32, addresses=(0, 0, 0, 0), stride_y=64, stride_x=4, stride_c=1024),
        activation=table,
        options=replace(known.options, ublock=ublock),
        block=Block(2, 4, 16),
    )


def test_examples_are_of_all_operations() -> None:
    kinds = {type(operation) for _, operation in examples().values()}
    assert kinds == set(ETHOS_U85.kick_offs)
    storages = {fm.storage for _, one in examples().values() if isinstance(one, KernelOperation) for fm in (*one.ifms, one.ofm)}
    assert storages == {MapStorage.TILES_2X2, MapStorage.CHAINED, MapStorage.NONE}


def outcome(operation: Operation, target: str) -> str:
    """Whether an operation comes back, or the refusal; nothing else may become of it."""
    variant = load_variant(target)
    stream = [operation] if isinstance(operation, Stop) else [operation, Stop()]
    try:
        words = encode(stream, variant)
    except StreamError as error:
        return str(error)
    assert [one.operation for one in decode(words, variant)] == stream
    return ""


EDGES = (-1, 0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255, 256, 65_535, 65_536, 1 << 31, 1 << 40, -128, -129, -32_768, -32_769)


OPTIONAL = {"ifm2", "ifm_scale", "ifm2_scale", "scale", "indices", "options"}


def changed(record: Any) -> Iterator[tuple[str, Any]]:
    """A record with one number, of it or of what it holds, at each edge, or one choice as every other one."""
    for field in (one for one in dataclasses.fields(record) if one.init):
        value = getattr(record, field.name)
        for name, other in _others(value):
            yield f"{field.name}{name}", replace(record, **{field.name: other})
        if field.name in OPTIONAL and dataclasses.is_dataclass(value):
            yield field.name, replace(record, **{field.name: None})


def _others(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "", not value
    elif isinstance(value, IntEnum):
        yield from (("", other) for other in type(value))
    elif isinstance(value, int):
        yield from (("", edge) for edge in EDGES)
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            yield from ((f"[{place}]{name}", (*value[:place], other, *value[place + 1 :])) for name, other in _others(item))
        if value and dataclasses.is_dataclass(value[0]):
            yield "", value[:-1]
    elif dataclasses.is_dataclass(value):
        yield from ((f".{name}", other) for name, other in changed(value))


@pytest.mark.parametrize("number", range(6))
def test_every_field_at_its_edges_comes_back_or_is_refused(number: int) -> None:
    written = set()
    for kind, (target, operation) in list(examples().items())[number::6]:
        assert outcome(operation, target) == "", kind
        for name, other in changed(operation):
            if not outcome(other, target):
                written.add(name)
    assert len(written) > 20


def test_a_number_that_a_register_cannot_hold_is_named() -> None:
    assert "operation 0 (DmaWait): NPU_OP_DMA_WAIT: outstanding must be in [0, 3], got 7" in outcome(DmaWait(7), SIZES[0])
    assert "operation 0 (KernelWait): NPU_OP_KERNEL_WAIT: outstanding must be in [0, 1], got 2" in outcome(
        KernelWait(2), SIZES[0]
    )


def with_field(words: np.ndarray, command: Command, field: str, value: int) -> np.ndarray:
    """A stream in which every write of a register has that value in a field."""
    made: list[int] = []
    for raw in read_commands(words, Product.ETHOS_U85):
        values = raw.values | {field: value} if raw.command is command else raw.values
        made += raw.command.words(raw.command.operand(values, Product.ETHOS_U85))
    return np.array(made, np.uint32)


def edges_of(command: Command) -> Iterator[tuple[str, int]]:
    for field in command.fields:
        low, high = field.limits(Product.ETHOS_U85)
        values = range(low, high + 1) if field.enum is None else [int(member) for member in field.members()]
        for value in values if len(values) < 40 else (low, low + 1, 16, high // 2, high & ~15, high - 1, high):
            yield field.name, value


TIMES = 2
"""That each value is looked at, in other kinds of operations."""


def test_whatever_a_register_says_is_written_again() -> None:
    """Every field of every command at the edges of what it can say, in a stream of each kind of operation."""
    said: Counter[tuple[str, str, int]] = Counter()
    for target, operation in examples().values():
        variant = load_variant(target)
        words = encode([operation] if isinstance(operation, Stop) else [operation, Stop()], variant)
        for command in {raw.command for raw in read_commands(words, Product.ETHOS_U85)}:
            for field, value in edges_of(command):
                if said[command.name, field, value] == TIMES:
                    continue
                try:
                    read = [one.operation for one in decode(with_field(words, command, field, value), variant)]
                except StreamError:
                    continue
                assert [one.operation for one in decode(encode(read, variant), variant)] == read, (command.name, field, value)
                said[command.name, field, value] += 1
    every = {(command.name, field.name) for command in ETHOS_U85.commands for field in command.fields}
    assert every == {(name, field) for name, field, _ in said}


def test_no_write_leaves_a_register_as_it_is() -> None:
    for target in SIZES:
        operations = [operation for own, operation in examples().values() if own == target and not isinstance(operation, Stop)]
        registers: dict[str, dict[str, int]] = {}
        for raw in read_commands(encode([*operations, *operations, Stop()], load_variant(target)), Product.ETHOS_U85):
            if raw.command.kind is not CommandKind.OPERATION:
                assert registers.get(raw.command.name) != raw.values
                registers[raw.command.name] = raw.values


def test_operations_come_back_in_any_order() -> None:
    rng = np.random.default_rng(6)
    for target in SIZES:
        known = [operation for own, operation in examples().values() if own == target and not isinstance(operation, Stop)]
        program = [*(known[k] for k in rng.integers(len(known), size=40)), Stop()]
        assert [one.operation for one in decode(encode(program, load_variant(target)), load_variant(target))] == program


def test_a_repeated_operation_writes_only_its_kick_off() -> None:
    for target, operation in examples().values():
        if not isinstance(operation, Stop):
            once, twice = (encode([operation] * count + [Stop()], load_variant(target)) for count in (1, 2))
            assert np.array_equal(twice, np.concatenate([once[:-1], once[-2:]]))


def example(kind: type, *parts: str) -> tuple[str, Any]:
    return next(one for name, one in examples().items() if type(one[1]) is kind and all(part in name.split() for part in parts))


REFUSED: dict[str, tuple[type, tuple[str, ...], dict[str, Any], str]] = {
    "another family": (Convolution, (), {"options": None}, r"operation: must be one that ETHOS_U85 has, got Convolution of"),
    "SHRAM": (Convolution, (), {"shram": ShramLayout(2, 4)}, r"SHRAM: must be left at 0, as buffers have memories"),
    "accumulators": (Convolution, (), {"accumulator": AccumulatorFormat.FP16}, r"accumulators: must be INT32 or INT48, got"),
    "no weights": (Convolution, ("TILES_2X2",), {"weights": (), "ifm2": None}, r"weights: must be streams or IFM2, got none"),
    "scales": (Convolution, ("streams",), {"scales": ()}, r"scales: must be one range for all weight streams, got 0"),
    "no operand": (Elementwise, ("False",), {"scalar": None}, r"must be given IFM2 or a scalar unless unary, got 0"),
    "order": (Elementwise, ("unary",), {"is_reversed": True}, r"operand order: must be unreversed without a scalar, got"),
    "operand scales": (Elementwise, (), {"ifm_scale": None}, r"operand scales: must be of the IFM, and of the second operand"),
    "rows": (Dma, ("CONTIGUOUS",), {"rows": 2}, r"rows: must be 1 without row stride, got 2"),
    "skips": (Dma, (), {"row_skip_bytes": 16}, r"skips: must be 0, as each side has steps"),
    "core mask": (Dma, ("CONTIGUOUS",), {"source": DmaSide(1, 0, core_mask=1)}, r"source core mask: must be left at 3 outside"),
    "stride": (Dma, ("CONTIGUOUS",), {"source": DmaSide(1, 0, DmaStride.ROWS)}, r"must be given where rows are strided"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case: str) -> None:
    kind, parts, changes, message = REFUSED[case]
    target, operation = example(kind, *parts)
    with pytest.raises(StreamError, match=message):
        encode([replace(operation, **changes), Stop()], load_variant(target))


ACTIVATIONS = {
    "a clip of Ethos-U55": (
        ActivationFunction.NONE,
        ClipRange.OFM_PRECISION,
        r"clip range: must be LIMITS or NONE beside NONE",
    ),
    "no such table": (ActivationFunction.LUT_0, ClipRange.LIMITS, r"activation function: must be NONE for an OFM of int32"),
    "between tables": (ActivationFunction.LUT_2, ClipRange.FORCE_INT8, r"must be LUT_0 or a multiple of 4 slots behind it"),
}


@pytest.mark.parametrize("case", ACTIVATIONS)
def test_an_activation_that_registers_cannot_say_is_named(case: str) -> None:
    function, clip_range, message = ACTIVATIONS[case]
    target, operation = examples()["table of 32 bits"]
    assert isinstance(operation, KernelOperation)
    activation = replace(operation.activation, function=function, clip_range=clip_range)
    with pytest.raises(UserError, match=message):
        encode([replace(operation, activation=activation), Stop()], load_variant(target))


def test_a_resize_says_the_extent_of_its_ifm() -> None:
    target, operation = example(Resizing)
    (_, held), _ = read_registers(encode([operation, Stop()], load_variant(target)))
    assert held["NPU_SET_KERNEL_HEIGHT_M1"]["value"] == operation.ifm.height - 1
    assert held["NPU_SET_KERNEL_WIDTH_M1"]["value"] == operation.ifm.width - 1


def test_a_number_before_a_map_stands_in_the_registers_of_the_ifm() -> None:
    target, operation = example(Elementwise, "scalar", "True")
    (_, held), _ = read_registers(encode([operation, Stop()], load_variant(target)))
    assert held["NPU_SET_IFM_BROADCAST"]["scalar"] == 1
    assert held["NPU_SET_IFM2_BROADCAST"]["scalar"] == 0
    assert held["NPU_SET_IFM_PRECISION"]["storage"] == MapStorage.NONE
    assert held["NPU_SET_OP_SCALAR"]["value"] == operation.scalar
    assert "NPU_SET_IFM_BASE0" not in held
