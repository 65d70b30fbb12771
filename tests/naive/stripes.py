"""Which rows the steps of a chain make for each stripe, and what rolling buffers hold, step by step and view by view."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from npu.compiler.allocate import round_up
from npu.compiler.ir import Step, Storage, View, WindowStep
from npu.compiler.kernels.stripes import MOST_AHEAD
from npu.compiler.layout import reads, views
from npu.compiler.stripes import RowRange, cut_rows, input_rows, seen_rows, stored_rows

_NONE = RowRange(0, 0)


def rolling_rows(
    chain: Sequence[Step], stripes: int, *, is_ahead: bool = False
) -> tuple[list[list[RowRange]], dict[Storage, int]] | None:
    """For every stripe the rows that each step makes, and how many a buffer of each map holds; None if there are fewer rows.

    `is_ahead`: those of stripes before the first one come first.
    """
    cut = cut_rows(chain, stripes)
    if cut is None:
        return None
    readers, done = _readers_within(chain), [0] * len(chain)
    made = _rows_ahead(chain, cut[0], done) if is_ahead else []
    made += _new_rows(chain, readers, cut, done)
    between = {step.ofm.storage for step in chain if step.ofm.storage is not chain[-1].ofm.storage}
    return [list(rows.values()) for rows in made], {storage: _rows_kept(chain, storage, made) for storage in between}


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
    return stored_rows(view, rows if view is step.ofm else input_rows(step, rows))


def _rows_ahead(chain: Sequence[Step], stripe: RowRange, done: list[int]) -> list[dict[int, RowRange]]:
    """For stripes before the first one what steps make, as if their maps had rows in front as well."""
    ends = [_ends(chain, stripe.start)]
    while any(ends[-1]) and len(ends) <= MOST_AHEAD:
        ends.append(_ends(chain, stripe.start - len(ends) * stripe.count))
    made = list[dict[int, RowRange]]()
    for own in reversed(ends[:-1]):
        made.append({position: RowRange(done[position], max(end, done[position])) for position, end in enumerate(own)})
        done[:] = [max(pair) for pair in zip(done, own, strict=True)]
    return made


def _ends(chain: Sequence[Step], end: int) -> list[int]:
    """Where the rows end that each step needs to have made for rows of the result up to an end in front of them."""
    needed, ends = {chain[-1].ofm.storage: end}, list[int]()
    for step in reversed(chain):
        first, apart = step.ofm.row_places or (0, 1)
        own = -((first - needed[step.ofm.storage]) // apart)
        if own > 0:
            own = _whole_pairs(step, RowRange(0, min(own, step.ofm.shape[0]))).end
        ends.insert(0, max(own, 0))
        if isinstance(step, WindowStep):
            kernel, top = step.kernel, step.padding.top
            own = -((top - (own - 1) * kernel.stride_y - kernel.dilated_height) // step.upscaling)
        for view in reads(step):
            row, far = view.row_places or (0, 1)
            last = row + (min(own, view.shape[0]) - 1) * far + 1
            needed[view.storage] = max(needed.get(view.storage, last), last)
    return ends


def _new_rows(
    chain: Sequence[Step], readers: Sequence[int], cut: Sequence[RowRange], done: list[int]
) -> Iterator[dict[int, RowRange]]:
    """For every stripe of the result's rows those that each step has to make for it, besides what it made before."""
    result = chain[-1].ofm.storage
    for rows in cut:
        needed: dict[Storage, RowRange] = {result: rows}
        new: dict[int, RowRange] = {}
        for position, step in reversed(list(enumerate(chain))):
            own = _whole_pairs(step, seen_rows(step.ofm, needed.get(step.ofm.storage, _NONE)))
            start = max(own.start, done[position]) if readers[position] == 1 else done[position]
            new[position] = RowRange(start, max(own.end, start))
            done[position] = max(done[position], own.end)
            if new[position].count:
                _need(needed, step, new[position])
        yield dict(sorted(new.items()))


def _whole_pairs(step: Step, rows: RowRange) -> RowRange:
    """Rows of a step's result; where it reads its input upscaled, more of them so that windows begin at rows of the input."""
    if not (isinstance(step, WindowStep) and step.upscaling > 1 and rows.count > 0):
        return rows
    before, after = ((row - step.padding.top) % step.upscaling for row in (rows.start, rows.end))
    return RowRange(max(rows.start - before, 0), min(rows.end + after, step.ofm.shape[0]))


def _need(needed: dict[Storage, RowRange], step: Step, rows: RowRange) -> None:
    """Add what a step reads for rows of its result."""
    for view in reads(step):
        own = _touched(step, view, rows)
        known = needed.get(view.storage, own)
        needed[view.storage] = RowRange(min(known.start, own.start), max(known.end, own.end))
