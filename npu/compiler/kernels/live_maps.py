"""Which maps of a program are live when, and which share memory: `npu.compiler.lifetime` over rows of numbers."""

from __future__ import annotations

import numpy as np

from npu.compiler.kernels.stripes import LIST, MAPS, MATRIX, STEPS, view_of
from npu.machine.kernels.arithmetic import inlined
from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import kernel

BUFFER = np.dtype(
    integers(
        *("bytes", "is_tensor", "is_lasting"),
        *("size", "first", "last"),  # last -1: not touched
        "joined_last",  # with those that use its memory, as far as is known
        *(
            "owner",
            "start",
            "lasts",
            "newest",
        ),  # start: where it begins in the memory of the owner, which may be in front of it
        *("latest", "others_last"),  # the last one found that uses its memory, and when those before that are last used
        *("group_begin", "group_end", "group_first", "group_last"),  # of all that use its memory; last -1: none
        *("is_marked", "at_begin", "at_end"),
    )
)
"""Fields behind `is_lasting` are worked out by kernels."""
BUFFERS = ty.record(BUFFER)[::1]
BY_GRAPH, AT_BEGIN, AT_END = range(3)
"""Why a tensor is touched: by the graph or the CPU, as an input or as an output of a program."""


@inlined
def aligned(size):  # type: ignore[no-untyped-def]
    """Bytes that a buffer takes: a multiple of `npu.compiler.allocate.ALIGNMENT`."""
    return (size + 15) // 16 * 16


@inlined
def touch(buffers, number, size, event, touched, count):  # type: ignore[no-untyped-def]
    """How many buffers are touched; `touched` has their numbers."""
    one = buffers[number]
    if one.last < 0:
        one.size, one.first, one.last = size, event, event
        touched[count] = number
        return count + 1
    one.size, one.first, one.last = max(one.size, size), min(one.first, event), max(one.last, event)
    return count


@kernel(ty.int64(STEPS, ty.int64, ty.int64, MAPS, BUFFERS, LIST))
def trace(steps, count, event, maps, buffers, touched):  # type: ignore[no-untyped-def]
    """When steps use buffers, an event each from `event` on; how many buffers those are."""
    noted = np.int64(0)
    for position in range(count):
        for number in range(3):
            view = view_of(steps[position], number)
            if view.map >= 0:
                one = maps[view.map]
                noted = touch(buffers, one.buffer, one.rows * one.row_bytes, event + position, touched, noted)
    return noted


@inlined
def root_of(buffers, number):  # type: ignore[no-untyped-def]
    """The buffer whose memory one uses."""
    while buffers[number].owner != number:
        number = buffers[number].owner
    return number


@inlined
def place_of(buffers, number):  # type: ignore[no-untyped-def]
    """Where a buffer begins in the memory that it uses."""
    start = np.int64(0)
    while buffers[number].owner != number:
        start += buffers[number].start
        number = buffers[number].owner
    return start


@inlined
def share(buffers, target, operand, lead):  # type: ignore[no-untyped-def]
    """One buffer takes the place of another, or begins so many bytes in front of it."""
    root = root_of(buffers, operand)
    new, old = buffers[target], buffers[root]
    new.start = place_of(buffers, operand) - lead
    new.owner = root
    old.lasts = max(old.lasts, new.lasts)
    old.latest, old.others_last = new.latest, max(old.joined_last, new.others_last)
    old.joined_last = max(old.joined_last, new.joined_last)


@inlined
def is_same_place(view, ofm, maps):  # type: ignore[no-untyped-def]
    """Whether a result that replaces an operand lies where that lay."""
    is_whole = view.is_dense and view.rows == view.full_rows
    return is_whole and view.is_alike and view.rows == ofm.rows and maps[view.map].layout == maps[ofm.map].layout


@inlined
def is_replaced(steps, begin, end, operand, made, maps):  # type: ignore[no-untyped-def]
    """Whether every row of map `made` comes from the same row of `operand`, which is not read any more then."""
    old, new, done = maps[operand], maps[made], np.int64(0)
    if old.rows != new.rows or old.width != new.width or old.depth != new.depth or old.element_bits != new.element_bits:
        return False
    for position in range(begin, end + 1):
        step = steps[position]
        ofm = step.ofm
        if ofm.map == operand:
            return False
        is_same, is_read = True, False
        for number in range(2):
            view = view_of(step, number)
            if view.map == operand:
                if view.first < done or not view.is_rows:
                    return False
                is_read = True
                is_same = is_same and view.first == ofm.first and view.rows == ofm.rows
        if ofm.map == made:
            if not step.in_place or not is_read or not is_same or not ofm.is_rows:
                return False
            done = max(done, ofm.first + ofm.rows)
    return True


