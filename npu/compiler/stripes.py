"""A chain of steps in stripes of rows: which rows every step makes for a stripe, and where they lie between the steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from npu.compiler.allocate import round_up
from npu.compiler.ir import ElementwiseStep, Step, Storage, View, WindowStep
from npu.compiler.kernels.stripes import STEP, all_rows
from npu.compiler.layout import reads, views
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


def in_stripes(chain: Sequence[Step], stripes: int, *, is_rolling: bool) -> tuple[Step, ...] | None:
    """A chain in stripes of the rows that it makes of its result; None if there are fewer rows.

    Rows that two stripes read are kept in rolling buffers, or else made twice: that only where the chain has no branches.
    """
    if is_rolling:
        return _roll(chain, stripes)
    cut = _cut(chain, stripes)
    return None if cut is None else tuple([step for own in cut for step in _stripe(chain, _seen(chain[-1].ofm, own))])


def _cut(chain: Sequence[Step], stripes: int) -> list[RowRange] | None:
    """The rows of the result in each stripe; None if there are fewer rows."""
    made = _rows_of_result(chain)
    if stripes > made.count:
        return None
    rows = -(-made.count // stripes)
    return [RowRange(start, min(start + rows, made.end)) for start in range(made.start, made.end, rows)]


_FEW = 4
"""Stripes that are looked at for what rolling buffers hold: all behind them are alike but the last."""
_MIDDLE = 4
"""Stripes from which on the second has neighbours, and lies in the first half."""


def least_between(chain: Sequence[Step], stripes: int, *, is_rolling: bool) -> tuple[int, bool] | None:
    """Bytes of maps between the steps that a stripe needs at once at least, and whether a part of the result is made by then.

    None if there are fewer rows. Rolling buffers are live when the second stripe begins, if anything is read of them later.
    """
    cut = _cut(chain, stripes)
    if cut is None:
        return None
    if is_rolling:
        return _rolling_bytes(chain, cut), True
    has_result = len(cut) >= _MIDDLE
    rows = _rows_made(chain, _seen(chain[-1].ofm, cut[int(has_result)]))
    made = [0, *(_bytes_of(step.ofm.storage, own.count) for step, own in zip(chain[:-1], rows, strict=False))]
    taken = [0 if isinstance(step, ElementwiseStep) else own for step, own in zip(chain[:-1], made, strict=False)]
    return max(map(sum, zip(taken, made[1:], strict=False))), has_result


def _rolling_bytes(chain: Sequence[Step], cut: Sequence[RowRange]) -> int:
    """Those of the first few stripes: the others need no more, or it is not known."""
    made, result = list(_new_rows(chain, _readers_within(chain), cut[:_FEW])), chain[-1].ofm.storage
    later = [step for number, step in enumerate(chain) if any(stripe[number].count for stripe in made[1:])]
    read = dict.fromkeys(view.storage for step in later for view in reads(step))
    between = {step.ofm.storage for step in chain if step.ofm.storage is not result}
    return sum(_bytes_of(storage, _rows_kept(chain, storage, made)) for storage in read if storage in between)


def _bytes_of(storage: Storage, rows: int) -> int:
    """Bytes of rows of a map without padding."""
    return rows * (storage.bytes // storage.shape[0])


def _rows_of_result(chain: Sequence[Step]) -> RowRange:
    """Rows of what the last step writes that the steps of a chain make."""
    views = [step.ofm for step in chain if step.ofm.storage is chain[-1].ofm.storage]
    rows = [_stored(view, RowRange(0, view.shape[0])) for view in views]
    return RowRange(min(own.start for own in rows), max(own.end for own in rows))


def _stored(view: View, rows: RowRange) -> RowRange:
    """The rows of the storage, from the first to the last, that rows of a view are."""
    first, apart = view.row_places or (0, 1)
    return RowRange(first + rows.start * apart, first + (rows.end - 1) * apart + 1)


def _seen(view: View, rows: RowRange) -> RowRange:
    """The rows of a view that are among rows of the storage."""
    first, apart = view.row_places or (0, 1)
    start, end = (min(max(-((first - row) // apart), 0), view.shape[0]) for row in (rows.start, rows.end))
    return RowRange(start, max(start, end))


def reads_rows_later(chain: Sequence[Step]) -> bool:
    """Whether every step of a line has rows to make for the second half of the last one's, besides those for the first."""
    made = _rows_of_result(chain)
    halves = [RowRange(made.start, made.start - (-made.count // 2)), made]
    _, second = _new_rows(chain, _readers_within(chain), halves)
    return all(rows.count for rows in second.values())


class RollingRows:
    """Which rows the steps of a chain make for each stripe where rows are kept in rolling buffers: every row is made once."""

    def __init__(self, chain: Sequence[Step]) -> None:
        tables = StepTables(chain)
        self._chain, self._steps = chain, np.array([tables.row(step) for step in chain], STEP)
        self._maps, self._rows = tables.map_rows(), np.zeros((len(chain), 5), np.int64)

    def cut(self, count: int) -> tuple[Ints, Mapping[Storage, Storage]] | None:
        """For every stripe the first row and the end of what each step makes, and the buffers in place of maps.

        None if the chain has fewer rows.
        """
        made = np.empty((count, len(self._chain), 2), np.int64)
        stripes = all_rows(self._steps, self._maps, count, self._rows, made)
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


def _roll(chain: Sequence[Step], stripes: int) -> tuple[Step, ...] | None:
    """A chain in stripes of its result, whose maps in between are rolling buffers."""
    cut = RollingRows(chain).cut(stripes)
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


def _readers_within(chain: Sequence[Step]) -> list[int]:
    """For every step of a chain how many read what it writes."""
    read = [view.storage for step in chain for view in {id(view.storage): view for view in reads(step)}.values()]
    return [sum(storage is step.ofm.storage for storage in read) for step in chain]


def _rows_kept(chain: Sequence[Step], storage: Storage, stripes: Sequence[Mapping[int, RowRange]]) -> int:
    """Rows that a rolling buffer holds: from the first that a stripe makes or needs to the last that was made until then."""
    uses = [(number, step, view) for number, step in enumerate(chain) for view in views(step) if view.storage is storage]
    end = most = 0
    for stripe in stripes:
        own = [(view is step.ofm, _touched(step, view, stripe[number])) for number, step, view in uses if stripe[number].count]
        end = max([end, *(rows.end for is_made, rows in own if is_made)])
        most = max([most, *(end - rows.start for _, rows in own)])
    return min(round_up(most, math.lcm(*((view.row_places or (0, 1))[1] for _, _, view in uses))), storage.shape[0])


def _touched(step: Step, view: View, rows: RowRange) -> RowRange:
    """The rows of a view's storage that a step uses for some of its rows."""
    return _stored(view, rows if view is step.ofm else input_rows(step, rows))


def _new_rows(chain: Sequence[Step], readers: Sequence[int], cut: Sequence[RowRange]) -> Iterator[dict[int, RowRange]]:
    """For every stripe of the result's rows those that each step has to make for it, besides what it made before."""
    done, result = [0] * len(chain), chain[-1].ofm.storage
    for rows in cut:
        needed: dict[Storage, RowRange] = {result: rows}
        new: dict[int, RowRange] = {}
        for position, step in reversed(list(enumerate(chain))):
            own = _whole_pairs(step, _seen(step.ofm, needed.get(step.ofm.storage, _NONE)))
            start = max(own.start, done[position]) if readers[position] == 1 else done[position]
            new[position] = RowRange(start, max(own.end, start))
            done[position] = max(done[position], own.end)
            if new[position].count:
                _need(needed, step, new[position])
        yield dict(sorted(new.items()))


def _whole_pairs(step: Step, rows: RowRange) -> RowRange:
    """Rows of a step's result; where it reads its input upscaled, more of them so that windows begin at rows of the input."""
    if not (isinstance(step, WindowStep) and step.upscaling > 1):
        return rows
    before, after = ((row - step.padding.top) % step.upscaling for row in (rows.start, rows.end))
    return RowRange(max(rows.start - before, 0), min(rows.end + after, step.ofm.shape[0]))


def _need(needed: dict[Storage, RowRange], step: Step, rows: RowRange) -> None:
    """Add what a step reads for rows of its result."""
    for view in reads(step):
        own = _touched(step, view, rows)
        known = needed.get(view.storage, own)
        needed[view.storage] = RowRange(min(known.start, own.start), max(known.end, own.end))


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
    row, shape = _stored(view, rows).start % height, (rows.count, *view.shape[1:])
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
    offset, shape = (view.offset[0] + rows.start, *view.offset[1:]), (rows.end - rows.start, *view.shape[1:])
    return View(view.storage, view.full, offset, shape, view.element, view.zero_point, view.pitch)
