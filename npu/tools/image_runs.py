"""Inference on the images of a data set: read, prepared, and run several at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.tools.batches import Told
from npu.tools.images import Preprocessing, model_input, read_image
from npu.tools.parameters import ToolParameters
from npu.tools.runner import Runner, open_batch_runner

T = TypeVar("T")
_GROUP = 8
"""Images of each thread that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class ImageSetting:
    """What every image has in common: model, delegates, preprocessing, and how many run at a time."""

    model: Path
    parameters: ToolParameters
    preprocessing: Preprocessing
    at_a_time: int

    @contextmanager
    def open(self) -> Iterator[Runner]:
        """The model, ready to run."""
        runner = open_batch_runner(self.model, self.parameters, at_a_time=self.at_a_time)
        try:
            yield runner
        finally:
            runner.close()

    def infer(
        self, runner: Runner, items: Sequence[T], paths: Sequence[Path], told: Told
    ) -> Iterator[tuple[T, tuple[int, ...], list[Array]]]:
        """Each item with its image's shape and the model's outputs, in order."""
        detail = runner.interpreter.get_input_details()[0]
        size = _GROUP * self.at_a_time if self.at_a_time > 1 else 1
        for first in range(0, len(items), size):
            group = items[first : first + size]
            prepared = [self._prepared(path, detail) for path in paths[first : first + size]]
            outputs = runner.run_each([[values] for _, values in prepared])
            for entry, (shape, _), output in zip(group, prepared, outputs, strict=True):
                yield entry, shape, output
            told(len(group))

    def _prepared(self, path: Path, detail: dict[str, Any]) -> tuple[tuple[int, ...], Array]:
        pixels = read_image(path)
        return pixels.shape, model_input(pixels, detail, self.preprocessing)
