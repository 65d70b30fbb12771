"""Sparse constants: what their metadata must fulfil, and their dense values; the only place that knows the storage format.

A tensor of rank r may have b block dimensions behind its own, each of which subdivides one of them (`block_map`). The stored
values run through all r + b dimensions in `traversal_order`, each either dense (every index) or compressed: the entries of
parent p are `array_indices[array_segments[p] : array_segments[p + 1]]`. Source: the comments of the TFLite schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import ModelError
from npu.graph.graph import Tensor
from npu.graph.wire import UnknownMember
from npu.tflite.schema import DimensionMetadata, DimensionType, SparsityParameters

Indices = npt.NDArray[np.int64]


def is_sparse(tensor: Tensor) -> bool:
    """Whether `Tensor.data` holds only the stored values, in one dimension."""
    return tensor.extra.get("sparsity") is not None


def densify(tensor: Tensor) -> npt.NDArray[Any]:
    """All values of a sparse constant, in its shape; what is not stored is zero. Raises ModelError for wrong metadata."""
    sparsity = _checked(tensor)
    assert tensor.data is not None
    shape, blocks = tensor.shape, _block_sizes(tensor, sparsity)
    coordinates: dict[int, Indices] = {}
    count = 1
    for dimension, metadata in _levels(sparsity):
        if metadata.format is DimensionType.DENSE:
            parents = np.repeat(np.arange(count), metadata.dense_size)
            indices = np.tile(np.arange(metadata.dense_size), count)
        else:
            segments, indices = _vector(metadata.array_segments), _vector(metadata.array_indices)
            parents = np.repeat(np.arange(count), np.diff(segments))
        coordinates = {known: values[parents] for known, values in coordinates.items()}
        coordinates[dimension] = indices
        count = len(indices)
    position = [coordinates[dimension] for dimension in range(len(shape))]
    for block, size in enumerate(blocks):
        dimension = (sparsity.block_map or ())[block]
        position[dimension] = position[dimension] * size + coordinates[len(shape) + block]
    dense = np.zeros(shape, tensor.data.dtype)
    dense[tuple(position)] = tensor.data
    return dense


def check_sparsity(tensor: Tensor, where: str) -> None:
    """Raises ModelError, prefixed with `where`, unless metadata, shape and stored values of a sparse constant agree."""
    for defect in _defects(tensor):
        raise ModelError(f"{where}: {tensor.name!r}: {defect}")


def _checked(tensor: Tensor) -> SparsityParameters:
    check_sparsity(tensor, "sparse tensor")
    sparsity = tensor.extra["sparsity"]
    assert isinstance(sparsity, SparsityParameters)
    return sparsity


def _levels(sparsity: SparsityParameters) -> Iterator[tuple[int, DimensionMetadata]]:
    return zip(sparsity.traversal_order or (), sparsity.dim_metadata or (), strict=True)


def _block_sizes(tensor: Tensor, sparsity: SparsityParameters) -> list[int]:
    rank = len(tensor.shape)
    sizes = {dimension - rank: metadata.dense_size for dimension, metadata in _levels(sparsity) if dimension >= rank}
    return [sizes[block] for block in range(len(sizes))]


def _vector(vector: object) -> Indices:
    values = getattr(vector, "values", None)
    return np.zeros(0, np.int64) if values is None else np.asarray(values, np.int64)


def _defects(tensor: Tensor) -> Iterator[str]:
    """Each check relies on those before it; the caller stops at the first defect."""
    sparsity, rank = tensor.extra.get("sparsity"), len(tensor.shape)
    if not isinstance(sparsity, SparsityParameters) or tensor.data is None:
        yield "must be a constant with sparsity metadata"
        return
    order, blocks, levels = sparsity.traversal_order or (), sparsity.block_map or (), sparsity.dim_metadata or ()
    if rank == 0 or sorted(order) != list(range(rank + len(blocks))):
        yield f"traversal order must be a permutation of {rank} dimensions and {len(blocks)} blocks, got {list(order)}"
    if len(levels) != len(order):
        yield f"must have metadata for {len(order)} dimensions, got {len(levels)}"
    if len(set(blocks)) != len(blocks) or any(not 0 <= dimension < rank for dimension in blocks):
        yield f"block map must name different dimensions in [0, {rank}), got {list(blocks)}"
    sizes = list(tensor.shape)
    by_block = {dimension - rank: metadata for dimension, metadata in zip(order, levels, strict=True)}
    for block in range(len(blocks)):
        metadata, size = by_block[block], by_block[block].dense_size
        if metadata.format is not DimensionType.DENSE or size <= 0 or sizes[blocks[block]] % size:
            yield f"block of dimension {blocks[block]} must be dense and divide its {sizes[blocks[block]]} elements, got {size}"
        sizes[blocks[block]] //= max(size, 1)
        sizes.append(size)
    yield from _level_defects(sparsity, sizes, tensor.data.size)


def _level_defects(sparsity: SparsityParameters, sizes: list[int], stored: int) -> Iterator[str]:
    count = 1
    for dimension, metadata in _levels(sparsity):
        size, what = sizes[dimension], f"dimension {dimension} of the traversal"
        if metadata.format is DimensionType.DENSE:
            if metadata.dense_size != size:
                yield f"{what}: dense size must be {size}, got {metadata.dense_size}"
            count *= size
            continue
        if isinstance(metadata.array_segments, UnknownMember) or isinstance(metadata.array_indices, UnknownMember):
            yield f"{what}: must have segments and indices of a known type"
        segments, indices = _vector(metadata.array_segments), _vector(metadata.array_indices)
        if len(segments) != count + 1 or segments[0] != 0 or segments[-1] != len(indices) or np.any(np.diff(segments) < 0):
            yield f"{what}: must have {count + 1} segments that ascend from 0 to {len(indices)}, got {segments[:8].tolist()}"
        if indices.size and not (int(indices.min()) >= 0 and int(indices.max()) < size):
            yield f"{what}: indices must be in [0, {size}), got {indices[:8].tolist()}"
        count = len(indices)
    if count != stored:
        yield f"must store {count} values, got {stored}"
