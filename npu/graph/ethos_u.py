"""The `ethos-u` operator of compiled files: the only place that knows its code, options, inputs, regions and arena metadata.

The layout is the one that runtimes expect, as in Vela 5.2 output.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from npu.errors import ModelError
from npu.graph.graph import Model, Op

CUSTOM_CODE = "ethos-u"
CUSTOM_OPTIONS = bytes((1, 4, 1))
"""A flexbuffer with the one int8 value 1."""

ARENA_METADATA = "OfflineMemoryAllocation"
"""Entry with the arena offset of every tensor of the model, -1 where there is none."""
_ARENA_METADATA_VERSION = 0


class Input(IntEnum):
    """Position among the inputs; feature maps are those from FIRST_MAP on."""

    COMMANDS = 0
    CONSTANTS = 1
    SCRATCH = 2
    FAST_SCRATCH = 3
    FIRST_MAP = 4


class Region(IntEnum):
    """Number of a region in the command stream; inputs and outputs have their own only where the payload says so."""

    CONSTANTS = 0
    ARENA = 1
    FAST = 2
    INPUTS = 3
    OUTPUTS = 4


def is_npu_job(op: Op) -> bool:
    """Whether the operator is a compiled NPU job."""
    return op.kind == "CUSTOM" and op.custom_code == CUSTOM_CODE


def is_compiled(model: Model) -> bool:
    """Whether any operator of the model is a compiled NPU job."""
    return any(is_npu_job(op) for graph in model.graphs for op in graph.ops)


def arena_offsets(model: Model) -> NDArray[np.int32]:
    """Arena offset of every tensor of all subgraphs in file order, -1 where there is none; ModelError without them."""
    data = model.metadata.get(ARENA_METADATA)
    if data is None:
        raise ModelError(
            f"ethos-u: the model must have the metadata {ARENA_METADATA} that says where feature maps live, but it is missing; "
            "keep the compiler's metadata when rewriting a compiled file"
        )
    count = sum(len(graph.tensors) for graph in model.graphs)
    values = np.frombuffer(data[: len(data) // 4 * 4], "<i4")
    if values.size < 3 + count or int(values[2]) != count:
        raise ModelError(f"metadata {ARENA_METADATA}: must hold offsets of {count} tensors, got {values[2:3].tolist()}")
    return values[3 : 3 + count]


def arena_metadata(subgraphs: int, offsets: Sequence[int]) -> bytes:
    """Contents of ARENA_METADATA for the tensors of all subgraphs in file order."""
    return np.array([_ARENA_METADATA_VERSION, subgraphs, len(offsets), *offsets], "<i4").tobytes()
