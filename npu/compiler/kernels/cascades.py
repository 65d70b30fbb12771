"""The next cascade of a search: every chain around the peak, in every number of stripes that may lower it.

Steps of the whole program, numbered before any was cut, become events: one each, or the stripes of the cascade that has them.
"""

from __future__ import annotations

import numpy as np

from npu.compiler.kernels.live_maps import (
    AT_BEGIN,
    AT_END,
    BUFFERS,
    aligned,
    begin_sharing,
    group_bytes,
    join_group,
    look_at_all,
    place_of,
    root_of,
    share_in_place,
    trace,
)
from npu.compiler.kernels.stripes import (
    FEW,
    KEPT,
    KEPT_AHEAD,
    LIST,
    MADE_AGAIN,
    MAPS,
    MATRIX,
    MIDDLE,
    STEPS,
    begin_chain,
    height_of,
    keep_rows,
    make_stripe,
    next_stripe,
    rows_of_line,
    rows_of_result,
    rows_of_stripe,
    stripes_ahead,
    view_of,
    write_line,
    write_rolling,
)
from npu.machine.kernels.arithmetic import inlined
from npu.machine.kernels.rows import integers
from npu.native import types as ty
from npu.native.kernel import kernel

LONGEST = 12
"""Maps that a chain makes at most, the last one included."""
MOST_STEPS = 64
"""Steps that make them: parts of maps and borders have their own."""
MOST_CHAINS = MOST_STEPS * (MOST_STEPS + 2)
"""Chains with a step or a neighbour of it: so many may begin, and so many end."""
SHORT = 2
"""Steps of a chain with one map between them: a rolling buffer of it is no larger than the part that a stripe needs."""

SEARCH = np.dtype(
    integers(
        *("begin", "end", "worst"),  # of the node that has the peak, in steps, and the event of that
        *("peak", "budget", "hides_tensors", "has_branches", "has_leads", "comes_ahead"),
        *("map_count", "buffer_count"),
        *("first", "last", "count", "overlap"),  # the best trial: a chain of steps and its stripes; count 0: none
        *("first_event", "last_event", "reached", "work", "added"),
    )
)
SEARCHES = ty.record(SEARCH)[::1]
CHAIN = np.dtype(
    integers(
        *("first", "last", "first_event", "last_event", "has_cascades"),
        *("least", "beside", "kept", "kept_before", "reads_later", "is_tried"),
    )
)
CASCADES = MATRIX
"""First and last step, and how many stripes take their place, in order."""
CHAINS = ty.record(CHAIN)[::1]


@inlined
def note_uses(steps, begin, end, maps):  # type: ignore[no-untyped-def]
    """Which steps write and use every map, and whether it can be made in stripes if they all are."""
    for position in range(begin, end):
        for number in range(3):
            view = view_of(steps[position], number)
            if view.map >= 0:
                one = maps[view.map]
                one.writers, one.is_divisible = 0, not one.is_boundary and not one.is_rolling
    for position in range(begin, end):
        step = steps[position]
        for number in range(3):
            view = view_of(step, number)
            if view.map >= 0:
                one = maps[view.map]
                one.last_use = position
                if number == 2:
                    one.first_write = position if one.writers == 0 else one.first_write
                    one.writers += 1
                is_broadcast = not step.is_window and view.rows != step.ofm.rows
                if not step.is_divisible or not view.has_places or is_broadcast:
                    one.is_divisible = 0


@inlined
def has_rows(steps, first, last):  # type: ignore[no-untyped-def]
    """Whether what a chain makes of its result can be cut in rows."""
    views, known = 0, 0
    for position in range(first, last + 1):
        if steps[position].ofm.map == steps[last].ofm.map:
            views += 1
            known += steps[position].ofm.has_places
    return views in (1, known)


