"""NON_MAX_SUPPRESSION_V4 and V5: the boxes with the best scores that do not overlap, by hard or soft suppression."""

from __future__ import annotations

import numpy as np

from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.implementation import Implementation
from npu.runtime.kernels.elementwise import exponential
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.operators.activation import through
from npu.runtime.operators.heap import Heap
from npu.runtime.tensor import RuntimeTensor

_SIGMA = 5


def build_suppression(node: OperatorNode) -> Run:
    has_sigma = node.kind.endswith("V5")
    boxes, scores, most, overlap, threshold = (node.input(position) for position in range(5))
    sigma = node.input(_SIGMA) if has_sigma else None

    def run() -> None:
        limit, soft = node.scalar(overlap), np.float32(0) if sigma is None else node.scalar(sigma)
        if not limit >= 0 or not soft >= 0:
            raise node.fail(f"overlap and sigma must not be negative, got {limit} and {soft}")
        suppression = _Suppression(_corners(boxes.array), limit, node.scalar(threshold), soft)
        chosen = suppression.run(scores.array, int(node.scalar(most)))
        _write(node.output(), [index for index, _ in chosen])
        if has_sigma:
            _write(node.output(1), [score for _, score in chosen])
        node.output(1 + has_sigma).array[...] = len(chosen)

    return run


def _write(output: RuntimeTensor, values: list[int] | list[np.float32]) -> None:
    output.array.fill(0)
    output.array[: len(values)] = values


@dataclass(frozen=True, slots=True)
class _Suppression:
    """One class's suppression. TFLite's reference (internal/reference/non_max_suppression.h): a box whose score a chosen one
    has lowered queues again, and is compared with those only that were chosen since.
    """

    corners: Array
    limit: np.float32
    threshold: np.float32
    sigma: np.float32

    def run(self, scores: Array, most: int) -> list[tuple[int, np.float32]]:
        """(index, score) of at most `most` boxes that stay."""
        queue: Heap[tuple[int, int]] = Heap()
        for index in np.flatnonzero(scores > self.threshold).tolist():
            queue.push(scores[index], (index, 0))
        most, chosen = min(most, len(queue)), list[tuple[int, np.float32]]()
        while len(chosen) < most and len(queue):
            before = queue.top_key
            index, first = queue.pop()
            score = self._score(index, before, [other for other, _ in chosen[first:]])
            if score is None:
                continue
            first = len(chosen)
            if score == before:
                chosen.append((index, score))
            if score > self.threshold:
                queue.push(score, (index, first))
        return chosen

    def _score(self, index: int, score: np.float32, chosen: list[int]) -> np.float32 | None:
        """What boxes that were chosen leave of a score; None if one of them covers too much of its box."""
        shared = overlaps(self.corners[index], self.corners[chosen[::-1]])
        if (shared >= self.limit).any():
            return None
        if self.sigma > 0:
            for factor in through(exponential, np.float32(-0.5) / self.sigma * shared * shared):
                score = score * factor
                if score <= self.threshold:
                    break
        return score


def _corners(boxes: Array) -> Array:
    """Top, left, bottom, right, whichever corners are given."""
    return np.concatenate([np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])], axis=1)


def overlaps(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others, float32; 0 where either has no area."""
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    area = (box[2] - box[0]) * (box[3] - box[1])
    sides = np.maximum(np.minimum(others[:, 2:], box[2:]) - np.maximum(others[:, :2], box[:2]), np.float32(0))
    shared = sides[:, 0] * sides[:, 1]
    is_box = (areas > 0) & (area > 0)
    return np.where(is_box, shared / np.where(is_box, area + areas - shared, np.float32(1)), np.float32(0))


OPERATORS = (
    Implementation("NON_MAX_SUPPRESSION_V4", build_suppression, ("f32 f32 i32 f32 f32 -> i32 i32",)),
    Implementation("NON_MAX_SUPPRESSION_V5", build_suppression, ("f32 f32 i32 f32 f32 f32 -> i32 f32 i32",)),
)
