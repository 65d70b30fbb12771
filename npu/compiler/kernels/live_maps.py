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
        *("joined_size", "joined_first", "joined_last"),  # with those that use its memory, as far as is known
        *("owner", "lasts", "newest"),
        *("group_size", "group_first", "group_last"),  # of all that use its memory; last -1: none
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
def share(buffers, target, root):  # type: ignore[no-untyped-def]
    """One buffer uses the memory of another."""
    new, old = buffers[target], buffers[root]
    new.owner = root
    old.lasts = max(old.lasts, new.lasts)
    old.joined_size = max(old.joined_size, new.joined_size)
    old.joined_first = min(old.joined_first, new.joined_first)
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
            if step.is_window or not is_read or not is_same or not ofm.is_rows:
                return False
            done = max(done, ofm.first + ofm.rows)
    return True


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
                if not view.is_rows:
                    return False
                needed = min(needed, view.first * old.dense_bytes)
        if step.ofm.map == made and (not step.ofm.is_rows or (step.ofm.first + step.ofm.rows) * new.dense_bytes > needed):
            return False
    return True


@inlined
def share_rows(steps, begin, event, first, maps, buffers):  # type: ignore[no-untyped-def]
    """A map made in stripes, from step `first` on, may replace an operand row by row."""
    made = steps[first].ofm.map
    one = maps[made]
    target, is_window = one.buffer, steps[first].is_window
    final = one.last_write
    for position in range(first, final if is_window else first + 1):
        for number in range(2):
            operand = view_of(steps[position], number).map
            if operand < 0 or (is_window and not maps[operand].is_boundary):
                continue
            root = root_of(buffers, maps[operand].buffer)
            newest, last = buffers[root].newest, buffers[root].joined_last - event + begin
            is_last = first <= last < final if is_window else last == final
            if root == target or (newest >= 0 and newest != operand) or not is_last or maps[operand].layout != one.layout:
                continue
            if is_window:
                replaces = is_left_behind(steps, first, final, operand, made, maps)
            else:
                replaces = is_replaced(steps, first, final, operand, made, maps)
            if replaces:
                buffers[root].newest = made
                if not buffers[root].lasts:
                    share(buffers, target, root)
                return


@kernel(ty.void(STEPS, ty.int64, ty.int64, ty.int64, MAPS, BUFFERS))
def share_in_place(steps, begin, end, event, maps, buffers):  # type: ignore[no-untyped-def]
    """Give results the memory of operands that are not read again; step `begin` has event `event`."""
    for position in range(begin, end):
        step, now = steps[position], event + position - begin
        ofm = step.ofm
        for number in range(3):
            view = view_of(step, number)
            if view.map >= 0:
                maps[view.map].writers = 0
                buffers[maps[view.map].buffer].newest = -1
        if step.is_window or ofm.map < 0 or not ofm.is_dense or ofm.rows != ofm.full_rows:
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
            share(buffers, target, root)
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
                if target.owner == one.buffer and target.joined_first == event + position - begin:
                    share_rows(steps, begin, event, position, maps, buffers)


@inlined
def begin_sharing(one, number):  # type: ignore[no-untyped-def]
    """No buffer uses the memory of another yet."""
    one.joined_size, one.joined_first, one.joined_last = one.size, one.first, one.last
    one.owner, one.lasts, one.newest = number, one.is_lasting, -1


@inlined
def join_group(group, one):  # type: ignore[no-untyped-def]
    """One more buffer uses a memory."""
    if group.group_last < 0:
        group.group_size, group.group_first, group.group_last = one.size, one.first, one.last
    else:
        group.group_size = max(group.group_size, one.size)
        group.group_first, group.group_last = min(group.group_first, one.first), max(group.group_last, one.last)


@kernel(ty.int64(STEPS, MAPS, BUFFERS, MATRIX, MATRIX, ty.int64, ty.int64, LIST, LIST))
def look_at_all(  # type: ignore[no-untyped-def]
    steps, maps, buffers, touches, nodes, buffer_count, hides_tensors, touched, usage
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
            share_in_place(steps[nodes[place, 0] :], 0, nodes[place, 1] - nodes[place, 0], nodes[place, 0], maps, buffers)
    for place in range(count):
        root = root_of(buffers, touched[place])
        join_group(buffers[root], buffers[touched[place]])
    usage[: events + 1] = 0
    for place in range(count):
        number = touched[place]
        one = buffers[number]
        if one.group_last >= 0 and not (hides_tensors and one.is_tensor):
            usage[one.group_first] += aligned(one.group_size)
            usage[one.group_last + 1] -= aligned(one.group_size)
    most = total = np.int64(0)
    for event in range(events):
        total += usage[event]
        usage[event] = total
        most = max(most, total)
    return most