@inlined
def place_in(made, count, number):  # type: ignore[no-untyped-def]
    """Where a number is among the first ones of a list; -1 if it is not."""
    for place in range(count):
        if made[place] == number:
            return place
    return -1


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, CHAINS, LIST))
def list_chains(steps, maps, begin, end, worst, has_branches, chains, made):  # type: ignore[no-untyped-def]
    """The chains that can be cut with the worst step or a neighbour among steps from `begin` on, and how many.

    `has_branches` tells whether a map may have readers that do not make the next one, all in the chain: branches that meet
    again.
    """
    listed = np.int64(0)
    note_uses(steps, begin, end, maps)
    for first in range(max(worst - MOST_STEPS, begin), min(worst + 1, end - 2) + 1):
        count, latest = 1, np.int64(0)
        made[0] = steps[first].ofm.map
        if first > begin and steps[first - 1].ofm.map == made[0]:
            continue
        for last in range(first, min(first + MOST_STEPS, end)):
            step = steps[last]
            result = step.ofm.map
            if last > first and result != steps[last - 1].ofm.map:
                before = maps[steps[last - 1].ofm.map]
                if not before.is_divisible or before.first_write < first:
                    break
                latest = max(latest, before.last_use)
                if place_in(made, count, result) < 0:
                    made[count] = result
                    count += 1
            goes_back = False
            for number in range(2):
                view = view_of(step, number)
                goes_back |= view.map >= 0 and 0 <= place_in(made, count, view.map) < count - 2
            if not step.is_divisible or count > LONGEST or (goes_back and not has_branches):
                break
            goes_on = last + 1 < end and steps[last + 1].ofm.map == result and steps[last + 1].is_divisible
            if last >= worst - 1 and count > 1 and latest <= last and not goes_on and has_rows(steps, first, last):
                chains[listed].first, chains[listed].last = first, last
                listed += 1
    return listed


@inlined
def is_line(steps, maps, first, last):  # type: ignore[no-untyped-def]
    """Whether every step of a chain makes all of a map from that of the one before it, which nobody else reads."""
    for position in range(first, last + 1):
        if steps[position].is_window and steps[position].upscaling > 1:
            return False
    for position in range(first, last):
        ofm, readers = steps[position].ofm, 0
        if not ofm.is_rows or ofm.rows != maps[ofm.map].rows:
            return False
        for other in range(first, last + 1):
            if other != position and steps[other].ofm.map == ofm.map:
                return False
            for number in range(2):
                view = view_of(steps[other], number)
                if view.map == ofm.map:
                    readers += 1
                    if other != position + 1 or not view.is_rows or view.rows != maps[ofm.map].rows:
                        return False
        if readers != 1:
            return False
    return True


@inlined
def is_counted(search, buffers, number):  # type: ignore[no-untyped-def]
    """Whether the buffer whose memory one uses counts, one that is live before a chain begins if it is in use before."""
    return not (search.hides_tensors and number < search.buffer_count and buffers[number].is_tensor)


@inlined
def outside_root(buffers, number, begin, buffer_count):  # type: ignore[no-untyped-def]
    """Whose memory a buffer uses that was made before a chain."""
    if number < buffer_count and buffers[number].first < begin:
        return root_of(buffers, number)
    return number


@kernel(ty.void(STEPS, STEPS, MAPS, BUFFERS, MATRIX, SEARCHES, CHAINS, MATRIX, LIST))
def look_around(whole, steps, maps, buffers, touches, searches, chains, rows, touched):  # type: ignore[no-untyped-def]
    """What is live besides the `steps` of chains[0], and at least with those of the `whole` program, however they are cut."""
    search, chain = searches[0], chains[0]
    first, last, count = chain.first_event, chain.last_event, 0
    for number in range(search.buffer_count):
        one = buffers[number]
        one.is_marked = one.at_begin = one.at_end = 0
    for place in range(len(touches)):
        if touches[place, 1] == first and touches[place, 2] == AT_BEGIN:
            buffers[touches[place, 0]].at_begin = 1
        if touches[place, 1] == last and touches[place, 2] == AT_END:
            buffers[touches[place, 0]].at_end = 1
    for position in range(first, last + 1):
        for number in range(3):
            view = view_of(steps[position], number)
            if view.map >= 0:
                own = maps[view.map].buffer
                if not buffers[own].is_marked & 1:
                    buffers[own].is_marked |= 1
                    touched[count] = own
                    count += 1
                buffers[root_of(buffers, own)].is_marked |= 2
    chain.beside = 0
    for number in range(search.buffer_count):
        one = buffers[number]
        is_live = one.group_last >= first and one.group_first <= last
        if is_live and not one.is_marked & 2 and is_counted(search, buffers, number):
            chain.beside += group_bytes(one)
    begin, end = rows_of_result(whole, chain.first, chain.last)
    half = begin - (begin - end) // 2
    begin_chain(whole, maps, chain.first, chain.last, rows)
    next_stripe(whole, maps, chain.first, chain.last, begin, half, rows)
    next_stripe(whole, maps, chain.first, chain.last, begin, end, rows)
    chain.reads_later = 1
    for place in range(chain.last - chain.first + 1):
        if rows[place, 1] <= rows[place, 0]:
            chain.reads_later = 0
    result = maps[whole[chain.last].ofm.map].buffer
    replaces = may_replace(whole, maps, chain.first, chain.last, search.has_leads)
    before = after = both = both_but_result = after_but_result = 0
    for place in range(count):
        number = touched[place]
        one = buffers[number]
        size = aligned(one.size) * is_counted(search, buffers, outside_root(buffers, number, first, search.buffer_count))
        is_before, is_after = one.first < first, one.last > last
        is_kept_after = is_after and not (replaces and number == result)
        before += size * is_before
        after += size * is_kept_after
        both += size * (is_before or is_kept_after)
        after_but_result += size * (is_kept_after and number != result)
        both_but_result += size * (is_before or (is_kept_after and number != result))
    chain.least = chain.beside + (both if chain.reads_later else max(before, after))
    chain.kept = chain.beside + (both if chain.reads_later else after)
    chain.kept_before = chain.beside + (both_but_result if chain.reads_later else after_but_result)


