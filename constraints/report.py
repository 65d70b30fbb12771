"""Renders a placement: rows of plain values, and from them JSON and Markdown. Pure functions; nothing here prints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from npu.graph.graph import ABSENT, Graph, Model, Op
from npu.graph.placement import Device, Placement, Violation
from npu.graph.work import macs


@dataclass(frozen=True, slots=True)
class Row:
    """One operator as a report shows it. `inputs` and `outputs` are texts such as "int8[1,8,8,4]"."""

    graph: int
    index: int
    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    device: Device
    macs: int
    macs_share: float
    """Of all multiply-accumulates of the model, in [0, 1]."""
    violations: tuple[Violation, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """Sums over a placement. `blocking` counts operators that break a rule, most frequent rule first."""

    operators: int
    npu_operators: int
    macs: int
    npu_macs: int
    blocking: tuple[tuple[str, int], ...]


def rows(placement: Placement, model: Model) -> tuple[Row, ...]:
    """One row per operator of the placement, in its order."""
    work = [_macs(model.graphs[op.graph], op.index) for op in placement.ops]
    total = sum(work) or 1
    return tuple(
        _row(model.graphs[op.graph], placed=op, count=count, total=total) for op, count in zip(placement.ops, work, strict=True)
    )


def summary(placement: Placement, model: Model) -> Summary:
    """Operators and multiply-accumulates on each side, and the rules that keep operators off the NPU."""
    table = rows(placement, model)
    on_npu = [row for row in table if row.device is Device.NPU]
    blocking = Counter(rule for row in table for rule in {violation.rule for violation in row.violations})
    ranked = sorted(blocking.items(), key=lambda item: (-item[1], item[0]))
    return Summary(len(table), len(on_npu), sum(row.macs for row in table), sum(row.macs for row in on_npu), tuple(ranked))


def to_json(placement: Placement, model: Model) -> dict[str, Any]:
    """The placement as values that `json.dumps` takes."""
    total = summary(placement, model)
    return {
        "profile": placement.profile,
        "summary": {
            "operators": total.operators,
            "npu_operators": total.npu_operators,
            "macs": total.macs,
            "npu_macs": total.npu_macs,
            "blocking_rules": [{"rule": rule, "operators": count} for rule, count in total.blocking],
        },
        "operators": [_row_json(row) for row in rows(placement, model)],
    }


def to_markdown(placement: Placement, model: Model) -> str:
    """A summary line, a table of operators, and what each rejected operator breaks."""
    total = summary(placement, model)
    table = rows(placement, model)
    lines = [
        f"Profile `{placement.profile}`: {total.npu_operators} of {total.operators} operators and "
        f"{_percent(total.npu_macs, total.macs)} of the multiply-accumulates run on the NPU.",
        "",
        "| # | Operator | Input | Output | Runs on | MACs |",
        "| ---: | --- | --- | --- | --- | ---: |",
    ]
    lines += [
        f"| {_number(row)} | {_cell(row.name)} | {', '.join(row.inputs)} | {', '.join(row.outputs)} "
        f"| {row.device.value.upper()} | {row.macs_share:.1%} |"
        for row in table
    ]
    rejected = [row for row in table if row.violations]
    if rejected:
        lines += ["", "| # | Operator | Rule | What it must be | Fix |", "| ---: | --- | --- | --- | --- |"]
    for row in rejected:
        for violation in row.violations:
            message, fix = _cell(violation.message), _cell(violation.fix or "")
            lines.append(f"| {_number(row)} | {_cell(row.name)} | {violation.rule} | {message} | {fix} |")
    return "\n".join(lines) + "\n"


def _macs(graph: Graph, index: int) -> int:
    op = graph.ops[index]
    known = all(number < len(graph.tensors) for number in (*op.inputs, *op.outputs))
    return max(macs(graph, op), 0) if known else 0


def _row(graph: Graph, *, placed: Any, count: int, total: int) -> Row:
    op = graph.ops[placed.index]
    return Row(
        graph=placed.graph,
        index=placed.index,
        kind=placed.kind,
        name=placed.name,
        inputs=_tensors(graph, op, op.inputs),
        outputs=_tensors(graph, op, op.outputs),
        device=placed.device,
        macs=count,
        macs_share=count / total,
        violations=placed.violations,
    )


def _tensors(graph: Graph, op: Op, indices: tuple[int, ...]) -> tuple[str, ...]:
    """Computed tensors among `indices`; constants are not worth a cell."""
    present = [graph.tensors[index] for index in indices if ABSENT < index < len(graph.tensors)]
    return tuple(f"{tensor.dtype}[{','.join(map(str, tensor.shape))}]" for tensor in present if tensor.data is None)


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "graph": row.graph,
        "index": row.index,
        "type": row.kind,
        "name": row.name,
        "inputs": list(row.inputs),
        "outputs": list(row.outputs),
        "placement": row.device.value,
        "macs": row.macs,
        "macs_share": row.macs_share,
        "violations": [
            {"rule": v.rule, "message": v.message, "limit": v.limit, "value": v.value, "fix": v.fix} for v in row.violations
        ],
    }


def _number(row: Row) -> str:
    return str(row.index) if row.graph == 0 else f"{row.graph}:{row.index}"


def _percent(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "none"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
