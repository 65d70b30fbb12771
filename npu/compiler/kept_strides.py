"""Strides that a layout ignores keep what their registers hold: a stream then does not write them.

NHWC has no use for the step from brick to brick, NHCWB16 none for that from column to column. Where maps of both layouts take
turns, that is one write in twenty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npu.isa.operations import FeatureMap, Layout, Operation
from npu.records import replace

_OPERANDS = ("ifm", "ifm2", "ofm")
"""Maps that have registers of their own."""


def keep_ignored_strides(operations: Sequence[Operation]) -> list[Operation]:
    """The operations with those strides of the map before that had the same registers."""
    held: dict[str, FeatureMap] = {}
    return [_kept(operation, held) for operation in operations]


def _kept(operation: Operation, held: dict[str, FeatureMap]) -> Operation:
    changed: dict[str, Any] = {}
    for name in _OPERANDS:
        own: FeatureMap | None = getattr(operation, name, None)
        if own is None:
            continue
        kept = _with_strides(own, held.get(name, own))
        if kept is not own:
            changed[name] = kept
        held[name] = kept
    return replace(operation, **changed) if changed else operation


def _with_strides(own: FeatureMap, before: FeatureMap) -> FeatureMap:
    if own.layout is Layout.NHCWB16:
        return own if own.stride_x == before.stride_x else replace(own, stride_x=before.stride_x)
    return own if own.stride_c == before.stride_c else replace(own, stride_c=before.stride_c)