@inlined
def may_replace(steps, maps, first, last, has_leads):  # type: ignore[no-untyped-def]
    """Whether the result of a chain, made in stripes, may lie where an operand was, as far as shapes tell."""
    result, begun = steps[last].ofm.map, False
    new = maps[result]
    for position in range(first, last + 1):
        is_first = steps[position].ofm.map == result and not begun
        begun = begun or is_first
        for number in range(2):
            view = view_of(steps[position], number)
            if view.map >= 0:
                old = maps[view.map]
                old_bytes, new_bytes = old.rows * old.row_bytes, new.rows * new.row_bytes
                is_alike = old.rows == new.rows and old.width == new.width and old.depth == new.depth
                if is_alike and is_first and steps[position].in_place:
                    return True
                if (old.is_boundary or has_leads) and old_bytes <= 2 * new_bytes:
                    return True
    return False


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX))
def least_rolling(steps, maps, first, last, begin, stripe_rows, overlap, rows):  # type: ignore[no-untyped-def]
    """Bytes that rolling buffers hold for the first few stripes, of those of which anything is read later."""
    end, ahead = rows_of_result(steps, first, last)[1], np.int64(0)
    begin_chain(steps, maps, first, last, rows)
    if overlap == KEPT_AHEAD:
        ahead = stripes_ahead(steps, maps, first, last, begin, stripe_rows, rows)
    for place in range(last - first + 1):
        rows[place, 4] = 0
    for stripe in range(-ahead, FEW):
        if begin + stripe * stripe_rows < end:
            make_stripe(steps, maps, first, last, (begin, end), stripe_rows, stripe, rows)
            keep_rows(steps, maps, first, last, rows)
            for place in range(last - first + 1):
                rows[place, 4] += stripe > 0 and rows[place, 1] > rows[place, 0]
    for position in range(first, last + 1):
        for number in range(2):
            view = view_of(steps[position], number)
            if view.map >= 0:
                maps[view.map].new = 0
    for position in range(first, last + 1):
        if rows[position - first, 4]:
            for number in range(2):
                view = view_of(steps[position], number)
                if view.map >= 0:
                    maps[view.map].new = 1
    maps[steps[last].ofm.map].new = 0
    total = np.int64(0)
    for position in range(first, last + 1):
        one = maps[steps[position].ofm.map]
        total += height_of(one) * one.dense_bytes * one.new
        one.new = 0
    return total


@kernel(ty.int64(STEPS, MAPS, ty.int64, ty.int64, ty.int64, ty.int64, MATRIX))
def least_of_line(steps, maps, first, last, begin, stripe_rows, rows):  # type: ignore[no-untyped-def]
    """Bytes of maps between the steps of a line that a stripe in the middle, or the first, needs at once at least."""
    end = rows_of_result(steps, first, last)[1]
    start = begin + stripe_rows if (end - begin + stripe_rows - 1) // stripe_rows >= MIDDLE else begin
    rows_of_line(steps, first, last, start, min(start + stripe_rows, end), rows)
    before = most = np.int64(0)
    for position in range(first, last):
        step = steps[position]
        own = (rows[position - first, 1] - rows[position - first, 0]) * maps[step.ofm.map].dense_bytes
        most = max(most, own + (before if step.is_window else 0))
        before = own
    return most


