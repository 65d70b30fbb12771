"""Evaluation on workers and on several threads: the same numbers as one image after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.cli.main import main
from npu.errors import UserError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.tools.classification import evaluate
from npu.tools.detection import evaluate as evaluate_detection
from npu.tools.inference_diff import compare
from npu.tools.registrar import default_parameters
from npu.workers import Here, WorkerDiedError, Workers, open_workers

from tests.support.builder import ModelBuilder
from tests.support.detector import write_detector

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = EXAMPLES / "digits.tflite"


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with open_workers(2) as workers:
        yield workers


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of noise, said to be of the digits in turn: some are ranked well, most are not."""
    folder, generator = tmp_path_factory.mktemp("noise"), np.random.default_rng(5)
    for number in range(37):
        (folder / str(number % 10)).mkdir(exist_ok=True)
        np.save(folder / str(number % 10) / f"{number}.npy", generator.integers(0, 256, (8, 8), np.uint8))
    return folder


def parameters(**flags: bool) -> Any:
    chosen = default_parameters()
    for name, value in flags.items():
        chosen.set(name, value)
    return chosen


def scaled(path: Path, factor: float) -> Path:
    """y = factor * x"""
    b = ModelBuilder()
    x = b.input((1, 50), DType.FLOAT32)
    b.output(b.op("MUL", [x, b.constant(np.float32(factor))], (1, 50), DType.FLOAT32, attributes=at.MulOptions()))
    path.write_bytes(b.build())
    return path


@pytest.mark.parametrize("flags", [{}, {"use_npu": True}], ids=["cpu", "npu"])
def test_accuracy_is_that_of_one_image_after_the_other(flags: dict[str, bool], noise: Path, two: Workers) -> None:
    alone = evaluate(DIGITS, noise, parameters(**flags))
    assert 0 < alone.accuracy[0] < alone.accuracy[4] < 1
    assert evaluate(DIGITS, noise, parameters(**flags), workers=two) == alone
    assert evaluate(DIGITS, noise, parameters(**flags), num_threads=3) == alone


def test_detections_are_those_of_one_image_after_the_other(tmp_path: Path, two: Workers) -> None:
    model = write_detector(tmp_path / "detector.tflite")
    rows: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": []}
    for number in range(11):
        (tmp_path / f"{number}.ppm").write_bytes(b"P6 20 10 255\n" + bytes(600))
        rows["images"].append({"id": number, "file_name": f"{number}.ppm"})
        rows["annotations"].append({"image_id": number, "category_id": 1 + number % 3, "bbox": [0, 0, 10, 10 - number / 3]})
    annotations = tmp_path / "annotations.json"
    annotations.write_text(json.dumps(rows))
    alone = evaluate_detection(model, tmp_path, annotations, parameters())
    assert 0 < alone.precision.mean < 1
    for how in ({"workers": two}, {"num_threads": 2}):
        assert evaluate_detection(model, tmp_path, annotations, parameters(), **how).to_json() == alone.to_json()


def test_differences_are_those_of_one_run_after_the_other(tmp_path: Path, two: Workers) -> None:
    arguments = scaled(tmp_path / "one.tflite", 1), parameters(), scaled(tmp_path / "two.tflite", 2)
    alone, shared = (compare(*arguments, runs=23, workers=workers) for workers in (Here(), two))
    assert alone.outputs[0].differing > 20 * 50  # every run has inputs of its own
    assert shared.outputs == alone.outputs
    assert (shared.log, shared.runs) == (alone.log, 23)


def test_the_commands_have_workers(noise: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["eval-classification", str(DIGITS), "--images", str(noise), "--format", "json"]
    assert main(command) == 0
    alone = capsys.readouterr().out
    assert main([*command, "--workers", "2"]) == 0
    assert capsys.readouterr().out == alone


def test_a_fault_on_a_worker_is_told_as_here(noise: Path, two: Workers) -> None:
    with pytest.raises(UserError, match="must be a text file"):
        evaluate(DIGITS, noise, parameters(), labels=noise / "none", workers=two)
    (noise / "0" / "broken.png").write_bytes(b"no picture")
    try:
        messages = []
        for workers in (Here(), two):
            with pytest.raises(UserError) as told:
                evaluate(DIGITS, noise, parameters(), workers=workers)
            messages.append(str(told.value))
        assert messages[0] == messages[1]
        assert "broken.png" in messages[0]
    finally:
        (noise / "0" / "broken.png").unlink()


def test_workers_that_die_are_no_result(noise: Path) -> None:
    class Deadly(Workers):
        count = 2

        def as_completed(self, function, arguments):  # type: ignore[no-untyped-def]
            yield 0, WorkerDiedError("3 workers died of it")

    with pytest.raises(WorkerDiedError):
        evaluate(DIGITS, noise, parameters(), workers=Deadly())
