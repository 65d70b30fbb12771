"""Pools and convolutions in a form that the NPU takes: no padding of nothing, no stride that never steps, single images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from npu.fixes.edit import Accepts, Editor, is_static
from npu.graph.attributes import (
    ConcatenationOptions,
    Conv2DOptions,
    DepthwiseConv2DOptions,
    Padding,
    Pool2DOptions,
    SplitOptions,
)
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor

WindowOptions = Conv2DOptions | DepthwiseConv2DOptions | Pool2DOptions
_MOST_IMAGES = 16


def rewrite_windows(graph: Graph, accepts: Accepts) -> Editor:
    """Operators that the target refuses as they are, in an equal form that it takes; left alone where there is none."""
    editor = Editor(graph)
    for position, op in enumerate(graph.ops):
        options = op.attributes
        if not isinstance(options, WindowOptions) or not _is_plain(graph, op) or accepts(graph, op):
            continue
        simplest = _simplified(graph, op, options)
        if simplest != options and accepts(graph, replace(op, attributes=simplest)):
            editor.put(position, [replace(op, attributes=simplest)], _said(options, simplest))
        elif 1 < graph.tensors[op.inputs[0]].shape[0] <= _MOST_IMAGES:
            _by_image(editor, graph, position, replace(op, attributes=simplest), accepts)
    return editor


def _is_plain(graph: Graph, op: Op) -> bool:
    """Whether input and output are images whose shapes are certain."""
    if not op.inputs or ABSENT in (op.inputs[0], *op.outputs) or len(op.outputs) != 1:
        return False
    ends = (graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]])
    return all(is_static(tensor) and len(tensor.shape) == 4 for tensor in ends)


def _extents(graph: Graph, op: Op, options: WindowOptions) -> Iterator[tuple[int, int, int, int]]:
    """(input, window, stride, output) of height and width; the window of a convolution with its dilation."""
    ifm, ofm = (graph.tensors[index].shape for index in (op.inputs[0], op.outputs[0]))
    if isinstance(options, Pool2DOptions):
        windows = (options.filter_height, options.filter_width)
    else:
        kernel, dilations = graph.tensors[op.inputs[1]].shape, (options.dilation_h_factor, options.dilation_w_factor)
        windows = tuple((kernel[axis + 1] - 1) * dilations[axis] + 1 for axis in range(2))  # type: ignore[assignment]
    strides = (options.stride_h, options.stride_w)
    for axis in range(2):
        yield ifm[axis + 1], windows[axis], strides[axis], ofm[axis + 1]


def _simplified(graph: Graph, op: Op, options: WindowOptions) -> WindowOptions:
    """VALID for SAME where nothing is padded, and stride 1 where the window covers the input exactly."""
    if not isinstance(options, Pool2DOptions) and (len(op.inputs) < 2 or len(graph.tensors[op.inputs[1]].shape) != 4):
        return options
    extents = list(_extents(graph, op, options))
    if any(min(extent) < 1 for extent in extents):
        return options
    if all((ofm - 1) * stride + window <= ifm for ifm, window, stride, ofm in extents) and all(
        ofm == (ifm - window) // stride + 1 for ifm, window, stride, ofm in extents
    ):
        options = replace(options, padding=Padding.VALID)
    if options.padding is Padding.VALID:
        height, width = (1 if ifm == window else stride for ifm, window, stride, _ in extents)
        options = replace(options, stride_h=height, stride_w=width)
    return options


def _said(before: WindowOptions, after: WindowOptions) -> str:
    parts = ["VALID padding, as SAME pads nothing"] if before.padding is not after.padding else []
    if (before.stride_h, before.stride_w) != (after.stride_h, after.stride_w):
        parts.append(f"stride {after.stride_h}x{after.stride_w}, as the window covers the input")
    return " and ".join(parts)


def _by_image(editor: Editor, graph: Graph, position: int, op: Op, accepts: Accepts) -> None:
    """SPLIT along the batch, one operator an image, CONCATENATION; only if the target takes these operators."""
    ifm, ofm = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    count = ifm.shape[0]
    added = len(editor.tensors)
    images = [editor.add(_image(ifm, number)) for number in range(count)]
    outputs = [editor.add(_image(ofm, number)) for number in range(count)]
    axis = editor.add(Tensor(f"{ifm.name}_axis", (), DType.INT32, data=np.array(0, np.int32)))
    parts = [
        replace(op, inputs=(image, *op.inputs[1:]), outputs=(output,)) for image, output in zip(images, outputs, strict=True)
    ]
    whole = replace(graph, tensors=tuple(editor.tensors))
    if not all(accepts(whole, part) for part in parts):
        del editor.tensors[added:]
        return
    split = Op("SPLIT", (axis, op.inputs[0]), tuple(images), SplitOptions(count))
    join = Op("CONCATENATION", tuple(outputs), op.outputs, ConcatenationOptions(0))
    editor.put(position, [split, *parts, join], f"one image of the batch of {count} at a time")


def _image(tensor: Tensor, number: int) -> Tensor:
    return replace(tensor, name=f"{tensor.name}_{number}", shape=(1, *tensor.shape[1:]), shape_signature=None)
