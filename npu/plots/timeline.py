"""Pictures over time: who is at work, and what lies where in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from npu.graph.ethos_u import Region
from npu.plots.charts import Chart, framed, library, tooltip
from sim.timeline import OVERHEAD_NAMES, owners_of
from sim.trace import PORT_BYTES, TraceColumn

if TYPE_CHECKING:
    from npu.toolchain.report import ReportedModel
    from npu.toolchain.timing import TimedModel

MOST_OPERATIONS = 1500
"""Operations that have a mark of their own on a port's row; with more of them, an operator has one."""
MOST_BOXES = 3000
_REGION_NAMES = {int(Region.ARENA): "arena", int(Region.FAST): "fast memory"}
_KIND_COLOURS = {"map": "#0072B2", "copy": "#E69F00", "input": "#009E73"}


def timeline(timed: TimedModel) -> Chart:
    """NPU, ports and CPU over the cycles of one inference; drag and wheel zoom."""
    alt = library()
    rows = [*_device_rows(timed), *_port_rows(timed)]
    lanes = [lane for lane in ("NPU", "AXI0", "AXI1", "CPU") if any(row["lane"] == lane for row in rows)]
    bounds = sorted({row["doing"] for row in rows})
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(stroke="white", strokeWidth=0.15)
        .encode(
            x=alt.X("start:Q", title="cycles of the NPU's clock", axis=alt.Axis(format="~s"), scale=alt.Scale(nice=False)),
            x2="end:Q",
            y=alt.Y("lane:N", sort=lanes, title=None),
            color=alt.Color("doing:N", title="bound by", scale=alt.Scale(domain=bounds, scheme="tableau20")),
            opacity=alt.Opacity("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.08, 1])),
            tooltip=tooltip(alt, rows, ("lane", "operator", "doing", "start", "cycles", "share")),
        )
        .add_params(alt.selection_interval(bind="scales", encodings=["x"]))
    )
    return framed(chart, "Who is at work when (ports: the darker, the more of what they can carry)", height=34 * len(lanes))


def _device_rows(timed: TimedModel) -> Iterator[dict[str, Any]]:
    bounds = {row.index: row.bound_by for row in timed.report.operators}
    for segment in timed.timeline.segments:
        if segment.cycles:
            is_around = segment.operator < 0
            name = OVERHEAD_NAMES[segment.operator] if is_around else timed.names.get(segment.operator, "?")
            doing = "CPU" if segment.device == "cpu" else bounds.get(segment.operator) or "other"
            yield _mark(segment.device.upper(), name, doing, segment.start, segment.end, 1.0)


def _port_rows(timed: TimedModel) -> Iterator[dict[str, Any]]:
    """What crosses each port, by operation; by operator where there are many."""
    rate = timed.variant.accelerator.axi_data_bytes
    starts: dict[int, int] = {}
    for segment in timed.timeline.segments:
        if segment.device == "npu":
            starts.setdefault(segment.job, segment.start)
    is_fine = sum(len(job.trace.kinds) for job in timed.jobs) <= MOST_OPERATIONS
    for number, job in enumerate(timed.jobs):
        first, last = job.trace.column(TraceColumn.START).tolist(), job.trace.column(TraceColumn.END).tolist()
        owners = owners_of(job).tolist()
        for port, columns in PORT_BYTES.items():
            moved = job.trace.table[:, list(columns)].max(axis=1).tolist()  # a port reads and writes at the same time
            marks: dict[int, list[int]] = {}
            for index, (owner, size) in enumerate(zip(owners, moved, strict=True)):
                if size:
                    mark = marks.setdefault(index if is_fine else owner, [first[index], last[index], 0, owner])
                    mark[1], mark[2] = max(mark[1], last[index]), mark[2] + size
            for begin, end, size, owner in marks.values():
                share = min(1.0, size / (max(end - begin, 1) * rate))
                at = starts.get(number, 0)
                yield _mark(port.name, timed.names.get(owner, "?"), "port", at + begin, at + end, share)


def _mark(lane: str, operator: str, doing: str, start: int, end: int, share: float) -> dict[str, Any]:
    return {
        "lane": lane,
        "operator": operator[:60],
        "doing": doing,
        "start": start,
        "end": end,
        "cycles": end - start,
        "share": round(share, 3),
    }


def memory_over_time(reported: ReportedModel, region: int = Region.ARENA) -> Chart:
    """Lifetimes as boxes, address by time; drag and wheel zoom."""
    alt = library()
    boxes = [box for box in reported.stays if box.region == region]
    boxes = sorted(boxes, key=lambda box: -(box.stay.end - box.stay.start) * (box.end_cycle - box.start_cycle))[:MOST_BOXES]
    names = reported.timed.names
    rows = [
        {
            "what": {"input": "what was there before"}.get(box.stay.kind, names.get(box.stay.owner, "?")[:60]),
            "kind": box.stay.kind,
            "start": box.start_cycle,
            "end": max(box.end_cycle, box.start_cycle + 1),
            "low": box.stay.start,
            "high": box.stay.end,
            "bytes": box.stay.end - box.stay.start,
        }
        for box in boxes
    ]
    kinds = [kind for kind in _KIND_COLOURS if any(row["kind"] == kind for row in rows)]
    colours = alt.Scale(domain=kinds, range=[_KIND_COLOURS[kind] for kind in kinds])
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect(opacity=0.65, stroke="white", strokeWidth=0.4)
        .encode(
            x=alt.X("start:Q", title="cycles of the NPU's clock", axis=alt.Axis(format="~s"), scale=alt.Scale(nice=False)),
            x2="end:Q",
            y=alt.Y("low:Q", title="address", axis=alt.Axis(format="~s")),
            y2="high:Q",
            color=alt.Color("kind:N", title=None, scale=colours),
            tooltip=tooltip(alt, rows, ("what", "kind", "bytes", "low", "high", "start", "end")),
        )
        .add_params(alt.selection_interval(bind="scales"))
    )
    return framed(chart, f"What lies where in the {region_name(region)}, and when", height=320)


def region_name(region: int) -> str:
    """What people call a region."""
    return _REGION_NAMES[int(region)]
