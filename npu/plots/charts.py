"""The kinds of pictures: roofline, stacked bars of operators, Pareto front, lines over a swept field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from npu.extras import load
from npu.machine.port_rates import port_rate
from npu.toolchain.explain import OVERLAP, WAITING
from npu.toolchain.timing import TimedModel
from sim.timing.explain import PARTS

if TYPE_CHECKING:
    from npu.toolchain.explain import ExplainedModel

Chart = Any
"""A chart of Vega-Altair, which is imported when the first one is made."""
PlotRows = Sequence[Mapping[str, Any]]

WIDTH = 640
"""Of the plotted area of an image; on a page it is as wide as the window."""
MOST_BARS = 40
"""Operators that have a bar, the slowest."""
CPU = "CPU"
_ROW_HEIGHT = 18
_ABOVE_ROOF = 1.3
"""Room above the roof, so that operators at it are seen whole."""
_ROOF_STEPS = 48
_PARTS = ("ideal", *PARTS, WAITING, CPU)
# Categorical colours by Okabe and Ito, which people with any colour vision tell apart, then darker ones.
_COLOURS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#737373",
    "#F0E442",
    "#999999",
    "#5B4EA2",
    "#7B5B2E",
)
_PART_COLOURS = dict(zip(_PARTS, (*_COLOURS, "#B3C6D6", "#A05195"), strict=True))


def library() -> Any:
    """Vega-Altair."""
    return load("altair", "report")


def roofline(timed: TimedModel) -> Chart:
    """Operators with multiplications below what the MAC array and each memory allow; a point per operator and memory."""
    alt = library()
    points, roofs = list(roofline_points(timed)), list(roofline_roofs(timed))
    if not points:
        return _nothing(alt, "no operator with multiplications runs on the NPU")
    x = alt.X("intensity:Q", title="MACs per byte of the memory's traffic", scale=alt.Scale(type="log", nice=False))
    above = _ABOVE_ROOF * timed.variant.accelerator.macs_per_cycle
    y = alt.Y("macs_per_cycle:Q", title="MACs per cycle", scale=alt.Scale(type="log", nice=False, domainMax=above))
    memories = sorted({row["memory"] for row in roofs})
    colour = alt.Color("memory:N", title="memory", scale=alt.Scale(domain=memories, range=list(_COLOURS[: len(memories)])))
    lines = alt.Chart(alt.Data(values=roofs)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    dots = (
        alt.Chart(alt.Data(values=points))
        .mark_circle(opacity=0.75, stroke="white", strokeWidth=0.5)
        .encode(
            x=x,
            y=y,
            color=colour,
            size=alt.Size("cycles:Q", legend=None, scale=alt.Scale(range=[20, 400])),
            tooltip=tooltip(alt, points, ("operator", "memory", "bound by", "cycles", "macs_per_cycle", "intensity")),
        )
    )
    title = f"{timed.report.model} on {timed.report.target}: MACs per cycle and what memory allows"
    return framed(alt.layer(lines, dots), title, height=320)


def roofline_points(timed: TimedModel) -> Iterable[dict[str, Any]]:
    """Operators on the NPU: MACs per byte that is read from a memory (or written, if that is more), and per cycle at work."""
    for row in timed.report.operators:
        if row.placement != "npu" or not row.macs or not row.span_cycles:
            continue
        for memory, traffic in row.bytes.items():
            if size := max(traffic.read, traffic.write):  # a port reads and writes at the same time
                yield {
                    "operator": f"{row.index} {row.type}",
                    "memory": memory,
                    "bound by": row.bound_by,
                    "cycles": row.cycles,
                    "intensity": row.macs / size,
                    "macs_per_cycle": row.macs / row.span_cycles,
                }


def roofline_roofs(timed: TimedModel) -> Iterable[dict[str, Any]]:
    """What each memory and the MAC array allow, over the intensities of the operators."""
    intensities = [point["intensity"] for point in roofline_points(timed)]
    if not intensities:
        return
    low, high, peak = min(intensities) / 2, max(intensities) * 2, timed.variant.accelerator.macs_per_cycle
    rates: dict[str, float] = {}
    for port, memory in timed.variant.system.memories.items():
        rates[memory.name] = max(rates.get(memory.name, 0.0), port_rate(timed.variant, port).read)
    for name, rate in rates.items():
        edges = [low * (high / low) ** (step / _ROOF_STEPS) for step in range(_ROOF_STEPS + 1)]
        for intensity in sorted({*edges, min(max(peak / rate, low), high)}):
            yield {"memory": name, "intensity": intensity, "macs_per_cycle": min(peak, rate * intensity)}


def operator_bars(explained: ExplainedModel) -> Chart:
    """The cycles of every operator, stacked by what they go into."""
    alt = library()
    rows = operator_parts(explained)
    operators = list(dict.fromkeys(row["operator"] for row in rows))
    parts = [part for part in _PARTS if any(row["part"] == part for row in rows)]
    chart = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            y=alt.Y("operator:N", sort=operators, title=None, axis=alt.Axis(labelLimit=150)),
            x=alt.X("cycles:Q", title="cycles of the NPU's clock", axis=alt.Axis(format="~s")),
            color=alt.Color(
                "part:N",
                sort=parts,
                title="goes into",
                scale=alt.Scale(domain=parts, range=[_PART_COLOURS[part] for part in parts]),
            ),
            order=alt.Order("rank:Q"),
            tooltip=tooltip(alt, rows, ("operator", "part", "cycles", "bound by")),
        )
    )
    total, shown = len(explained.operators), len(operators)
    which = "each operator" if total == shown else f"the {shown} slowest of {total} operators"
    title = f"{explained.model} on {explained.target}: where the cycles of {which} go"
    return framed(chart, title, height=_ROW_HEIGHT * max(len(operators), 1))


def operator_parts(explained: ExplainedModel) -> list[dict[str, Any]]:
    """A row per part of the cycles of the slowest operators, in the order of the model."""
    slowest = sorted(explained.operators, key=lambda operator: -operator.cycles)[:MOST_BARS]
    rows = []
    for operator in sorted(slowest, key=lambda operator: operator.index):
        parts = {CPU: operator.cycles} if operator.placement == "cpu" else {"ideal": operator.ideal_cycles, **operator.parts}
        kept = {part: cycles for part, cycles in parts.items() if part != OVERLAP and cycles > 0}
        rows += [_part(f"{operator.index} {operator.type}", part, cycles, operator.bound_by) for part, cycles in kept.items()]
    return rows


def _part(operator: str, part: str, cycles: int, bound_by: str | None) -> dict[str, Any]:
    return {"operator": operator, "part": part, "cycles": cycles, "bound by": bound_by or "", "rank": _PARTS.index(part)}


def pareto_front(rows: PlotRows, front: PlotRows, x: str, y: str, *, colour: str | None = None) -> Chart:
    """All rows as points, and a step line through those that no other beats in both `x` and `y`."""
    alt = library()
    axes = {
        "x": alt.X(_field(x), title=_named(x), scale=_loose(alt)),
        "y": alt.Y(_field(y), title=_named(y), scale=_loose(alt)),
    }
    shown = {"color": alt.Color(_field(colour, "N"), title=_named(colour))} if colour else {}
    dots = (
        alt.Chart(alt.Data(values=_plain(rows)))
        .mark_circle(size=50, opacity=0.6)
        .encode(**axes, **shown, tooltip=tooltip(alt, rows, tuple(rows[0]) if rows else ()))
    )
    line = (
        alt.Chart(alt.Data(values=_plain(front)))
        .mark_line(interpolate="step-after", color="#D55E00", point=alt.OverlayMarkDef(color="#D55E00", filled=False, size=90))
        .encode(**axes)
    )
    return framed(
        alt.layer(dots, line), f"{_named(y)} against {_named(x)}: {len(front)} of {len(rows)} on the front", height=360
    )


def swept_lines(rows: PlotRows, x: str, y: str, *, colour: str | None = None) -> Chart:
    """`y` over the swept field `x`, a line for each value of `colour`."""
    alt = library()
    shown = {"color": alt.Color(_field(colour, "N"), title=_named(colour))} if colour else {}
    chart = (
        alt.Chart(alt.Data(values=_plain(rows)))
        .mark_line(point=True)
        .encode(
            x=alt.X(_field(x), title=x, scale=_loose(alt), axis=alt.Axis(format="~s")),
            y=alt.Y(_field(y), title=_named(y), scale=_loose(alt)),
            tooltip=tooltip(alt, rows, tuple(name for name in (x, y, colour) if name)),
            **shown,
        )
    )
    return framed(chart, f"{_named(y)} over {x}", height=320)


def _nothing(alt: Any, text: str) -> Chart:
    return alt.Chart(alt.Data(values=[{"text": text}])).mark_text(fontSize=14).encode(text="text:N").properties(title=text)


def framed(chart: Chart, title: str, *, height: int) -> Chart:
    """A chart with its title, and without a frame around the plotted area."""
    return chart.properties(title=title, width=WIDTH, height=height).configure_view(stroke=None)


def _loose(alt: Any) -> Any:
    """A scale that need not begin at zero: what is compared are differences."""
    return alt.Scale(zero=False, nice=True)


def _field(name: str, kind: str = "Q") -> str:
    """A column as Vega reads it: dots and brackets in a name would mean fields of fields."""
    return f"{_key(name)}:{kind}"


def _key(name: str) -> str:
    return name.translate(str.maketrans(".[]:", "____"))


def _named(name: str | None) -> str:
    return (name or "").replace("_", " ")


def _plain(rows: PlotRows) -> list[dict[str, Any]]:
    return [{_key(name): value for name, value in row.items()} for row in rows]


def tooltip(alt: Any, rows: PlotRows, names: Sequence[str]) -> list[Any]:
    numbers = {name for name in names if any(isinstance(row.get(name), int | float) for row in rows)}
    return [
        alt.Tooltip(
            _field(name, "Q" if name in numbers else "N"), title=_named(name), format=",.4~r" if name in numbers else ""
        )
        for name in names
    ]