@inlined
def least_in(steps, maps, chain, count, overlap, rows):  # type: ignore[no-untyped-def]
    """Bytes that are live at once at least with a chain in so many stripes; -1 if it has fewer rows."""
    first, last = chain.first, chain.last
    stripe_rows = rows_of_stripe(steps, first, last, count)
    if not stripe_rows:
        return np.int64(-1)
    begin, end = rows_of_result(steps, first, last)
    if overlap != MADE_AGAIN:
        return max(chain.least, chain.kept + least_rolling(steps, maps, first, last, begin, stripe_rows, overlap, rows))
    kept = chain.kept if (end - begin + stripe_rows - 1) // stripe_rows >= MIDDLE else chain.kept_before
    return max(chain.least, kept + least_of_line(steps, maps, first, last, begin, stripe_rows, rows))


@kernel(ty.int64(STEPS, ty.int64, MAPS, BUFFERS, BUFFERS, SEARCHES, CHAINS, LIST, LIST))
def peak_of(steps, count, maps, buffers, own, searches, chains, touched, usage):  # type: ignore[no-untyped-def]
    """The most that is live with `steps` in place of those of chains[0]: events 1 to `count`; 0 and behind are outside."""
    search, chain = searches[0], chains[0]
    first, last, known = chain.first_event, chain.last_event, search.buffer_count
    listed = trace(steps, count, 1, maps, own, touched)
    for place in range(listed):
        number = touched[place]
        one = own[number]
        one.is_lasting = 0
        if number < known:
            old = buffers[number]
            one.size, one.is_lasting = old.size, old.is_lasting
            one.first = 0 if old.first < first else (1 if old.at_begin else one.first)
            one.last = count + 1 if old.last > last else (count if old.at_end else one.last)
        begin_sharing(one, number)
    share_in_place(steps, 0, count, 1, search.has_leads, maps, own)
    usage[: count + 3] = 0
    for place in range(listed):
        own[outside_root(buffers, root_of(own, touched[place]), first, known)].group_last = -1
    for place in range(listed):
        root = root_of(own, touched[place])
        outside, start = outside_root(buffers, root, first, known), place_of(own, touched[place])
        if outside != root:
            start += place_of(buffers, root)
        join_group(own[outside], own[touched[place]], start)
    for place in range(listed):
        root = outside_root(buffers, root_of(own, touched[place]), first, known)
        one = own[root]
        if one.group_last >= 0:
            if is_counted(search, buffers, root):
                usage[one.group_first] += group_bytes(one)
                usage[one.group_last + 1] -= group_bytes(one)
            one.group_last = -1
    for place in range(listed):
        own[touched[place]].last = -1
    total, most = usage[0], np.int64(0)
    for event in range(1, count + 1):
        total += usage[event]
        most = max(most, total)
    return chain.beside + most


@inlined
def work_of(steps, begin, end):  # type: ignore[no-untyped-def]
    """Elements computed and weights read: what grows with rows that are computed twice, and with the number of stripes."""
    work = np.int64(0)
    for position in range(begin, end):
        work += steps[position].ofm.rows * steps[position].row_elements + steps[position].weights
    return work


@inlined
def write(steps, maps, search, first, last, count, overlap, rows, out):  # type: ignore[no-untyped-def]
    """A chain in stripes as steps in `out`, and how many."""
    if overlap != MADE_AGAIN:
        return write_rolling(steps, maps, first, last, count, overlap, search.map_count, search.buffer_count, rows, out)
    return write_line(steps, maps, first, last, count, search.map_count, search.buffer_count, rows, out)


@kernel(ty.int64(STEPS, MAPS, SEARCHES, MATRIX, STEPS))
def write_best(whole, maps, searches, rows, out):  # type: ignore[no-untyped-def]
    """The stripes of the best trial as steps in `out`, and how many; the maps between them are added."""
    best = searches[0]
    return write(whole, maps, best, best.first, best.last, best.count, best.overlap, rows, out)


