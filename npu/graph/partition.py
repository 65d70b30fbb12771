"""Groups accepted operators into partitions that one executor can run as a whole; the only place that decides groups.

The rule is that of the TFLite delegate partitioner: walk the operators in epochs. An epoch has the kind (accepted or not) of
the first operator that is ready, and takes every operator of this kind whose inputs are there, again and again, until none is
left. So each group is as large as the data dependencies allow, and contracting the groups never makes a cycle.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence

from npu.graph.attributes import VarHandleOptions
from npu.graph.ethos_u import CUSTOM_CODE
from npu.graph.graph import ABSENT, Graph, Op
from npu.records import dataclass

ORDERED_KINDS = frozenset(
    {
        "ASSIGN_VARIABLE", "CALL", "CALL_ONCE", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "IF",
        "MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM", "READ_VARIABLE", "VAR_HANDLE", "WHILE",
    }
)  # fmt: skip
"""Operators with an effect outside their outputs."""
_VARIABLE_KINDS = frozenset({"READ_VARIABLE", "ASSIGN_VARIABLE"})
ORDERED_CUSTOM_CODES = frozenset({CUSTOM_CODE})
"""Custom operators that do: compiled jobs leave in the arena what later ones read without naming it."""


def orders(ops: Iterable[Op]) -> list[tuple[int, int]]:
    """Pairs of positions in `ops`, of which the first must run before the second though no tensor says so.

    Reads and writes of one variable keep their order; those of different variables may pass each other. A handle only names
    its variable. Every other operator with an effect, and a handle that comes from elsewhere, keeps its place among all.
    """
    pairs: list[tuple[int, int]] = []
    variables: dict[int, tuple[str, str]] = {}
    barrier: list[int] = []  # the last operator that keeps its place among all
    since: list[int] = []  # those with an effect after it
    writer: dict[tuple[str, str], int] = {}
    readers: dict[tuple[str, str], list[int]] = {}
    for position, op in enumerate(ops):
        if isinstance(op.attributes, VarHandleOptions):
            variables.update(dict.fromkeys(op.outputs, (op.attributes.container, op.attributes.shared_name)))
            continue
        if op.kind not in ORDERED_KINDS and op.custom_code not in ORDERED_CUSTOM_CODES:
            continue
        variable = variables.get(op.inputs[0]) if op.kind in _VARIABLE_KINDS and op.inputs else None
        if variable is None:
            pairs += [(before, position) for before in barrier + since]
            barrier, since, writer, readers = [position], [], {}, {}
            continue
        first = [writer[variable]] if variable in writer else barrier
        if op.kind == "READ_VARIABLE":
            readers.setdefault(variable, []).append(position)
        else:
            first = readers.pop(variable, first)
            writer[variable] = position
        pairs += [(before, position) for before in first]
        since.append(position)
    return pairs


@dataclass(frozen=True, slots=True)
class Partition:
    """A group of accepted operators. All indices ascend; `ops` is execution order.

    `inputs` are the tensors that others compute (or the graph receives), `constants` the constants that the group reads,
    `outputs` the tensors of the group that other operators or the graph's outputs need.
    """

    ops: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSubset:
    """One epoch: operator positions in execution order, and every tensor that crosses its boundary (constants too)."""

    nodes: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    delegated: bool


def partition(graph: Graph, accepted: Collection[int]) -> list[Partition]:
    """The partitions of the operators `accepted` (indices in `graph.ops`), in execution order."""
    subsets = partition_nodes(steps_of(graph), accepted, graph.outputs, order=orders(graph.ops))
    return [_partition(graph, subset) for subset in subsets if subset.delegated]


def steps_of(graph: Graph) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Input and output tensors of each operator; none of those that need not run, for which nobody waits."""
    return [((), ()) if index in graph.unneeded else (op.inputs, op.outputs) for index, op in enumerate(graph.ops)]


def dependencies_of(graph: Graph) -> list[list[int]]:
    """For each operator, those that must run after it: they read what it writes, write what it reads, or keep their order."""
    sources, _ = _sources(steps_of(graph))
    return _dependencies(sources, orders(graph.ops))[1]


