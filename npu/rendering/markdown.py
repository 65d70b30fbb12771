"""The report as Markdown, for pull requests."""

from __future__ import annotations

import re

from npu.plain import printable
from npu.rendering import facts
from npu.reports.check_report import CheckReport

_MOST_REMEDIES = 10


def render_markdown(report: CheckReport) -> str:
    """Headline, sums per device, operators on the CPU with reasons, what to fix first; all operators in a fold."""
    lines = [f"## Placement of `{printable(report.model)}` on {report.target}", ""]
    lines += [f"**{facts.headline(report)}**, profile `{report.profile}`, {facts.total_line(report)}.", ""]
    lines += [f"{cell(facts.memory_line(report))}.", ""] if facts.memory_line(report) else []
    lines += [f"- **Failed**: {cell(message)}" for message in facts.failures(report)] + [""] * bool(report.failed_gates)
    lines += ["| Device | Operators | MACs | Cycles |", "| --- | ---: | ---: | ---: |"]
    lines += [
        f"| {name} | {device.operators:,} | {device.macs:,} | {device.cycles:,} |"
        for name, device in facts.used_devices(report)
    ]
    lines += [f"| {facts.overhead_name(report)} | | | {report.overhead_cycles:,} |", "", *map(cell, facts.notes(report)), ""]
    lines += _refused(report) + _remedies(report) + _partitions(report) + _operators(report)
    return "\n".join(lines) + "\n"


def _refused(report: CheckReport) -> list[str]:
    rows = [row for row in report.operators if row.base.violations]
    if not rows:
        return []
    lines = [
        "### Operators on the CPU",
        "",
        "| # | Operator | Rule | What it must be | Fix |",
        "| ---: | --- | --- | --- | --- |",
    ]
    for row in rows:
        for violation in row.base.violations:
            message, fix = cell(violation.message), cell(violation.fix or "")
            lines.append(f"| {row.number} | {cell(row.base.type)} | `{violation.rule}` | {message} | {fix} |")
    return [*lines, ""]


def _remedies(report: CheckReport) -> list[str]:
    remedies = facts.worthwhile(report, _MOST_REMEDIES)
    if not remedies:
        return []
    lines = ["### What to change first", "", "| If the NPU took | Total cycles | Saved |", "| --- | ---: | ---: |"]
    lines += [f"| {cell(what)} | {total:,} | {share:.1%} |" for what, total, share in remedies]
    return [*lines, ""]


def _partitions(report: CheckReport) -> list[str]:
    if not report.partitions:
        return []
    lines = [
        "### NPU partitions",
        "",
        "| # | Operators | Cycles | Takes over | Hands over |",
        "| ---: | ---: | ---: | --- | --- |",
    ]
    for part, (number, reads, writes) in zip(report.partitions, facts.crossing_lists(report), strict=True):
        lines.append(f"| {number} | {len(part.operators)} | {part.npu_cycles:,} | {reads} | {writes} |")
    if report.splitting:
        names = ", ".join(f"{row.number} {cell(row.base.type)}" for row in report.splitting)
        lines += ["", f"Split by operators {names}."]
    return [*lines, ""]


def _operators(report: CheckReport) -> list[str]:
    lines = ["<details><summary>All operators</summary>", ""]
    lines += ["| # | Operator | Name | Inputs | Outputs | On | MACs | CPU cycles | NPU cycles |"]
    lines += ["| ---: | --- | --- | --- | --- | --- | ---: | ---: | ---: |"]
    for row in report.operators:
        inputs, outputs = facts.shapes(row)
        on = facts.place(row.device)
        lines.append(
            f"| {row.number} | {cell(row.base.type)} | {cell(row.base.name)} | {inputs} | {outputs} | {on} "
            f"| {row.mac_share:.1%} | {row.cpu_cycles:,} | {facts.npu_cycles(row, '{:,}'.format)} |"
        )
    return [*lines, "", "</details>"]


def cell(text: str) -> str:
    """Text of a file or a rule, so that it cannot become markup."""
    plain = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    plain = re.sub(r"[|`*\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", plain)
    return printable(" ".join(plain.split()))
