"""The page of `npu report`, and the parts of it that `npu run` and `npu explain` show."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from npu.graph.ethos_u import Region
from npu.plots import charts as plots
from npu.plots import timeline as plots_of_time
from npu.plots.write import figure
from npu.rendering.pages.page import Cell, Column, TableRow, document, escape, folded, number, paragraphs, section, table, tiles
from npu.rendering.tables import kib, short
from npu.rendering.totals import counted_elsewhere, error_text, memory_text
from npu.reports.report import OperatorReport, Report
from npu.toolchain.compare import arena_of, blocks_of
from npu.toolchain.explain import ExplainedModel
from npu.toolchain.report import ReportedModel
from npu.toolchain.timing import TimedModel

_MOST_HOLDERS = 8


class _ReportFigures:
    """The charts of a page, numbered as they are placed."""

    def __init__(self) -> None:
        self.charts: list[Any] = []

    def place(self, chart: Any) -> str:
        """Where a chart goes."""
        self.charts.append(chart)
        return figure(chart, len(self.charts) - 1)


def report_page(reported: ReportedModel) -> str:
    """Everything on one page."""
    timed, figures = reported.timed, _ReportFigures()
    regions = [Region.ARENA, Region.FAST] if any(box.region == Region.FAST for box in reported.stays) else [Region.ARENA]
    memory = "".join(figures_of_region(reported, region, figures) for region in regions) if reported.stays else ""
    parts = {
        "Timeline": figures.place(plots_of_time.timeline(timed)),
        "Arena over time": memory,
        "Operators": operator_table(timed),
        "Why operators are on the CPU": reasons_table(timed.report),
        "Roofline": figures.place(plots.roofline(timed)),
        "Where the cycles go": figures.place(plots.operator_bars(reported.explained)),
        "Cycles by bound": bound_table(timed.report),
        "Traffic by memory": traffic_table(timed.report),
        "Weights": weights_table(reported),
        "Hardware": hardware(timed),
    }
    return _document(timed.report, parts, figures)


def run_page(timed: TimedModel) -> str:
    """What a run says: times, memory and traffic of every operator."""
    figures = _ReportFigures()
    parts = {
        "Timeline": figures.place(plots_of_time.timeline(timed)),
        "Operators": operator_table(timed),
        "Why operators are on the CPU": reasons_table(timed.report),
        "Cycles by bound": bound_table(timed.report),
        "Traffic by memory": traffic_table(timed.report),
    }
    return _document(timed.report, parts, figures)


def explain_page(timed: TimedModel, explained: ExplainedModel) -> str:
    """Where the cycles of every operator go, and which shapes would cost nothing."""
    figures = _ReportFigures()
    parts = {
        "Where the cycles go": figures.place(plots.operator_bars(explained)),
        "Losses": losses_table(explained),
        "Roofline": figures.place(plots.roofline(timed)),
    }
    return _document(timed.report, parts, figures)


def _document(report: Report, parts: Mapping[str, str], figures: _ReportFigures) -> str:
    where = f"{report.target}, {report.system}, {report.memory_mode}, {report.clock_hz / 1e6:g} MHz, profile {report.profile}"
    head = [tiles(key_figures(report)), paragraphs(sentences(report), "quiet")]
    sections = [section(title, content) for title, content in parts.items()]
    links = [title for title, content in parts.items() if content]
    return document(report.model, where, [*head, *sections], figures.charts, links)


def key_figures(report: Report) -> Iterator[tuple[str, str]]:
    """The numbers that people look for first."""
    totals, rows = report.totals, report.operators
    total = totals.total_cycles or 0
    yield "cycles of one inference", f"{total:,}"
    yield "time", f"{totals.time_ms or 0:.3f} ms"
    yield "on the NPU", f"{sum(row.placement == 'npu' for row in rows)} of {len(rows)} operators"
    yield "CPU share", f"{(totals.cpu_cycles or 0) / total:.1%}" if total else "none"
    for name, size in (("SRAM", totals.sram_bytes), ("DRAM", totals.dram_bytes), ("constants", totals.flash_bytes)):
        if size:
            yield name, kib(size)


def sentences(report: Report) -> Iterator[str]:
    """How far cycles may be off, what is needed of which memory, and the notes."""
    if report.totals.npu_cycles:
        yield f"Error {error_text(report.timing_error, report.target)}."
    yield f"Memory: {memory_text(report.totals, report.memories)}."
    yield from report.notes or ()


def operator_table(timed: TimedModel) -> str:
    """Every operator with its place, time, traffic, blocks and arena; what the CPU does around them below."""
    report = timed.report
    total = report.totals.total_cycles or 1
    blocks, arena = blocks_of(timed), arena_of(timed)
    memories = sorted({memory for row in report.operators for memory in row.bytes})
    matches = timed.operators.matches
    columns = [Column("#", True), Column("operator"), Column("output", is_wide=True), Column("on"), Column("cycles", True)]
    columns += [
        Column("share", True),
        Column("at work", True),
        Column("MACs", True),
        Column("MAC use", True),
        Column("bound by"),
    ]
    columns += [Column(memory, True) for memory in memories] + [Column("block"), Column("arena", True)]
    columns += [Column("found by")] if matches else []

    def row_of(row: OperatorReport) -> list[Cell | str]:
        cycles, use = row.cycles or 0, row.mac_utilisation
        moved = [traffic.read + traffic.write if (traffic := row.bytes.get(memory)) else None for memory in memories]
        cells: list[Cell | str] = [number(row.index), row.type, row.name, _place(row), number(cycles)]
        cells += [number(cycles / total, f"{cycles / total:.1%}"), number(row.span_cycles), number(row.macs)]
        cells += [number(use, f"{use:.0%}") if use else "", row.bound_by or ""]
        cells += [number(size, kib(size)) for size in moved]
        cells += [(blocks.get(row.index) or ("",))[0], number(arena.get(row.index), kib(arena.get(row.index)))]
        match = matches.get(row.index)
        return cells + ([f"{match.how}, {match.sure}" if match else "not found"] if matches else [])

    around = Counter[str]()
    for overhead in report.overheads or ():
        around[overhead.what] += overhead.cycles
    rows = [row_of(row) for row in report.operators]
    for what, cycles in around.items():
        extra: list[Cell | str] = ["", what, "", "cpu", number(cycles), number(cycles / total, f"{cycles / total:.1%}")]
        rows.append(extra + [""] * (len(columns) - len(extra)))
    sums: list[Cell | str] = ["", "sum", "", "", number(report.totals.total_cycles or 0)]
    return table(columns, rows, sums + [""] * (len(columns) - len(sums)))


def _place(row: OperatorReport) -> str:
    return ", ".join(filter(None, (row.placement, counted_elsewhere(row))))


def reasons_table(report: Report) -> str:
    """Each broken rule of each operator on the CPU, with what to do; nothing if there is none."""
    columns = [Column("#", True), Column("operator"), Column("rule"), Column("what", is_wide=True), Column("fix", is_wide=True)]
    rows: list[TableRow] = [
        [number(row.index), row.type, violation.rule, violation.message, violation.fix or ""]
        for row in report.operators
        for violation in row.violations
    ]
    return table(columns, rows) if rows else ""


def bound_table(report: Report) -> str:
    """The cycles of all operators by what bounds them."""
    counts: Counter[str] = Counter()
    cycles: Counter[str] = Counter()
    for row in report.operators:
        if row.cycles:
            counts[row.bound_by or "other"] += 1
            cycles[row.bound_by or "other"] += row.cycles
    total = report.totals.total_cycles or 1
    columns = [Column("bound by"), Column("operators", True), Column("cycles", True), Column("share", True)]
    rows: list[TableRow] = [
        [bound, number(counts[bound]), number(taken), number(taken / total, f"{taken / total:.1%}")]
        for bound, taken in cycles.most_common()
    ]
    return table(columns, rows)


def traffic_table(report: Report) -> str:
    """Bytes of every memory."""
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for row in report.operators:
        for memory, traffic in row.bytes.items():
            read[memory] += traffic.read
            written[memory] += traffic.write
    held = {name: ", ".join(role for role, place in report.memories.items() if place == name) for name in read}
    columns = [Column("memory"), Column("holds"), Column("read", True), Column("written", True)]
    rows: list[TableRow] = [
        [name, held[name], number(read[name], kib(read[name])), number(written[name], kib(written[name]))] for name in read
    ]
    return table(columns, rows) if rows else ""


def weights_table(reported: ReportedModel) -> str:
    """Weights of every operator before and after compression."""
    names = reported.timed.names
    columns = [Column("operator", is_wide=True), Column("weights", True), Column("in the file", True), Column("of that", True)]
    rows: list[TableRow] = []
    for layer in reported.weights:
        share = layer.encoded_bytes / layer.original_bytes if layer.original_bytes else 0.0
        sizes = number(layer.original_bytes, kib(layer.original_bytes)), number(layer.encoded_bytes, kib(layer.encoded_bytes))
        rows.append([names.get(layer.operator, "?"), *sizes, number(share, f"{share:.0%}")])
    before, after = (sum(getattr(layer, name) for layer in reported.weights) for name in ("original_bytes", "encoded_bytes"))
    sums: TableRow = [
        "sum",
        number(before, kib(before)),
        number(after, kib(after)),
        Cell(f"{after / before:.0%}" if before else ""),
    ]
    note = "In the file: compressed, with scale records, and once where operations share them."
    return paragraphs([note], "quiet") + table(columns, rows, sums) if rows else ""


def losses_table(explained: ExplainedModel) -> str:
    """What the cycles of every operator on the NPU go into, and hints."""
    columns = [
        Column("#", True),
        Column("operator"),
        Column("output", is_wide=True),
        Column("cycles", True),
        Column("ideal", True),
    ]
    columns += [Column("lost most to"), Column("hints", is_wide=True)]
    rows: list[TableRow] = []
    for row in explained.operators:
        losses = ", ".join(f"{name} {cycles:,}" for name, cycles in row.largest_losses()[:3])
        hints = "; ".join(hint.text for hint in row.hints)
        ideal = number(row.ideal_cycles) if row.placement == "npu" else Cell("")
        rows.append([number(row.index), row.type, row.name, number(row.cycles), ideal, losses or (row.bound_by or ""), hints])
    return table(columns, rows)


def figures_of_region(reported: ReportedModel, region: int, figures: _ReportFigures) -> str:
    """The boxes of a memory, its peak and who holds it."""
    names = reported.timed.names
    said = []
    for peak in reported.peaks:
        if peak.region == region:
            holders = [names.get(owner, "?") if owner >= 0 else "what was there before" for owner in peak.holders]
            more = f" and {len(holders) - _MOST_HOLDERS} more" if len(holders) > _MOST_HOLDERS else ""
            where = plots_of_time.region_name(region)
            said.append(
                f"The {where} is fullest, {kib(peak.bytes)}, while {_short(names.get(peak.operator, '?'))} is at work; held by "
                f"{', '.join(_short(holder) for holder in holders[:_MOST_HOLDERS])}{more}."
            )
    return paragraphs(said) + figures.place(plots_of_time.memory_over_time(reported, region))


def _short(name: str) -> str:
    number_and_type, _, output = name.partition(" ")[2].partition(" ")
    return f"{name.partition(' ')[0]} {number_and_type} {short(output, 32)}"


def hardware(timed: TimedModel) -> str:
    """All fields of the description that was used, with its digest."""
    rows: list[TableRow] = [[Cell(key), Cell(value)] for key, value in _fields(dataclasses.asdict(timed.variant))]
    digest = paragraphs([f"SHA-256 of all fields: {timed.report.hardware_sha256}"], "quiet")
    return digest + folded(f"{escape(timed.variant.name)}: {len(rows)} fields", table([Column("field"), Column("value")], rows))


def _fields(content: Any, path: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _fields(value, (*path, key.name if isinstance(key, Enum) else str(key)))
    else:
        yield ".".join(path).lower(), content.name if isinstance(content, Enum) else str(content)
