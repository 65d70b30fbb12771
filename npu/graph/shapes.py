"""Shape inference: the shapes that an operator's outputs get from its operands and options, as TFLite's kernels compute them.

A rule returns one shape for every output, or None where a shape depends on elements that nobody knows yet. It raises Mismatch
for operands that no kernel takes together. Which operator has which rule is in `npu.graph.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npu.graph.attributes import LshProjectionType, LstmKernelType, Padding, StridedSliceOptions
from npu.graph.dtype import DType
from npu.graph.operands import Mismatch, Operands, Shape

Shapes = Sequence[Shape] | None
ShapeRule = Callable[[Operands], Shapes]


# What several rules need


def normalized_axis(axis: int, rank: int) -> int:
    """An axis counted from the front. A scalar has none, but one that says 0 or -1 is left to its kernel."""
    if not -rank <= axis < rank:
        raise Mismatch(f"axis must be in [{-rank}, {rank}), got {axis}")
    return axis % rank


def rank_of(shape: Shape, rank: int, what: str) -> None:
    """Mismatch for a shape of another rank."""
    if len(shape) != rank:
        raise Mismatch(f"{what} must have rank {rank}, got {list(shape)}")


def broadcast(*shapes: Shape) -> Shape:
    """The common shape of operands, as numpy and TFLite define it."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise Mismatch(f"shapes must be broadcastable, got {' and '.join(str(list(shape)) for shape in shapes)}") from None


def window_extent(extent: int, kernel: int, stride: int, dilation: int, padding: Padding) -> int:
    """Positions of a window along an axis; not positive where the window is larger than the map."""
    lost = 0 if padding is Padding.SAME else (kernel - 1) * dilation
    return int((extent - lost + stride - 1) / stride)


def pad_amounts(ifm: Shape, paddings: Shape, values: Sequence[int]) -> list[tuple[int, int]]:
    """Elements before and after every axis."""
    if paddings != (len(ifm), 2):
        raise Mismatch(f"paddings must have shape [{len(ifm)}, 2], got {list(paddings)}")
    pairs = list(zip(values[::2], values[1::2], strict=True))
    if any(min(pair) < 0 for pair in pairs):
        raise Mismatch(f"paddings must not be negative, got {pairs}")
    return pairs