@inlined
def event_of(cascades, step):  # type: ignore[no-untyped-def]
    """The event of a step, or the first of the cascade that has it."""
    event = step
    for place in range(len(cascades)):
        first, last, count = cascades[place, 0], cascades[place, 1], cascades[place, 2]
        if last < step:
            event += count - (last - first + 1)
        elif first <= step:
            event += first - step
    return event


@inlined
def events_of(cascades, step):  # type: ignore[no-untyped-def]
    """How many events a step has, or the cascade that has it."""
    for place in range(len(cascades)):
        if cascades[place, 0] <= step <= cascades[place, 1]:
            return cascades[place, 2]
    return np.int64(1)


@inlined
def step_of(cascades, event):  # type: ignore[no-untyped-def]
    """The step that an event is, or the first of the cascade that it belongs to."""
    added = np.int64(0)
    for place in range(len(cascades)):
        first, last, count = cascades[place, 0], cascades[place, 1], cascades[place, 2]
        if event < first + added:
            break
        if event < first + added + count:
            return first
        added += count - (last - first + 1)
    return event - added


@inlined
def place_chain(chain, cascades):  # type: ignore[no-untyped-def]
    """Note the events of a chain and whether cascades have any of its steps; False if one has others as well."""
    chain.has_cascades = 0
    for place in range(len(cascades)):
        first, last = cascades[place, 0], cascades[place, 1]
        if first <= chain.last and chain.first <= last:
            chain.has_cascades = 1
            if first < chain.first or chain.last < last:
                return False
    chain.first_event = event_of(cascades, chain.first)
    chain.last_event = event_of(cascades, chain.last) + events_of(cascades, chain.last) - 1
    return True


@kernel(
    ty.int64(
        STEPS, STEPS, ty.int64, MAPS, BUFFERS, BUFFERS, MATRIX, MATRIX, SEARCHES, CHAINS, MATRIX, MATRIX, STEPS, LIST, LIST
    )
)
def peak_of_all(  # type: ignore[no-untyped-def]
    steps, stripes, count, maps, buffers, own, touches, nodes, searches, chains, new_touches, new_nodes, out, touched, usage
):
    """Work out in `usage` what is live when all steps run with `stripes` in place of the events of chains[0]."""
    search, chain = searches[0], chains[0]
    first, last = chain.first_event, chain.last_event
    added, maps_end = count - (last - first + 1), search.map_count
    for position in range(first):
        out[position] = steps[position]
    for position in range(count):
        out[first + position] = stripes[position]
        maps_end = max(maps_end, stripes[position].ofm.map + 1)
    events = len(steps) + added
    for position in range(last + 1, len(steps)):
        out[position + added] = steps[position]
    for place in range(len(touches)):
        for column in range(3):
            new_touches[place, column] = touches[place, column]
        new_touches[place, 1] += added * (touches[place, 1] >= last)
    for place in range(len(nodes)):
        new_nodes[place, 2] = nodes[place, 2]
        new_nodes[place, 0] = nodes[place, 0] + added * (nodes[place, 0] > last)
        new_nodes[place, 1] = nodes[place, 1] + added * (nodes[place, 1] > last)
    buffer_count = search.buffer_count + maps_end - search.map_count
    for number in range(buffer_count):
        own[number].bytes = own[number].is_tensor = own[number].is_lasting = 0
        if number < search.buffer_count:
            own[number] = buffers[number]
    ways = search.hides_tensors, search.has_leads
    peak = look_at_all(out[:events], maps, own, new_touches, new_nodes, buffer_count, *ways, touched, usage)
    for number in range(buffer_count):
        own[number].last = own[number].group_last = -1
    return peak


@inlined
def most_in(usage, start, count):  # type: ignore[no-untyped-def]
    """The most bytes at some events."""
    most = np.int64(0)
    for event in range(start, start + count):
        most = max(most, usage[event])
    return most


@inlined
def is_better(search, place, best_place, reached, work, added):  # type: ignore[no-untyped-def]
    """Whether a trial meets the budget at less work than the best one so far, or comes nearer to it."""
    if not search.count:
        return True
    new, old = max(reached, search.budget), max(search.reached, search.budget)
    if new != old or work != search.work:
        return new < old or (new == old and work < search.work)
    return added < search.added or (added == search.added and place < best_place)


