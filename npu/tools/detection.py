"""Accuracy of object detectors on a folder of images with COCO-style annotations."""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npu.errors import UserError
from npu.files import read_text
from npu.numerics.arrays import Array
from npu.progress import Progress
from npu.records import dataclass
from npu.tools.batches import DataSetRun, Told, run_on
from npu.tools.image_runs import ImageSetting
from npu.tools.images import Preprocessing
from npu.tools.mean_average_precision import AveragePrecision, Detection, GroundTruth, average_precision
from npu.tools.parameters import ToolParameters
from npu.tools.runner import count_of, real_values
from npu.workers import Here, Workers


@dataclass(frozen=True, slots=True)
class DetectionResult:
    """COCO metrics over `images` images; `names` of classes by id."""

    model: str
    log: tuple[str, ...]
    images: int
    precision: AveragePrecision
    names: dict[int, str]

    def to_json(self) -> str:
        """All numbers for programs; null where there is no ground truth."""
        by_class = {self.names.get(key, str(key)): value for key, value in self.precision.by_class.items()}
        numbers = {"mAP": self.precision.mean, "AP50": self.precision.at_50, "AP75": self.precision.at_75}
        row = {"model": self.model, "delegates": list(self.log), "images": self.images}
        row |= {key: value if value == value else None for key, value in numbers.items()}
        return json.dumps({**row, "by_class": by_class}, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Annotations:
    """A COCO file: (id, file name) of images, boxes, names of classes by id."""

    images: tuple[tuple[int, str], ...]
    truth: tuple[GroundTruth, ...]
    names: dict[int, str]


def evaluate(
    model: Path,
    images: Path,
    annotations: Path,
    parameters: ToolParameters,
    *,
    class_offset: int = 1,
    limit: int = 0,
    preprocessing: Preprocessing | None = None,
    num_threads: int = 1,
    workers: Workers | None = None,
    plugins: Sequence[str] = (),
    progress: Progress | None = None,
) -> DetectionResult:
    """Detect on every annotated image, `num_threads` at a time on every worker. The model's outputs are those of
    TFLite_Detection_PostProcess: boxes (top, left, bottom, right, from 0 to 1), classes, scores, number of detections.
    `class_offset` is the class id of the model's class 0, `plugins` are modules that register custom operators.
    """
    known = read_annotations(annotations)
    chosen = known.images[:limit] if limit else known.images
    setting = ImageSetting(model, parameters, preprocessing or Preprocessing(), num_threads)
    run = DataSetRun(_detect, setting, tuple(plugins))
    items = [(image, images / name) for image, name in chosen]
    log, outcomes = run_on(workers or Here(), run, items, "images", progress)
    detections = [_with_class(detection, class_offset) for of_image in outcomes for detection in of_image]
    present = {image for image, _ in chosen}
    precision = average_precision([box for box in known.truth if box.image in present], detections)
    return DetectionResult(model.name, log, len(chosen), precision, known.names)


def _with_class(detection: Detection, offset: int) -> Detection:
    return dataclasses.replace(detection, category=detection.category + offset)


def _detect(
    setting: ImageSetting, images: Sequence[tuple[int, Path]], told: Told
) -> tuple[tuple[str, ...], list[list[Detection]]]:
    """The detections of each image, by classes of the model."""
    with setting.open() as runner:
        inputs, details = runner.interpreter.get_input_details(), runner.interpreter.get_output_details()
        if len(inputs) != 1 or len(details) != 4:
            ends = f"{count_of(len(inputs), 'input')} and {count_of(len(details), 'output')}"
            raise UserError(f"detection model: must have 1 input and 4 outputs (boxes, classes, scores, count), got {ends}")
        detections = []
        for (image, path), shape, outputs in setting.infer(runner, images, [path for _, path in images], told):
            values = [real_values(value, detail) for value, detail in zip(outputs, details, strict=True)]
            detections.append(_detections(values, image, path, shape))
        return runner.lines, detections


def _detections(values: list[Array], image: int, path: Path, shape: tuple[int, ...]) -> list[Detection]:
    boxes, classes, scores, count = values
    if count.size < 1:
        raise UserError(f"detection model: the number of detections must be one number, got shape {list(count.shape)}")
    if (
        boxes.ndim != 3
        or boxes.shape[0] < 1
        or boxes.shape[2] != 4
        or classes.shape != boxes.shape[:2]
        or scores.shape != boxes.shape[:2]
    ):
        raise UserError(f"detection model: boxes must have shape (1, n, 4), got {list(boxes.shape)} and {list(classes.shape)}")
    if not all(np.isfinite(numbers).all() for numbers in values):
        raise UserError(f"detection model: outputs must be finite numbers, got others for {path}")
    total = min(int(count.reshape(-1)[0]), boxes.shape[1])
    return [Detection(image, int(classes[0, i]), _box(boxes[0, i], shape), float(scores[0, i])) for i in range(total)]


def _box(corners: Array, shape: tuple[int, ...]) -> tuple[float, float, float, float]:
    top, left, bottom, right = (float(value) for value in corners)
    height, width = shape[:2]
    return left * width, top * height, (right - left) * width, (bottom - top) * height


def read_annotations(path: Path) -> Annotations:
    """A COCO annotation file; UserError names what is missing or of the wrong kind."""
    try:
        data = json.loads(read_text(path))
        images = tuple((int(row["id"]), str(row["file_name"])) for row in data["images"])
        truth = tuple(_ground_truth(row) for row in data["annotations"])
        names = {int(row["id"]): str(row["name"]) for row in data.get("categories", ())}
    except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError) as error:
        told = f"no key {error}" if isinstance(error, KeyError) else getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{path}: must be a COCO annotation file (images, annotations with bbox), got: {textwrap.shorten(told, 200)}"
        ) from error
    if not images:
        raise UserError(f"{path}: must name at least one image")
    return Annotations(images, truth, names)


def _ground_truth(row: dict[str, Any]) -> GroundTruth:
    x, y, width, height = (float(value) for value in row["bbox"])
    crowd = bool(row.get("iscrowd", 0))
    if not all(map(math.isfinite, (x, y, width, height))) or width < 0 or height < 0:
        raise ValueError(f"bbox {row['bbox']} of annotation {row.get('id')}")
    return GroundTruth(int(row["image_id"]), int(row["category_id"]), (x, y, width, height), crowd)
