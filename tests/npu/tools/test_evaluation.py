"""Image files, preprocessing, top-k accuracy and mean average precision against cases worked out by hand."""

from __future__ import annotations

import json
import math
import struct
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

from npu.cli.main import main
from npu.errors import UserError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.tools.classification import evaluate, rank, top_k
from npu.tools.images import Preprocessing, find_images, model_input, read_image, resize
from npu.tools.mean_average_precision import Detection, GroundTruth, average_precision, intersection_over_union
from npu.tools.registrar import default_parameters

from tests.support.builder import ModelBuilder
from tests.support.detector import write_detector

RGB = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 7


def _png(pixels: np.ndarray, colour: int, filters: list[int], palette: bytes = b"") -> bytes:
    """A PNG file; the filters are applied as section 9 of the PNG specification defines them."""
    height, width, channels = pixels.shape
    rows = pixels.reshape(height, -1).astype(np.int64)
    raw = b""
    for y, kind in enumerate(filters):
        line = b""
        for x in range(rows.shape[1]):
            left = rows[y, x - channels] if x >= channels else 0
            up = rows[y - 1, x] if y else 0
            corner = rows[y - 1, x - channels] if y and x >= channels else 0
            estimate = left + up - corner
            nearest = min((abs(estimate - left), 0, left), (abs(estimate - up), 1, up), (abs(estimate - corner), 2, corner))
            guess = (0, left, up, (left + up) // 2, nearest[2])[kind]
            line += bytes([(int(rows[y, x]) - int(guess)) & 255])
        raw += bytes([kind]) + line
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0))]
    chunks += [(b"PLTE", palette)] if palette else []
    chunks += [(b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    parts = [struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


FILES = {
    "a.ppm": b"P6\n# a comment\n3 2\n255\n" + RGB.tobytes(),
    "b.png": _png(RGB, 2, [1, 2]),
    "c.png": _png(RGB, 2, [3, 4]),
    "d.png": _png(np.concatenate([RGB, RGB[:, :, :1]], axis=2), 6, [0, 4]),
    "e.png": _png(np.arange(6).reshape(2, 3, 1), 3, [0, 1], RGB.tobytes()),
}


def test_a_photo_with_every_filter_of_png_is_read(tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (75, 61, 3)).astype(np.uint8)
    (tmp_path / "a.png").write_bytes(_png(pixels, 2, [y % 5 for y in range(75)]))
    np.testing.assert_array_equal(read_image(tmp_path / "a.png"), pixels)


def test_a_large_image_is_made_small_without_a_larger_copy() -> None:
    image = np.random.default_rng(4).integers(0, 256, (2000, 3000, 3)).astype(np.uint8)
    tracemalloc.start()
    small = resize(image, 8, 9)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < image.nbytes
    np.testing.assert_array_equal(small, resize(image.astype(np.float64), 8, 9))


def test_an_image_of_millions_of_pixels_in_one_row_is_read_in_bounded_memory(tmp_path: Path) -> None:
    width = 1 << 24
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, 1, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(bytes(width + 1)))]
    parts = [struct.pack(">I", len(body)) + name + body + bytes(4) for name, body in chunks]
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    tracemalloc.start()
    small = resize(read_image(tmp_path / "a.png"), 224, 224)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * width
    assert not small.any()


def test_a_file_of_blanks_is_no_image_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.ppm").write_bytes(b"P6" + b" " * (1 << 22))
    start = time.process_time()
    with pytest.raises(UserError, match="header that is damaged"):
        read_image(tmp_path / "a.ppm")
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize("name", FILES)
def test_images_are_read_as_rgb(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    np.testing.assert_array_equal(read_image(tmp_path / name), RGB)


def test_grey_images_and_arrays_are_read(tmp_path: Path) -> None:
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    (tmp_path / "a.pgm").write_bytes(b"P5 3 2 255\n" + grey.tobytes())
    (tmp_path / "b.png").write_bytes(_png(grey[:, :, None], 0, [0, 2]))
    np.save(tmp_path / "c.npy", grey)
    for path in find_images(tmp_path):
        np.testing.assert_array_equal(read_image(path), np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("short.ppm", FILES["a.ppm"][:-1], "17 of 18 bytes"),
        ("short.png", FILES["b.png"][:50], "must be a complete image"),
        ("deep.png", FILES["b.png"].replace(b"\x08\x02\x00\x00\x00", b"\x10\x02\x00\x00\x00"), "must be 8 bits"),
        ("huge.ppm", b"P6 99999 99999 255\n", "99999 x 99999 pixels"),
        ("index.png", _png(np.full((1, 1, 1), 9), 3, [0], b"abc"), "a colour outside the palette"),
        ("header.png", FILES["b.png"][:20], "must be a complete image"),
    ],
)
def test_damaged_images_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_image(tmp_path / name)


def test_a_folder_must_hold_images(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="must hold images"):
        find_images(tmp_path)
    with pytest.raises(UserError, match="must be a folder"):
        find_images(tmp_path / "none")


def test_resizing_is_bilinear_with_half_pixel_centres() -> None:
    row = np.array([[[0.0], [10.0]]])
    np.testing.assert_allclose(resize(row, 1, 4)[0, :, 0], [0, 2.5, 7.5, 10])
    np.testing.assert_allclose(resize(row, 1, 1)[0, :, 0], [5])


@pytest.mark.parametrize(
    ("dtype", "quantization", "how", "expected"),
    [
        (np.float32, (0.0, 0), Preprocessing(), [-1.0, 1.0]),
        (np.float32, (0.0, 0), Preprocessing(0, 255), [0.0, 1.0]),
        (np.uint8, (0.5, 3), Preprocessing(), [0, 255]),
        (np.int8, (0.5, 3), Preprocessing(), [-128, 127]),
        (np.int8, (1 / 127, 0), Preprocessing(127.5, 127.5), [-127, 127]),
    ],
)
def test_pixels_become_the_values_that_the_input_wants(
    dtype: type, quantization: tuple[float, int], how: Preprocessing, expected: list[float]
) -> None:
    detail = {"name": "x", "shape": [1, 1, 2, 3], "dtype": dtype, "quantization": quantization}
    image = np.array([[[0, 0, 0], [255, 255, 255]]], np.uint8)
    values = model_input(image, detail, how)
    assert values.dtype == dtype
    np.testing.assert_array_equal(values[0, 0, :, 0], np.array(expected, dtype))


def test_the_rank_of_a_class_counts_better_scores() -> None:
    scores = np.array([1.0, 5.0, 5.0, 2.0])
    assert [rank(scores, label, Path("x")) for label in range(4)] == [3, 0, 1, 2]
    assert top_k([3, 0, 1, 2], 3) == (0.25, 0.5, 0.75)
    with pytest.raises(UserError, match=r"class must be in \[0, 4\), got 9"):
        rank(scores, 9, Path("x"))


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Scores of classes 0 to 2: the mean of red, green and blue."""
    b = ModelBuilder()
    x = b.input((1, 4, 4, 3), DType.FLOAT32)
    axes = b.constant(np.array([1, 2], np.int32))
    b.output(b.op("MEAN", [x, axes], (1, 3), DType.FLOAT32, attributes=at.ReducerOptions()))
    path = tmp_path / "classifier.tflite"
    path.write_bytes(b.build())
    return path


def _colours(folder: Path, names: dict[str, tuple[int, int, int]]) -> Path:
    for name, colour in names.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, np.full((6, 5, 3), colour, np.uint8))
    return folder


@pytest.mark.seed("D-A-1", "D-A-3")
def test_classes_are_names_of_subfolders(classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    colours = {"red/a.npy": (9, 0, 0), "green/b.npy": (0, 9, 0), "blue/c.npy": (5, 0, 4), "blue/d.npy": (0, 0, 7)}
    images = _colours(tmp_path / "images", colours)
    labels = tmp_path / "labels.txt"
    labels.write_text("red\ngreen\nblue\n")
    arguments = ["eval-classification", str(classifier), "--images", str(images), "--labels", str(labels), "--top", "2"]
    assert main([*arguments, "--use_dummy_delegate"]) == 0
    text = capsys.readouterr().out
    assert "4 images" in text
    assert "top-1 accuracy 75.00%" in text
    assert "top-2 accuracy 100.00%" in text
    assert main([*arguments, "--format", "json", "--limit", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["top1"] == 0.0


@pytest.mark.seed("D-A-1")
@pytest.mark.parametrize("lines", ["a.npy 0\nb.npy 2\n", "0\n2\n"], ids=["file and class", "class only"])
def test_classes_are_lines_of_a_file(classifier: Path, tmp_path: Path, lines: str) -> None:
    images = _colours(tmp_path / "images", {"a.npy": (9, 0, 0), "b.npy": (0, 9, 0)})
    truth = tmp_path / "truth.txt"
    truth.write_text(lines)
    result = evaluate(classifier, images, default_parameters(), ground_truth=truth, top=3)
    assert result.accuracy == (0.5, 0.5, 1.0)
    truth.write_text("0\n")
    with pytest.raises(UserError, match="must have one line for each of 2 images, got 1"):
        evaluate(classifier, images, default_parameters(), ground_truth=truth)


def test_overlap_of_boxes() -> None:
    assert intersection_over_union((0, 0, 2, 2), (1, 0, 2, 2)) == pytest.approx(2 / 6)
    assert intersection_over_union((0, 0, 2, 2), (5, 5, 1, 1)) == 0
    assert intersection_over_union((0, 0, 2, 2), (1, 0, 9, 9), is_crowd=True) == pytest.approx(0.5)


UNIT = (0.0, 0.0, 10.0, 10.0)
CASES = {
    "a perfect detection": ([GroundTruth(1, 1, UNIT)], [Detection(1, 1, UNIT, 0.9)], (1.0, 1.0, 1.0)),
    "nothing found": ([GroundTruth(1, 1, UNIT)], [], (0.0, 0.0, 0.0)),
    "the wrong class": ([GroundTruth(1, 1, UNIT)], [Detection(1, 2, UNIT, 0.9)], (0.0, 0.0, 0.0)),
    "the wrong image": ([GroundTruth(1, 1, UNIT)], [Detection(2, 1, UNIT, 0.9)], (0.0, 0.0, 0.0)),
    # IoU 0.8: right at 0.50 to 0.80, which are 7 of 10 thresholds.
    "a box of 80 %": ([GroundTruth(1, 1, UNIT)], [Detection(1, 1, (0.0, 0.0, 10.0, 8.0), 0.9)], (0.7, 1.0, 1.0)),
    # The better score is wrong: precision 1/2 at every recall.
    "a false one first": (
        [GroundTruth(1, 1, UNIT)],
        [Detection(1, 1, (50.0, 50.0, 5.0, 5.0), 0.9), Detection(1, 1, UNIT, 0.8)],
        (0.5, 0.5, 0.5),
    ),
    "a false one last": (
        [GroundTruth(1, 1, UNIT)],
        [Detection(1, 1, UNIT, 0.9), Detection(1, 1, (50.0, 50.0, 5.0, 5.0), 0.8)],
        (1.0, 1.0, 1.0),
    ),
    # A second box on the same object is wrong, but comes after full recall.
    "a double": ([GroundTruth(1, 1, UNIT)], [Detection(1, 1, UNIT, 0.9), Detection(1, 1, UNIT, 0.8)], (1.0, 1.0, 1.0)),
    # One of two objects: precision 1 at the recalls 0 to 0.50, which are 51 of 101.
    "one of two": (
        [GroundTruth(1, 1, UNIT), GroundTruth(2, 1, UNIT)],
        [Detection(1, 1, UNIT, 0.9)],
        (51 / 101, 51 / 101, 51 / 101),
    ),
    "two classes": ([GroundTruth(1, 1, UNIT), GroundTruth(1, 2, UNIT)], [Detection(1, 1, UNIT, 0.9)], (0.5, 0.5, 0.5)),
    # What lies in a crowd counts neither way, though its score is the best.
    "a crowd": (
        [GroundTruth(1, 1, UNIT), GroundTruth(1, 1, (100.0, 0.0, 50.0, 50.0), True)],
        [Detection(1, 1, (100.0, 0.0, 10.0, 10.0), 0.95), Detection(1, 1, UNIT, 0.9)],
        (1.0, 1.0, 1.0),
    ),
}


@pytest.mark.seed("D-A-2")
@pytest.mark.parametrize("name", CASES)
def test_mean_average_precision_is_that_of_coco(name: str) -> None:
    truth, detections, expected = CASES[name]
    precision = average_precision(truth, detections)
    assert (precision.mean, precision.at_50, precision.at_75) == pytest.approx(expected)


def test_without_ground_truth_there_is_no_precision() -> None:
    assert math.isnan(average_precision([], [Detection(1, 1, UNIT, 0.9)]).mean)


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    return write_detector(tmp_path / "detector.tflite")


@pytest.mark.seed("D-A-2", "D-A-3")
def test_detections_are_judged_by_coco_annotations(detector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = tmp_path / "images"
    images.mkdir()
    (images / "one.ppm").write_bytes(b"P6 20 10 255\n" + bytes(600))
    annotations = tmp_path / "annotations.json"
    rows = {
        "images": [{"id": 7, "file_name": "one.ppm"}],
        "annotations": [
            {"image_id": 7, "category_id": 1, "bbox": [0, 0, 10, 10]},
            {"image_id": 7, "category_id": 2, "bbox": [10, 5, 10, 4]},
            {"image_id": 8, "category_id": 1, "bbox": [0, 0, 1, 1]},
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }
    annotations.write_text(json.dumps(rows))
    arguments = ["eval-detection", str(detector), "--images", str(images), "--annotations", str(annotations)]
    assert main([*arguments, "--use_dummy_delegate"]) == 0
    text = capsys.readouterr().out
    assert "mAP 0.8500, AP50 1.0000, AP75 1.0000" in text  # dog: IoU 0.8, right at 7 of 10 thresholds
    assert "cat: 1.0000" in text
    assert main([*arguments, "--class-offset", "5", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["mAP"] == 0.0
    annotations.write_text("{}")
    assert main(arguments) == 1
    assert "must be a COCO annotation file" in capsys.readouterr().err


def test_a_hundred_detections_of_a_class_count_and_no_more() -> None:
    truth, right = [GroundTruth(1, 1, (0, 0, 10, 10))], (0, 0, 10, 10)
    for wrong, expected in ((99, True), (100, False)):
        others = [Detection(1, 1, (500 + index, 500, 5, 5), 0.9) for index in range(wrong)]
        found = average_precision(truth, [*others, Detection(1, 1, right, 0.5)])
        assert (found.by_class[1] > 0) == expected, wrong