@inlined
def has_rows_among(view, one):  # type: ignore[no-untyped-def]
    """Whether a view is a part of rows of its map, which are always the same ones."""
    return view.has_places and not one.is_rolling


@inlined
def end_of(view):  # type: ignore[no-untyped-def]
    """The row of the map behind the last one of a view."""
    return view.first + (view.rows - 1) * view.apart + 1


@inlined
def is_left_behind(steps, begin, end, operand, made, maps):  # type: ignore[no-untyped-def]
    """Whether every row of map `made` lies, from the beginning of `operand` on, where nobody reads that any more."""
    old, new = maps[operand], maps[made]
    if old.rows * old.dense_bytes > 2 * new.rows * new.dense_bytes:
        return False
    needed = max(old.rows * old.dense_bytes, new.rows * new.dense_bytes)
    for position in range(end, begin - 1, -1):
        step = steps[position]
        if step.ofm.map == operand:
            return False
        for number in range(2):
            view = view_of(step, number)
            if view.map == operand:
                if not has_rows_among(view, old):
                    return False
                needed = min(needed, view.first * old.dense_bytes)
        if step.ofm.map == made and (not has_rows_among(step.ofm, new) or end_of(step.ofm) * new.dense_bytes > needed):
            return False
    return True


@inlined
def lead_of(steps, begin, end, operand, made, maps):  # type: ignore[no-untyped-def]
    """Bytes that map `made` must begin in front of `operand` so that no step writes what it or a later one reads; -1: none."""
    old, new = maps[operand].row_bytes, maps[made].row_bytes
    needed, lead = np.int64(1) << 60, np.int64(0)
    for position in range(end, begin - 1, -1):
        step = steps[position]
        if step.ofm.map == operand:
            return np.int64(-1)
        for number in range(2):
            view = view_of(step, number)
            if view.map == operand:
                if not has_rows_among(view, maps[operand]):
                    return np.int64(-1)
                needed = min(needed, view.first * old)
        if step.ofm.map == made:
            if not has_rows_among(step.ofm, maps[made]):
                return np.int64(-1)
            lead = max(lead, end_of(step.ofm) * new - needed)
    return aligned(lead)


@inlined
def is_worth(old, new, both):  # type: ignore[no-untyped-def]
    """Whether two maps that take `both` bytes together save at least as much as the smaller one takes more then."""
    return 2 * both <= old + new + min(old, new)


@inlined
def share_with_lead(steps, begin, event, first, maps, buffers):  # type: ignore[no-untyped-def]
    """Let a map made in stripes, from step `first` on, begin in front of one that its stripes read."""
    made = steps[first].ofm.map
    target, final = maps[made].buffer, maps[made].last_write
    begins, ends, size = event + first - begin, event + final - begin, buffers[target].size
    for position in range(first, final + 1):
        for number in range(2):
            operand = view_of(steps[position], number).map
            if operand < 0:
                continue
            own = maps[operand].buffer
            root = buffers[root_of(buffers, own)]
            is_latest = root.latest == own and root.others_last < begins
            old = buffers[own].size
            if not is_latest or root.lasts or not begins <= root.joined_last <= ends or not is_worth(old, size, max(old, size)):
                continue
            lead = lead_of(steps, first, final, operand, made, maps)
            if lead >= 0 and is_worth(old, size, max(old + lead, size)):
                root.newest = made
                share(buffers, target, own, lead)
                return


@inlined
def share_rows(steps, begin, event, first, maps, buffers):  # type: ignore[no-untyped-def]
    """Whether a map made in stripes, from step `first` on, may replace an operand row by row."""
    made = steps[first].ofm.map
    one = maps[made]
    target, final = one.buffer, one.last_write
    for is_behind in range(2):
        if not (steps[first].is_window if is_behind else steps[first].in_place):
            continue
        for position in range(first, final if is_behind else first + 1):
            for number in range(2):
                operand = view_of(steps[position], number).map
                if operand < 0 or (is_behind and not maps[operand].is_boundary):
                    continue
                root = root_of(buffers, maps[operand].buffer)
                newest, last = buffers[root].newest, buffers[root].joined_last - event + begin
                is_last = first <= last < final if is_behind else last == final
                if root == target or (newest >= 0 and newest != operand) or not is_last or maps[operand].layout != one.layout:
                    continue
                if is_behind:
                    replaces = is_left_behind(steps, first, final, operand, made, maps)
                else:
                    replaces = is_replaced(steps, first, final, operand, made, maps)
                if replaces:
                    buffers[root].newest = made
                    if not buffers[root].lasts:
                        share(buffers, target, maps[operand].buffer, 0)
                    return True
    return False


