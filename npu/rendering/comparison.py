"""A comparison as text and as Markdown; as a page in `npu.rendering.pages`."""

from __future__ import annotations

from collections.abc import Iterator

from npu.plain import printable
from npu.rendering.markdown import cell
from npu.rendering.styled import StyledText
from npu.rendering.tables import fitted, framed, kib, make_table, short, wrapped
from npu.reports.comparison import ComparedOperator, ComparedRun, Comparison, Figures, Reason

_LESS_TELLING = ("arena A", "arena B", "block A", "block B", "found by", "on", "traffic A", "traffic B", "share", "output")
_WIDE = 400
"""Columns from which names are whole."""
_RIGHT = {"#", "A", "B", "B - A", "share", "traffic A", "traffic B", "arena A", "arena B"}


def comparison_text(comparison: Comparison, width: int) -> str:
    """The rows and totals for a terminal of `width` columns."""
    names = ["#", "operator", "output", "on", "A", "B", "B - A", "share", "traffic A", "traffic B"]
    names += ["block A", "block B", "arena A", "arena B", "found by"]
    rows = [[StyledText(printable(text)) for text in _cells(row, comparison)] for row in comparison.rows]
    for texts in rows if width <= _WIDE else ():
        texts[2] = StyledText(short(texts[2].plain))
    names, rows = fitted(names, rows, width, flexible="operator", expendable=_LESS_TELLING)
    table = make_table(names, rows, width, flexible="operator", right=_RIGHT)
    lines = [line for fact in summary(comparison) for line in wrapped(fact, width, "", "  ")]
    return framed(width, f"A {side_name(comparison.a)}; B {side_name(comparison.b)}", table, "\n".join(lines))


def _cells(row: ComparedOperator, comparison: Comparison) -> list[str]:
    sides = row.a, row.b
    share = f"{row.more_cycles / comparison.more_cycles:+.1%}" if comparison.more_cycles else ""
    places = " ".join(dict.fromkeys(place(side) for side in sides))
    return [
        "" if row.index is None else str(row.index),
        row.type,
        row.name,
        places,
        *(cycles(side) for side in sides),
        f"{row.more_cycles:+,}" if row.more_cycles else "0",
        share if row.more_cycles else "",
        *(kib(side.traffic) if side else "" for side in sides),
        *(blocks(side) for side in sides),
        *(kib(side.arena_bytes) if side else "" for side in sides),
        row.match,
    ]


def place(side: Figures | None) -> str:
    """Where an operator runs in one of the two, "-" where it is missing."""
    return "-" if side is None else side.placement if side.done_in is None else f"in {side.done_in}"


def cycles(side: Figures | None) -> str:
    """Cycles of an operator in one of the two, "-" where it is missing."""
    return "-" if side is None else f"{side.cycles:,}"


def blocks(side: Figures | None) -> str:
    """The commonest block of an operator, and how many others it has."""
    if side is None or not side.blocks:
        return ""
    return side.blocks[0] + (f" +{len(side.blocks) - 1}" if len(side.blocks) > 1 else "")


def side_name(side: ComparedRun) -> str:
    """What was run, and where."""
    return f"{side.name} on {side.target} ({side.system}, {side.memory_mode})"


def summary(comparison: Comparison) -> Iterator[str]:
    """Sums of both, what explains the difference, and what is to be said of either."""
    a, b = comparison.a, comparison.b
    for what, left, right in totals(comparison):
        yield f"{what:<9} A {left}, B {right}"
    if comparison.more_cycles:
        share = f" ({comparison.more_cycles / a.totals.total_cycles:+.1%})" if a.totals.total_cycles else ""
        yield f"B takes {comparison.more_cycles:+,} cycles{share}, most of all for"
    else:
        yield "A and B take the same cycles"
    yield from (f"- {reason_text(reason)}" for reason in comparison.reasons())
    missing = len(comparison.unmatched)
    if missing:
        yield f"note      {missing} rows stand in one of the two only"
    for name, side in (("A", a), ("B", b)):
        yield from (f"note      {name}: {printable(note)}" for note in side.notes)


def totals(comparison: Comparison) -> list[tuple[str, str, str]]:
    """Sums by name, of A and of B."""
    sides = [comparison.a, comparison.b]
    rows = [
        ("cycles", *(f"{side.totals.total_cycles or 0:,}" for side in sides)),
        ("time", *(f"{side.totals.time_ms or 0:.3f} ms" for side in sides)),
        ("NPU", *(f"{side.totals.npu_cycles or 0:,} cycles" for side in sides)),
        ("CPU", *(f"{side.totals.cpu_cycles or 0:,} cycles" for side in sides)),
        ("traffic", *(kib(side.traffic) or "none" for side in sides)),
        ("SRAM", *(kib(side.totals.sram_bytes) or "none" for side in sides)),
        ("DRAM", *(kib(side.totals.dram_bytes) or "none" for side in sides)),
        ("constants", *(kib(side.totals.flash_bytes) or "none" for side in sides)),
    ]
    return [(what, left, right) for what, left, right in rows if (left, right) != ("none", "none")]


def reason_text(reason: Reason) -> str:
    """An operator that explains the difference, as a sentence."""
    what = f": {'; '.join(reason.what)}" if reason.what else ""
    title = " ".join(filter(None, (str(reason.row.index or 0) if reason.row.index is not None else "", reason.row.type)))
    name = f" '{short(printable(reason.row.name), 40)}'" if reason.row.name else ""
    return f"{title}{name} {reason.row.more_cycles:+,} cycles, {reason.share:.0%} of the difference{what}"


def comparison_markdown(comparison: Comparison) -> str:
    """For pull requests: the sums and the reasons open, all rows in a fold."""
    lines = ["## Comparison", "", f"- A: {cell(side_name(comparison.a))}", f"- B: {cell(side_name(comparison.b))}", ""]
    lines += ["| | A | B |", "| --- | ---: | ---: |"]
    lines += [f"| {what} | {left} | {right} |" for what, left, right in totals(comparison)]
    share = f" ({comparison.more_cycles / comparison.a.totals.total_cycles:+.1%})" if comparison.a.totals.total_cycles else ""
    lines += ["", f"**B takes {comparison.more_cycles:+,} cycles{share}.**", ""]
    lines += [f"- {cell(reason_text(reason))}" for reason in comparison.reasons()]
    lines += ["", "<details><summary>All operators</summary>", ""]
    lines += ["| # | Operator | Output | On | A | B | B - A | Traffic A | Traffic B | Block A | Block B | Found by |"]
    lines += ["| ---: | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |"]
    for row in comparison.rows:
        texts = _cells(row, comparison)
        kept = [text for position, text in enumerate(texts) if position not in (7, 12, 13)]
        lines.append("| " + " | ".join(cell(text) for text in kept) + " |")
    sums = [f"{side.totals.total_cycles or 0:,}" for side in (comparison.a, comparison.b)]
    traffic = [kib(side.traffic) for side in (comparison.a, comparison.b)]
    lines += [f"| | **Sum** | | | {sums[0]} | {sums[1]} | {comparison.more_cycles:+,} | {traffic[0]} | {traffic[1]} | | | |"]
    lines += ["", "</details>"]
    return "\n".join(lines) + "\n"
