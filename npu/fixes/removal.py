"""Operators without effect: those that nobody reads, and those that give back what they were given."""

from __future__ import annotations

from dataclasses import replace

from npu.fixes.edit import Editor, same_quantization
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.partition import ORDERED_KINDS


def remove_dead(graph: Graph) -> Editor:
    """Operators that no output depends on, unless they have an effect of their own (variables, control flow, custom)."""
    editor = Editor(graph)
    needed = set(graph.outputs)
    for position in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[position]
        if needed.isdisjoint(op.outputs) and not _has_effect(graph, op):
            editor.put(position, [], "removed: nothing reads it")
        else:
            needed.update(op.inputs)
    return editor


def _has_effect(graph: Graph, op: Op) -> bool:
    used = (graph.tensors[index] for index in op.inputs if index != ABSENT)
    special = op.kind in ORDERED_KINDS or op.kind == "CUSTOM" or op.kind.startswith("UNKNOWN")
    return special or not op.outputs or any(tensor.is_variable for tensor in used)


def remove_identities(graph: Graph) -> Editor:
    """QUANTIZE to the quantization that the data have already, right after DEQUANTIZE or on its own.

    Exact: (q - zero point) x scale / scale is within 2**-6 of the whole number q - zero point in float32, for 16-bit data
    too, so that rounding gives it back.
    """
    editor = Editor(graph)
    writer = {index: op for op in graph.ops for index in op.outputs}
    instead: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        if op.kind != "QUANTIZE" or not op.inputs or op.outputs[0] in graph.outputs:
            continue
        source = op.inputs[0]
        before = writer.get(source)
        if before is not None and before.kind == "DEQUANTIZE":
            source = before.inputs[0]
        if _same(graph.tensors[source], graph.tensors[op.outputs[0]]):
            instead[op.outputs[0]] = instead.get(source, source)
            editor.put(position, [], "removed: gives back what went in")
    for group in editor.ops:
        group[:] = [replace(op, inputs=tuple(instead.get(index, index) for index in op.inputs)) for op in group]
    return editor


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and same_quantization(first, second)
