"""How operations are executed: which kernels, with what prepared constants. The tiers give identical bytes."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum

import numpy as np
import numpy.typing as npt

from npu.errors import SimulationError, StreamError
from npu.isa.decoded import Alike, Decoded
from npu.isa.operations import Convolution, DepthwiseConvolution, Elementwise, Operation, Pooling
from npu.memo import LazySequence
from npu.native.cpu import current
from npu.numerics.arrays import Ints
from npu.records import dataclass
from sim.functional import execute
from sim.functional.fast import make_row
from sim.functional.fixed_point import use_fixed_point
from sim.functional.joined import RepeatedRows, join_rows
from sim.functional.kernels import rows as r
from sim.functional.kernels.run import run, run_many
from sim.functional.kernels.values import NUMBERS, zeroed
from sim.functional.origins import constant_origins
from sim.functional.packing import PackedRow, PlannedRow, make_table, pack_constants, pack_streams
from sim.functional.plans import move_rows, shared_plans
from sim.functional.repeats import Places, mark_repeats
from sim.functional.threads import StreamThreads
from sim.functional.weights import ConstantBytes, DecodedConstants, decode_constants, source_ranges
from sim.memory import NpuMemory

_RUNS_BEFORE = 2
"""Whole runs on a memory before it pays to find out what the next ones need not repeat."""


_PACKED_AHEAD_BYTES = 1 << 28
"""Of weights: a malformed stream may claim to have any number."""


class Tier(Enum):
    """Sets of kernels, fastest first: 8-bit dot-product instructions, vectors of any CPU, general 64-bit loops."""

    DOT_PRODUCT = "dot product"
    PORTABLE = "portable"
    GENERAL = "general"


@dataclass(slots=True, eq=False)
class PreparedOperation:
    """One operation with what was prepared for it."""

    decoded: Decoded
    row: PackedRow
    numbers: np.void | None = None
    constants: DecodedConstants | None = None
    source: Sequence[npt.NDArray[np.uint8]] = ()
    uncommon: Sequence[npt.NDArray[np.uint8]] = ()
    """Bytes of its constants that `pack_streams` has left to `pack_constants`."""

    @property
    def operation(self) -> Operation:
        return self.decoded.operation


@dataclass(slots=True, eq=False)
class PreparedStream:
    """A sequence of operations for memories of one shape."""

    alike: Alike
    operations: Sequence[PreparedOperation]
    planned: Sequence[PlannedRow]
    plans: Ints
    """Of each operation the one of these."""
    rows: npt.NDArray[np.void]
    """`rows.ROW` of each operation, what the kernels see."""
    sums: npt.NDArray[np.uint8]
    """What rows with SUM use one after the other."""
    tier: Tier
    is_packed: bool
    """Whether nothing is left to be packed before its time."""
    kept: Sequence[npt.NDArray[np.generic]] = ()
    """What rows that were packed ahead point to."""
    memory: weakref.ref[NpuMemory] | None = None
    """On which the last runs were."""
    whole_runs: int = 0
    """How many, from the first operation to the last."""
    repeated: RepeatedRows | None = None
    """What the next one needs of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """What many runs take from tensors and put into others.

    `inputs` and `outputs` are (tensors, 2): addresses in memory and bytes; `addresses` of the tensors of each run are (runs,
    inputs) and (runs, outputs). All int64.
    """

    inputs: Ints
    outputs: Ints
    addresses: tuple[Ints, Ints]


def best_tier() -> Tier:
    """The fastest tier that this CPU has kernels for."""
    return Tier.DOT_PRODUCT if current().has_dot_product else Tier.PORTABLE


