"""Steps that several threads do one after another, each in chunks that they take in turn: parts of compiled kernels.

A piece of work behind a gate (`npu.native.gate`) begins with the address and the number of its steps; what follows is for
`do_chunk(work, step, chunk)`, a kernel that knows what the jobs of the steps are. A thread that comes late finds nothing left
to do, and nobody waits for one that does not come.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.native import types as ty
from npu.native.gate import ARGUMENTS, close_gate, count, enter_gate, leave_gate, open_gate, wait_for
from npu.native.kernel import Inlined, RowsAt
from npu.native.memory import add_atomic, store_64

SHARED_WORK = ty.int64[::1]
STEP = np.dtype(
    [
        *((name, np.int64) for name in ("job", "part", "chunks")),  # what to do, as `do_chunk` knows it, and in how many chunks
        ("state", np.int64),  # how many of its chunks were done and taken in this run
        ("", np.int64, (4,)),
    ]
)
"""A step; threads that count at different ones share no cache line. One word counts all, so that it comes to a thread once a
chunk: chunks that are done, those taken from the first on, and those from the last."""
STEP_TYPE = ty.record(STEP)
FIRST_OWN = ARGUMENTS + 2
"""Where in the work the words for `do_chunk` begin."""
_STEP_BYTES = STEP.itemsize
_STATE = ty.offset_of(STEP, "state")
_BITS = 16
_MASK = (1 << _BITS) - 1
_FROM_START, _FROM_END = 1 << _BITS, 1 << 2 * _BITS
_steps_at = RowsAt(STEP_TYPE)


def make_steps(steps: list[tuple[int, int, int]]) -> NDArray[np.void]:
    """The job, part and number of chunks of each step, on cache lines of their own."""
    room = np.zeros((len(steps) + 1) * _STEP_BYTES, np.uint8)
    start = -room.ctypes.data % _STEP_BYTES
    made: NDArray[np.void] = room[start : start + len(steps) * _STEP_BYTES].view(STEP)
    for k, name in enumerate(("job", "part", "chunks")):
        made[name] = [step[k] for step in steps]
    return made


def joined_steps(first: int, size: int, counts: list[int]) -> list[tuple[int, int, int]]:
    """Steps of jobs that lie `size` bytes apart: the part is how many of them one thread does alone, 0 of one that is shared.

    counts: the number of chunks of each job.
    """
    steps, alone = list[tuple[int, int, int]](), 0
    for k, chunks in enumerate([*counts, 0]):
        if chunks == 1:
            alone += 1
            continue
        if alone > 0:
            steps.append((first + (k - alone) * size, alone, 1))
        alone = 0
        if chunks > 0:
            steps.append((first + k * size, 0, chunks))
    return steps


@Inlined
def run_steps(work, do_chunk):  # type: ignore[no-untyped-def]
    """Every step in order, beside threads in `help_with_steps`."""
    at = np.int64(work.ctypes.data)
    for k in range(work[ARGUMENTS + 1]):
        step = work[ARGUMENTS] + k * _STEP_BYTES
        store_64(step + _STATE, np.int64(0))
    open_gate(at)
    _take_chunks(work, do_chunk, np.int64(_FROM_START))
    close_gate(at)


@Inlined
def help_with_steps(work, do_chunk):  # type: ignore[no-untyped-def]
    """Take part in every `run_steps` of the same work, until there is none for a while."""
    at = np.int64(work.ctypes.data)
    opened = enter_gate(at, np.int64(0))
    while opened >= 0:
        _take_chunks(work, do_chunk, np.int64(_FROM_END))
        leave_gate(at)
        opened = enter_gate(at, opened)


@Inlined
def _take_chunks(work, do_chunk, one):  # type: ignore[no-untyped-def]
    """The owner from the first on, others from the last: of maps that steps cut alike, each thread reads what it wrote."""
    last_step = work[ARGUMENTS + 1] - 1
    for k in range(last_step + 1):
        at = work[ARGUMENTS] + k * _STEP_BYTES
        step = _steps_at(at)[0]
        state = add_atomic(at + _STATE, one)
        first, last = state >> _BITS & _MASK, state >> 2 * _BITS & _MASK
        while first + last < step.chunks:
            do_chunk(work, step, first if one == _FROM_START else step.chunks - 1 - last)
            state = count(at + _STATE, one + 1)
            first, last = state >> _BITS & _MASK, state >> 2 * _BITS & _MASK
        if k < last_step or one == _FROM_START:
            wait_for(at + _STATE, np.int64(_MASK), step.chunks)
