"""Convolutions of floats around a depthwise one, executed in stripes of rows: large maps between them stay in the caches.

A thread takes some output rows and goes through them a stripe at a time, with buffers of its own (`kernels/cascade.py`). Rows
on the border of two threads are computed by both.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeGuard

import numpy as np

from npu.numerics.arrays import Array
from npu.runtime.tensor import RuntimeTensor
from npu.runtime.xnnpack.convolution import Depthwise, PackedConvolution
from npu.runtime.xnnpack.kernels import row as r
from npu.runtime.xnnpack.memory import ALIGNMENT, GUARD_BYTES, TensorMemory, address, guarded
from npu.runtime.xnnpack.operation import Rows, Words, XnnpackOperation
from npu.runtime.xnnpack.threads import work_per_row

_LARGE_BYTES = 1 << 19
"""Of a map: a smaller one stays in the cache of a processor in any case."""
_STRIPE_BYTES = 3 << 17
"""Of both buffers together."""
_SHARE = 1.0
"""Of the maps, what the buffers of all threads may take: with more, threads have few rows, and compute many of them twice."""
_FLOAT = np.dtype(np.float32)
Operations = tuple[PackedConvolution, Depthwise, PackedConvolution]


class Cascade:
    """Three operations with buffers for `threads` chunks, in memory that other cascades use before and after."""

    def __init__(self, operations: Operations, threads: int, memory: TensorMemory) -> None:
        self._operations = operations
        first, depthwise, _ = operations
        (_, height, width, channels), window = first.node.output().shape, depthwise.window
        (_, self._rows, out_width, between), (_, _, _, out_channels) = (op.node.output().shape for op in operations[1:])
        self._sizes = np.zeros((), r.CASCADE_OF_JOBS)
        stride, reach = window.stride[0], (window.kernel[0] - 1) * window.dilation[0] + 1
        pitch, between_pitch = 4 * width * channels, 4 * out_width * between
        stripe = (_STRIPE_BYTES - pitch * (reach - stride)) // (pitch * stride + between_pitch)
        stripe = min(max(stripe, 1), self._rows)
        slots = -(-((stripe - 1) * stride + reach) // stride) * stride
        for name, value in {
            "height": height, "width": width, "pitch": pitch, "slots": slots, "stride": stride, "before": window.before[0],
            "window": reach, "between_pitch": between_pitch, "stripe": stripe, "out_pitch": 4 * out_width * out_channels,
            "out_width": out_width,
        }.items():  # fmt: skip
            self._sizes[name] = value
        self._sets = np.zeros((threads, r.CASCADE_BYTES + len(operations) * r.JOB_BYTES), np.uint8)
        self._buffers = ((1, slots, width, channels), (stripe, out_width, between))
        self._memory, self._tables = memory, list[tuple[Words, Words]]()

    @property
    def is_worth_it(self) -> bool:
        """Whether the buffers are smaller than the maps that are never whole then."""
        maps = sum(operation.node.output().array.nbytes for operation in self._operations[:2])
        return self.buffer_bytes <= _SHARE * maps

    @property
    def buffer_bytes(self) -> int:
        """Of the buffers of all chunks."""
        return len(self._sets) * self._bytes_of_chunk

    @property
    def inputs(self) -> tuple[RuntimeTensor | None, ...]:
        """What is read until the last row is written."""
        return self._operations[0].node.inputs

    @property
    def last(self) -> PackedConvolution:
        """The operation whose output is that of all."""
        return self._operations[2]

    @property
    def table_bytes(self) -> int:
        """Of the addresses of what is read in the buffers."""
        return sum(table.nbytes for tables in self._tables for table in tables)

    @property
    def _bytes_of_chunk(self) -> int:
        return sum(-(-4 * math.prod(shape) // ALIGNMENT) * ALIGNMENT + GUARD_BYTES for shape in self._buffers)

    def _make_tables(self) -> None:
        """Place the buffers of each chunk, and find what the depthwise job and the last one read there."""
        size, (_, depthwise, _) = self._bytes_of_chunk, self._operations
        self._outside = guarded((depthwise.node.input(0).shape[3] + GUARD_BYTES,), _FLOAT)
        room = self._room = self._memory.bytes_for(self.buffer_bytes)  # others get another one if they need more
        for number, own in enumerate(self._sets):
            free, arrays = room[number * size : (number + 1) * size], []
            for shape in self._buffers:
                count = 4 * math.prod(shape)
                arrays.append(free[:count].view(_FLOAT).reshape(shape))
                free = free[-(-count // ALIGNMENT) * ALIGNMENT + GUARD_BYTES :]
            rolling, stripe = arrays
            sizes = own[: r.CASCADE_BYTES].view(r.CASCADE_OF_JOBS)
            sizes[:] = self._sizes
            sizes["buffer"], sizes["between"] = address(rolling), address(stripe)
            windows = self._windows(depthwise, rolling, int(self._sizes["window"]))
            windows[windows == 0] = address(self._outside)
            pixel = stripe.shape[2] * stripe.itemsize
            self._tables.append((windows, address(stripe) + pixel * np.arange(stripe.size // stripe.shape[2], dtype=np.int64)))

    def _windows(self, depthwise: Depthwise, rolling: Array, reach: int) -> Words:
        """Addresses of the windows from every place where one can begin in the rolling buffer, 0 outside the map."""
        _, slots, width, channels = rolling.shape
        g, end = depthwise.window, address(rolling) + rolling.nbytes
        window = replace(g, before=(0, g.before[1]), out=(slots // g.stride[0], g.out[1]))
        twice = np.lib.stride_tricks.as_strided(rolling, (1, slots + reach, width, channels))  # only addresses are taken
        table, _, _ = depthwise.table_over(twice, window, 0, lambda count: np.zeros(count, np.int64))
        table[table >= end] -= rolling.nbytes
        return table

    def bound_rows(self) -> Rows:
        """What makes the input of the first operation ready, and the job, for the current buffers."""
        if not self._tables:
            self._make_tables()
        jobs = [operation.rows[-1] for operation in self._operations]
        for own, (windows, pixels) in zip(self._sets, self._tables, strict=True):
            own[: r.CASCADE_BYTES].view(r.CASCADE_OF_JOBS)["out"] = jobs[2]["out"]
            rows = own[r.CASCADE_BYTES :].view(r.JOB)
            rows[:] = jobs
            rows["table"][1:] = address(windows), address(pixels)
        job = np.zeros((), r.JOB)
        job["kind"], job["rows"], job["length"] = r.CASCADE, self._rows, self._work(jobs)
        job["table"], job["segments"], job["pixel_step"] = address(self._sets), *self._sets.shape
        return np.stack([*self._operations[0].rows[:-1], job])

    def _work(self, jobs: Sequence[Rows]) -> int:
        rows = np.stack(jobs)
        return int((work_per_row(rows) * rows["rows"]).sum()) // self._rows


def find_cascades(
    group: Sequence[XnnpackOperation], uses: Counter[int], threads: int, memory: TensorMemory
) -> Iterator[tuple[int, Cascade]]:
    """Those that are worth it among consecutive operations, each with the index of its first operation.

    `uses` counts who reads a tensor, by identity.
    """
    after = -1
    for index, triple in enumerate(zip(group, islice(group, 1, None), islice(group, 2, None), strict=False)):
        cascade = Cascade(triple, threads, memory) if index > after and _is_cascade(triple, uses) else None
        if cascade is not None and cascade.is_worth_it:
            memory.reserve(cascade.buffer_bytes)
            after = index + 2
            yield index, cascade


def _is_cascade(operations: tuple[XnnpackOperation, ...], uses: Counter[int]) -> TypeGuard[Operations]:
    first, depthwise, last = operations
    if not (isinstance(first, PackedConvolution) and isinstance(depthwise, Depthwise) and isinstance(last, PackedConvolution)):
        return False
    if not all(operation.is_float and operation.is_compiled for operation in (first, depthwise, last)):
        return False
    maps = [operation.node.output() for operation in (first, depthwise)]
    is_chain = all(uses[id(m)] == 1 and op.node.input(0) is m for m, op in zip(maps, (depthwise, last), strict=True))
    taps = last.window
    return is_chain and maps[0].shape[0] == 1 and maps[0].array.nbytes >= _LARGE_BYTES and taps.kernel == taps.stride == (1, 1)
