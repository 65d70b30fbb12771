"""Shapes of what is moved, repeated, padded or resized."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npu.graph.operands import Mismatch, Operands, Shape
from npu.graph.shapes.common import Shapes, inserted, normalized_axis, pad_amounts, without


def resolved(elements: int, sizes: Shape, wanted: Sequence[int]) -> Shape:
    """A new shape with its one -1 computed; without the zeros if there are some. `sizes` is the input's shape."""
    fixed = [size for size in wanted if size != -1]
    if 0 in fixed:
        sizes, fixed = tuple(size for size in sizes if size), [size for size in fixed if size]
    known = math.prod(fixed)
    shape = tuple(math.prod(sizes) // known if size == -1 and known > 0 else size for size in wanted)
    if list(wanted).count(-1) > 1 or min(shape, default=0) < 0 or math.prod(shape) != elements:
        raise Mismatch(f"new shape must hold {elements} elements, got {list(wanted)}")
    return shape


def reshape(operands: Operands) -> Shapes:
    ifm, wanted = operands.shape(0), tuple(operands.options.new_shape)
    if operands.has(1) and len(operands.shape(1)) == 1 and operands.tensor(1).dtype.name == "INT32":
        given = operands.numbers(1)
        return None if given is None else [resolved(math.prod(ifm), ifm, given)]
    # As LiteRT does: other tensors are not read. Old converters write [0] for a scalar.
    return [resolved(math.prod(ifm), ifm, () if wanted == (0,) else wanted)]


def squeeze(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    axes = {normalized_axis(axis, len(ifm)) for axis in operands.options.squeeze_dims}
    if any(ifm[axis] != 1 for axis in axes):
        raise Mismatch(f"squeezed dimensions must be 1, got {list(ifm)} and axes {sorted(axes)}")
    return [without(ifm, tuple(axes or {axis for axis, size in enumerate(ifm) if size == 1}))]


def expand_dims(operands: Operands) -> Shapes:
    ifm, axis = operands.shape(0), operands.number(1)
    return None if axis is None else [inserted(ifm, normalized_axis(axis, len(ifm) + 1), 1)]


def permutation(ifm: Shape, values: Sequence[int]) -> tuple[int, ...]:
    """The axes of a TRANSPOSE, counted from the front."""
    axes = tuple(normalized_axis(value, len(ifm)) for value in values)
    if sorted(axes) != list(range(len(ifm))):
        raise Mismatch(f"permutation must name every axis of {list(ifm)} once, got {list(axes)}")
    return axes


def transpose(operands: Operands) -> Shapes:
    ifm, order = operands.shape(0), operands.numbers(1)
    return None if order is None else [tuple(ifm[axis] for axis in permutation(ifm, order))]


def pad(operands: Operands) -> Shapes:
    ifm, paddings, values = operands.shape(0), operands.shape(1), operands.numbers(1)
    if operands.has(2) and math.prod(operands.shape(2)) != 1:
        tensor = operands.tensor(2)
        raise Mismatch(f"tensor '{tensor.name}' must have one element, got shape {list(tensor.shape)}")
    if values is None:
        return None
    return [tuple(size + sum(pair) for size, pair in zip(ifm, pad_amounts(ifm, paddings, values), strict=True))]


def mirror_pad(operands: Operands) -> Shapes:
    ifm, paddings, values = operands.shape(0), operands.shape(1), operands.numbers(1)
    if values is None:
        return None
    pairs = pad_amounts(ifm, paddings, values)
    limit = 0 if operands.options.mode.name == "SYMMETRIC" else 1
    if any(max(pair) > size - limit for size, pair in zip(ifm, pairs, strict=True)):
        raise Mismatch(f"paddings must be below the input's {list(ifm)}, got {pairs}")
    return [tuple(size + sum(pair) for size, pair in zip(ifm, pairs, strict=True))]


def _block(operands: Operands) -> tuple[Shape, int]:
    ifm, block = operands.shape(0), operands.options.block_size
    if len(ifm) != 4 or block < 1:
        raise Mismatch(f"input must have rank 4 and the block be positive, got {list(ifm)} and {block}")
    return ifm, block


def depth_to_space(operands: Operands) -> Shapes:
    (batch, height, width, depth), block = _block(operands)
    if depth % block**2:
        raise Mismatch(f"channels must be a multiple of {block**2}, got {depth}")
    return [(batch, height * block, width * block, depth // block**2)]


def space_to_depth(operands: Operands) -> Shapes:
    (batch, height, width, depth), block = _block(operands)
    if height % block or width % block:
        raise Mismatch(f"height and width must be multiples of {block}, got {height} and {width}")
    return [(batch, height // block, width // block, depth * block**2)]


def block_pairs(operands: Operands) -> tuple[list[int], list[tuple[int, int]]] | None:
    """Block sizes and paddings or crops of SPACE_TO_BATCH_ND and its inverse; None if they are computed."""
    ifm, block, pairs = operands.shapes
    if len(block) != 1 or pairs != (*block, 2) or len(ifm) <= block[0]:
        raise Mismatch(f"block and pairs must be [n] and [n, 2] with n below the rank, got {list(block)} and {list(pairs)}")
    sizes, limits = operands.numbers(1), operands.numbers(2)
    if sizes is None or limits is None:
        return None
    amounts = list(zip(limits[::2], limits[1::2], strict=True))
    if min(sizes, default=0) < 1 or any(min(pair) < 0 for pair in amounts):
        raise Mismatch(f"block sizes must be positive and pairs not negative, got {sizes} and {amounts}")
    return sizes, amounts


def space_to_batch(operands: Operands) -> Shapes:
    shape, ifm = block_pairs(operands), operands.shape(0)
    if shape is None:
        return None
    sizes, pads = shape
    padded = [ifm[axis + 1] + sum(pads[axis]) for axis in range(len(sizes))]
    if any(extent % size for extent, size in zip(padded, sizes, strict=True)):
        raise Mismatch(f"padded sizes must be multiples of the block {sizes}, got {padded}")
    parts = (extent // size for extent, size in zip(padded, sizes, strict=True))
    return [(ifm[0] * math.prod(sizes), *parts, *ifm[len(sizes) + 1 :])]


def batch_to_space(operands: Operands) -> Shapes:
    shape, ifm = block_pairs(operands), operands.shape(0)
    if shape is None:
        return None
    sizes, crops = shape
    total = math.prod(sizes)
    if ifm[0] % total:
        raise Mismatch(f"batches must be a multiple of the block's {total}, got {ifm[0]}")
    extents = tuple(ifm[axis + 1] * sizes[axis] - sum(crops[axis]) for axis in range(len(sizes)))
    if min(extents) < 0:
        raise Mismatch(f"crops must leave something of {list(ifm)} in blocks of {sizes}, got {crops}")
    return [(ifm[0] // total, *extents, *ifm[len(sizes) + 1 :])]


def reverse(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    for axis in operands.numbers(1) or ():
        normalized_axis(axis, len(ifm))
    return [ifm]


def tile(operands: Operands) -> Shapes:
    ifm, times = operands.shape(0), operands.numbers(1)
    if times is None:
        return None
    if len(times) != len(ifm) or min(times, default=0) < 0:
        raise Mismatch(f"multiples must be {len(ifm)} numbers, none negative, got {times}")
    return [tuple(size * count for size, count in zip(ifm, times, strict=True))]


def broadcast_to(operands: Operands) -> Shapes:
    ifm, wanted = operands.shape(0), operands.numbers(1)
    if wanted is None:
        return None
    tail = wanted[len(wanted) - len(ifm) :]
    if len(wanted) < len(ifm) or any(size not in (1, to) for size, to in zip(ifm, tail, strict=True)):
        raise Mismatch(f"input {list(ifm)} must broadcast to the target, got {wanted}")
    return [tuple(wanted)]


def resize(operands: Operands) -> Shapes:
    ifm, size = operands.shape(0), operands.numbers(1)
    if len(ifm) != 4 or math.prod(operands.shape(1)) != 2:
        raise Mismatch(f"input must have rank 4 and the size 2 entries, got {list(ifm)} and {list(operands.shape(1))}")
    if min(ifm[1:3]) < 1:
        raise Mismatch(f"input must have a height and a width, got {list(ifm)}")
    if size is None:
        return None
    if min(size) < 1:
        raise Mismatch(f"size must be positive, got {size}")
    return [(ifm[0], *size, ifm[3])]


def resize_bilinear(operands: Operands) -> Shapes:
    if operands.options.align_corners and operands.options.half_pixel_centers:
        raise Mismatch("align_corners and half_pixel_centers must not both be set")
    return resize(operands)


def reverse_sequence(operands: Operands) -> Shapes:
    ifm, lengths, options = operands.shape(0), operands.shape(1), operands.options
    along, batch = options.seq_dim, options.batch_dim
    if not 0 <= along < len(ifm) or not 0 <= batch < len(ifm) or along == batch:
        raise Mismatch(f"sequence and batch must be two axes of {list(ifm)}, got {along} and {batch}")
    if lengths != (ifm[batch],):
        raise Mismatch(f"lengths must have shape [{ifm[batch]}], got {list(lengths)}")
    return [ifm]


def matrix_diag(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    if not ifm:
        raise Mismatch("input must have at least one axis, got a scalar")
    return [(*ifm, ifm[-1])]


def matrix_set_diag(operands: Operands) -> Shapes:
    ifm, diagonal = operands.shape(0), operands.shape(1)
    if len(ifm) < 2 or diagonal != (*ifm[:-2], min(ifm[-2:])):
        raise Mismatch(f"diagonal must be that of matrices of {list(ifm)}, got {list(diagonal)}")
    return [ifm]


def rfft2d(operands: Operands) -> Shapes:
    ifm, lengths = operands.shape(0), operands.numbers(1)
    if len(ifm) < 2 or operands.shape(1) != (2,):
        raise Mismatch(f"input must have two axes and two lengths, got {list(ifm)} and {list(operands.shape(1))}")
    if lengths is None:
        return None
    if lengths[0] < 1 or lengths[1] < 2 or any(length & (length - 1) for length in lengths):
        raise Mismatch(f"lengths must be powers of two, the last one at least 2, got {lengths}")
    return [(*ifm[:-2], lengths[0], lengths[1] // 2 + 1)]
