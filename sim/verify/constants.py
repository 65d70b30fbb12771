"""Weights, scale records and indices that a stream reads, where their bytes are known: that they can be used."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from npu.errors import SimulationError
from npu.isa.operations import Convolution, DepthwiseConvolution, Dma, Operation
from sim.functional.execute import indexed_rows
from sim.functional.weights import decode_constants, source_ranges
from sim.memory import NpuMemory
from sim.verify.footprint import SHRAM, Footprint


class ConstantReader:
    """Follows copies of bytes that are known before a stream starts, and uses them as its operations do."""

    def __init__(self, memory: NpuMemory, known: Iterable[int]) -> None:
        """`known` are the regions of `memory` whose bytes are those of the file."""
        self._memory = memory
        # Zeros take no memory until they are written, and a file may declare any size of a region.
        self._known = {region: np.zeros(data.size, np.bool_) for region, data in self._memory.regions.items()}
        for region in known:
            self._known[region][...] = True

    def defect(self, operation: Operation, touched: Footprint) -> tuple[str, str] | None:
        """What is wrong with the weights or indices of an operation whose bytes all lie in their regions, behind its rule."""
        if isinstance(operation, Dma):
            defect = self._stray_index(operation)
            self._copy(touched)
            return None if defect is None else ("INDICES", defect)
        defect = None
        if isinstance(operation, Convolution | DepthwiseConvolution) and operation.weights:
            defect = self._undecoded(operation)
        self._forget(touched)
        return None if defect is None else ("WEIGHTS", defect)

    def _stray_index(self, operation: Dma) -> str | None:
        """Computed indices are not looked at."""
        for plane in range(operation.planes if operation.indices is not None else 0):
            assert operation.indices is not None
            start, end = operation.indices_of(plane)
            if self._known[operation.indices.region][start:end].all():
                try:
                    indexed_rows(operation, plane, self._memory)
                except SimulationError as error:
                    return str(error)
        return None

    def _undecoded(self, operation: Convolution | DepthwiseConvolution) -> str | None:
        for part in source_ranges(operation):
            if not self._known[part.region][part.address : part.address + part.length_bytes].all():
                return "weights and scale records must be constants of the file or copies of them, got bytes that were computed"
        try:
            decode_constants(operation, self._memory)
        except SimulationError as error:
            return str(error)
        return None

    def _copy(self, touched: Footprint) -> None:
        """Of a transfer without gaps, which those of weights are."""
        (_, source), (_, target) = touched.reads[0], touched.writes[0]
        if len(touched.reads) > 1:
            self._forget(touched)
            return
        if SHRAM in (source.region, target.region) or not (source.mask.all() and target.mask.all()):
            self._forget(touched)
            return
        held = self._known[source.region][source.start : source.end].copy()
        self._known[target.region][target.start : target.end] = held
        if held.any():
            data = self._memory.regions[source.region][source.start : source.end].copy()
            self._memory.regions[target.region][target.start : target.end] = data

    def _forget(self, touched: Footprint) -> None:
        for _, part in touched.writes:
            if part.region != SHRAM:
                self._known[part.region][part.start : part.end] &= ~part.mask