@inlined
def next_chain(chains, count):  # type: ignore[no-untyped-def]
    """The chain with the lowest bound of those that were not tried; -1 if all were."""
    best = -1
    for place in range(count):
        if not chains[place].is_tried and (best < 0 or chains[place].least < chains[best].least):
            best = place
    return best


@kernel(
    ty.void(
        *(STEPS, CASCADES, STEPS, MAPS, BUFFERS, MATRIX, MATRIX, LIST, SEARCHES, LIST),
        *(CHAINS, BUFFERS, STEPS, STEPS, MATRIX, MATRIX, MATRIX, LIST, LIST),
    )
)
def improve(  # type: ignore[no-untyped-def]
    whole, cascades, steps, maps, buffers, touches, nodes, live, searches, counts,
    chains, own, stripes, out, rows, new_touches, new_nodes, touched, usage,
):  # fmt: skip
    """Find the next cascade: the cheapest around the worst step that meets the budget, else the lowest.

    `live` are bytes at every event. All behind `counts` has room for what a trial needs; no buffer in `own` is touched. A chain
    is tried in more and more stripes until the budget is met, from the most on where it cannot be; with rows that are made
    ahead of the first stripe, or twice, if need be.
    """
    search = searches[0]
    worst = step_of(cascades, search.worst)
    worst_event, worst_count = event_of(cascades, worst), events_of(cascades, worst)
    listed = list_chains(whole, maps, search.begin, search.end, worst, search.has_branches, chains, touched)
    search.count = 0
    for place in range(listed):
        chain = chains[place]
        chain.is_tried = not place_chain(chain, cascades)
        chain.least = chain.beside = chain.kept = chain.kept_before = 0
        if not chain.is_tried:
            look_around(whole, steps, maps, buffers, touches, searches, chains[place:], rows, touched)
    lowest, best_place = search.peak - 1, 0
    for _ in range(listed):
        place = next_chain(chains, listed)
        if place < 0:
            break
        chain = chains[place]
        chain.is_tried = 1
        if chain.least > max(lowest, search.budget):
            break
        first, last, is_met, lowest_here = chain.first, chain.last, False, lowest
        first_event, last_event = chain.first_event, chain.last_event
        has_worst = first <= worst <= last
        for overlap in (KEPT, KEPT_AHEAD, MADE_AGAIN):
            if overlap != KEPT and (search.hides_tensors or last - first < SHORT or is_met):
                break
            if overlap == KEPT_AHEAD and not search.comes_ahead:
                continue
            if overlap == MADE_AGAIN and not is_line(whole, maps, first, last):
                break
            limit = lowest
            for turn in range(len(counts)):
                count = counts[len(counts) - 1 - turn] if chain.least > search.budget else counts[turn]
                least = least_in(whole, maps, chain, count, overlap, rows)
                if least < 0 or least > max(limit, search.budget):
                    continue
                written = write(whole, maps, search, first, last, count, overlap, rows, stripes)
                added = written - (last_event - first_event + 1)
                if chain.has_cascades:
                    peak_of_all(
                        steps, stripes, written, maps, buffers, own, touches, nodes, searches, chains[place:],
                        new_touches, new_nodes, out, touched, usage,
                    )  # fmt: skip
                    reached = most_in(usage, first_event, written)
                    if not has_worst:
                        reached = max(reached, most_in(usage, worst_event + added * (worst > last), worst_count))
                else:
                    reached = peak_of(stripes, written, maps, buffers, own, searches, chains[place:], touched, usage)
                    if search.has_branches and not has_worst:  # stripes of a line leave the rest to the next cascade
                        reached = max(reached, most_in(live, worst_event, worst_count))
                work = work_of(stripes, 0, written) - work_of(steps, first_event, last_event + 1)
                if reached < search.peak and is_better(search, place, best_place, reached, work, added):
                    search.first, search.last, search.count, search.overlap = first, last, count, overlap
                    search.first_event, search.last_event = first_event, last_event
                    search.reached, search.work, search.added, best_place = reached, work, added, place
                limit, lowest_here = min(limit, reached), min(lowest_here, reached)
                if reached <= search.budget:
                    is_met = True
                    break
        lowest = lowest_here
