"""Maps and sums that operations hand on without memory: that they are there when they are taken."""

from __future__ import annotations

from collections.abc import Iterator

from npu.isa.operations import AccumulatorSource, FeatureMap, KernelOperation, MapStorage, Operation

_Extent = tuple[int, int, int]


class ChainTracker:
    """Feed it the operations in order; each call yields what an operation takes on and nothing has left for it."""

    def __init__(self) -> None:
        self._buffers: dict[int, _Extent] = {}
        self._accumulators: _Extent | None = None

    def step(self, operation: Operation) -> Iterator[str]:
        """What is missing for one operation."""
        if not isinstance(operation, KernelOperation) or operation.options is None:
            return
        for name, fm in zip(("IFM", "IFM2"), operation.ifms, strict=False):
            if fm.storage is MapStorage.CHAINED and self._buffers.get(fm.region) != _extent(fm):
                yield f"its {name} must be the map of {_extent(fm)} that chaining buffer {fm.region} holds, {self._held(fm)}"
        ofm = operation.ofm
        if operation.options.accumulator_source is AccumulatorSource.KEEP and self._accumulators != _extent(ofm):
            yield f"its sums must go on from those of an OFM of {_extent(ofm)}, got {self._accumulators or 'none'}"
        self._accumulators = _extent(ofm) if operation.options.keeps_accumulators else None
        if ofm.storage is MapStorage.CHAINED:
            self._buffers[ofm.region] = _extent(ofm)

    def _held(self, fm: FeatureMap) -> str:
        return f"got {self._buffers.get(fm.region, 'nothing')}"


def _extent(fm: FeatureMap) -> _Extent:
    return fm.height, fm.width, fm.depth
