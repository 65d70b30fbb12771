"""TFLite_Detection_PostProcess: boxes, class scores and anchors to the best boxes (TFLite's custom operator)."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.custom import CustomOperator
from npu.runtime.delegate import Context, Node, Status
from npu.runtime.operators.heap import largest
from npu.runtime.operators.suppression import overlaps
from npu.runtime.tensor import RuntimeTensor

NAME = "TFLite_Detection_PostProcess"
_DAMAGED = (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, struct.error)


@dataclass(frozen=True, slots=True)
class _DetectionOptions:
    max_detections: int
    num_classes: int
    score_threshold: float
    overlap_threshold: float
    scales: tuple[float, float, float, float]
    """Of y, x, height, width."""
    classes_per_detection: int
    detections_per_class: int
    """Of regular NMS, which suppresses class by class; 0 is fast NMS, which looks at the best class of a box only."""


def _init(context: Context, custom_options: bytes) -> _DetectionOptions:
    try:
        table = flexbuffers.Loads(custom_options)
        options = _DetectionOptions(
            max_detections=int(table["max_detections"]),
            num_classes=int(table["num_classes"]),
            score_threshold=float(table["nms_score_threshold"]),
            overlap_threshold=float(table["nms_iou_threshold"]),
            scales=tuple(float(table[f"{name}_scale"]) for name in "yxhw"),  # type: ignore[arg-type]
            classes_per_detection=int(table["max_classes_per_detection"]),
            detections_per_class=int(table.get("detections_per_class", 100)) if table.get("use_regular_nms", False) else 0,
        )
    except _DAMAGED as error:
        raise InterpreterError(f"{NAME}: custom options must be a complete flexbuffer map, got: {error!r}") from error
    sizes = options.max_detections, options.num_classes, options.classes_per_detection, options.detections_per_class + 1
    if min(sizes) < 1 or 0.0 in options.scales:
        raise InterpreterError(f"{NAME}: sizes must be positive and scales not zero, got {options}")
    if options.classes_per_detection > options.num_classes:
        raise InterpreterError(f"{NAME}: max_classes_per_detection must be at most {options.num_classes}, got {options}")
    return options


def _prepare(context: Context, node: Node) -> Status:
    options: _DetectionOptions = node.user_data
    if len(node.inputs) != 3 or len(node.outputs) != 4 or any(index < 0 for index in node.inputs):
        raise InterpreterError(f"{NAME}: must have 3 inputs and 4 outputs, got {len(node.inputs)} and {len(node.outputs)}")
    boxes, scores, anchors = (context.tensors[index] for index in node.inputs)
    count = boxes.shape[1] if len(boxes.shape) == 3 else -1
    fits = boxes.shape == (1, count, 4) and anchors.shape == (count, 4) and len(scores.shape) == 3
    if not fits or scores.shape[:2] != (1, count) or scores.shape[2] not in (options.num_classes, options.num_classes + 1):
        shapes = [list(tensor.shape) for tensor in (boxes, scores, anchors)]
        raise InterpreterError(f"{NAME}: inputs must be [1, n, 4], [1, n, classes] and [n, 4], got {shapes}")
    for tensor in (boxes, scores, anchors):
        if tensor.dtype is not DType.FLOAT32 and not (tensor.dtype is DType.UINT8 and tensor.is_quantized):
            raise InterpreterError(f"{NAME}: inputs must be float32 or quantized uint8, got {tensor.dtype}")
    if boxes.dtype is not anchors.dtype:
        raise InterpreterError(f"{NAME}: anchors must have the type of the boxes, got {anchors.dtype} and {boxes.dtype}")
    for index, shape in zip(node.outputs, _shapes(options), strict=True):
        if context.tensors[index].dtype is not DType.FLOAT32:
            raise InterpreterError(f"{NAME}: outputs must be float32, got {context.tensors[index].dtype}")
        context.resize_tensor(index, shape)
    return Status.OK


def _shapes(options: _DetectionOptions) -> tuple[tuple[int, ...], ...]:
    most = options.max_detections * options.classes_per_detection
    return (1, most, 4), (1, most), (1, most), (1,)


def _invoke(context: Context, node: Node) -> Status:
    options: _DetectionOptions = node.user_data
    encoded, scores, anchors = (_real(context.tensors[index]) for index in node.inputs)
    boxes = _decode(encoded[0], anchors, options)
    by_class = scores[0][:, scores.shape[2] - options.num_classes :]
    rows, classes, count = (_regular if options.detections_per_class else _fast)(boxes, by_class, options)
    results: tuple[Any, ...] = (boxes[rows], classes, by_class[rows, classes])
    for index, values in zip(node.outputs[:3], results, strict=True):
        output = context.tensors[index].array
        output.fill(0)
        output[0, : len(rows)] = values
    context.tensors[node.outputs[3]].array[0] = count
    return Status.OK


def _fast(boxes: Array, scores: Array, options: _DetectionOptions) -> tuple[Array, Array, int]:
    """Boxes and classes of detections, and how many boxes: NMS by the best score of each box, then its best classes."""
    kept = _suppress(boxes, scores.max(axis=1), options, options.max_detections)
    classes = [label for row in kept for label in _best(scores[row], options.classes_per_detection)]
    return np.repeat(np.array(kept, np.intp), options.classes_per_detection), np.array(classes, np.intp), len(kept)


def _best(scores: Array, count: int) -> list[int]:
    """Classes of the largest scores: the first of equal ones if one is asked for, else in the order of a partial sort."""
    return [int(scores.argmax())] if count == 1 else largest(scores, count)


def _regular(boxes: Array, scores: Array, options: _DetectionOptions) -> tuple[Array, Array, int]:
    """The same with NMS within each class; after each the best of all classes so far stay."""
    best: list[tuple[float, int, int]] = []
    for label in range(options.num_classes):
        kept = _suppress(boxes, scores[:, label], options, options.detections_per_class)
        best += [(float(scores[row, label]), row, label) for row in kept]
        best = sorted(best, key=lambda entry: -entry[0])[: options.max_detections]
    rows, classes = (np.array([entry[part] for entry in best], np.intp) for part in (1, 2))
    return rows, classes, len(best)


def _real(tensor: RuntimeTensor) -> Array:
    if tensor.dtype is DType.FLOAT32:
        return tensor.array
    return (tensor.array.astype(np.int32) - tensor.zero_point).astype(np.float32) * np.float32(tensor.scale)


def _decode(encoded: Array, anchors: Array, options: _DetectionOptions) -> Array:
    """Corners (top, left, bottom, right), float32; centre and size are computed in double precision as TFLite does."""
    parts, anchor = encoded.astype(np.float64), anchors.astype(np.float64)
    scale = np.array(options.scales, np.float32).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        centre = (parts[:, :2] / scale[:2] * anchor[:, 2:] + anchor[:, :2]).astype(np.float32)
        half = (0.5 * np.exp(parts[:, 2:] / scale[2:]) * anchor[:, 2:]).astype(np.float32)
        return np.concatenate([centre - half, centre + half], axis=1)


def _suppress(boxes: Array, scores: Array, options: _DetectionOptions, most: int) -> list[int]:
    """At most `most` rows of `boxes` to keep, the best score first; later ones that overlap a kept one too much are dropped."""
    candidates = np.flatnonzero(scores >= np.float32(options.score_threshold))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    kept: list[int] = []
    while order.size and len(kept) < most:
        first, order = int(order[0]), order[1:]
        kept.append(first)
        order = order[overlaps(boxes[first], boxes[order]) <= np.float32(options.overlap_threshold)]
    return kept


CUSTOM_OPERATORS = {NAME: CustomOperator(_invoke, _prepare, _init)}
