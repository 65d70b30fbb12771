"""Accuracy of image classifiers on a folder of images: top-1 to top-k, as the ImageNet task defines them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from npu.errors import UserError
from npu.files import read_text
from npu.numerics.arrays import Array
from npu.progress import Progress
from npu.records import dataclass
from npu.tools.batches import DataSetRun, Told, run_on
from npu.tools.image_runs import ImageSetting
from npu.tools.images import Preprocessing, find_images
from npu.tools.parameters import ToolParameters
from npu.tools.runner import count_of, real_values
from npu.workers import Here, Workers


@dataclass(frozen=True, slots=True)
class ClassificationResult:
    """`accuracy[k - 1]` is the share of images whose class is among the k best scores; k ends at the number of classes."""

    model: str
    log: tuple[str, ...]
    images: int
    accuracy: tuple[float, ...]

    def to_json(self) -> str:
        """All numbers for programs."""
        tops = {f"top{k}": value for k, value in enumerate(self.accuracy, 1)}
        return json.dumps({"model": self.model, "delegates": list(self.log), "images": self.images, **tops}, indent=2) + "\n"


def evaluate(
    model: Path,
    images: Path,
    parameters: ToolParameters,
    *,
    labels: Path | None = None,
    ground_truth: Path | None = None,
    top: int = 5,
    limit: int = 0,
    preprocessing: Preprocessing | None = None,
    num_threads: int = 1,
    workers: Workers | None = None,
    plugins: Sequence[str] = (),
    progress: Progress | None = None,
) -> ClassificationResult:
    """Classify the images of a folder, `num_threads` at a time on every worker.

    The class of an image is a line of `ground_truth` ("file class", or only the class in the order of file names), else the
    name of its subfolder. Classes are numbers of model outputs, or names that `labels` (one a line) turns into numbers.
    `plugins` are modules that register custom operators.
    """
    truth = _truth(find_images(images), images, ground_truth, _read_lines(labels) if labels is not None else None)
    truth = truth[:limit] if limit else truth
    setting = ImageSetting(model, parameters, preprocessing or Preprocessing(), num_threads)
    run = DataSetRun(_classify, setting, tuple(plugins))
    log, outcomes = run_on(workers or Here(), run, truth, "images", progress)
    ranks, classes = [rank for rank, _ in outcomes], outcomes[0][1]
    return ClassificationResult(model.name, log, len(ranks), top_k(ranks, min(top, classes)))


def _classify(
    setting: ImageSetting, truth: Sequence[tuple[Path, int]], told: Told
) -> tuple[tuple[str, ...], list[tuple[int, int]]]:
    """The rank of each image's class, and the number of classes."""
    with setting.open() as runner:
        inputs, outputs = runner.interpreter.get_input_details(), runner.interpreter.get_output_details()
        if len(inputs) != 1 or not outputs:
            ends = f"{count_of(len(inputs), 'input')} and {count_of(len(outputs), 'output')}"
            raise UserError(f"{setting.model.name}: must have one input and an output of scores to classify images, got {ends}")
        ranks = []
        for (path, label), _, scores in setting.infer(runner, truth, [path for path, _ in truth], told):
            values = real_values(scores[0], outputs[0]).reshape(-1)
            ranks.append((rank(values, label, path), int(np.prod(outputs[0]["shape"]))))
        return runner.lines, ranks


def rank(scores: Array, label: int, path: Path) -> int:
    """How many classes come before `label`: those with a higher score, and those with an equal one and a lower number."""
    if not 0 <= label < scores.size:
        raise UserError(f"{path}: class must be in [0, {scores.size}), got {label}")
    if np.isnan(scores).any():
        raise UserError(f"{path}: the model's scores must be numbers, got NaN")
    return int(np.count_nonzero(scores > scores[label]) + np.count_nonzero(scores[:label] == scores[label]))


def top_k(ranks: list[int], top: int) -> tuple[float, ...]:
    """Shares of ranks below 1, 2, ... `top`."""
    return tuple(sum(label < k for label in ranks) / len(ranks) for k in range(1, top + 1))


def _truth(paths: list[Path], folder: Path, ground_truth: Path | None, names: list[str] | None) -> list[tuple[Path, int]]:
    if ground_truth is None:
        return [(path, _number(path.parent.name, names, str(path))) for path in paths]
    lines = [line for line in _read_lines(ground_truth) if line.strip()]
    if all(len(line.split()) == 1 for line in lines) or not _exists(folder / lines[0].split()[0]):
        if len(lines) != len(paths):
            raise UserError(f"{ground_truth}: must have one line for each of {len(paths)} images, got {len(lines)}")
        return [(path, _number(line.strip(), names, str(path))) for path, line in zip(paths, lines, strict=True)]
    pairs = [line.strip().split(maxsplit=1) for line in lines]
    return [(folder / pair[0], _number(pair[-1], names, f"{ground_truth}: {pair[0]}")) for pair in pairs]


def _exists(path: Path) -> bool:
    """Whether there is such a file; there is none under a name that no file can have."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _number(text: str, names: list[str] | None, where: str) -> int:
    if names is not None and text in names:
        return names.index(text)
    if text.isdecimal() and len(text) < 19:
        return int(text)
    raise UserError(f"{where}: class must be a number or a name from the labels, got '{text}'")


def _read_lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in read_text(path).splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: must be a text file, got: {error}") from error
