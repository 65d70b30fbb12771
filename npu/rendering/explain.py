"""The result of `npu explain` as text."""

from __future__ import annotations

from npu.plain import printable
from npu.rendering.tables import kib, wrapped
from npu.toolchain.explain import WAITING, ExplainedModel, ExplainedOperator

_TYPE_WIDTH = 30
"""Longest name of an operator type in a table of `explain`."""
_EXPENDABLE = ("ideal", "use", "bound by")
"""Columns that narrow terminals do without, in this order."""


def explain_text(explained: ExplainedModel, width: int) -> str:
    """One line an operator with its bound; below it where its other cycles go, largest first, and what shapes would be free."""
    rows = [row for row in explained.operators if row.cycles]
    table: list[tuple[str, ...]] = [("#", "operator", "cycles", "ideal", "use", "bound by")]
    for row in rows:
        use = f"{row.ideal_cycles / row.busy_cycles:.0%}" if row.ideal_cycles else ""
        name = printable(row.type)
        name = name if len(name) <= _TYPE_WIDTH else f"{name[: _TYPE_WIDTH - 1]}…"
        table.append((str(row.index), name, f"{row.cycles:,}", f"{row.ideal_cycles:,}", use, row.bound_by or ""))
    sizes = _sizes(table)
    for title in _EXPENDABLE:
        if sum(sizes) + 2 * len(sizes) - 2 <= width:
            break
        position = table[0].index(title)
        table = [(*cells[:position], *cells[position + 1 :]) for cells in table]
        sizes = _sizes(table)
    sides = [str.ljust if title in ("operator", "bound by") else str.rjust for title in table[0]]
    heads = [
        "  ".join(side(*cell) for side, cell in zip(sides, zip(cells, sizes, strict=True), strict=True)) for cells in table
    ]
    lines = [
        printable(f"{explained.model} on {explained.target}"),
        "",
        heads[0].rstrip(),
        "─" * min(width, sum(sizes) + 2 * len(sizes) - 2),
    ]
    for row, head in zip(rows, heads[1:], strict=True):
        lines.append(head.rstrip())
        for text in (_lost(row), *(f"- {hint.text}" for hint in row.hints), *_copied(row, explained.memories["constants"])):
            lines += wrapped(text, width, " " * (sizes[0] + 2), " " * (sizes[0] + 4))
    lines.append("")
    for fact in (_summary(explained), *(f"note    {printable(note)}" for note in explained.notes)):
        lines += wrapped(fact, width, "", " " * 8)
    return "\n".join(lines) + "\n"


def _sizes(table: list[tuple[str, ...]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*table, strict=True)]


def _lost(row: ExplainedOperator) -> str:
    """Where the cycles above the ideal go, as shares of the operator's cycles and those that it shares with its neighbours."""
    losses = [
        f"{name} {cycles / row.busy_cycles:.0%}" for name, cycles in row.largest_losses() if cycles * 200 >= row.busy_cycles
    ]
    said = f"lost to {', '.join(losses)}" if losses else ""
    if row.overlapped_cycles * 200 < row.busy_cycles:
        return said
    overlapped = f"{row.overlapped_cycles:,} of {row.busy_cycles:,} cycles overlap with neighbours"
    return f"{said}; {overlapped}" if said else overlapped


def _copied(row: ExplainedOperator, memory: str) -> tuple[str, ...]:
    """What an operator waits for that loses most of its cycles by waiting."""
    losses = row.largest_losses()
    if not losses or losses[0][0] != WAITING or not row.copied_bytes:
        return ()
    return (f"- waits for {kib(row.copied_bytes)} of weights and tables, which are copied from {memory}",)


def _summary(explained: ExplainedModel) -> str:
    if not explained.npu_cycles:
        return "NPU     no work"
    busy = explained.npu_cycles + explained.overlapped_cycles
    sums = ", ".join(f"{name} {cycles / busy:.1%}" for name, cycles in explained.part_sums() if cycles)
    overlap = f" ({explained.overlapped_cycles:,} more overlap)" if explained.overlapped_cycles else ""
    return f"NPU     {explained.npu_cycles:,} cycles{overlap}: {sums}"
