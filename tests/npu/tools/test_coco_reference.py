"""Mean average precision against pycocotools 2.0.11 on random scenes: crowds, equal scores, doubles, many detections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npu.tools.mean_average_precision import Detection, GroundTruth, average_precision

SCENES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("coco_scenes.json").read_text(encoding="utf-8"))
"""Boxes as [image, class, [x, y, width, height], is_crowd] and [image, class, box, score]; `stats` are AP, AP50 and AP75."""


@pytest.mark.seed("D-A-2")
@pytest.mark.parametrize("scene", SCENES, ids=range(len(SCENES)))
def test_precision_is_that_of_pycocotools(scene: dict[str, Any]) -> None:
    truth = [GroundTruth(image, kind, tuple(box), is_crowd) for image, kind, box, is_crowd in scene["truth"]]
    detections = [Detection(image, kind, tuple(box), score) for image, kind, box, score in scene["detections"]]
    precision = average_precision(truth, detections)
    assert [precision.mean, precision.at_50, precision.at_75] == pytest.approx(scene["stats"], abs=1e-9)


def test_the_scenes_have_what_makes_them_hard() -> None:
    assert any(row[3] for scene in SCENES for row in scene["truth"])
    most = max(sum(row[:2] == [1, 1] for row in scene["detections"]) for scene in SCENES)
    assert most > 100
    assert any(len({row[3] for row in scene["detections"]}) < len(scene["detections"]) for scene in SCENES)
