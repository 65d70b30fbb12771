"""The evaluation tools on whole models, on the CPU and on the simulated NPU, and their progress bar."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers

from npu.cli.main import main
from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = EXAMPLES / "digits.tflite"


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A folder for each digit with its picture in it."""
    for number in range(10):
        folder = tmp_path / "digits" / str(number)
        folder.mkdir(parents=True)
        values = np.load(EXAMPLES / f"digit_{number}.npy")[0].astype(np.int16) + 128
        np.save(folder / "picture.npy", values.astype(np.uint8))
    return tmp_path / "digits"


@pytest.mark.seed("D-A-1", "D-A-3")
@pytest.mark.parametrize(
    ("flags", "taken"),
    [
        ([], None),
        (["--use_npu"], "EthosUDelegate: 1 of 1 node in 1 partition"),
        (["--use_xnnpack", "--xnnpack_qs8"], "XnnpackDelegate: 8 of 10 nodes in 2 partitions"),
        (["--use_xnnpack"], "XnnpackDelegate: none of 10 nodes"),
    ],
)
def test_digits_are_recognised_on_every_executor(
    digits: Path, flags: list[str], taken: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval-classification", str(DIGITS), "--images", str(digits), "--top", "2", *flags]) == 0
    text = capsys.readouterr().out
    assert "digits.tflite: 10 images\n" in text
    assert text.endswith("top-1 accuracy 100.00%\ntop-2 accuracy 100.00%\n")
    assert taken is None or taken in text


@pytest.mark.seed("D-A-1")
def test_top_k_ends_at_the_number_of_classes(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval-classification", str(DIGITS), "--images", str(digits), "--top", "30", "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "digits.tflite: 1 image"
    assert lines[-1].startswith("top-10 accuracy")


def _evaluate(digits: Path, stderr: int) -> str:
    """In a process of its own, whose bars do not wait for work that takes long."""
    start = "from npu.rendering import progress_bars; progress_bars._DELAY_SECONDS = 0; from npu.cli.main import main; main()"
    command = [sys.executable, "-c", start, "eval-classification", str(DIGITS), "--images", str(digits)]
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(EXAMPLES.parent)}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True, check=True).stdout


@pytest.mark.seed("D-A-1")
def test_a_progress_bar_is_on_a_terminal_and_never_in_a_pipe(digits: Path, tmp_path: Path) -> None:
    with (tmp_path / "errors").open("w+") as errors:
        plain = _evaluate(digits, errors.fileno())
        errors.seek(0)
        assert errors.read() == ""
    leader, follower = pty.openpty()
    assert _evaluate(digits, follower) == plain
    os.close(follower)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert "images" in shown
    assert "10/10" in shown


POST_PROCESSING = {
    "max_detections": 4, "max_classes_per_detection": 1, "num_classes": 2, "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5, "y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0,
}  # fmt: skip


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    """Scores each quarter of an image: class 0 by its red, class 1 by its blue; int8 but for the post-processing."""
    weights = np.zeros((3, 1, 1, 3), np.int8)
    weights[1, 0, 0, 0] = weights[2, 0, 0, 2] = 127
    scores = {"scale": 1 / 256, "zero_point": -128}
    b = ModelBuilder()
    x = b.input((1, 2, 2, 3), DType.INT8, **scores)
    filters, bias = b.constant(weights, scale=1 / 127, zero_point=0), b.constant(np.zeros(3, np.int32), scale=1 / 256 / 127)
    options = at.Conv2DOptions(padding=at.Padding.VALID, stride_w=1, stride_h=1)
    found = b.op("CONV_2D", [x, filters, bias], (1, 2, 2, 3), DType.INT8, attributes=options, **scores)
    rows = b.constant(np.array([1, 4, 3], np.int32))
    flat = b.op("RESHAPE", [found, rows], (1, 4, 3), DType.INT8, attributes=at.ReshapeOptions(new_shape=(1, 4, 3)), **scores)
    classes = b.op("DEQUANTIZE", [flat], (1, 4, 3), DType.FLOAT32)
    nothing = b.constant(np.zeros((1, 4, 4), np.float32))
    centres = [[y, x, 0.5, 0.5] for y in (0.25, 0.75) for x in (0.25, 0.75)]
    anchors = b.constant(np.array(centres, np.float32))
    outputs = [b.tensor(shape, DType.FLOAT32) for shape in ((1, 4, 4), (1, 4), (1, 4), (1,))]
    b.multi_op(
        "CUSTOM", [nothing, classes, anchors], outputs,
        custom_code="TFLite_Detection_PostProcess", custom_options=bytes(flexbuffers.Dumps(POST_PROCESSING)),
    )  # fmt: skip
    for output in outputs:
        b.output(output)
    path = tmp_path / "detector.tflite"
    path.write_bytes(b.build())
    return path


@pytest.mark.seed("D-A-2", "D-A-3")
@pytest.mark.parametrize(
    "flags", [[], ["--use_npu"], ["--use_xnnpack", "--xnnpack_qs8"], ["--external_delegate_path", "dummy"]]
)
def test_red_and_blue_quarters_are_detected_on_every_executor(
    detector: Path, flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    first, second = np.zeros((2, 40, 60, 3), np.uint8)
    first[:20, :30, 0] = 255
    first[20:, 30:, 2] = 230
    second[:20, 30:, 2] = 255
    np.save(images / "first.npy", first)
    np.save(images / "second.npy", second)
    rows = {
        "images": [{"id": 1, "file_name": "first.npy"}, {"id": 2, "file_name": "second.npy"}],
        "annotations": [
            {"image_id": 1, "category_id": 1, "bbox": [0, 0, 30, 20]},
            {"image_id": 1, "category_id": 2, "bbox": [30, 20, 30, 20]},
            {"image_id": 2, "category_id": 2, "bbox": [0, 20, 30, 20]},  # not where the blue is
        ],
        "categories": [{"id": 1, "name": "red"}, {"id": 2, "name": "blue"}],
    }
    annotations = tmp_path / "annotations.json"
    annotations.write_text(json.dumps(rows))
    arguments = ["eval-detection", str(detector), "--images", str(images), "--annotations", str(annotations)]
    assert main([*arguments, *flags, "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["by_class"]["red"] == pytest.approx(1.0)
    assert row["by_class"]["blue"] == pytest.approx(0.5 * 51 / 101)  # the wrong one scores more; the other box is never found
    assert [row["mAP"], row["AP50"], row["AP75"]] == pytest.approx([(1 + 0.5 * 51 / 101) / 2] * 3)