def prepare_stream(alike: Alike, memory: NpuMemory, tier: Tier) -> PreparedStream:
    """Check operations against a memory's shape and prepare them. Raises SimulationError and StreamError."""
    firsts, plans = shared_plans(alike, memory)
    planned = [_plan(alike.decoded[index], memory, tier) for index in firsts.tolist()]
    own = make_table(planned)
    sums = np.empty(max((one.sums_bytes for one in planned), default=0), np.uint8)
    own["sums"][[one.sums_bytes > 0 for one in planned]] = sums.ctypes.data
    contents = own.view(np.uint8).reshape(own.size, r.ROW_BYTES)  # of which rows are taken ten times as fast
    table = contents[plans].reshape(-1).view(r.ROW)
    move_rows(table, alike.places, firsts[plans])

    def prepared(index: int) -> PreparedOperation:
        return PreparedOperation(alike.decoded[index], PackedRow(planned[plans[index]], table[index]))

    operations = LazySequence(plans.size, prepared)
    return PreparedStream(alike, operations, planned, plans, table, sums, tier, is_packed=tier is Tier.GENERAL)


def _plan(decoded: Decoded, memory: NpuMemory, tier: Tier) -> PlannedRow:
    """Check and plan an operation."""
    try:
        execute.check(decoded.operation, memory)
        return PlannedRow() if tier is Tier.GENERAL else make_row(decoded.operation, memory)
    except (SimulationError, StreamError) as error:
        raise error.at(describe(decoded), command=decoded.command_index) from error


def describe(decoded: Decoded) -> str:
    """Where an operation stands and what it is, for messages."""
    return f"{decoded.place} ({type(decoded.operation).__name__})"


def run_prepared(
    stream: PreparedStream, memory: NpuMemory, first: int = 0, last: int | None = None, threads: StreamThreads | None = None
) -> None:
    """Execute operations first..last-1 (all by default) on a memory of the shape they were made for.

    `threads` share the work of whole runs as soon as nothing has to be prepared for them.
    """
    end = len(stream.operations) if last is None else last
    is_whole = first == 0 and end == len(stream.operations)
    if not is_whole or stream.memory is None or stream.memory() is not memory:
        stream.memory, stream.whole_runs, stream.repeated = weakref.ref(memory), 0, None
    is_repeated, index = stream.repeated is not None, first
    if stream.repeated is not None:
        index = _repeat(stream, stream.repeated)
        if index == end:
            return
    if not stream.is_packed:
        _pack_ahead(stream, memory, 1 if threads is None else threads.count)
    rows = stream.rows if is_whole else stream.rows[:end]
    while index < end:
        if stream.tier is not Tier.GENERAL:
            index = run(rows, memory.bases, index, stream.tier is Tier.DOT_PRODUCT, is_repeated)
            if index == end:
                break
        index += _run_general(stream, index, memory)
    if is_whole:
        _count_run(stream, memory, threads)


def run_again(stream: PreparedStream, memory: NpuMemory, moved: Moved) -> int:
    """Whole runs in one call, each from inputs to outputs of its own; how many, from the first on, needed nothing else.

    None before `run_prepared` has found out what repeated runs on the memory need.
    """
    repeated = stream.repeated
    if repeated is None or stream.memory is None or stream.memory() is not memory or r.GENERAL in repeated.table["kind"]:
        return 0
    is_dot_product = stream.tier is Tier.DOT_PRODUCT
    done: int = run_many(repeated.table, memory.bases, is_dot_product, moved.inputs, moved.outputs, *moved.addresses)
    return done


def _pack_ahead(stream: PreparedStream, memory: NpuMemory, num_threads: int) -> None:
    """Pack the constants of all operations together. What is malformed is left to the operation that meets it."""
    stream.is_packed, room, own = True, _PACKED_AHEAD_BYTES, list[int]()
    forms = {plan: form for plan, one in enumerate(stream.planned) if (form := one.form) and form.weights_bytes <= room}
    for index, plan in enumerate(stream.plans.tolist()):
        if plan in forms and forms[plan].weights_bytes <= room:
            own.append(index)
            room -= forms[plan].weights_bytes
    if not own:
        return
    of = np.searchsorted(list(forms), stream.plans[own])
    constants = constant_origins(stream.alike, memory, np.array(own))
    with suppress(SimulationError):
        stream.kept = pack_streams(list(forms.values()), of, constants, stream.rows, memory.variant.accelerator, num_threads)
        for index in constants.operations[stream.rows["kind"][own] == r.GENERAL].tolist():
            stream.operations[index].uncommon = constants.source(index)