def partition_nodes(
    steps: Sequence[tuple[Sequence[int], Sequence[int]]],
    accepted: Collection[int],
    graph_outputs: Iterable[int],
    *,
    order: Iterable[tuple[int, int]] = (),
) -> list[NodeSubset]:
    """All epochs, delegated or not, in an order in which they can run.

    `steps` holds (input tensors, output tensors) of each operator in execution order, `accepted` positions in it, `order`
    pairs of ascending positions that must keep their order. Tensors must be written before they are read.
    """
    chosen = frozenset(accepted)
    sources, last_writer = _sources(steps)
    waits, followers = _dependencies(sources, order)
    ready: dict[bool, list[int]] = {False: [], True: []}
    for position, count in enumerate(waits):
        if count == 0:
            ready[position in chosen].append(position)  # ascending, hence a heap
    epochs: list[tuple[bool, list[int]]] = []
    while ready[False] or ready[True]:
        kind = not ready[False] or (bool(ready[True]) and ready[True][0] < ready[False][0])
        nodes: list[int] = []
        while ready[kind]:
            position = heapq.heappop(ready[kind])
            nodes.append(position)
            for follower in followers[position]:
                waits[follower] -= 1
                if waits[follower] == 0:
                    heapq.heappush(ready[follower in chosen], follower)
        epochs.append((kind, nodes))
    return _with_boundaries(steps, epochs, sources, last_writer, graph_outputs)


def _sources(steps: Sequence[tuple[Sequence[int], Sequence[int]]]) -> tuple[list[dict[int, int]], dict[int, int]]:
    """For each position, which operator writes each tensor that it reads; and the last writer of every tensor.

    Of several writers it is the last one before the reader. A tensor that is only written later is a variable.
    """
    last = {tensor: position for position, (_, outputs) in enumerate(steps) for tensor in outputs if tensor != ABSENT}
    sources: list[dict[int, int]] = []
    before: dict[int, int] = {}
    for position, (inputs, outputs) in enumerate(steps):
        sources.append({tensor: before.get(tensor, last[tensor]) for tensor in inputs if tensor in last})
        before.update(dict.fromkeys(outputs, position))
    return sources, last


def _dependencies(sources: Sequence[dict[int, int]], order: Iterable[tuple[int, int]]) -> tuple[list[int], list[list[int]]]:
    """For each position, how many operators it waits for, and which wait for it."""
    waits = [0] * len(sources)
    followers: list[list[int]] = [[] for _ in sources]
    for position, read in enumerate(sources):
        for source in set(read.values()) - {position}:
            # A variable may be read before it is written: that reader goes first.
            before, after = (source, position) if source < position else (position, source)
            followers[before].append(after)
            waits[after] += 1
    for before, after in order:
        followers[before].append(after)
        waits[after] += 1
    return waits, followers


def _with_boundaries(
    steps: Sequence[tuple[Sequence[int], Sequence[int]]],
    epochs: list[tuple[bool, list[int]]],
    sources: Sequence[dict[int, int]],
    last_writer: dict[int, int],
    graph_outputs: Iterable[int],
) -> list[NodeSubset]:
    epoch_of = {position: epoch for epoch, (_, nodes) in enumerate(epochs) for position in nodes}
    inputs: list[set[int]] = [set() for _ in epochs]
    outputs: list[set[int]] = [set() for _ in epochs]
    for epoch, (_, nodes) in enumerate(epochs):
        for position, tensor in ((node, tensor) for node in nodes for tensor in steps[node][0] if tensor != ABSENT):
            source = epoch_of[sources[position][tensor]] if tensor in sources[position] else None
            if source != epoch:
                inputs[epoch].add(tensor)
                if source is not None:
                    outputs[source].add(tensor)
    for tensor in graph_outputs:
        if tensor in last_writer:
            outputs[epoch_of[last_writer[tensor]]].add(tensor)
    return [
        NodeSubset(tuple(nodes), tuple(sorted(inputs[epoch])), tuple(sorted(outputs[epoch])), kind)
        for epoch, (kind, nodes) in enumerate(epochs)
    ]


def _partition(graph: Graph, subset: NodeSubset) -> Partition:
    constants = tuple(index for index in subset.inputs if graph.tensors[index].is_constant)
    inputs = tuple(index for index in subset.inputs if not graph.tensors[index].is_constant)
    return Partition(subset.nodes, inputs, subset.outputs, constants)