def reduced_axes(values: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes that a reduction removes, each once."""
    return tuple(sorted({normalized_axis(axis, rank) for axis in values})) if rank else ()


def without(shape: Shape, axes: Sequence[int], *, keep: bool = False) -> Shape:
    """A shape without some axes, or with 1 in their place."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)


def _replaced(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _inserted(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis:])


# Elementwise


def same(operands: Operands) -> Shapes:
    """The shape of the first input."""
    return [operands.shape(0)]


def elementwise(operands: Operands) -> Shapes:
    """The common shape of all inputs."""
    return [broadcast(*operands.shapes)]


def select(operands: Operands) -> Shapes:
    """Of values of one shape; the condition is a scalar, as large, or one for every row."""
    condition, left, right = operands.shapes
    if left != right:
        raise Mismatch(f"both values must have the same shape, got {list(left)} and {list(right)}")
    by_row = len(condition) == 1 and len(left) > 1 and condition[0] == left[0]
    if condition not in ((), left) and not by_row:
        raise Mismatch(f"condition must be a scalar, {list(left)} or its first dimension, got {list(condition)}")
    return [_selected(operands, left)]


def select_v2(operands: Operands) -> Shapes:
    return [_selected(operands, broadcast(*operands.shapes))]


def _selected(operands: Operands, shape: Shape) -> Shape:
    """LiteRT leaves the rank of one element as the model has it."""
    declared = operands.outputs[0].shape if operands.outputs else ()
    return declared if math.prod(shape) == math.prod(declared) == 1 else shape


def prelu(operands: Operands) -> Shapes:
    ifm, slope = operands.shape(0), operands.shape(1)
    if broadcast(ifm, slope) != ifm:
        raise Mismatch(f"slope must broadcast to the input's {list(ifm)}, got {list(slope)}")
    return [ifm]


# Products with weights


def _bias(operands: Operands, position: int, channels: int) -> None:
    """A bias has a value for every output channel."""
    if operands.has(position) and math.prod(operands.shape(position)) != channels:
        raise Mismatch(f"bias must have {channels} elements, got {math.prod(operands.shape(position))}")


def _window(operands: Operands, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, int]:
    options, ifm = operands.options, operands.shape(0)
    stride, extents = (options.stride_h, options.stride_w), ifm[1:3]
    if min(*stride, *dilation, *kernel, *extents) < 1:
        raise Mismatch(
            f"stride, dilation, kernel and map must be positive, got {stride}, {tuple(dilation)}, {tuple(kernel)} and {extents}"
        )
    sides = zip(extents, kernel, stride, dilation, strict=True)
    height, width = (window_extent(*side, options.padding) for side in sides)
    if min(height, width) < 0:
        raise Mismatch(f"kernel of {kernel[0]}x{kernel[1]} must fit the input of {extents[0]}x{extents[1]}")
    return height, width


def _convolved(operands: Operands, channels: int) -> Shapes:
    options, weights = operands.options, operands.shape(1)
    _bias(operands, 2, channels)
    extents = _window(operands, weights[1:3], (options.dilation_h_factor, options.dilation_w_factor))
    return [(operands.shape(0)[0], *extents, channels)]


def _maps_and_weights(operands: Operands, *positions: int) -> None:
    for position in positions:
        tensor = operands.tensor(position)
        rank_of(tensor.shape, 4, f"tensor '{tensor.name}'")


def convolution(operands: Operands) -> Shapes:
    """Weights are (output channels, height, width, input channels of a group)."""
    _maps_and_weights(operands, 0, 1)
    depth, (channels, _, _, group) = operands.shape(0)[3], operands.shape(1)
    if 0 in (group, channels, depth) or depth % group or channels % (depth // group):
        raise Mismatch(f"input channels must be a multiple of the filter's {group} and fit its groups, got {depth}")
    return _convolved(operands, channels)


def depthwise(operands: Operands) -> Shapes:
    """Weights are (1, height, width, output channels)."""
    _maps_and_weights(operands, 0, 1)
    depth, (one, _, _, channels) = operands.shape(0)[3], operands.shape(1)
    if one != 1 or depth == 0 or channels % depth:
        raise Mismatch(f"filter must be [1, h, w, a multiple of {depth}], got {list(operands.shape(1))}")
    return _convolved(operands, channels)


def transpose_convolution(operands: Operands) -> Shapes:
    """Weights are (output channels, height, width, input channels)."""
    _maps_and_weights(operands, 1, 2)
    options, (channels, *kernel, depth), ifm = operands.options, operands.shape(1), operands.shape(2)
    if depth != ifm[3]:
        raise Mismatch(f"filter must have the input's {ifm[3]} channels, got {depth}")
    stride = options.stride_h, options.stride_w
    if min(*stride, *kernel) < 1:
        raise Mismatch(f"stride and kernel must be positive, got {stride} and {tuple(kernel)}")
    _bias(operands, 3, channels)
    made = operands.numbers(0)
    if made is None:
        return None
    if len(made) != 4 or made[3] != channels or made[0] != ifm[0] or min(made) < 0:
        raise Mismatch(f"output shape must be [{ifm[0]}, height, width, {channels}], got {made}")
    sides = zip(made[1:3], kernel, stride, strict=True)
    expected = tuple(window_extent(*side, 1, options.padding) for side in sides)
    if expected != ifm[1:3]:
        raise Mismatch(f"input must be as large as the convolution of {made}, {expected}, got {ifm[1:3]}")
    return [tuple(made)]


def fully_connected(operands: Operands) -> Shapes:
    """Weights are (output channels, input channels)."""
    ifm, weights, options = operands.shape(0), operands.shape(1), operands.options
    rank_of(weights, 2, "filter")
    units, depth = weights
    elements = math.prod(ifm)
    if depth == 0 or elements % depth:
        raise Mismatch(f"input elements must be a multiple of the filter's {depth}, got {elements}")
    _bias(operands, 2, units)
    if not options.keep_num_dims:
        return [(elements // depth, units)]
    if ifm[-1:] != (depth,):
        raise Mismatch(f"the last input dimension must be {depth}, got {list(ifm)}")
    return [(*ifm[:-1], units)]


def batch_matmul(operands: Operands) -> Shapes:
    left, right, options = operands.shape(0), operands.shape(1), operands.options
    if min(len(left), len(right)) < 2:
        raise Mismatch(f"operands must have rank 2 or more, got {list(left)} and {list(right)}")
    (rows, inner), (outer, columns) = left[-2:], right[-2:]
    if options.adj_x:
        rows, inner = inner, rows
    if options.adj_y:
        outer, columns = columns, outer
    if inner != outer:
        raise Mismatch(f"inner dimensions must be equal, got {inner} and {outer}")
    return [(*broadcast(left[:-2], right[:-2]), rows, columns)]


def pool(operands: Operands) -> Shapes:
    ifm, options = operands.shape(0), operands.options
    rank_of(ifm, 4, "input")
    kernel, stride = (options.filter_height, options.filter_width), (options.stride_h, options.stride_w)
    if min(*kernel, *stride) < 1:
        raise Mismatch(f"kernel and stride must be positive, got {kernel} and {stride}")
    sides = zip(ifm[1:3], kernel, stride, strict=True)
    height, width = (window_extent(extent, size, step, 1, options.padding) for extent, size, step in sides)
    return [(ifm[0], 0 if min(height, width) < 0 else height, max(width, 0), ifm[3])]


# Joins and parts


def concatenation(operands: Operands) -> Shapes:
    first, *others = operands.shapes
    axis = normalized_axis(operands.options.axis, len(first))
    for other in others:
        if len(other) != len(first) or _replaced(other, axis, 0) != _replaced(first, axis, 0):
            raise Mismatch(f"inputs must agree in all dimensions but {axis}, got {list(first)} and {list(other)}")
    return [_replaced(first, axis, sum(shape[axis] for shape in operands.shapes))]


def pack(operands: Operands) -> Shapes:
    shapes = operands.shapes
    if len(set(shapes)) != 1:
        raise Mismatch(f"inputs must have the same shape, got {[list(shape) for shape in shapes]}")
    if operands.options.values_count != len(shapes):
        raise Mismatch(f"values_count must be the number of inputs {len(shapes)}, got {operands.options.values_count}")
    return [_inserted(shapes[0], normalized_axis(operands.options.axis, len(shapes[0]) + 1), len(shapes))]


def unpack(operands: Operands) -> Shapes:
    whole, count = operands.shape(0), len(operands.outputs)
    axis = normalized_axis(operands.options.axis, len(whole))
    if not whole[axis] == count == operands.options.num:
        raise Mismatch(
            f"dimension {axis} and num must be the number of outputs {count}, got {list(whole)} and {operands.options.num}"
        )
    return [without(whole, (axis,))] * count


def split(operands: Operands) -> Shapes:
    whole, count, axis = operands.shape(1), len(operands.outputs), operands.number(0)
    if operands.options.num_splits != count:
        raise Mismatch(f"num_splits must be the number of outputs {count}, got {operands.options.num_splits}")
    if axis is None:
        return None
    axis = normalized_axis(axis, len(whole))
    if whole[axis] % count:
        raise Mismatch(f"dimension {axis} must be a multiple of {count}, got {whole[axis]}")
    return [_replaced(whole, axis, whole[axis] // count)] * count


def split_v(operands: Operands) -> Shapes:
    whole, count, sizes, axis = operands.shape(0), len(operands.outputs), operands.numbers(1), operands.number(2)
    if operands.options.num_splits != count:
        raise Mismatch(f"num_splits must be the number of outputs {count}, got {operands.options.num_splits}")
    if sizes is None or axis is None:
        return None
    axis = normalized_axis(axis, len(whole))
    parts = split_sizes(sizes, whole[axis])
    if len(parts) != count or sum(parts) != whole[axis] or min(parts) < 0:
        raise Mismatch(f"sizes of {count} pieces must add up to {whole[axis]}, got {parts}")
    return [_replaced(whole, axis, size) for size in parts]


def split_sizes(sizes: Sequence[int], extent: int) -> list[int]:
    """The sizes with what is left in place of a single -1."""
    if sizes.count(-1) != 1:
        return list(sizes)
    rest = extent - sum(size for size in sizes if size != -1)
    return [rest if size == -1 else size for size in sizes]


def slice_box(ifm: Shape, begin: Sequence[int], size: Sequence[int]) -> list[tuple[int, int]]:
    """First element and the one behind the last along every axis of a SLICE."""
    if len(begin) != len(ifm) or len(size) != len(ifm):
        raise Mismatch(f"begin and size must have {len(ifm)} entries, got {list(begin)} and {list(size)}")
    box = [(b, n if s == -1 else b + s) for n, b, s in zip(ifm, begin, size, strict=True)]
    if any(not 0 <= first <= end <= n for (first, end), n in zip(box, ifm, strict=True)):
        raise Mismatch(f"slice must lie inside {list(ifm)}, got begin {list(begin)} and size {list(size)}")
    return box


def slice_(operands: Operands) -> Shapes:
    begin, size = operands.numbers(1), operands.numbers(2)
    if begin is None or size is None:
        return None
    return [tuple(end - first for first, end in slice_box(operands.shape(0), begin, size))]


def strided_slice(operands: Operands) -> Shapes:
    begin, end, strides = (operands.numbers(position) for position in (1, 2, 3))
    if begin is None or end is None or strides is None:
        return None
    index = strided_index(operands.shape(0), begin, end, strides, operands.options)
    return [np.broadcast_to(np.int8(0), operands.shape(0))[index].shape]


def strided_index(
    ifm: Shape, begin: Sequence[int], end: Sequence[int], strides: Sequence[int], options: StridedSliceOptions
) -> tuple[slice | int | None, ...]:
    """The numpy index that a STRIDED_SLICE means."""
    masks: dict[str, int] = {
        name: getattr(options, f"{name}_mask") for name in ("ellipsis", "new_axis", "shrink_axis", "begin", "end")
    }
    if not len(begin) == len(end) == len(strides):
        raise Mismatch(f"begin, end and strides must be equally long, got {len(begin)}, {len(end)}, {len(strides)}")
    if masks["new_axis"] >> len(begin):
        raise Mismatch(f"new_axis_mask must name entries of begin, of which there are {len(begin)}, got {masks['new_axis']}")
    new = [bool(masks["new_axis"] >> i & 1) for i in range(len(begin))]
    index: list[slice | int | None] = []
    axis = 0
    for i in range(len(begin)):
        if masks["ellipsis"] >> i & 1:
            skipped = len(ifm) - axis - new[i + 1 :].count(False)
            index += [slice(None)] * skipped
            axis += skipped
        elif new[i]:
            index.append(None)
        else:
            if axis >= len(ifm):
                raise Mismatch(f"begin must have at most {len(ifm) + sum(new)} entries, got {len(begin)}")
            first = None if masks["begin"] >> i & 1 else begin[i]
            last = None if masks["end"] >> i & 1 else end[i]
            shrinks, offset = bool(masks["shrink_axis"] >> i & 1), bool(options.offset)
            index.append(_entry(ifm[axis], (first, last, strides[i]), end[i] if offset else None, i if shrinks else None))
            axis += 1
    return tuple(index)


def _entry(size: int, given: tuple[int | None, int | None, int], length: int | None, removed: int | None) -> slice | int:
    """The index of one axis; `length` from its start if ends are offsets, `removed` is the entry's number if the axis goes."""
    first, last, stride = given
    if stride == 0:
        raise Mismatch("strides must not be 0")
    start, stop, _ = slice(first, last, stride).indices(size)
    if removed is not None:
        if not 0 <= start < size:
            raise Mismatch(f"begin {removed} must be in [{-size}, {size}) where the axis is removed, got {first}")
        if stride < 0:
            raise Mismatch(f"stride {removed} must be positive where the axis is removed, got {stride}")
        return start
    if length is not None:  # from where the slice starts, whatever the mask of ends says
        stop = start + length
        if not -1 <= stop <= size:
            raise Mismatch(f"ends as offsets must stay within {size} elements, got {length} from {start}")
    if not range(start, stop, stride):
        return slice(0, 0)
    return slice(start, stop if stop >= 0 else None, stride)


def dynamic_update_slice(operands: Operands) -> Shapes:
    ifm, update = operands.shape(0), operands.shape(1)
    if len(update) != len(ifm) or any(u > n for u, n in zip(update, ifm, strict=True)):
        raise Mismatch(f"update must fit into {list(ifm)}, got {list(update)}")
    return [ifm]


# The same elements elsewhere


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
    return None if axis is None else [_inserted(ifm, normalized_axis(axis, len(ifm) + 1), 1)]


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
    result, ifm = block_pairs(operands), operands.shape(0)
    if result is None:
        return None
    sizes, pads = result
    padded = [ifm[axis + 1] + sum(pads[axis]) for axis in range(len(sizes))]
    if any(extent % size for extent, size in zip(padded, sizes, strict=True)):
        raise Mismatch(f"padded sizes must be multiples of the block {sizes}, got {padded}")
    parts = (extent // size for extent, size in zip(padded, sizes, strict=True))
    return [(ifm[0] * math.prod(sizes), *parts, *ifm[len(sizes) + 1 :])]


def batch_to_space(operands: Operands) -> Shapes:
    result, ifm = block_pairs(operands), operands.shape(0)
    if result is None:
        return None
    sizes, crops = result
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


# Reductions


def reduction(operands: Operands) -> Shapes:
    ifm, axes = operands.shape(0), operands.numbers(1)
    return None if axes is None else [without(ifm, reduced_axes(axes, len(ifm)), keep=operands.options.keep_dims)]


def arg(operands: Operands) -> Shapes:
    _has_type(operands, operands.options.output_type)
    ifm, axes = operands.shape(0), operands.numbers(1)
    if axes is None:
        return None
    if len(axes) != 1:
        raise Mismatch(f"axis must be one number, got {len(axes)}")
    axis = normalized_axis(axes[0], len(ifm))
    if ifm[axis] == 0:
        raise Mismatch(f"input must have elements on axis {axis}, got {list(ifm)}")
    return [without(ifm, (axis,))]


def _has_type(operands: Operands, said: DType) -> None:
    """The output has the type that the options say, which LiteRT gives it whatever the file declares."""
    output = operands.outputs[0]
    if said not in (DType.FLOAT32, output.dtype):  # FLOAT32 is the schema's default: nothing is said
        raise Mismatch(f"output '{output.name}' must be {said}, as the operator's options say, got {output.dtype}")


def top_k(operands: Operands) -> Shapes:
    ifm, count = operands.shape(0), operands.number(1)
    if count is None:
        return None
    if not ifm or not 0 <= count <= ifm[-1]:
        raise Mismatch(f"k must be in [0, {ifm[-1] if ifm else 0}], got {count}")
    return [(*ifm[:-1], count)] * 2


# Selections


def gather(operands: Operands) -> Shapes:
    ifm, indices, options = operands.shape(0), operands.shape(1), operands.options
    axis = normalized_axis(options.axis, len(ifm))
    batch = options.batch_dims + (len(indices) if options.batch_dims < 0 else 0)
    if not 0 <= batch <= axis or ifm[:batch] != indices[:batch]:
        raise Mismatch(
            f"the first {batch} dimensions must agree and not exceed axis {axis}, got {list(ifm)} and {list(indices)}"
        )
    return [(*ifm[:axis], *indices[batch:], *ifm[axis + 1 :])]


def gather_nd(operands: Operands) -> Shapes:
    ifm, indices = operands.shape(0), operands.shape(1)
    if not indices or indices[-1] > len(ifm):
        raise Mismatch(f"the last dimension of indices must be at most {len(ifm)}, got {list(indices)}")
    return [(*indices[:-1], *ifm[indices[-1] :])]


def scatter_nd(operands: Operands) -> Shapes:
    indices, updates, shape = operands.shape(0), operands.shape(1), operands.numbers(2)
    if shape is None:
        return None
    depth = indices[-1] if indices else 0
    if min(shape, default=0) < 0 or not indices or depth > len(shape) or updates != (*indices[:-1], *shape[depth:]):
        raise Mismatch(f"indices {list(indices)} and updates {list(updates)} must fit the shape, got {shape}")
    return [tuple(shape)]


def sparse_to_dense(operands: Operands) -> Shapes:
    indices, values, shape = operands.shape(0), operands.shape(2), operands.numbers(1)
    rank, rows = operands.shape(1)[0] if len(operands.shape(1)) == 1 else 0, indices[0] if indices else 1
    if len(indices) > 2 or (indices[1] if len(indices) == 2 else 1) != rank or math.prod(values) not in (1, rows):
        raise Mismatch(f"indices must be rows of {rank} numbers with one value each, got {list(indices)} and {list(values)}")
    return None if shape is None else [_sized(shape)]


def _sized(values: Sequence[int]) -> Shape:
    """A shape that a tensor holds."""
    if min(values, default=0) < 0:
        raise Mismatch(f"shape must have no negative dimension, got {list(values)}")
    return tuple(values)


# Shapes as values, and made ones


def shape_of(operands: Operands) -> Shapes:
    _has_type(operands, operands.options.out_type)
    return [(len(operands.shape(0)),)]


def scalar(operands: Operands) -> Shapes:
    return [()]


def fill(operands: Operands) -> Shapes:
    shape, value = operands.numbers(0), operands.shape(1)
    if math.prod(value) != 1:
        raise Mismatch(f"value must be a scalar, got {list(value)}")
    return None if shape is None else [_sized(shape)]


def one_hot(operands: Operands) -> Shapes:
    indices, depth, axis = operands.shape(0), operands.number(1), operands.options.axis
    if depth is None:
        return None
    if depth < 0:
        raise Mismatch(f"depth must not be negative, got {depth}")
    return [_inserted(indices, len(indices) if axis == -1 else normalized_axis(axis, len(indices) + 1), depth)]


def unknown(operands: Operands) -> Shapes:
    """Of operators whose output is as large as the elements say."""
    return None


# Tables and cells


def embedding_lookup(operands: Operands) -> Shapes:
    rows, table = operands.shape(0), operands.shape(1)
    rank_of(rows, 1, "rows")
    if len(table) < 2:
        raise Mismatch(f"table must have rank 2 or more, got {list(table)}")
    return [(rows[0], *table[1:])]


def hashtable_lookup(operands: Operands) -> Shapes:
    asked, keys, values = operands.shapes
    if len(asked) != 1 or len(keys) != 1 or not values or keys[0] != values[0]:
        raise Mismatch(f"lookup and keys must have rank 1 and keys one value each, got {list(keys)} and {list(values)}")
    return [(asked[0], *values[1:]), asked]


def lsh_projection(operands: Operands) -> Shapes:
    hashes = operands.shape(0)
    rank_of(hashes, 2, "seeds")
    is_sparse = operands.options.type is LshProjectionType.SPARSE
    return [(hashes[0] if is_sparse else hashes[0] * hashes[1],)]


def recurrent(operands: Operands) -> Shapes:
    """Of one time step: input (batch, features), weights (units, features)."""
    ifm = operands.shape(0)
    rank_of(ifm, 2, "input")
    return [(ifm[0], _rows(operands, 1))]


def sequence_recurrent(operands: Operands) -> Shapes:
    """Of a sequence of time steps: the first two dimensions are batch and time, in either order."""
    ifm = operands.shape(0)
    rank_of(ifm, 3, "input")
    return [(*ifm[:2], _rows(operands, 1))]


def bidirectional_recurrent(operands: Operands) -> Shapes:
    return _both_ways(operands, _rows(operands, 1), _rows(operands, 5))


def _both_ways(operands: Operands, forward: int, backward: int) -> Shapes:
    ifm = operands.shape(0)
    rank_of(ifm, 3, "input")
    if operands.options.merge_outputs:
        return [(*ifm[:2], forward + backward)]
    return [(*ifm[:2], forward), (*ifm[:2], backward)]


def _rows(operands: Operands, position: int) -> int:
    weights = operands.shape(position)
    rank_of(weights, 2, f"input {position}")
    return weights[0]


def _cell_outputs(operands: Operands, first: int = 0) -> int:
    """Units that an LSTM cell whose operands start at `first` gives: columns of the recurrent weights of its output gate."""
    recurrent = operands.shape(first + 8)
    if len(recurrent) not in (1, 2):
        raise Mismatch(f"recurrent weights must have rank 1 or 2, got {list(recurrent)}")
    return recurrent[-1]


def lstm(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    rank_of(ifm, 2, "input")
    if operands.options.kernel_type is LstmKernelType.FULL:
        return [(ifm[0], _cell_outputs(operands))]
    former = operands.shape(1)
    rank_of(former, 2, "activation")
    units, depth = former[1], ifm[1] + former[1]
    return [(ifm[0], width) for width in (units, units, depth, 4 * units)]


def sequence_lstm(operands: Operands) -> Shapes:
    ifm = operands.shape(0)
    rank_of(ifm, 3, "input")
    return [(*ifm[:2], _cell_outputs(operands))]


def bidirectional_lstm(operands: Operands) -> Shapes:
    return _both_ways(operands, _cell_outputs(operands), _cell_outputs(operands, 17))


def svdf(operands: Operands) -> Shapes:
    ifm, rank = operands.shape(0), operands.options.rank
    rank_of(ifm, 2, "input")
    filters = _rows(operands, 1)
    if rank < 1 or filters % rank:
        raise Mismatch(f"filters must be a multiple of the rank, got {filters} and {rank}")
    return [(ifm[0], filters // rank)]
