"""Mean average precision of object detections as COCO defines it: a pure function from boxes to numbers.

For each class and each IoU threshold 0.50, 0.55, ... 0.95, detections of all images in order of falling score are matched: each
takes the free ground-truth box of its image with the largest IoU of at least the threshold. Precision is made monotonic and
averaged over the recalls 0, 0.01, ... 1. Crowd regions match any number of detections, by the share of the detection that they
cover, and such detections count neither as right nor as wrong. At most 100 detections an image and class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu.numerics.arrays import Array
from npu.records import dataclass

THRESHOLDS = tuple(np.linspace(0.5, 0.95, 10).tolist())
RECALLS = np.linspace(0, 1, 101)
MAX_DETECTIONS = 100


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """A box (x, y, width, height) of a class in an image."""

    image: int
    category: int
    box: tuple[float, float, float, float]
    is_crowd: bool = False


@dataclass(frozen=True, slots=True)
class Detection:
    """A box that a model found."""

    image: int
    category: int
    box: tuple[float, float, float, float]
    score: float


@dataclass(frozen=True, slots=True)
class AveragePrecision:
    """`mean` over thresholds and classes, `at_50` and `at_75` at one threshold; `by_class` over thresholds. NaN: no boxes."""

    mean: float
    at_50: float
    at_75: float
    by_class: dict[int, float]


def average_precision(truth: Sequence[GroundTruth], detections: Sequence[Detection]) -> AveragePrecision:
    """The COCO metrics AP, AP50 and AP75 over all sizes of boxes. Classes without a ground-truth box do not count."""
    categories = sorted({box.category for box in truth if not box.is_crowd})
    table = np.full((len(categories), len(THRESHOLDS)), np.nan)
    for row, category in enumerate(categories):
        table[row] = _of_class(
            [box for box in truth if box.category == category],
            [detection for detection in detections if detection.category == category],
        )
    if not categories:
        return AveragePrecision(np.nan, np.nan, np.nan, {})
    by_class = {category: float(table[row].mean()) for row, category in enumerate(categories)}
    return AveragePrecision(float(table.mean()), float(table[:, 0].mean()), float(table[:, 5].mean()), by_class)


def _of_class(truth: Sequence[GroundTruth], detections: Sequence[Detection]) -> Array:
    scores: list[float] = []
    outcomes: list[Array] = []
    for image in sorted({box.image for box in truth} | {detection.image for detection in detections}):
        precisions = sorted(
            (detection for detection in detections if detection.image == image), key=lambda detection: -detection.score
        )[:MAX_DETECTIONS]
        boxes = sorted((box for box in truth if box.image == image), key=lambda box: box.is_crowd)
        scores.extend(box.score for box in precisions)
        outcomes.append(
            np.array([_match(precisions, boxes, threshold) for threshold in THRESHOLDS]).reshape(len(THRESHOLDS), -1)
        )
    positives = sum(not box.is_crowd for box in truth)
    order = np.argsort(-np.array(scores), kind="mergesort")
    joined = np.concatenate(outcomes, axis=1)[:, order]
    return np.array([_interpolated(row, positives) for row in joined])


_WRONG, _RIGHT, _IGNORED = 0, 1, 2


def _match(detections: Sequence[Detection], boxes: Sequence[GroundTruth], threshold: float) -> list[int]:
    """Outcome of each detection of one image; `boxes` has the crowd regions last."""
    free = [True] * len(boxes)
    outcomes = []
    for detection in detections:
        best, chosen = min(threshold, 1 - 1e-10), -1
        for index, box in enumerate(boxes):
            if not free[index] and not box.is_crowd:
                continue
            if chosen >= 0 and not boxes[chosen].is_crowd and box.is_crowd:
                break
            overlap = intersection_over_union(detection.box, box.box, is_crowd=box.is_crowd)
            if overlap >= best:
                best, chosen = overlap, index
        if chosen >= 0:
            free[chosen] = False
        outcomes.append(_WRONG if chosen < 0 else _IGNORED if boxes[chosen].is_crowd else _RIGHT)
    return outcomes


def intersection_over_union(
    left: tuple[float, float, float, float], right: tuple[float, float, float, float], *, is_crowd: bool = False
) -> float:
    """Shared area over joint area of two boxes (x, y, width, height); for a crowd region `right` over the area of `left`."""
    width = min(left[0] + left[2], right[0] + right[2]) - max(left[0], right[0])
    height = min(left[1] + left[3], right[1] + right[3]) - max(left[1], right[1])
    shared = max(width, 0.0) * max(height, 0.0)
    joint = left[2] * left[3] if is_crowd else left[2] * left[3] + right[2] * right[3] - shared
    return shared / joint if joint > 0 else 0.0


def _interpolated(outcomes: Array, positives: int) -> float:
    counted = outcomes[outcomes != _IGNORED]
    right = np.cumsum(counted == _RIGHT)
    if not right.size:
        return 0.0
    precision = right / np.arange(1, right.size + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    place = np.searchsorted(right / positives, RECALLS, side="left")
    reached = place < right.size
    return float(np.where(reached, precision[np.minimum(place, right.size - 1)], 0.0).mean())
