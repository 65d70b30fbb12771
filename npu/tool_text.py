"""How the results of tools look in a terminal. Reads results, computes nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from npu.tools.benchmark import Measurement
from npu.tools.classification import ClassificationResult
from npu.tools.detection import DetectionResult
from npu.tools.inference_diff import Comparison
from npu.tools.tf_compat import Survivor, TensorFlowOperation

_MIB = 1 << 20


def measurements_text(measurements: Sequence[Measurement], width: int) -> str:
    """Latencies in milliseconds, one row a measurement, then operators and memory of the first."""
    first = measurements[0]
    lines = [f"{first.model}, {first.threads} {'thread' if first.threads == 1 else 'threads'}", *first.log, *first.delegates]
    rows = []
    for position, each in enumerate(measurements):
        who = "without delegates" if position else ", ".join(line.split(":")[0] for line in each.delegates) or "CPU kernels"
        if each.warm_up is not None:
            rows.append([who, "warm-up", *_numbers(each.warm_up.row())])
        rows.append([who, "runs", *_numbers(each.runs.row())])
    text = "\n".join(lines) + "\n" + _table(["executor", "ms", *first.runs.row()], rows, width)
    if first.operators:
        ordered = sorted(first.operators, key=lambda each: -each.share)
        cells = [
            [f"{each.node}", each.kind, f"{each.milliseconds.mean:.3f}", f"{each.milliseconds.std:.3f}", f"{each.share:.1%}"]
            for each in ordered
        ]
        text += _table(["node", "operator", "mean ms", "std", "share"], cells, width)
    grown = first.peak_growth_bytes / _MIB
    peak = first.peak_bytes / _MIB
    text += f"load {first.load_ms:.1f} ms, first run {first.first_ms:.1f} ms, peak memory {peak:.1f} MiB (+{grown:.1f} MiB)\n"
    kept, arena = first.tensor_bytes / _MIB, first.arena_bytes / _MIB
    text += f"tensors that are no constants {kept:.2f} MiB, {arena:.2f} MiB of it the arena of intermediate ones\n"
    if len(measurements) == 2:
        text += f"speed-up over no delegates: {measurements[1].runs.mean / first.runs.mean:.2f}x\n"
    return text


def comparison_text(result: Comparison, width: int) -> str:
    """One row an output, then latencies and the first differing operator."""
    lines = [f"reference {result.reference} (CPU kernels, one thread), test {result.test}, {result.runs} runs", *result.log]
    rows = [
        [each.name, each.dtype, f"{each.differing} of {each.elements}", *(f"{value:.6g}" for value in _differences(each))]
        for each in result.outputs
    ]
    text = "\n".join(lines) + "\n" + _table(["output", "type", "differing", "max", "min", "mean", "std"], rows, width)
    text += f"mean latency: reference {result.reference_ms.mean:.3f} ms, test {result.test_ms.mean:.3f} ms\n"
    if result.first is not None:
        where = f"{result.first.kind} (op {result.first.node}) on {result.first.executor}"
        text += f"first difference: {where}, tensor '{result.first.tensor}', by up to {result.first.max:.6g}\n"
    elif result.is_equal:
        text += "all outputs are equal\n"
    return text


def _differences(each: object) -> tuple[float, ...]:
    return tuple(getattr(each, name) for name in ("max", "min", "mean", "std"))


def classification_text(result: ClassificationResult) -> str:
    """One line for each k."""
    lines = [f"{result.model}: {result.images} images", *result.log]
    lines += [f"top-{k} accuracy {value:.2%}" for k, value in enumerate(result.accuracy, 1)]
    return "\n".join(lines) + "\n"


def detection_text(result: DetectionResult) -> str:
    """The COCO numbers and one line a class."""
    precision = result.precision
    lines = [f"{result.model}: {result.images} images", *result.log]
    lines.append(f"mAP {precision.mean:.4f}, AP50 {precision.at_50:.4f}, AP75 {precision.at_75:.4f}")
    lines += [f"{result.names.get(key, f'class {key}')}: {value:.4f}" for key, value in precision.by_class.items()]
    return "\n".join(lines) + "\n"


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


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def survivors_text(name: str, survivors: Sequence[Survivor], format: str) -> str:
    """What is wrong with the operators of a file."""
    if format == "json":
        return json.dumps([{field: getattr(each, field) for field in each.__slots__} for each in survivors], indent=2) + "\n"
    if not survivors:
        return f"{name}: every operator has a TFLite equivalent and a kernel\n"
    return "".join(f"{name}: op {each.index} of subgraph {each.subgraph}, {each.kind}: {each.reason}\n" for each in survivors)


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