@kernel(ty.void(STEPS, ty.int64, ty.int64, ty.int64, ty.int64, MAPS, BUFFERS))
def share_in_place(steps, begin, end, event, has_leads, maps, buffers):  # type: ignore[no-untyped-def]
    """Give results the memory of operands that are not read again; step `begin` has event `event`."""
    for position in range(begin, end):
        step, now = steps[position], event + position - begin
        ofm = step.ofm
        for number in range(3):
            view = view_of(step, number)
            if view.map >= 0:
                maps[view.map].writers = 0
                buffers[maps[view.map].buffer].newest = -1
        if not step.in_place or ofm.map < 0 or not ofm.is_dense or ofm.rows != ofm.full_rows:
            continue
        target = maps[ofm.map].buffer
        if buffers[target].first != now or buffers[target].owner != target:
            continue
        for number in range(2):
            view = view_of(step, number)
            if view.map < 0:
                continue
            root = root_of(buffers, maps[view.map].buffer)
            if buffers[root].joined_last != now or buffers[root].lasts or not is_same_place(view, ofm, maps):
                continue
            if step.ifm.map == step.ifm2.map and not is_same_place(view_of(step, 1 - number), ofm, maps):
                continue
            share(buffers, target, maps[view.map].buffer, 0)
            break
    for position in range(begin, end):
        if steps[position].ofm.map >= 0:
            one = maps[steps[position].ofm.map]
            one.first_write = position if one.writers == 0 else one.first_write
            one.writers += 1
            one.last_write = position
    for position in range(begin, end):
        if steps[position].ofm.map >= 0:
            one = maps[steps[position].ofm.map]
            if one.first_write == position and one.writers > 1 and not one.is_rolling:
                target = buffers[one.buffer]
                is_new = target.owner == one.buffer and target.first == event + position - begin
                if is_new and not share_rows(steps, begin, event, position, maps, buffers) and has_leads:
                    share_with_lead(steps, begin, event, position, maps, buffers)


@inlined
def begin_sharing(one, number):  # type: ignore[no-untyped-def]
    """No buffer uses the memory of another yet."""
    one.joined_last, one.owner, one.start = one.last, number, 0
    one.lasts, one.newest, one.latest, one.others_last = one.is_lasting, -1, number, -1


@inlined
def join_group(group, one, start):  # type: ignore[no-untyped-def]
    """One more buffer uses a memory, from `start` on."""
    if group.group_last < 0:
        group.group_begin, group.group_end, group.group_first, group.group_last = start, start + one.size, one.first, one.last
    else:
        group.group_begin, group.group_end = min(group.group_begin, start), max(group.group_end, start + one.size)
        group.group_first, group.group_last = min(group.group_first, one.first), max(group.group_last, one.last)


@inlined
def group_bytes(group):  # type: ignore[no-untyped-def]
    """Bytes of a memory that buffers use."""
    return aligned(group.group_end - group.group_begin)


@kernel(ty.int64(STEPS, MAPS, BUFFERS, MATRIX, MATRIX, ty.int64, ty.int64, ty.int64, LIST, LIST))
def look_at_all(  # type: ignore[no-untyped-def]
    steps, maps, buffers, touches, nodes, buffer_count, hides_tensors, has_leads, touched, usage
):
    """Work out what is live when in a whole graph, bytes at every event in `usage`; the most of these.

    Rows of `touches` are buffer, event and why; rows of `nodes` begin, end and whether it is a program.
    """
    events = len(steps)
    for number in range(buffer_count):
        buffers[number].last, buffers[number].group_last = -1, -1
    count = trace(steps, events, 0, maps, buffers, touched)
    for place in range(len(touches)):
        number = touches[place, 0]
        count = touch(buffers, number, buffers[number].bytes, touches[place, 1], touched, count)
    for place in range(count):
        begin_sharing(buffers[touched[place]], touched[place])
    for place in range(len(nodes)):
        if nodes[place, 2]:
            own, work = steps[nodes[place, 0] :], nodes[place, 1] - nodes[place, 0]
            share_in_place(own, 0, work, nodes[place, 0], has_leads, maps, buffers)
    for place in range(count):
        root = root_of(buffers, touched[place])
        join_group(buffers[root], buffers[touched[place]], place_of(buffers, touched[place]))
    usage[: events + 1] = 0
    for place in range(count):
        number = touched[place]
        one = buffers[number]
        if one.group_last >= 0 and not (hides_tensors and one.is_tensor):
            usage[one.group_first] += group_bytes(one)
            usage[one.group_last + 1] -= group_bytes(one)
    most = total = np.int64(0)
    for event in range(events):
        total += usage[event]
        usage[event] = total
        most = max(most, total)
    return most
