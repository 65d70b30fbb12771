"""The rows of repeated runs: without those that need not run again, and with the depth slices of a convolution joined to one.

A compiler cuts a convolution where its weights do not fit their buffer. Once all weights are known (`sim.functional.repeats`)
the transfers between the slices do nothing that they read, so that the first may compute the channels of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace

import numpy as np
import numpy.typing as npt

from npu.isa.operations import Convolution, FeatureMap, Operation
from npu.records import dataclass
from sim.functional.kernels import rows as r
from sim.functional.packing import PackedRow, packed_bytes
from sim.functional.repeats import Places, Span
from sim.memory import brick_stride
from sim.undefined import overlaps_itself


@dataclass(slots=True, eq=False)
class RepeatedRows:
    """Rows of a stream for repeated runs on the memory that they were made for."""

    table: npt.NDArray[np.void]
    origins: list[int]
    """The operation that each row begins with, and after the last the number of operations: where to go on without the rows."""
    arrays: list[npt.NDArray[np.generic]] = field(default_factory=list)
    """What addresses in the rows point to."""
    run: Callable[[], int] = lambda: 0
    """Executes them, as `kernels.run.run` does."""


def join_rows(operations: Sequence[Operation], rows: Sequence[PackedRow], places: Places) -> RepeatedRows:
    """The rows that a repeated run needs, in order."""
    groups = list(_groups(operations, rows, places))
    arrays: list[npt.NDArray[np.generic]] = []
    content = bytearray().join(_row_of([rows[index] for index in group], arrays).tobytes() for group in groups)
    return RepeatedRows(np.frombuffer(content, r.ROW), [*(group[0] for group in groups), len(rows)], arrays)


def _groups(operations: Sequence[Operation], rows: Sequence[PackedRow], places: Places) -> Iterator[list[int]]:
    """Indices of the operations of each row."""
    joined: set[int] = set()
    for index, row in enumerate(rows):
        if index in joined or _is_left_out(row):
            continue
        group = [index, *_slices_after(index, operations, rows, places)]
        joined.update(group)
        yield group


def _is_left_out(row: PackedRow) -> bool:
    kind = row.numbers["kind"]
    return bool(kind == r.NOTHING or (kind == r.COPY and row.numbers["is_known"]))


def _slices_after(index: int, operations: Sequence[Operation], rows: Sequence[PackedRow], places: Places) -> Iterator[int]:
    """The operations that compute further channels of a convolution, with nothing in between that has to do with them."""
    first = operations[index]
    if not isinstance(first, Convolution) or rows[index].numbers["kind"] != r.CONVOLUTION or first.ofm.depth % 16:
        return
    ofm, inputs = first.ofm, places.of_map(first.ifm)
    written, used = places.of_map(ofm), list[Span]()
    for k in range(index + 1, len(operations)):
        operation, row = operations[k], rows[k]
        if _is_left_out(row):
            continue
        if row.numbers["kind"] == r.COPY:
            used += [*places.written(operation), *places.read(operation, with_constants=False)]
            written += places.written(operation)
            continue
        if not isinstance(operation, Convolution) or not _are_alike(first, rows[index], operation, row):
            return
        whole = _with_slice(ofm, operation.ofm)
        if whole is None or _touch(inputs, written) or _touch(places.of_map(operation.ofm), used):
            return
        yield k
        if whole.depth % 16:
            return
        ofm = whole
        written += places.of_map(operation.ofm)


def _are_alike(first: Convolution, row: PackedRow, other: Convolution, other_row: PackedRow) -> bool:
    """Whether two convolutions differ in their output channels alone."""
    names = ("kind", "is_known", "in_region", "segments", "dwords", "finish")
    if any(row.numbers[name] != other_row.numbers[name] for name in names):
        return False
    if not row.numbers["is_known"] or row.numbers["finish"] == r.SUM:
        return False
    return _but_channels(first) == _but_channels(other)


def _but_channels(operation: Convolution) -> tuple[object, ...]:
    return operation.ifm, operation.kernel, operation.padding, operation.upscale, operation.activation, operation.rounding


def _with_slice(ofm: FeatureMap, part: FeatureMap) -> FeatureMap | None:
    """The map of the channels of `ofm` and then of `part`; None if they are not neighbours in one."""
    distance, tiles = ofm.depth // 16 * brick_stride(ofm), (0,) if ofm.height <= ofm.tile_height_0 else (0, 2)
    if any(part.addresses[tile] - ofm.addresses[tile] != distance for tile in tiles):
        return None
    if replace(part, depth=ofm.depth, addresses=ofm.addresses) != ofm:
        return None
    whole = replace(ofm, depth=ofm.depth + part.depth)
    return None if overlaps_itself(whole) else whole


def _touch(some: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


def _row_of(slices: Sequence[PackedRow], arrays: list[npt.NDArray[np.generic]]) -> np.void:
    """One row for the slices of a convolution."""
    numbers: np.void = slices[0].numbers
    if len(slices) > 1:
        numbers = np.frombuffer(bytearray(numbers.tobytes()), r.ROW)[0]
        for name in ("weights", "stage"):
            arrays.append(np.frombuffer(b"".join([packed_bytes(row.numbers, name) for row in slices]), np.uint8))
            numbers[name] = arrays[-1].ctypes.data
        numbers["is_overwritten"] = any(row.numbers["is_overwritten"] for row in slices)
        numbers["blocks"], numbers["tail"] = sum(int(row.numbers["blocks"]) for row in slices), slices[-1].numbers["tail"]
    return numbers
