"""The report as one HTML page that needs nothing else: operators in graph order, filters, rule texts under the pointer.

The page's content security policy forbids every request, so it can be opened from a file, attached to a mail or archived.
"""

from __future__ import annotations

import html
from pathlib import Path
from string import Template

from npu.graph.placement import Violation
from npu.plain import printable
from npu.rendering import facts
from npu.reports.check_report import CheckReport, OperatorCheck

_OPEN_PARTITIONS = 8
"""More partitions than this are folded away."""
_OPEN_SPLITS = 24
"""More operators between partitions than this are folded away."""
_MOST_REMEDIES = 10
_PAGE = Path(__file__).with_name("page.html")


def render_html(report: CheckReport) -> str:
    """The page, with every text of the model escaped."""
    return Template(_PAGE.read_text(encoding="utf-8")).substitute(
        title=_escape(f"{report.model} on {report.target}"),
        model=_escape(report.model),
        target=_escape(f"{report.target}, {report.system}, {report.memory_mode}, profile {report.profile}"),
        headline=_escape(facts.headline(report)),
        total=_escape(facts.total_line(report)),
        memory=_escape(facts.memory_line(report)),
        failed="".join(f"<p><strong>Failed</strong>: {_escape(message)}</p>" for message in facts.failures(report)),
        note=_escape(" ".join([*facts.notes(report), facts.SUPPORT_NOTE])),
        bar=_bar(report),
        devices=_devices(report),
        remedies=_remedies(report),
        partitions=_partitions(report),
        kinds="".join(f"<option>{_escape(kind)}</option>" for kind in sorted({row.base.type for row in report.operators})),
        rows="\n".join(_row(row) for row in report.operators),
    )


def _bar(report: CheckReport) -> str:
    """Share of the cycles per device, as a stacked bar."""
    total = report.totals.total_cycles or 1
    starts = report.overhead_cycles
    parts = [(name, facts.DEVICE_NAMES[name], device.cycles) for name, device in report.devices.items()]
    parts.append(("starts", facts.overhead_name(report), starts))
    return "".join(
        f'<span class="{kind}" style="flex-grow:{cycles}" '
        f'title="{_escape(name)}: {cycles:,} cycles, {cycles / total:.1%}"></span>'
        for kind, name, cycles in parts
        if cycles
    )


def _devices(report: CheckReport) -> str:
    total = report.totals.total_cycles or 1
    rows = [(kind, facts.DEVICE_NAMES[kind], device) for kind, device in report.devices.items() if device.operators]
    lines = [
        f'<tr><td><span class="dot {kind}"></span>{_escape(name)}</td><td class="n">{row.operators:,}</td>'
        f'<td class="n">{row.macs:,}</td><td class="n">{row.cycles:,}</td><td class="n">{row.cycles / total:.1%}</td></tr>'
        for kind, name, row in rows
    ]
    starts = report.overhead_cycles
    lines.append(
        f'<tr><td><span class="dot starts"></span>{_escape(facts.overhead_name(report))}</td><td></td><td></td>'
        f'<td class="n">{starts:,}</td><td class="n">{starts / total:.1%}</td></tr>'
    )
    return "\n".join(lines)


def _remedies(report: CheckReport) -> str:
    remedies = facts.worthwhile(report, _MOST_REMEDIES)
    if not remedies:
        return '<p class="quiet">No operator on the CPU would be faster on the NPU.</p>'
    lines = []
    for what, total, share in remedies:
        lines.append(
            f'<tr><td>{_escape(what)}</td><td class="n">{total:,}</td><td class="n">&minus;{share:.1%}</td>'
            f'<td class="meter"><span style="width:{share:.1%}"></span></td></tr>'
        )
    head = '<tr><th>If the NPU took</th><th class="n">total cycles</th><th class="n">saved</th><th></th></tr>'
    return f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"


def _partitions(report: CheckReport) -> str:
    if not report.partitions:
        return '<p class="quiet">No operator runs on the NPU.</p>'
    lines = []
    for part, (number, reads, writes) in zip(report.partitions, facts.crossing_lists(report), strict=True):
        lines.append(
            f'<tr><td class="n">{number}</td><td class="n">{len(part.operators)}</td><td class="n">{part.npu_cycles:,}</td>'
            f"<td>{_escape(reads)}</td><td>{_escape(writes)}</td></tr>"
        )
    head = (
        '<tr><th class="n">#</th><th class="n">operators</th><th class="n">cycles</th>'
        "<th>takes over</th><th>hands over</th></tr>"
    )
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    if len(lines) > _OPEN_PARTITIONS:
        table = f"<details><summary>{len(lines)} partitions</summary>{table}</details>"
    if not report.splitting:
        return table
    names = ", ".join(f'<a href="#op-{row.number}">{row.number} {_escape(row.base.type)}</a>' for row in report.splitting)
    if len(report.splitting) > _OPEN_SPLITS:
        return f"{table}<details><summary>Split by {len(report.splitting)} operators</summary><p>{names}</p></details>"
    return f"{table}<p>Split by {names}.</p>"


def _row(row: OperatorCheck) -> str:
    inputs, outputs = ("<br>".join(_escape(str(tensor)) for tensor in tensors) for tensors in (row.inputs, row.outputs))
    rules = "".join(_rule(violation) for violation in row.base.violations)
    remedies = dict.fromkeys(_escape(violation.fix) for violation in row.base.violations if violation.fix)
    fixes = "".join(f'<div class="remedy">{remedy}</div>' for remedy in remedies)
    name = _escape(row.base.name)
    supported = "" if row.total_if_supported is None else f"{row.total_if_supported:,}"
    return (
        f'<tr id="op-{row.number}" data-on="{row.device}" data-kind="{_escape(row.base.type)}">'
        f'<td class="n">{row.number}</td><td>{_escape(row.base.type)}<div class="name" title="{name}">{name}</div></td>'
        f'<td class="shape">{inputs}<br>&rarr; {outputs}</td>'
        f'<td><span class="dot {row.device}"></span>{facts.place(row.device)}</td><td class="n">{row.mac_share:.1%}</td>'
        f'<td class="n">{row.cpu_cycles:,}</td><td class="n">{facts.npu_cycles(row, _count)}</td>'
        f'<td class="n">{supported}</td>'
        f"<td>{rules}</td><td>{fixes}</td></tr>"
    )


def _count(number: int) -> str:
    return f"{number:,}"


def _rule(violation: Violation) -> str:
    """The rule's id; its text appears under the pointer and on keyboard focus."""
    fix = f'<span class="fix">Fix: {_escape(violation.fix)}</span>' if violation.fix else ""
    text = _escape(violation.message[:1].upper() + violation.message[1:])
    return f'<span class="rule" tabindex="0">{_escape(violation.rule)}<span class="tip">{text}.{fix}</span></span>'


def _escape(text: str) -> str:
    return html.escape(printable(text))
