"""A chain of steps in stripes of rows: which rows every step makes for a stripe, and where they lie between the steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

import numpy as np

from npu.compiler.ir import ElementwiseStep, Step, Storage, View, WindowStep
from npu.compiler.kernels.stripes import KEPT, KEPT_AHEAD, MADE_AGAIN, MOST_AHEAD, STEP, all_rows
from npu.compiler.step_rows import StepTables
from npu.numerics.arrays import Ints
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows [start, end) of a map."""

    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


_NONE = RowRange(0, 0)


class Overlap(IntEnum):
    """What becomes of rows that two stripes read.

    They are made again, which only chains without branches allow. Or rolling buffers keep them: the first stripe needs most
    rows of every map, and a buffer has room for that; unless the steps come ahead of it, a stripe's rows at a time.
    """

    MADE_AGAIN = MADE_AGAIN
    KEPT = KEPT
    KEPT_AHEAD = KEPT_AHEAD


def in_stripes(chain: Sequence[Step], stripes: int, overlap: Overlap) -> tuple[Step, ...] | None:
    """A chain in stripes of the rows that it makes of its result; None if there are fewer rows."""
    if overlap is not Overlap.MADE_AGAIN:
        return _roll(chain, stripes, overlap)
    cut = cut_rows(chain, stripes)
    return None if cut is None else tuple([step for own in cut for step in _stripe(chain, seen_rows(chain[-1].ofm, own))])


