"""Strides that a layout ignores keep what their registers hold: a stream then does not write them.

NHWC has no use for the step from brick to brick, NHCWB16 none for that from column to column. Where maps of both layouts take
turns, that is one write in twenty.
"""

from __future__ import annotations

from typing import Any

from npu.isa.operations import FeatureMap, KernelOperation, Layout
from npu.records import replace

_OPERANDS = ("ifm", "ifm2", "ofm")
"""Maps that have registers of their own."""


class KeptStrides:
    """The map of each operand that came last, with the strides that its registers hold."""

    def __init__(self) -> None:
        self._held: dict[str, FeatureMap] = {}

    def changes(self, operation: KernelOperation) -> dict[str, Any]:
        """The maps of the next operation that have other strides if they ignore what the registers hold."""
        held, changed = self._held, dict[str, Any]()
        for name in _OPERANDS:
            own: FeatureMap | None = getattr(operation, name, None)
            if own is not None:
                kept = held[name] = _with_strides(own, held.get(name, own))
                if kept is not own:
                    changed[name] = kept
        return changed


def _with_strides(own: FeatureMap, before: FeatureMap) -> FeatureMap:
    if own.layout is Layout.NHCWB16:
        return own if own.stride_x == before.stride_x else replace(own, stride_x=before.stride_x)
    return own if own.stride_c == before.stride_c else replace(own, stride_c=before.stride_c)
