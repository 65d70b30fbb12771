"""DEPTH_TO_SPACE and SPACE_TO_DEPTH: a block of channels becomes rows and columns, or the other way round; a permutation."""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import fold_shape
from npu.compiler.lower.transpose import permute
from npu.graph.attributes import DepthToSpaceOptions, SpaceToDepthOptions
from npu.graph.graph import Op

_ORDER = (0, 1, 3, 2, 4, 5)
"""Of (batch, row, row of the block, column, column of the block, channel), and its own inverse."""


def lower_depth_to_space(builder: Builder, op: Op) -> None:
    """Channels are (row of the block, column of the block, channel of the output)."""
    options = op.attributes
    assert isinstance(options, DepthToSpaceOptions)
    batch, height, width, depth = builder.tensor(op.inputs[0]).shape
    block = options.block_size
    _permute_blocks(builder, op, (batch, height, width, block, block, depth // block**2))


def lower_space_to_depth(builder: Builder, op: Op) -> None:
    """The inverse of DEPTH_TO_SPACE."""
    options = op.attributes
    assert isinstance(options, SpaceToDepthOptions)
    batch, height, width, depth = builder.tensor(op.inputs[0]).shape
    block = options.block_size
    _permute_blocks(builder, op, (batch, height // block, block, width // block, block, depth))


def _permute_blocks(builder: Builder, op: Op, shape: Sequence[int]) -> None:
    source = builder.reshaped(builder.input(op.inputs[0]), fold_shape(shape))
    with builder.output_as(op.outputs[0], fold_shape([shape[axis] for axis in _ORDER])) as target:
        permute(builder, source, target, shape, _ORDER)
