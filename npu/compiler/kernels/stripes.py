"""A chain of steps in stripes of rows, over rows of numbers: `npu.compiler.stripes` has the same for the steps themselves.

The search for cascades looks at thousands of chains in stripes and keeps few: the steps are made of those only.
"""

from __future__ import annotations

import numpy as np

from npu.machine.kernels.arithmetic import ceil_div, inlined
from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import kernel

VIEW = np.dtype(
    integers(
        "map",  # its number; -1: none, or a constant
        *("first", "apart", "rows"),  # the rows of the map that it is
        "full_rows",
        "has_places",  # whether `first` and `apart` are known
        "is_pitched",
        "is_rows",  # whole rows of the map, in its own shape
        "is_dense",  # all of the map if it has all rows, in whatever shape
        "is_alike",  # its rows are as long as those of the result, in elements of as many bits
    )
)
STEP = np.dtype(
    [
        *integers("is_window", "in_place", "stride", "top", "height", "upscaling", "is_divisible", "row_elements", "weights"),
        *((name, VIEW) for name in ("ifm", "ifm2", "ofm")),
    ]
)
MAP = np.dtype(
    integers(
        *("rows", "width", "depth", "element_bits"),
        *("row_bytes", "dense_bytes"),  # of a row: in its layout, and without padding
        *("layout", "is_plain_row", "is_boundary", "is_rolling", "buffer"),  # is_plain_row: a single row has no padding
        *("slot", "start", "end", "kept", "apart", "made_end", "new"),  # while a chain is looked at
        *("writers", "first_write", "last_write", "last_use", "is_divisible"),
    )
)
"""Fields behind `buffer` are worked out by kernels."""
STEPS, MAPS = ty.record(STEP)[::1], ty.record(MAP)[::1]
MATRIX, LIST = ty.int64[:, ::1], ty.int64[::1]

MADE_AGAIN, KEPT, KEPT_AHEAD = 0, 1, 2
"""What becomes of rows that two stripes read: see `npu.compiler.stripes.Overlap`."""
MOST_AHEAD = 16
"""Stripes ahead of the first one at most: with more, the first of them makes what is missing."""
_FAR = np.int64(1) << 40
"""Rows beyond those of any map."""
FEW = 4
"""Stripes that are looked at for what rolling buffers hold: all behind them are alike but the last."""
MIDDLE = 4
"""Stripes from which on the second has neighbours, and lies in the first half."""


@inlined
def view_of(step, number):  # type: ignore[no-untyped-def]
    """View `number` of a step: its inputs, then its result."""
    return step.ifm if number == 0 else (step.ifm2 if number == 1 else step.ofm)


@inlined
def stored(view, start, end):  # type: ignore[no-untyped-def]
    """The rows of the map, from the first to the last, that rows of a view are."""
    return view.first + start * view.apart, view.first + (end - 1) * view.apart + 1


