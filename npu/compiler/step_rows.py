"""Steps, maps and buffers as rows of numbers, which the kernels of cascades are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.compiler.ir import ConvolutionStep, ElementwiseStep, PoolingStep, Step, Storage, View, WindowStep
from npu.compiler.kernels.cascades import CHAIN, MOST_CHAINS, MOST_STEPS, list_chains
from npu.compiler.kernels.live_maps import BUFFER
from npu.compiler.kernels.stripes import MAP, STEP
from npu.compiler.layout import choose_layouts, storage_bytes
from npu.compiler.lifetime import LogicalBuffer, buffer_of, goes_in_place, is_rows
from npu.graph.graph import ABSENT, Graph
from npu.isa.operations import Layout, PoolingMode
from npu.layouts import BRICK_DEPTH
from npu.memo import cached_property

RowTable = npt.NDArray[Any]
_NO_VIEW = (-1, 0, 1, 0, 0, 0, 0, 0, 0, 0)
NO_STEP = (1, 0, 1, 0, 1, 1, 0, 0, 0, _NO_VIEW, _NO_VIEW, _NO_VIEW)
"""The event of an operator on the CPU."""


def filled(values: Sequence[int], kind: np.dtype[Any]) -> tuple[int, ...]:
    """A row of integers whose first fields are given."""
    return *values, *[0] * (len(kind.fields or ()) - len(values))


def joined(*tables: RowTable, out: RowTable | None = None) -> RowTable:
    """The rows of tables of one kind, copied as plain integers: field by field it takes twenty times as long."""
    place = None if out is None else out.view(np.int64)
    return np.concatenate([table.view(np.int64) for table in tables], out=place).view(tables[0].dtype)


class StepTables:
    """Numbers the maps of steps and the buffers that they are."""

    def __init__(self, steps: Iterable[Step]) -> None:
        steps = list(steps)
        self._layouts = choose_layouts(steps)
        self._maps: dict[Storage, int] = {}
        self._buffers: dict[LogicalBuffer, int] = {}

    def row(self, step: Step) -> tuple[Any, ...]:
        """A STEP."""
        window = (0, goes_in_place(step), 1, 0, 1, 1)
        if isinstance(step, WindowStep):
            kernel = step.kernel
            window = (1, window[1], kernel.stride_y, step.padding.top, kernel.dilated_height, step.upscaling)
        weights = step.weights.values.size if isinstance(step, ConvolutionStep) else 0
        views = (_NO_VIEW if view is None else self._view(view, step.ofm) for view in (step.ifm, step.ifm2, step.ofm))
        return *window, is_divisible(step), step.ofm.shape[1] * step.ofm.shape[2], weights, *views

    def _view(self, view: View, ofm: View) -> tuple[int, ...]:
        if view.storage.data is not None:
            return _NO_VIEW
        places, full = view.row_places, view.full
        first, apart = places or (0, 1)
        is_pitched, kept = view.pitch is not None, view.storage
        is_dense = full[1:] == view.shape[1:] and not is_pitched and not kept.is_rolling
        is_all = full == kept.shape or full[0] * full[1] * full[2] == kept.shape[0] * kept.shape[1] * kept.shape[2]
        is_alike = view.shape[1:] == ofm.shape[1:] and view.element.bits == ofm.element.bits
        flags = places is not None, is_pitched, is_rows(view), is_dense and is_all, is_alike
        return self._map(kept), first, apart, view.shape[0], full[0], *flags

    def _map(self, storage: Storage) -> int:
        if storage not in self._maps:
            self._buffer(buffer_of(storage))
            self._maps[storage] = len(self._maps)
        return self._maps[storage]

    def _buffer(self, buffer: LogicalBuffer) -> int:
        return self._buffers.setdefault(buffer, len(self._buffers))

    def touches(self, graph: Graph, tensors: Iterable[int], event: int, why: int) -> Iterator[tuple[int, int, int]]:
        """What else touches buffers of tensors."""
        for index in tensors:
            if index != ABSENT and not graph.tensors[index].is_constant and graph.tensors[index].bytes:
                yield self._buffer(index), event, why

    def map_rows(self) -> RowTable:
        """A MAP for each."""
        rows = np.zeros(len(self._maps), MAP)
        rows[:] = [filled(self._map_row(storage), MAP) for storage in self._maps]
        return rows

    def _map_row(self, storage: Storage) -> tuple[int, ...]:
        (height, width, depth), layout = storage.shape, self._layouts[storage]
        row_bytes = storage_bytes(storage, layout) // height if height else 0
        is_plain_row = width == 1 and depth % BRICK_DEPTH != 0
        flags = layout is Layout.NHCWB16, is_plain_row, storage.is_boundary, storage.is_rolling
        own = height, width, depth, storage.element.bits, row_bytes, width * depth * storage.element.bytes
        return *own, *flags, self._buffers[buffer_of(storage)]

    def buffer_rows(self, graph: Graph, lasting: set[int]) -> RowTable:
        """A BUFFER for each."""
        rows = np.zeros(len(self._buffers), BUFFER)
        tensors = [(number, buffer) for buffer, number in self._buffers.items() if isinstance(buffer, int)]
        for number, buffer in tensors:
            rows[number]["bytes"] = graph.tensors[buffer].bytes
            rows[number]["is_tensor"] = 1
            rows[number]["is_lasting"] = buffer in lasting
        return rows


class LineChains:
    """Chains of steps that can be computed in stripes of rows, because the next step alone reads a map between them."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._given, self._chains, self._made = steps, np.zeros(MOST_CHAINS, CHAIN), np.zeros(MOST_STEPS, np.int64)

    @cached_property
    def _rows(self) -> tuple[RowTable, RowTable]:
        tables = StepTables(self._given)
        return np.array([tables.row(step) for step in self._given], STEP), tables.map_rows()

    def around(self, number: int) -> list[tuple[int, int]]:
        """First and last step of every one that has step `number` or a neighbour of it in it."""
        count = list_chains(*self._rows, 0, len(self._given), number, 0, self._chains, self._made)
        chains = self._chains[:count]
        return list(zip(chains["first"].tolist(), chains["last"].tolist(), strict=True))


def is_divisible(step: Step) -> bool:
    """Whether rows of the step's result depend on a window of rows of its inputs.

    An average without a scale divides by the elements that are no padding, whichever rows are made with it. Windows over rows
    that the step sees twice begin at every one of them. Those of a resize are places, which stripes do not move.
    """
    if isinstance(step, PoolingStep) and step.mode is PoolingMode.REDUCE_SUM:
        return False
    if isinstance(step, PoolingStep | ConvolutionStep):
        return step.upscaling == 1 or step.kernel.stride_y == 1
    return isinstance(step, ElementwiseStep)