def cut_rows(chain: Sequence[Step], stripes: int) -> list[RowRange] | None:
    """The rows of the result in each stripe; None if there are fewer rows."""
    made = _rows_of_result(chain)
    if stripes > made.count:
        return None
    rows = -(-made.count // stripes)
    return [RowRange(start, min(start + rows, made.end)) for start in range(made.start, made.end, rows)]


def _rows_of_result(chain: Sequence[Step]) -> RowRange:
    """Rows of what the last step writes that the steps of a chain make."""
    views = [step.ofm for step in chain if step.ofm.storage is chain[-1].ofm.storage]
    rows = [stored_rows(view, RowRange(0, view.shape[0])) for view in views]
    return RowRange(min(own.start for own in rows), max(own.end for own in rows))


def stored_rows(view: View, rows: RowRange) -> RowRange:
    """The rows of the storage, from the first to the last, that rows of a view are."""
    first, apart = view.row_places or (0, 1)
    return RowRange(first + rows.start * apart, first + (rows.end - 1) * apart + 1)


def seen_rows(view: View, rows: RowRange) -> RowRange:
    """The rows of a view that are among rows of the storage."""
    first, apart = view.row_places or (0, 1)
    start, end = (min(max(-((first - row) // apart), 0), view.shape[0]) for row in (rows.start, rows.end))
    return RowRange(start, max(start, end))


class RollingRows:
    """Which rows the steps of a chain make for each stripe where rows are kept in rolling buffers: every row is made once."""

    def __init__(self, chain: Sequence[Step]) -> None:
        tables = StepTables(chain)
        self._chain, self._steps = chain, np.array([tables.row(step) for step in chain], STEP)
        self._maps, self._rows = tables.map_rows(), np.zeros((len(chain), 5), np.int64)

    def cut(self, count: int, overlap: Overlap) -> tuple[Ints, Mapping[Storage, Storage]] | None:
        """For every stripe the first row and the end of what each step makes, and the buffers in place of maps.

        None if the chain has fewer rows.
        """
        made = np.empty((count + MOST_AHEAD, len(self._chain), 2), np.int64)
        stripes = all_rows(self._steps, self._maps, count, int(overlap), self._rows, made)
        if not stripes:
            return None
        heights, result = self._rows[:, 4].tolist(), self._chain[-1].ofm.storage
        kept = {step.ofm.storage: rows for step, rows in zip(self._chain, heights, strict=True)}
        buffers = {
            old: Storage(f"{old.name} rolling", (rows, *old.shape[1:]), old.element, is_rolling=True)
            for old, rows in kept.items()
            if old is not result
        }
        return made[:stripes], buffers


def _roll(chain: Sequence[Step], stripes: int, overlap: Overlap) -> tuple[Step, ...] | None:
    """A chain in stripes of its result, whose maps in between are rolling buffers."""
    cut = RollingRows(chain).cut(stripes, overlap)
    if cut is None:
        return None
    made, buffers = cut
    return tuple(
        [
            _rolling_part(step, RowRange(start, end), buffers)
            for stripe in made.tolist()
            for step, (start, end) in zip(chain, stripe, strict=True)
            if end > start
        ]
    )


def _rolling_part(step: Step, rows: RowRange, buffers: Mapping[Storage, Storage]) -> Step:
    """Rows of a step of the chain, read from and written to rolling buffers."""
    needed = input_rows(step, rows)

    def input_of(view: View) -> View:
        return _in_buffer(view, buffers[view.storage], needed) if view.storage in buffers else _operand(step, view, needed)

    kept = buffers.get(step.ofm.storage)
    return _rows_of(step, rows, _crop(step.ofm, rows) if kept is None else _in_buffer(step.ofm, kept, rows), input_of)


def _in_buffer(view: View, buffer: Storage, rows: RowRange) -> View:
    """Rows of a map that is in a rolling buffer."""
    height, width, depth = buffer.shape
    row, shape = stored_rows(view, rows).start % height, (rows.count, *view.shape[1:])
    offset = (row, *view.offset[1:]) if view.pitch is None else (0, 0, view.offset[2] % (width * depth) + row * width * depth)
    return View(buffer, buffer.shape, offset, shape, view.element, view.zero_point, view.pitch)  # `replace` takes twice as long


def _stripe(chain: Sequence[Step], rows: RowRange) -> list[Step]:
    """The part of a chain that makes `rows` of its OFM, with maps of its own in between."""
    made = _rows_made(chain, rows)
    steps: list[Step] = []
    between: Storage | None = None
    for position, step in enumerate(chain):
        own = made[position]
        ofm = _crop(step.ofm, own)
        if position < len(chain) - 1:
            old = step.ofm.storage
            new = Storage(f"{old.name} rows {own.start}", (own.end - own.start, *old.shape[1:]), old.element)
            ofm = replace(View.whole(new, step.ofm.zero_point), element=step.ofm.element)
        else:
            new = step.ofm.storage
        steps.append(_part(step, own, ofm, chain[position - 1].ofm.storage if position else None, between))
        between = new
    return steps


def _rows_made(chain: Sequence[Step], rows: RowRange) -> list[RowRange]:
    """Rows that every step of a line makes for `rows` of the last one's, if none are kept."""
    made = [rows]
    for step in reversed(chain[1:]):
        made.insert(0, input_rows(step, made[0]))
    return made


def _part(step: Step, rows: RowRange, ofm: View, replaced: Storage | None, between: Storage | None) -> Step:
    """`rows` of a step's result, written to `ofm`; views of the storage `replaced` become views of all of `between`."""
    needed = input_rows(step, rows)

    def input_of(view: View) -> View:
        if between is not None and view.storage is replaced:
            return replace(view, storage=between, full=between.shape, shape=(between.shape[0], *view.shape[1:]))
        return _operand(step, view, needed)

    return _rows_of(step, rows, ofm, input_of)


def _operand(step: Step, view: View, needed: RowRange) -> View:
    """The rows of an input that are needed; one row that is broadcast stays what it is."""
    return view if view.shape[0] == 1 and isinstance(step, ElementwiseStep) else _crop(view, needed)


def _rows_of(step: Step, rows: RowRange, ofm: View, input_of: Callable[[View], View]) -> Step:
    """`rows` of a step's result, written to `ofm`, from what `input_of` makes of its inputs."""
    if isinstance(step, ElementwiseStep):
        ifm2 = None if step.ifm2 is None else input_of(step.ifm2)
        return replace(step, ifm=input_of(step.ifm), ifm2=ifm2, ofm=ofm)
    assert isinstance(step, WindowStep)
    start, end = _window(step, rows)
    top, bottom, padding = max(0, -start), max(0, end - step.ifm.shape[0] * step.upscaling), step.padding
    if (top, bottom) != (padding.top, padding.bottom):
        padding = replace(padding, top=top, bottom=bottom)
    return replace(step, ifm=input_of(step.ifm), ofm=ofm, padding=padding)


def input_rows(step: Step, rows: RowRange) -> RowRange:
    """Rows of the IFM that `rows` of the OFM are computed from."""
    if not isinstance(step, WindowStep):
        return rows
    start, end = _window(step, rows)
    return RowRange(max(start // step.upscaling, 0), min(-(-end // step.upscaling), step.ifm.shape[0]))


def _window(step: WindowStep, rows: RowRange) -> tuple[int, int]:
    kernel, top = step.kernel, step.padding.top
    return rows.start * kernel.stride_y - top, (rows.end - 1) * kernel.stride_y - top + kernel.dilated_height


def _crop(view: View, rows: RowRange) -> View:
    """Rows of a view; those of a rolling buffer, which an earlier cascade made, go on at its first row."""
    if view.storage.is_rolling:
        return _in_buffer(view, view.storage, rows)
    (y, x, start), shape = view.offset, (rows.end - rows.start, *view.shape[1:])
    offset = (y + rows.start, x, start) if view.pitch is None else (y, x, start + rows.start * view.pitch[0])
    return View(view.storage, view.full, offset, shape, view.element, view.zero_point, view.pitch)
