"""What a compiled file of any compiler does, piece by piece, and which piece reads what which other one has written.

A piece is an operator on the CPU, or operations of a command stream that belong together (`npu.reports.stream_operators`).
Who has written a byte is followed through the arena, byte by byte: names of feature maps are not needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.graph.ethos_u import Input, Region, is_npu_job
from npu.isa.decoded import Decoded
from npu.isa.operations import AddressRange, Dma, FeatureMap, KernelOperation, Layout, WeightedOperation
from npu.layouts import BRICK_DEPTH
from npu.records import dataclass
from npu.reports.stream_operators import Staged, operators_of_stream, origin_of, stage
from sim.container import CompiledFile, NpuJob, Place
from sim.memory import feature_map_ranges, tile_rectangles

MAX_REGION_BYTES = 1 << 28
"""Largest region whose bytes are followed."""
_NOBODY = -1


@dataclass(slots=True)
class Piece:
    """A CPU operator or an operator of a stream: `operator` of the compiled graph, on the NPU the `positions` in its stream.

    `reads` are the numbers of the pieces whose results it reads, and ~k for input k of the model. `tensors` are the tensors of
    the compiled graph that it writes, in whole or in part. `weights` is where the weights of its operations come from.
    """

    operator: int
    type: str
    shape: str
    macs: int
    positions: tuple[int, ...] = ()
    operations: list[KernelOperation] = field(default_factory=list)
    weights: list[tuple[WeightedOperation, tuple[AddressRange, ...]]] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    tensors: set[int] = field(default_factory=set)

    @property
    def is_on_npu(self) -> bool:
        return bool(self.operations)

    @property
    def elements(self) -> int:
        """Elements that its operations write: those of the output if nothing is computed twice."""
        places = {(op.ofm.region, op.ofm.addresses, op.ofm.height, op.ofm.width, op.ofm.depth) for op in self.operations}
        return sum(height * width * depth for _, _, height, width, depth in places)


def pieces_of(file: CompiledFile) -> list[Piece]:
    """The pieces of the main subgraph of a compiled file, in the order in which they run."""
    graph = file.model.graphs[0]
    pieces: list[Piece] = []
    makers: dict[int, set[int]] = {index: {~position} for position, index in enumerate(graph.inputs)}
    memory = _Writers()
    for index, op in enumerate(graph.ops):
        if is_npu_job(op):
            is_one = op.inputs[Input.SCRATCH] == op.inputs[Input.FAST_SCRATCH]
            memory.start(file.job(0, index), makers, is_one=is_one)
            _add_job(pieces, file.operations(0, index), index, memory)
            memory.finish(file.job(0, index), makers, pieces)
        else:
            reads = set().union(*(makers.get(tensor, set()) for tensor in op.inputs))
            makers.update({tensor: {len(pieces)} for tensor in op.outputs})
            pieces.append(Piece(index, op.name, "", 0, reads=reads, tensors=set(op.outputs)))
    return pieces


def _add_job(pieces: list[Piece], decoded: tuple[Decoded, ...], index: int, memory: _Writers) -> None:
    """Append the pieces of one job; the operations of the stream tell what each reads and writes."""
    rows, owners = operators_of_stream(decoded)
    first = len(pieces)
    positions = [tuple(np.flatnonzero(np.array(owners) == row).tolist()) for row in range(len(rows))]
    pieces += [Piece(index, row.type, row.shape, row.macs, places) for row, places in zip(rows, positions, strict=True)]
    staged: Staged = {}
    for started, owner in zip(decoded, owners, strict=True):
        operation = started.operation
        if isinstance(operation, Dma):
            stage(operation, staged)
            memory.copy(operation)
        elif isinstance(operation, KernelOperation):
            piece = pieces[first + owner]
            piece.operations.append(operation)
            if isinstance(operation, WeightedOperation) and operation.weights:
                piece.weights.append((operation, tuple(_origin(part, staged) for part in operation.weights)))
            for fm in operation.ifms_in_memory:
                piece.reads |= memory.writers(fm) - {first + owner}
            if (stored := operation.stored_ofm) is not None:
                memory.write(stored, first + owner)


def _origin(part: AddressRange, staged: Staged) -> AddressRange:
    region, address = origin_of(part, staged)
    return AddressRange(region, address, part.length_bytes)


class _Writers:
    """The number of the piece that has written each byte of each region."""

    def __init__(self) -> None:
        self._regions: dict[int, NDArray[np.int32]] = {}
        self._given: list[set[int]] = []
        """What stands for an input of a job while it runs: entry k is written as -2 - k."""
        self._fast: int = Region.FAST

    def start(self, job: NpuJob, makers: dict[int, set[int]], *, is_one: bool) -> None:
        """Make room for the regions of a job, and put its inputs there."""
        self._fast = Region.ARENA if is_one else Region.FAST
        for region, size in job.region_bytes.items():
            if size > MAX_REGION_BYTES:
                raise StreamError(f"region {region}: must have at most {MAX_REGION_BYTES} bytes to be followed, got {size}")
            if region != Region.CONSTANTS and len(self._regions.get(region, ())) < size:
                grown = np.full(size, _NOBODY, np.int32)
                grown[: len(self._regions.get(region, ()))] = self._regions.get(region, ())
                self._regions[region] = grown
        for given in job.inputs:
            if given.index in makers:
                self._bytes(given.place)[:] = -2 - len(self._given)
                self._given.append(makers[given.index])

    def finish(self, job: NpuJob, makers: dict[int, set[int]], pieces: list[Piece]) -> None:
        """Say who has made the outputs of a job."""
        for made in job.outputs:
            makers[made.index] = self._who(self._bytes(made.place))
            for number in makers[made.index]:
                if number >= 0:
                    pieces[number].tensors.add(made.index)

    def writers(self, fm: FeatureMap) -> set[int]:
        """The pieces that have written a feature map."""
        return set().union(*(self._who(view) for view in self._views(fm)))

    def write(self, fm: FeatureMap, piece: int) -> None:
        """Remember the writer of a feature map."""
        for view in self._views(fm):
            view[...] = piece

    def copy(self, transfer: Dma) -> None:
        """What is copied has been written by those who wrote the original."""
        source, target = transfer.source, transfer.destination
        size = transfer.length_bytes * transfer.rows * transfer.planes
        origin = self._bytes((source.region, source.address, source.address + size)) if source.region else None
        if target.region and origin is not None:
            room = self._bytes((target.region, target.address, target.address + size))
            room[: len(origin)] = origin[: len(room)]

    def _bytes(self, place: Place) -> NDArray[np.int32]:
        region, start, end = place
        held = self._regions.get(self._fast if region == Region.FAST else region)
        return np.empty(0, np.int32) if held is None else held[max(start, 0) : max(end, 0)]

    def _who(self, view: NDArray[np.int32]) -> set[int]:
        """The pieces and model inputs behind the numbers of a view."""
        if not view.size:
            return set()
        lowest = int(view.min())
        numbers = (np.flatnonzero(np.bincount(view.ravel() - lowest)) + lowest).tolist()
        given = set().union(*(self._given[-2 - number] for number in numbers if number <= -2))
        return given | {number for number in numbers if number >= 0}

    def _views(self, fm: FeatureMap) -> Iterator[NDArray[np.int32]]:
        """The bytes of a feature map, tile by tile, as arrays of their extents; nothing of a map that lies outside."""
        held = self._bytes((fm.region, 0, MAX_REGION_BYTES))
        if all(start >= 0 and end <= len(held) for start, end in feature_map_ranges(fm)):
            for tile, _, rows, _, columns in tile_rectangles(fm):
                for start, groups, run in _runs(fm):
                    extents, steps = (rows, columns, groups, run), (fm.stride_y, fm.steps[1], fm.stride_c, 1)
                    apart = tuple(step * held.itemsize for step in steps)
                    yield as_strided(held[fm.addresses[tile] + start :], extents, apart)


def _runs(fm: FeatureMap) -> Iterator[tuple[int, int, int]]:
    """(first byte, groups of channels, bytes of a group) of a pixel: all channels, or bricks; the last may be short."""
    if fm.layout is Layout.NHWC:
        yield 0, 1, fm.depth * fm.element.bytes
        return
    full, rest = divmod(fm.depth, BRICK_DEPTH)
    if full:
        yield 0, full, BRICK_DEPTH * fm.element.bytes
    if rest:
        yield full * fm.stride_c, 1, rest * fm.element.bytes