@inlined
def seen(view, start, end):  # type: ignore[no-untyped-def]
    """The rows of a view that are among rows of the map."""
    begin = min(max(-((view.first - start) // view.apart), 0), view.rows)
    return begin, max(begin, min(max(-((view.first - end) // view.apart), 0), view.rows))


@inlined
def rows_ahead(step, end):  # type: ignore[no-untyped-def]
    """The end of the rows of the IFM that rows of the OFM need up to an `end` in front of the first one."""
    if not step.is_window:
        return end
    return -(-((end - 1) * step.stride - step.top + step.height) // step.upscaling)


@inlined
def input_rows(step, start, end):  # type: ignore[no-untyped-def]
    """Rows of the IFM that rows of the OFM are computed from."""
    if not step.is_window:
        return start, end
    begin = start * step.stride - step.top
    finish = (end - 1) * step.stride - step.top + step.height
    return max(begin // step.upscaling, 0), min(-(-finish // step.upscaling), step.ifm.rows)


@kernel(ty.several(ty.int64, 2)(STEPS, ty.int64, ty.int64))
def rows_of_result(steps, first, last):  # type: ignore[no-untyped-def]
    """Rows of what the last step writes that the steps of a chain make."""
    begin, end = np.int64(1) << 60, np.int64(0)
    for position in range(first, last + 1):
        ofm = steps[position].ofm
        if ofm.map == steps[last].ofm.map:
            start, finish = stored(ofm, np.int64(0), ofm.rows)
            begin, end = min(begin, start), max(end, finish)
    return begin, end


@kernel(ty.int64(STEPS, ty.int64, ty.int64, ty.int64))
def rows_of_stripe(steps, first, last, count):  # type: ignore[no-untyped-def]
    """Rows of a stripe of a chain if there are `count`; 0 if it makes fewer of its result."""
    begin, end = rows_of_result(steps, first, last)
    return np.int64(0) if count > end - begin else ceil_div(end - begin, count)


@kernel(ty.void(STEPS, MAPS, ty.int64, ty.int64, MATRIX))
def begin_chain(steps, maps, first, last, rows):  # type: ignore[no-untyped-def]
    """Make ready for `next_stripe`: nothing is made, and column 3 of `rows` is how many steps read what each one makes."""
    for position in range(first, last + 1):
        one = maps[steps[position].ofm.map]
        one.slot, one.kept, one.made_end, one.apart, one.writers = 0, 0, 0, 1, 0
        rows[position - first, 2] = 0
    for position in range(first, last + 1):
        step = steps[position]
        for number in range(3):
            view = view_of(step, number)
            if view.map >= 0:
                one = maps[view.map]
                if number < 2 and not (number == 1 and view.map == step.ifm.map):
                    one.slot += 1
                if one.apart % view.apart:
                    a, b = one.apart, view.apart
                    while b:
                        a, b = b, a % b
                    one.apart = one.apart // a * view.apart
    for position in range(first, last + 1):
        rows[position - first, 3] = maps[steps[position].ofm.map].slot


@kernel(ty.void(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX))
def next_stripe(steps, maps, first, last, start, end, rows):  # type: ignore[no-untyped-def]
    """Columns 0 and 1 of `rows`: those that each step has to make for rows of the result, besides what it made before.

    With an `end` that is not behind the `start`, the first row, they are those that steps make ahead of it.
    """
    result = maps[steps[last].ofm.map]
    for position in range(first, last + 1):
        one = maps[steps[position].ofm.map]
        one.start, one.end = _FAR, -_FAR
    result.start, result.end = start, end
    for position in range(last, first - 1, -1):
        step, place = steps[position], position - first
        one, done = maps[step.ofm.map], rows[position - first, 2]
        begin, finish = seen(step.ofm, min(one.start, one.end), one.end)
        if step.is_window and step.upscaling > 1 and finish > begin:
            before, after = (begin - step.top) % step.upscaling, (finish - step.top) % step.upscaling
            begin, finish = max(begin - before, 0), min(finish + after, step.ofm.rows)
        new = max(begin, done) if rows[place, 3] == 1 else done
        rows[place, 0], rows[place, 1], rows[place, 2] = new, max(finish, new), max(done, finish)
        is_ahead = end <= start and finish == 0 and one.end > -_FAR
        if finish > new or is_ahead:
            needed, needed_end = input_rows(step, new, max(finish, new + 1))
            if is_ahead:
                needed_end = rows_ahead(step, -((step.ofm.first - one.end) // step.ofm.apart))
            for number in range(2):
                view = view_of(step, number)
                if view.map >= 0:
                    source = maps[view.map]
                    row, row_end = stored(view, needed, needed_end)
                    source.start, source.end = min(source.start, row), max(source.end, row_end)


@kernel(ty.void(STEPS, MAPS, ty.int64, ty.int64, MATRIX))
def keep_rows(steps, maps, first, last, rows):  # type: ignore[no-untyped-def]
    """Raise how many rows a rolling buffer of each map holds: from the first that a stripe makes or needs to the last made."""
    for position in range(first, last + 1):
        start, end, ofm = rows[position - first, 0], rows[position - first, 1], steps[position].ofm
        if end > start:
            maps[ofm.map].made_end = max(maps[ofm.map].made_end, stored(ofm, start, end)[1])
    for position in range(first, last + 1):
        start, end, step = rows[position - first, 0], rows[position - first, 1], steps[position]
        if end > start:
            needed, needed_end = input_rows(step, start, end)
            for number in range(3):
                view = view_of(step, number)
                if view.map >= 0:
                    one = maps[view.map]
                    row = stored(view, start, end)[0] if number == 2 else stored(view, needed, needed_end)[0]
                    one.kept = max(one.kept, one.made_end - row)


@inlined
def height_of(one):  # type: ignore[no-untyped-def]
    """Rows of the rolling buffer of a map."""
    return min(ceil_div(one.kept, one.apart) * one.apart, one.rows)


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX))
def stripes_ahead(steps, maps, first, last, begin, stripe_rows, rows):  # type: ignore[no-untyped-def]
    """How many stripes before the first one steps make rows for, MOST_AHEAD at most."""
    count = np.int64(0)
    while count < MOST_AHEAD:
        begin_chain(steps, maps, first, last, rows)
        next_stripe(steps, maps, first, last, begin, begin - count * stripe_rows, rows)
        made = np.int64(0)
        for place in range(last - first + 1):
            made += rows[place, 1] - rows[place, 0]
        if not made:
            break
        count += 1
    begin_chain(steps, maps, first, last, rows)
    return count


@inlined
def make_stripe(steps, maps, first, last, extent, stripe_rows, number, rows):  # type: ignore[no-untyped-def]
    """What steps make for a stripe of rows of the result, whose `extent` is where they begin and end. Before the first: < 0."""
    begin, end = extent
    start, finish = begin + max(number, 0) * stripe_rows, min(begin + (number + 1) * stripe_rows, end)
    next_stripe(steps, maps, first, last, start, finish, rows)


@kernel(ty.several(ty.int64, 2)(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX))
def keep_all_rows(steps, maps, first, last, count, overlap, rows):  # type: ignore[no-untyped-def]
    """What rolling buffers hold for all stripes; the rows of a stripe, 0 if there are fewer than `count`, and stripes ahead."""
    stripe_rows, ahead = rows_of_stripe(steps, first, last, count), np.int64(0)
    if stripe_rows:
        begin, end = rows_of_result(steps, first, last)
        begin_chain(steps, maps, first, last, rows)
        if overlap == KEPT_AHEAD:
            ahead = stripes_ahead(steps, maps, first, last, begin, stripe_rows, rows)
        for number in range(-ahead, ceil_div(end - begin, stripe_rows)):
            make_stripe(steps, maps, first, last, (begin, end), stripe_rows, number, rows)
            keep_rows(steps, maps, first, last, rows)
    return stripe_rows, ahead


@inlined
def crop(view, maps, start, count):  # type: ignore[no-untyped-def]
    """Make a view rows of itself. Behind the last row of a rolling buffer comes its first."""
    view.rows, one = count, maps[view.map]
    if one.is_rolling:
        view.first = (view.first + start * view.apart) % one.rows
    else:
        view.first += start * view.apart * view.has_places


@inlined
def put_in_buffer(view, maps, start, count):  # type: ignore[no-untyped-def]
    """Make a view rows of itself in the rolling buffer of its map."""
    one = maps[view.map]
    buffer = maps[one.new]
    row = (view.first + start * view.apart) % buffer.rows
    view.map, view.first, view.rows, view.is_rows, view.is_dense = one.new, row, count, 0, 0
    if not view.is_pitched:
        view.full_rows = buffer.rows


@inlined
def add_map(maps, number, old, rows, is_rolling, buffer):  # type: ignore[no-untyped-def]
    """Map `number` is one with so many rows of another."""
    maps[number] = maps[old]
    new = maps[number]
    new.rows, new.is_rolling, new.buffer = rows, is_rolling, buffer
    if rows == 1 and new.is_plain_row:
        new.row_bytes, new.layout = new.dense_bytes, 0


@inlined
def take_rows(step, view, maps, needed, needed_end):  # type: ignore[no-untyped-def]
    """Make an input the rows that are needed; one row that is broadcast stays what it is."""
    if step.is_window or view.rows != 1:
        crop(view, maps, needed, needed_end - needed)


@inlined
def pad_less(step, start):  # type: ignore[no-untyped-def]
    """Rows in front of the input are there for the first rows of the result only."""
    if step.is_window:
        step.top = max(step.top - start * step.stride, 0)


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX, STEPS))
def write_rolling(steps, maps, first, last, count, overlap, map_count, buffer_count, rows, out):  # type: ignore[no-untyped-def]
    """The chain in stripes with rolling buffers as steps in `out`, and how many; maps and buffers are added. 0: fewer rows."""
    stripe_rows, ahead = keep_all_rows(steps, maps, first, last, count, overlap, rows)
    result, written = steps[last].ofm.map, np.int64(0)
    if not stripe_rows:
        return written
    for position in range(first, last + 1):
        for number in range(3):
            view = view_of(steps[position], number)
            if view.map >= 0:
                maps[view.map].new = -1
    for position in range(first, last + 1):
        old = steps[position].ofm.map
        if old != result and maps[old].new < 0:
            maps[old].new = map_count
            add_map(maps, map_count, old, height_of(maps[old]), 1, buffer_count)
            map_count, buffer_count = map_count + 1, buffer_count + 1
    begin, end = rows_of_result(steps, first, last)
    begin_chain(steps, maps, first, last, rows)
    for number in range(-ahead, ceil_div(end - begin, stripe_rows)):
        make_stripe(steps, maps, first, last, (begin, end), stripe_rows, number, rows)
        for position in range(first, last + 1):
            start, finish = rows[position - first, 0], rows[position - first, 1]
            if finish > start:
                out[written] = steps[position]
                step = out[written]
                needed, needed_end = input_rows(steps[position], start, finish)
                pad_less(step, start)
                if step.ofm.map == result:
                    crop(step.ofm, maps, start, finish - start)
                else:
                    put_in_buffer(step.ofm, maps, start, finish - start)
                for number in range(2):
                    view = view_of(step, number)
                    if view.map >= 0 and maps[view.map].new >= 0:
                        put_in_buffer(view, maps, needed, needed_end - needed)
                    elif view.map >= 0:
                        take_rows(step, view, maps, needed, needed_end)
                written += 1
    return written


@kernel(ty.void(STEPS, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX))
def rows_of_line(steps, first, last, start, end, rows):  # type: ignore[no-untyped-def]
    """Columns 0 and 1 of `rows`: those that each step of a line makes for rows of the result, if none are kept."""
    begin, finish = seen(steps[last].ofm, start, end)
    for position in range(last, first - 1, -1):
        rows[position - first, 0], rows[position - first, 1] = begin, finish
        begin, finish = input_rows(steps[position], begin, finish)


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX, STEPS))
def write_line(steps, maps, first, last, count, map_count, buffer_count, rows, out):  # type: ignore[no-untyped-def]
    """The same for a line, with maps of its own for every stripe. 0 as well if there is no room for so many maps."""
    stripe_rows = rows_of_stripe(steps, first, last, count)
    written = np.int64(0)
    if not stripe_rows or map_count + (last - first) * count > len(maps):
        return written
    begin, end = rows_of_result(steps, first, last)
    for stripe in range(begin, end, stripe_rows):
        rows_of_line(steps, first, last, stripe, min(stripe + stripe_rows, end), rows)
        for position in range(first, last + 1):
            start, finish = rows[position - first, 0], rows[position - first, 1]
            out[written] = steps[position]
            step = out[written]
            needed, needed_end = input_rows(steps[position], start, finish)
            pad_less(step, start)
            for number in range(2):
                view = view_of(step, number)
                if position > first and view.map == steps[position - 1].ofm.map:
                    view.map, view.rows, view.full_rows = map_count - 1, maps[map_count - 1].rows, maps[map_count - 1].rows
                elif view.map >= 0:
                    take_rows(step, view, maps, needed, needed_end)
            if position == last:
                crop(step.ofm, maps, start, finish - start)
            else:
                add_map(maps, map_count, step.ofm.map, finish - start, 0, buffer_count)
                step.ofm.map, step.ofm.rows, step.ofm.full_rows = map_count, finish - start, finish - start
                map_count, buffer_count = map_count + 1, buffer_count + 1
            written += 1
    return written


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, MATRIX, ty.int64[:, :, ::1]))
def all_rows(steps, maps, count, overlap, rows, made):  # type: ignore[no-untyped-def]
    """How many stripes of rolling buffers a chain has, 0 if it has fewer rows than `count`: in `made` the rows of each step,
    column 4 of `rows` is what the buffer of its result holds."""
    last, stripes = len(steps) - 1, np.int64(0)
    stripe_rows, ahead = keep_all_rows(steps, maps, 0, last, count, overlap, rows)
    if stripe_rows:
        for position in range(len(steps)):
            rows[position, 4] = height_of(maps[steps[position].ofm.map])
        begin, end = rows_of_result(steps, 0, last)
        begin_chain(steps, maps, 0, last, rows)
        for number in range(-ahead, ceil_div(end - begin, stripe_rows)):
            make_stripe(steps, maps, 0, last, (begin, end), stripe_rows, number, rows)
            for position in range(len(steps)):
                made[stripes, position, 0], made[stripes, position, 1] = rows[position, 0], rows[position, 1]
            stripes += 1
    return stripes
