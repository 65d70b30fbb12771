"""How the results of tools look in a terminal. Reads results, computes nothing."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from npu.plain import printable
from npu.rendering.tables import short
from npu.tools.benchmark import Measurement
from npu.tools.classification import ClassificationResult
from npu.tools.detection import DetectionResult
from npu.tools.inference_diff import InferenceDiff
from npu.tools.runner import count_of
from npu.tools.tf_compat import Survivor, TensorFlowOperation

_MIB = 1 << 20


def measurements_text(measurements: Sequence[Measurement], width: int) -> str:
    """Latencies, one column a measurement, then operators and memory of the first."""
    first = measurements[0]
    head = _head(f"{first.model}, {count_of(first.threads, 'thread')}", (*first.log, *first.delegates), width)
    names, columns = [], []
    for position, measurement in enumerate(measurements):
        who = (
            "without delegates"
            if position
            else ", ".join(line.split(":")[0] for line in measurement.delegates) or "CPU kernels"
        )
        phases = {"warm-up": measurement.warm_up, "runs": measurement.runs}
        for phase, numbers in phases.items():
            if numbers is not None:
                names.append(f"{who}\n{phase}")
                columns.append(_numbers(numbers.row()))
    rows = [list(row) for row in zip(first.runs.row(), *columns, strict=True)]
    text = head + _table(["ms", *names], rows, width)
    if first.operators:
        text += _table(["node", "operator", "mean ms", "std", "share"], _operator_rows(first), width)
    text += f"load {first.load_ms:.1f} ms, first run {first.first_ms:.1f} ms, "
    peak = f"{_size(first.peak_bytes)} (+{_size(first.peak_growth_bytes)})" if first.peak_bytes else "not known here"
    text += f"peak memory {peak}\n"
    text += f"tensors that are no constants {_size(first.tensor_bytes)}, {_size(first.arena_bytes)} of it the arena\n"
    if len(measurements) == 2:
        ratio = measurements[1].runs.percentiles[0] / first.runs.percentiles[0]
        text += f"speed-up over no delegates: {ratio:.2f}x (medians)\n"
    return text


def _head(title: str, log: Sequence[str], width: int) -> str:
    """The first lines of a result, folded between words."""
    lines = (printable(line) for line in (title, *log))
    folded = (textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False) for line in lines)
    return "\n".join(folded) + "\n"


def _operator_rows(measurement: Measurement) -> list[list[str]]:
    """Steps by falling share, each followed by the operators inside it; then those of other subgraphs, as "subgraph:node"."""
    ordered = sorted(measurement.operators, key=lambda operator: (operator.subgraph, -operator.share))
    rows = []
    for step in (row for row in ordered if row.inside is None):
        parts = [row for row in ordered if row.inside == step.node and row.subgraph == step.subgraph]
        for part in (step, *parts):
            node = f"{part.subgraph}:{part.node}" if part.subgraph else f"{part.node}"
            numbers = (f"{part.milliseconds.mean:.3f}", f"{part.milliseconds.std:.3f}", f"{part.share:.1%}")
            rows.append([node, printable(part.kind) if part.is_step else f"  {printable(part.kind)}", *numbers])
    return rows


def _size(count: int) -> str:
    return f"{count / _MIB:.1f} MiB" if count >= _MIB else f"{count / 1024:.1f} KiB"


def comparison_text(comparison: InferenceDiff, width: int) -> str:
    """One row an output, then latencies and the first differing operator."""
    runs = count_of(comparison.runs, "run")
    title = f"reference {comparison.reference} (CPU kernels, one thread), test {comparison.test}, {runs}"
    rows = [
        [
            printable(output.name),
            output.dtype,
            f"{output.differing} of {output.elements}",
            *(f"{value:.6g}" for value in _differences(output)),
        ]
        for output in comparison.outputs
    ]
    text = _head(title, comparison.log, width)
    text += _table(["output", "type", "differing", "max", "min", "mean", "std"], rows, width)
    sides = (("reference", comparison.reference_ms), ("test", comparison.test_ms))
    latencies = [f"{side} {times.percentiles[0]:.3f} ms (first {times.first:.3f})" for side, times in sides]
    text += f"median latency: {', '.join(latencies)}\n"
    if comparison.first is not None:
        first = comparison.first
        where = (
            f"{first.kind} (op {first.node}) on {first.executor}, tensor '{short(first.tensor, 60)}', by up to {first.max:.6g}"
        )
        lines = [f"first difference: {where}"]
        if first.unseen:
            what = f"the {count_of(first.unseen, 'operator')} before it cannot be compared"
            lines.append(f"{what}: the test does not keep their results; npu diff looks into compiled files")
        text += _head(lines[0], lines[1:], width)
    elif not comparison.outputs:
        text += "nothing was compared: the model has no outputs\n"
    elif comparison.is_equal:
        text += "all outputs are equal\n"
    return text


def _differences(row: object) -> tuple[float, ...]:
    return tuple(getattr(row, name) for name in ("max", "min", "mean", "std"))


def classification_text(classification: ClassificationResult, width: int) -> str:
    """One line for statistics k."""
    head = _head(f"{classification.model}: {count_of(classification.images, 'image')}", classification.log, width)
    return head + "".join(f"top-{k} accuracy {value:.2%}\n" for k, value in enumerate(classification.accuracy, 1))


def detection_text(detections: DetectionResult, width: int) -> str:
    """The COCO numbers and one line a class."""
    precision = detections.precision
    head = _head(f"{detections.model}: {count_of(detections.images, 'image')}", detections.log, width)
    lines = [f"mAP {precision.mean:.4f}, AP50 {precision.at_50:.4f}, AP75 {precision.at_75:.4f}"]
    lines += [
        f"{printable(detections.names.get(key, f'class {key}'))}: {value:.4f}" for key, value in precision.by_class.items()
    ]
    return head + "\n".join(lines) + "\n"


def operations_text(rows: Sequence[TensorFlowOperation], format: str, width: int) -> str:
    """The guide's rows as text, Markdown or JSON."""
    if format == "json":
        items = [
            {
                "id": row.id,
                "operation": f"tf.{row.name}",
                "guide_status": row.status.value,
                "note": row.note,
                "operators": list(row.operators),
                "runs_here": row.runs_here,
            }
            for row in rows
        ]
        return json.dumps(items, indent=2) + "\n"
    names = ["TensorFlow operation", "guide", "condition or note", "TFLite operator", "runs here"]
    cells = [
        [f"tf.{row.name}", row.status.value, row.note, ", ".join(row.operators), "yes" if row.runs_here else "no"]
        for row in rows
    ]
    if format == "md":
        lines = [f"| {' | '.join(names)} |", "| --- " * len(names) + "|"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)]) + "\n"
    return _table(names, cells, width)


def survivors_text(name: str, survivors: Sequence[Survivor], format: str) -> str:
    """What is wrong with the operators of a file."""
    if format == "json":
        return json.dumps([{field: getattr(op, field) for field in op.__slots__} for op in survivors], indent=2) + "\n"
    if not survivors:
        return f"{printable(name)}: every operator has a TFLite equivalent and a kernel\n"
    lines = (f"{name}: op {op.index} of subgraph {op.subgraph}, {op.kind}: {op.reason}" for op in survivors)
    return "".join(f"{printable(line)}\n" for line in lines)


def _numbers(row: dict[str, float]) -> list[str]:
    return [f"{value}" if name == "count" else f"{value:.3f}" for name, value in row.items()]


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for position, name in enumerate(names):
        is_number = bool(rows) and all(row[position][:1].isdigit() for row in rows)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    buffer = io.StringIO()
    Console(file=buffer, width=width, no_color=True, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
