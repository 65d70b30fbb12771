"""Operators without effect: those that nobody reads, and those that give back what they were given."""

from __future__ import annotations

from dataclasses import replace

from npu.fixes.edit import Editor, same_quantization
from npu.graph.graph import Graph, Tensor
from npu.graph.unread import unread_operators


def remove_dead(graph: Graph) -> Editor:
    """Operators that no output depends on."""
    editor = Editor(graph)
    for position in sorted(unread_operators(graph), reverse=True):
        editor.put(position, [], "removed: nothing reads it")
    return editor


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
