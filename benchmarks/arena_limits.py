"""What a smaller arena costs: cycles of models from all the memory they would take down to 40 % of it, as a page and a plot.

Usage: python -m benchmarks.arena_limits [--target NAME] [--models a,b] [--write PAGE.md]

The limit is what `--arena-cache-size` gives, cycles are the simulator's totals, CPU included. `--write` makes PAGE.svg beside
the page; the plot needs the extra `report`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import npu
from npu.hardware.choice import Hardware
from npu.toolchain.session import Session

from tests.support.shared import shared_models

MODELS = (
    "mlperf_resnet8_int8", "mlperf_vww_int8", "mobilenet_v1_025_128_uint8", "person_detect_int8", "ssd_slim_face_int8",
    "vww4_128_128_INT8", "yolo-fastest_192_face_v4",
)  # fmt: skip
SHARES = (100, 90, 80, 70, 60, 50, 40)
"""Limits in percent of what the model takes without one."""


@dataclass(frozen=True, slots=True)
class Point:
    """A model compiled for an arena of at most `limit_bytes`."""

    model: str
    share: int
    limit_bytes: int
    arena_bytes: int
    cycles: int
    on_cpu: int


def measure(name: str, content: bytes, target: str) -> Iterator[Point]:
    """The points of one model, from the largest arena to the smallest."""
    whole = npu.compile(content, target=target).compiled_model.usage.arena_bytes
    for share in SHARES:
        limit = whole * share // 100
        compiled = npu.compile(content, session=Session(Hardware(target, arena_cache_bytes=limit)))
        cycles = npu.time_model(compiled.content, target=target).report.totals.total_cycles or 0
        on_cpu = sum(bool(op.violations) for op in compiled.compiled_model.placement.ops)
        yield Point(name, share, limit, compiled.compiled_model.usage.arena_bytes, cycles, on_cpu)


def page(points: Sequence[Point], target: str, picture: str) -> Iterator[str]:
    """The published table, the steepest model first."""
    yield "# What a smaller arena costs\n"
    command = f"python -m benchmarks.arena_limits --write docs/{picture.replace('.svg', '.md')}"
    yield f"How many cycles a model takes with less SRAM than it asks for. Made by `{command}`"
    yield f"for {target}: cycles at an arena limit (`--arena-cache-size`) by those without one."
    yield "Maps that do not fit are computed in stripes, with rolling buffers between the operators; the result may take the"
    yield "place of rows of the input that were read."
    yield "In brackets the KiB taken where no plan was found within the limit: `npu compile` then says"
    yield "how much it takes and why; the input of mlperf_vww_int8 alone is half of what it takes without a limit."
    yield "A * would mark operators that go to the CPU for lack of memory.\n"
    yield f"![Cycles by arena limit]({picture})\n"
    yield "| model | KiB | " + " | ".join(f"{share} %" for share in SHARES) + " |\n| --- |" + " ---: |" * (len(SHARES) + 1)
    rows = {point.model: [other for other in points if other.model == point.model] for point in points}
    for name, row in sorted(rows.items(), key=lambda item: -item[1][-1].cycles / item[1][0].cycles):
        cells = " | ".join(_cell(point, row[0]) for point in row)
        yield f"| {name} | {row[0].arena_bytes / 1024:.0f} | {cells} |"


def _cell(point: Point, whole: Point) -> str:
    mark = "*" if point.on_cpu > whole.on_cpu else ""
    beyond = f" ({point.arena_bytes / 1024:.0f})" if point.arena_bytes > point.limit_bytes else ""
    return f"{point.cycles / whole.cycles:.2f}{mark}{beyond}"


def plot(points: Sequence[Point], path: Path) -> None:
    """A line a model: cycles by the share of the memory; plans beyond the limit are left out."""
    import vl_convert

    whole = {point.model: point.cycles for point in points if point.share == SHARES[0]}
    rows = [
        {"limit": point.share, "cycles": point.cycles / whole[point.model], "model": point.model}
        for point in points
        if point.arena_bytes <= point.limit_bytes
    ]
    x = {"field": "limit", "type": "quantitative", "title": "arena limit, % of the memory taken without one"}
    y = {"field": "cycles", "type": "quantitative", "title": "cycles by those without a limit", "scale": {"zero": False}}
    chart = {
        "width": 520,
        "height": 320,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": x | {"scale": {"domain": [SHARES[0], SHARES[-1]]}},
            "y": y,
            "color": {"field": "model", "type": "nominal"},
        },
    }
    path.write_text(vl_convert.vegalite_to_svg(chart), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="ethos-u55-128")
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(MODELS))
    parser.add_argument("--write", type=Path, metavar="PAGE.md")
    options = parser.parse_args()
    models = shared_models()
    points = [point for name in options.models for point in measure(name, models[name].read_bytes(), options.target)]
    picture = options.write.with_suffix(".svg") if options.write else Path("arena-limits.svg")
    text = "\n".join(page(points, options.target, picture.name)) + "\n"
    if options.write:
        options.write.write_text(text, encoding="utf-8")
        plot(points, picture)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
