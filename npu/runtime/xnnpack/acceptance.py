"""Which nodes the delegate takes: the `xnnpack` profile applied to the nodes of a delegate context.

Constant means a tensor with contents in the file, or one that DENSIFY unpacks from such a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from constraints.rule import Profile
from constraints.view import OpView
from constraints.xnnpack import XnnpackSwitches as ProfileOptions
from constraints.xnnpack import xnnpack_profile
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.operands import Role
from npu.graph.ops import inputs_with
from npu.graph.placement import Violation
from npu.runtime.xnnpack.options import XnnpackOptions
from npu.tflite.sparsity import densify, is_sparse

VARIABLE_KINDS = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})


def profile_for(options: XnnpackOptions) -> Profile:
    """The rules under the delegate's switches."""
    return xnnpack_profile(ProfileOptions(qs8=options.qs8, qu8=options.qu8, variables=options.variable_operators))


class Acceptance:
    """Judges the operators of one graph; violations are kept by operator index."""

    def __init__(self, graph: Graph, options: XnnpackOptions) -> None:
        self._profile = profile_for(options)
        self._ops = graph.ops
        self.unpacked = _unpacked(graph)
        tensors = list(graph.tensors)
        for index, tensor in self.unpacked.items():
            tensors[index] = tensor
        self.graph = replace(graph, tensors=tuple(tensors))
        self._judged: dict[int, tuple[Violation, ...]] = {}

    def violations(self, index: int) -> tuple[Violation, ...]:
        """What keeps operator `index` off the delegate; empty if nothing does."""
        if index not in self._judged:
            self._judged[index] = self._judge(self._ops[index])
        return self._judged[index]

    def _judge(self, op: Op) -> tuple[Violation, ...]:
        if op.kind == "DENSIFY":
            return self._judge_densify(op)
        return self._profile.violations(OpView(self.graph, op))

    def _judge_densify(self, op: Op) -> tuple[Violation, ...]:
        """DENSIFY goes where its weights go: all its readers must be taken."""
        if len(op.outputs) == 1 and op.outputs[0] in self.unpacked:
            readers = self._readers(op.outputs[0])
            if readers and all(not self.violations(index) for index in readers):
                return ()
        text = "DENSIFY must unpack constant weights of operators that are taken"
        return (Violation("X-S-2", f"{text}, got {op.name}", "weights of taken operators", op.name),)

    def _readers(self, tensor: int) -> list[int]:
        return [index for index, op in enumerate(self._ops) if tensor in op.inputs]


def _unpacked(graph: Graph) -> Mapping[int, Tensor]:
    """Outputs of DENSIFY operators with a constant input, as dense constants; each must have no other use than as weights."""
    result: dict[int, Tensor] = {}
    for op in graph.ops:
        if op.kind != "DENSIFY" or len(op.inputs) != 1 or len(op.outputs) != 1:
            continue
        source, target = graph.tensors[op.inputs[0]], op.outputs[0]
        if source.data is None or target in graph.outputs or not _only_weights(graph, target):
            continue
        data = densify(source) if is_sparse(source) else source.data.reshape(source.shape)
        result[target] = replace(graph.tensors[target], data=data, shape=source.shape)
    return result


def _only_weights(graph: Graph, tensor: int) -> bool:
    return all(
        position in (*inputs_with(Role.WEIGHTS, op), *inputs_with(Role.BIAS, op))
        for op in graph.ops
        for position, index in enumerate(op.inputs)
        if index == tensor
    )
