"""Shapes that convolutions, matrix products and poolings make."""

from __future__ import annotations

import math
from collections.abc import Sequence

from npu.graph.operands import Mismatch, Operands, Shape
from npu.graph.shapes.common import Shapes, broadcast, rank_of, window_extent


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
    made = operands.numbers(0)
    return None if made is None else [transposed_shape(operands, made)]


def transposed_shape(operands: Operands, made: Sequence[int]) -> Shape:
    """The output shape of a transposed convolution that is asked for `made`; Mismatch where there is none."""
    options, (channels, *kernel, depth), ifm = operands.options, operands.shape(1), operands.shape(2)
    if depth != ifm[3]:
        raise Mismatch(f"filter must have the input's {ifm[3]} channels, got {depth}")
    stride = options.stride_h, options.stride_w
    if min(*stride, *kernel) < 1:
        raise Mismatch(f"stride and kernel must be positive, got {stride} and {tuple(kernel)}")
    _bias(operands, 3, channels)
    if len(made) != 4 or made[3] != channels or made[0] != ifm[0] or min(made) < 0:
        raise Mismatch(f"output shape must be [{ifm[0]}, height, width, {channels}], got {list(made)}")
    sides = zip(made[1:3], kernel, stride, strict=True)
    expected = tuple(window_extent(*side, 1, options.padding) for side in sides)
    if expected != ifm[1:3]:
        raise Mismatch(f"input must be as large as the convolution of {list(made)}, {expected}, got {ifm[1:3]}")
    return tuple(made)


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
