"""A chain of steps in stripes of rows: which rows every step makes for a stripe, and where they lie between the steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from npu.compiler.ir import ElementwiseStep, Step, Storage, View, WindowStep
from npu.compiler.layout import reads
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class RowRange:
    """Rows [start, end) of a map."""

    start: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.start


def in_stripes(chain: Sequence[Step], stripes: int, *, is_rolling: bool) -> tuple[Step, ...] | None:
    """A chain in stripes of the last one's rows; None if there are fewer rows.

    Rows that two stripes read are kept in rolling buffers, or else made twice: that only where the chain has no branches.
    """
    height = chain[-1].ofm.shape[0]
    if stripes > height:
        return None
    rows = -(-height // stripes)
    cut = [RowRange(start, min(start + rows, height)) for start in range(0, height, rows)]
    return tuple(_roll(chain, cut) if is_rolling else [step for own in cut for step in _stripe(chain, own)])


def reads_rows_later(chain: Sequence[Step]) -> bool:
    """Whether every step of a line has rows to make for the second half of the last one's, besides those for the first."""
    rows = RowRange(0, -(-chain[-1].ofm.shape[0] // 2))
    for step in reversed(chain):
        if rows.end >= step.ofm.shape[0]:
            return False
        rows = input_rows(step, rows)
    return True


def _roll(chain: Sequence[Step], cut: Sequence[RowRange]) -> list[Step]:
    """A chain in stripes of its result, whose maps in between are rolling buffers: every row is made once."""
    readers = _readers_within(chain)
    stripes = list(_new_rows(chain, readers, cut))
    buffers: dict[Storage, Storage] = {}
    for position, step in enumerate(chain[:-1]):
        old = step.ofm.storage
        height = _rows_kept(chain, readers[position], position, stripes)
        buffers[old] = Storage(f"{old.name} rolling", (height, *old.shape[1:]), old.element, is_rolling=True)
    return [
        _rolling_part(step, rows, buffers)
        for stripe in stripes
        for step, rows in zip(chain, stripe.values(), strict=True)
        if rows.count
    ]


def _readers_within(chain: Sequence[Step]) -> list[list[int]]:
    """For every step of a chain those that read its result."""
    return [
        [number for number, other in enumerate(chain) if any(view.storage is step.ofm.storage for view in reads(other))]
        for step in chain
    ]


def _needed_rows(chain: Sequence[Step], readers: Sequence[int], stripe: Mapping[int, RowRange]) -> RowRange:
    """Rows of a map that those who read it need for theirs."""
    needed = [input_rows(chain[number], stripe[number]) for number in readers if stripe[number].count]
    return RowRange(min(rows.start for rows in needed), max(rows.end for rows in needed)) if needed else RowRange(0, 0)


def _rows_kept(chain: Sequence[Step], readers: Sequence[int], position: int, stripes: Sequence[Mapping[int, RowRange]]) -> int:
    """Rows that a rolling buffer holds: from the first that a stripe needs to the last that was made until then."""
    done = most = 0
    for stripe in stripes:
        done = max(done, stripe[position].end)
        needed = _needed_rows(chain, readers, stripe)
        most = max(most, stripe[position].count, done - needed.start if needed.count else 0)
    return most


def _new_rows(
    chain: Sequence[Step], readers: Sequence[Sequence[int]], cut: Sequence[RowRange]
) -> Iterator[dict[int, RowRange]]:
    """For every stripe of the last step's rows those that each step has to make for it, besides what it made before."""
    done = [0] * len(chain)
    for rows in cut:
        new = {len(chain) - 1: rows}
        for position in range(len(chain) - 2, -1, -1):
            needed = _needed_rows(chain, readers[position], new)
            start = max(needed.start, done[position]) if len(readers[position]) == 1 else done[position]
            new[position] = RowRange(start, max(needed.end, start))
            done[position] = max(done[position], needed.end)
        yield dict(sorted(new.items()))


def _rolling_part(step: Step, rows: RowRange, buffers: Mapping[Storage, Storage]) -> Step:
    """Rows of a step of the chain, read from and written to rolling buffers."""
    needed = input_rows(step, rows)

    def input_of(view: View) -> View:
        return _in_buffer(view, buffers[view.storage], needed) if view.storage in buffers else _operand(step, view, needed)

    kept = buffers.get(step.ofm.storage)
    return _rows_of(step, rows, _crop(step.ofm, rows) if kept is None else _in_buffer(step.ofm, kept, rows), input_of)


def _in_buffer(view: View, buffer: Storage, rows: RowRange) -> View:
    """Rows of a whole map that is in a rolling buffer."""
    offset = (rows.start % buffer.shape[0], 0, 0)
    return replace(view, storage=buffer, full=buffer.shape, offset=offset, shape=(rows.count, *view.shape[1:]))


def _stripe(chain: Sequence[Step], rows: RowRange) -> list[Step]:
    """The part of a chain that makes `rows` of its OFM, with maps of its own in between."""
    made = [rows]
    for step in reversed(chain[1:]):
        made.insert(0, input_rows(step, made[0]))
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
    top, bottom = max(0, -start), max(0, end - step.ifm.shape[0])
    return replace(step, ifm=input_of(step.ifm), ofm=ofm, padding=replace(step.padding, top=top, bottom=bottom))


def input_rows(step: Step, rows: RowRange) -> RowRange:
    """Rows of the IFM that `rows` of the OFM are computed from."""
    if not isinstance(step, WindowStep):
        return rows
    start, end = _window(step, rows)
    return RowRange(max(start, 0), min(end, step.ifm.shape[0]))


def _window(step: WindowStep, rows: RowRange) -> tuple[int, int]:
    kernel, top = step.kernel, step.padding.top
    return rows.start * kernel.stride_y - top, (rows.end - 1) * kernel.stride_y - top + kernel.dilated_height


def _crop(view: View, rows: RowRange) -> View:
    offset = (view.offset[0] + rows.start, *view.offset[1:])
    return replace(view, offset=offset, shape=(rows.end - rows.start, *view.shape[1:]))