def _repeat(stream: PreparedStream, repeated: RepeatedRows) -> int:
    """Execute what a repeated run needs; the operation to go on with, whose constants have changed, or their number."""
    index = repeated.origins[repeated.run()]
    if index < len(stream.operations) and repeated.table is not stream.rows:
        stream.whole_runs, stream.repeated = -1, None  # its rows hold addresses of those constants
    return index


def _count_run(stream: PreparedStream, memory: NpuMemory, threads: StreamThreads | None) -> None:
    stream.whole_runs += 1
    if stream.whole_runs != _RUNS_BEFORE or stream.tier is Tier.GENERAL:
        return
    for row in {id(prepared.row.planned): prepared.row for prepared in stream.operations}.values():
        if row.planned.kind == r.ELEMENTWISE:
            use_fixed_point(row)
    operations, places = [prepared.operation for prepared in stream.operations], Places(memory)
    mark_repeats(operations, stream.rows, places)
    if (stream.rows["kind"] == r.GENERAL).any():
        stream.repeated = RepeatedRows(stream.rows, list(range(len(operations) + 1)))
    else:
        stream.repeated = join_rows(operations, [prepared.row for prepared in stream.operations], places)
    table, with_dot_product = stream.repeated.table, stream.tier is Tier.DOT_PRODUCT
    shared = threads.prepared(table, memory.bases, with_dot_product=with_dot_product) if threads is not None else None
    stream.repeated.run = shared or run.bind(table, memory.bases, 0, with_dot_product, True)


def _run_general(stream: PreparedStream, index: int, memory: NpuMemory) -> int:
    """Execute one operation that the fast kernels left, or prepare it for them; how many operations are done (0 or 1)."""
    prepared = stream.operations[index]
    operation = prepared.operation
    if not isinstance(operation, Convolution | DepthwiseConvolution) or not operation.weights:
        if prepared.numbers is None and isinstance(operation, Pooling | Elementwise) and operation.options is None:
            prepared.numbers = execute.prepare(operation, memory.arithmetic, zeroed(NUMBERS)[0])
        execute.execute_checked(operation, memory, prepared.numbers)
        return 1
    try:
        if _pack(stream, index, operation, memory):
            return 0
        if prepared.constants is None:
            prepared.constants = decode_constants(operation, memory)
    except SimulationError as error:
        raise error.at(describe(prepared.decoded), command=prepared.decoded.command_index) from error
    execute.execute_convolution(operation, prepared.constants, memory)
    return 1


def _are_equal(one: Sequence[npt.NDArray[np.uint8]], other: Sequence[npt.NDArray[np.uint8]]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def _pack(stream: PreparedStream, index: int, operation: Convolution | DepthwiseConvolution, memory: NpuMemory) -> bool:
    """Pack the constants that are in memory now, if they have changed; whether the fast kernels take the operation then."""
    prepared = stream.operations[index]
    views = [memory.view(part.region, part.address, part.length_bytes) for part in source_ranges(operation)]
    if _are_equal(views, prepared.source):
        return False
    row, prepared.constants, prepared.source = prepared.row, None, [view.copy() for view in views]
    row.kept.clear()
    stream.rows["kind"][index], stream.rows["checks"][index] = r.GENERAL, 0
    constants, form = ConstantBytes.of(index, source_ranges(operation), prepared.source), row.planned.form
    if form is not None and not _are_equal(views, prepared.uncommon):
        row.kept += pack_streams([form], np.array([0]), constants, stream.rows, memory.variant.accelerator)
    if row.planned.kind != r.GENERAL and row.numbers["kind"] == r.GENERAL:
        prepared.constants = decode_constants(operation, memory)
        pack_constants(row, operation, prepared.constants, constants, stream.rows)
    return bool(row.numbers["kind"] != r.GENERAL)
