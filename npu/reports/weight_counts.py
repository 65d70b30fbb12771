"""How often each value occurs among the weights of an operator: what no compiler changes, however it orders and pads them.

Zeros are not counted, because they also fill up.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from npu.errors import StreamError
from npu.graph.graph import ABSENT, Graph, Op
from npu.graph.operands import Role
from npu.graph.ops import inputs_with
from npu.hardware.variant import Accelerator
from npu.isa.families import family_of
from npu.isa.operations import AddressRange, WeightedOperation
from npu.isa.weight_stream.use import WeightUse, weight_shape

Counts = bytes
"""Counts of the values -255 to 255 as bytes, to be compared."""
_LIMIT = 255


def counts_of_operator(graph: Graph, op: Op) -> Counts | None:
    """The counts of the constant 8-bit weights of a source operator, None if it has none."""
    total = np.zeros(2 * _LIMIT + 1, np.int64)
    has_weights = False
    for position in inputs_with(Role.WEIGHTS, op):
        tensor = graph.tensors[op.inputs[position]] if op.inputs[position] != ABSENT else None
        if tensor is not None and tensor.data is not None and tensor.data.dtype in (np.int8, np.uint8):
            zero = tensor.quantization.zero_point if tensor.quantization is not None else 0
            total += _counted(tensor.data.astype(np.int16) - np.int16(zero))
            has_weights = True
    return _as_counts(total) if has_weights else None


def counts_of_streams(
    weights: Iterable[tuple[WeightedOperation, tuple[AddressRange, ...]]],
    constants: NDArray[np.uint8],
    accelerator: Accelerator,
) -> Counts | None:
    """The counts of the weights that operations read, the same streams once; None if one is not where constants are."""
    total = np.zeros(2 * _LIMIT + 1, np.int64)
    seen = set()
    decode = family_of(accelerator.product).weights.decode
    for operation, origins in weights:
        streams = [constants[origin.address : origin.address + origin.length_bytes] for origin in origins]
        are_there = zip(origins, streams, strict=True)
        if any(origin.region != 0 or len(data) < origin.length_bytes for origin, data in are_there):
            return None
        if origins not in seen:
            seen.add(origins)
            try:
                total += _counted(decode(accelerator, WeightUse.of(operation), weight_shape(operation), streams))
            except StreamError:
                return None
    return _as_counts(total) if seen else None


def _counted(weights: NDArray[np.int16]) -> NDArray[np.int64]:
    values = np.clip(weights.ravel().astype(np.int64), -_LIMIT, _LIMIT)
    return np.bincount(values + _LIMIT, minlength=2 * _LIMIT + 1)


def _as_counts(total: NDArray[np.int64]) -> Counts:
    total[_LIMIT] = 0
    return total.tobytes()
