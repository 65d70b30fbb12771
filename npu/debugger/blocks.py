"""One operation OFM block by OFM block: what memory holds while it is at work.

The simulator computes an operation whole, from its inputs as they were before; each block then puts what it writes into memory,
in the order of the machine (`npu.machine.rules.block_place`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from npu.isa.operations import KernelOperation
from npu.machine.rules import block_place, ceil_div
from sim.verify.footprint import MapBox, bytes_of_map

Regions = Mapping[int, npt.NDArray[np.uint8]]


def block_count(operation: object) -> int:
    """How many OFM blocks an operation has; 1 if it is no kernel operation, or one whose blocks lie in memory in another order
    or not at all."""
    if not isinstance(operation, KernelOperation) or not operation.writes_in_order:
        return 1
    return math.prod(_counts(operation))


def block_box(operation: KernelOperation, number: int) -> MapBox:
    """Rows, columns and channels of the OFM that a block writes."""
    ofm, block = operation.ofm, operation.block
    _, across, deep = _counts(operation)
    y, x, z = block_place(number, across, deep)
    extents = (y, block.height, ofm.height), (x, block.width, ofm.width), (z, block.depth, ofm.depth)
    top, left, first = ((place * size, min((place + 1) * size, whole)) for place, size, whole in extents)
    return top, left, first


def write_block(operation: KernelOperation, number: int, after: Regions, memory: Regions) -> None:
    """Put what a block writes from the memory after the operation into the memory during it."""
    written = bytes_of_map(operation.ofm, block_box(operation, number))
    place = slice(written.start, written.end)
    memory[written.region][place][written.mask] = after[written.region][place][written.mask]


def _counts(operation: KernelOperation) -> tuple[int, int, int]:
    """Blocks along height, width and depth."""
    ofm, block = operation.ofm, operation.block
    return ceil_div(ofm.height, block.height), ceil_div(ofm.width, block.width), ceil_div(ofm.depth, block.depth)
