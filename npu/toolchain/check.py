"""check: where every operator runs, and why."""

from __future__ import annotations

from pathlib import Path

from constraints.checker import check as check_model
from npu.graph.graph import Model
from npu.graph.placement import Placement
from npu.hardware.variant import Variant
from npu.operator_map import OperatorMap, map_of_placement
from npu.report import Report
from npu.report import check_report as report_of_check
from npu.tflite.reader import read_model
from npu.toolchain.sources import DEFAULT_PROFILE, Source, choose_variant, model_name


def check(
    model: Source, target: str | None = None, config: str | Path | None = None, *, profile: str = DEFAULT_PROFILE
) -> Placement:
    """Decide NPU or CPU for every operator, with every violated limit."""
    return check_model(read_model(model), profile=profile, variant=choose_variant(target, config))


def check_report(
    model: Source, target: str | None = None, config: str | Path | None = None, *, profile: str = DEFAULT_PROFILE
) -> Report:
    """`check` as a report."""
    variant = choose_variant(target, config)
    return report_of_check(map_of_cpu(read_model(model), variant, profile), model_name(model), variant)


def map_of_cpu(model: Model, variant: Variant, profile: str) -> OperatorMap:
    """The map of a model of which nothing runs on the NPU."""
    placement = check_model(model, profile=profile, variant=variant)
    return map_of_placement(model, placement)
