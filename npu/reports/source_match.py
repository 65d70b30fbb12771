"""Which operators of a source model a compiled file of another compiler executes, and how sure that is.

Three kinds of evidence, in this order: the compiler's debug database where one is given; weights, which are the same multiset
of values in both files; and for the rest what lies between operators that are known, by kind, shape, zero point and order.
Work that belongs to no operator of the source becomes rows of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from npu.graph.attributes import Pool2DOptions
from npu.graph.ethos_u import Input, is_npu_job
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.operands import Role
from npu.graph.ops import BY_NAME, Cost, inputs_with
from npu.graph.work import macs
from npu.isa.operations import ActivationFunction, Elementwise, Pooling, PoolingMode, WeightedOperation
from npu.records import dataclass
from npu.reports.operator_map import GUESSED, LIKELY, SURE, UNKNOWN_SOURCE, Match, OperatorMap, SourceOperator, left_on_cpu
from npu.reports.stream_dataflow import Piece, pieces_of
from npu.reports.vela_database import DATABASE, VelaDatabase
from npu.reports.weight_counts import counts_of_operator, counts_of_streams
from sim.container import CompiledFile

WEIGHTS, NAME, SHAPE, ORDER = "weights", "tensor name", "kind and shape", "place between others"

_MOVES = frozenset({
    "CONCATENATION", "SPLIT", "SPLIT_V", "PACK", "UNPACK", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "MIRROR_PAD", "TRANSPOSE",
    "TILE", "DEPTH_TO_SPACE", "SPACE_TO_DEPTH", "RESIZE_NEAREST_NEIGHBOR", "GATHER", "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND",
    "QUANTIZE", "READ_VARIABLE", "ASSIGN_VARIABLE",
})  # fmt: skip
"""Operators that a compiler makes of copies, or of addresses and paddings of their neighbours."""
_ELEMENTWISE = {
    "ADD": {"ADD"}, "SUB": {"SUB"}, "MUL": {"MUL"}, "MIN": {"MINIMUM"}, "MAX": {"MAXIMUM"}, "LRELU": {"LEAKY_RELU"},
    "ABS": {"ABS"},
}  # fmt: skip
_POOLS = {PoolingMode.MAX: "MAX_POOL_2D", PoolingMode.AVERAGE: "AVERAGE_POOL_2D"}
_WEIGHTED = frozenset({"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})
_SINGLE = frozenset({*_WEIGHTED, "ADD", "SUB", "MUL", "MINIMUM", "MAXIMUM", "LEAKY_RELU", "ABS", "AVERAGE_POOL_2D",
                     "MAX_POOL_2D", "QUANTIZE"})  # fmt: skip
"""Operators that are one operation of the hardware: others may take several."""


class _Source:
    """The source graph: who feeds whom, and what lies behind each operator."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.makers = {tensor: index for index, op in enumerate(graph.ops) for tensor in op.outputs}
        self.feeds = [frozenset(self.makers[tensor] for tensor in op.inputs if tensor in self.makers) for op in graph.ops]
        self.below: list[int] = [0] * len(graph.ops)
        """The operators that depend on each one, itself included, as bits."""
        for index in range(len(graph.ops) - 1, -1, -1):
            self.below[index] |= 1 << index
            for feeder in self.feeds[index]:
                self.below[feeder] |= self.below[index]

    @cached_property
    def counts(self) -> dict[bytes, list[int]]:
        """Operators by what their weights hold."""
        held: dict[bytes, list[int]] = defaultdict(list)
        for index, op in enumerate(self.graph.ops):
            counts = counts_of_operator(self.graph, op)
            if counts is not None:
                held[counts].append(index)
        return held

    def is_view(self, index: int) -> bool:
        """Whether an operator need not do anything."""
        row = BY_NAME.get(self.graph.ops[index].kind)
        return row is not None and row.cost is Cost.VIEW

    def has_constant_weights(self, index: int) -> bool:
        op = self.graph.ops[index]
        return op.kind in _WEIGHTED and any(
            self.graph.tensors[op.inputs[position]].is_constant for position in inputs_with(Role.WEIGHTS, op)
        )

    def readers(self, tensor: int) -> frozenset[int]:
        """The operators that read a tensor."""
        return frozenset(index for index, op in enumerate(self.graph.ops) if tensor in op.inputs)

    def is_next(self, first: int, last: int) -> bool:
        """Whether `last` reads the result of `first`, as it is or moved about."""
        waiting, seen = [last], {last}
        while waiting:
            for feeder in self.feeds[waiting.pop()]:
                if feeder == first:
                    return True
                if feeder not in seen and (self.is_view(feeder) or self.graph.ops[feeder].kind in _MOVES):
                    seen.add(feeder)
                    waiting.append(feeder)
        return False


@dataclass(slots=True)
class _Found:
    """What a piece is taken for."""

    operator: int
    match: Match


def match_source(file: CompiledFile, graph: Graph, database: VelaDatabase | None = None) -> OperatorMap:
    """The map of a compiled file to the operators of `graph`, the main subgraph of the model that it was made from."""
    pieces, source = pieces_of(file), _Source(graph)
    found: dict[int, _Found] = {}
    if database is not None:
        _by_database(pieces, file, database, found)
    _by_name(pieces, file.model.graphs[0], source, found)
    _by_weights(pieces, file, source, found)
    _by_place(pieces, source, found)
    return _as_map(pieces, file, source, found, database)


def _by_database(pieces: Sequence[Piece], file: CompiledFile, database: VelaDatabase, found: dict[int, _Found]) -> None:
    """The database names the source operator of every kernel operation by the place of its command."""
    jobs = {job.index: number for number, job in enumerate(file.jobs())}
    for number, piece in enumerate(pieces):
        if piece.is_on_npu:
            decoded = file.operations(0, piece.operator)
            owner = database.owner(jobs[piece.operator], [decoded[position] for position in piece.positions])
            if owner is not None:
                found[number] = _Found(owner, Match(DATABASE, SURE))


def _by_name(pieces: Sequence[Piece], compiled: Graph, source: _Source, found: dict[int, _Found]) -> None:
    """Operators on the CPU keep kind and names."""
    names = {source.graph.tensors[tensor].name: index for tensor, index in source.makers.items()}
    taken: set[int] = set()
    for number, piece in enumerate(pieces):
        if not piece.is_on_npu and number not in found:
            named = [names[compiled.tensors[tensor].name] for tensor in piece.tensors if compiled.tensors[tensor].name in names]
            fits = [index for index in named if source.graph.ops[index].name == piece.type]
            how = NAME
            if not fits:
                fits = [i for i, op in enumerate(source.graph.ops) if op.name == piece.type and i not in taken][:1]
                how = ORDER
            if fits:
                taken.add(fits[0])
                found[number] = _Found(fits[0], Match(how, SURE if how == NAME else LIKELY))


def _by_weights(pieces: Sequence[Piece], file: CompiledFile, source: _Source, found: dict[int, _Found]) -> None:
    """Weights tell operators apart; of several with the same ones, the order does."""
    graph = file.model.graphs[0]
    taken = {item.operator for item in found.values()}
    for number, piece in enumerate(pieces):
        if number in found or not piece.weights:
            continue
        constants = graph.tensors[graph.ops[piece.operator].inputs[Input.CONSTANTS]].data
        if constants is None:
            continue
        counts = counts_of_streams(piece.weights, constants.view(np.uint8).ravel(), file.variant)
        alike = source.counts.get(counts or b"", [])
        free = [index for index in alike if index not in taken]
        if free:
            taken.add(free[0])
            found[number] = _Found(free[0], Match(WEIGHTS, SURE if len(alike) == 1 else LIKELY))


def _by_place(pieces: Sequence[Piece], source: _Source, found: dict[int, _Found]) -> None:
    """Everything else lies between operators that are known: the best candidate there, if any fits at all.

    Copies come last, because they only tell something by what is around them.
    """
    readers: dict[int, set[int]] = defaultdict(set)
    for number, piece in enumerate(pieces):
        for maker in piece.reads:
            readers[maker].add(number)
    anchored = {candidate.operator for candidate in found.values()}
    unknown = [number for number in range(len(pieces)) if number not in found]
    for number in sorted(unknown, key=lambda number: (_is_copy(pieces[number]), number)):
        piece = pieces[number]
        before = {found[maker].operator for maker in piece.reads if maker in found}
        after = {found[reader].operator for reader in readers[number] if reader in found}
        surroundings = _Surroundings(source, before, after, {candidate.operator for candidate in found.values()}, anchored)
        scores = {index: surroundings.score(piece, index) for index in surroundings.between()}
        best = max((index for index in scores if scores[index] > 0), key=lambda index: (scores[index], -index), default=None)
        if best is not None:
            rivals = sum(score == scores[best] for score in scores.values())
            found[number] = _Found(
                best, _match_of(scores[best], rivals, is_plain_copy=_is_copy(piece) and not _has_table(piece))
            )
        elif _is_copy(piece) and len(before) == 1:  # rounds or clamps what its maker has written
            found[number] = _Found(min(before), Match(ORDER, GUESSED))


_KIND, _PARTIAL, _VIEW, _WHOLE, _PART, _ZERO_POINT, _DIRECT, _AGAIN = 8, 4, 2, 4, 1, 1, 2, -6
"""What agreement is worth: of the kind, of a part of it, of a view that was copied; of the whole output, of a part of it; of
its zero point; of a neighbour. A second piece for an operator that is one operation counts against it."""


def _match_of(score: int, rivals: int, *, is_plain_copy: bool) -> Match:
    """Operators that move data are much alike: a copy is never sure to be the one or the other."""
    if not is_plain_copy and score >= _KIND + _WHOLE + 2 * _DIRECT and rivals == 1:
        return Match(SHAPE, LIKELY)
    return Match(ORDER, GUESSED)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The operators known to be before and after a piece, those that are taken, and those that weights tell."""

    source: _Source
    before: set[int]
    after: set[int]
    taken: set[int]
    anchored: set[int]

    def between(self) -> list[int]:
        """The operators that depend on all of `before`, and on which all of `after` depend; both may be among them."""
        below = self.source.below
        return [
            index
            for index in range(len(below))
            if all(below[one] >> index & 1 for one in self.before) and all(below[index] >> one & 1 for one in self.after)
        ]

    def score(self, piece: Piece, index: int) -> int:
        """How well a piece fits an operator; 0 if it cannot be a part of it."""
        op = self.source.graph.ops[index]
        kind = _kind_score(piece, op, self.source.has_constant_weights(index))
        if not kind or (index in self.anchored and op.kind in _WEIGHTED):
            return 0
        score = kind + _extent_score(piece, [self.source.graph.tensors[tensor] for tensor in op.outputs])
        if all(one == index or self.source.is_next(one, index) for one in self.before):
            score += _DIRECT
        if all(one == index or self.source.is_next(index, one) for one in self.after):
            score += _DIRECT
        if index in self.taken and op.kind in _SINGLE:
            score += _AGAIN
        return max(score, 0)


def _extent_score(piece: Piece, outputs: Sequence[Tensor]) -> int:
    """What the sizes and the zero point of an operator's outputs say."""
    score = 0
    if any(tensor.elements == piece.elements for tensor in outputs):
        score += _WHOLE
    elif any(piece.elements and tensor.elements % piece.elements == 0 for tensor in outputs):
        score += _PART
    zero_points = {tensor.quantization.zero_point for tensor in outputs if tensor.quantization is not None}
    if piece.operations and piece.operations[-1].ofm.zero_point in zero_points:
        score += _ZERO_POINT
    return score


def _is_copy(piece: Piece) -> bool:
    """Whether a piece is a pooling of one element: a copy, a table or another scale."""
    operation = piece.operations[0] if piece.operations else None
    return (
        isinstance(operation, Pooling)
        and operation.kernel.height == operation.kernel.width == 1
        and operation.mode is not PoolingMode.REDUCE_SUM
    )


def _has_table(piece: Piece) -> bool:
    return bool(piece.operations) and piece.operations[0].activation.function is not ActivationFunction.NONE


def _kind_score(piece: Piece, op: Op, has_weights: bool) -> int:
    """Whether a piece is the operation that the operator is, one that it may be cut into, or neither (0)."""
    if not piece.operations:
        return 0
    operation = piece.operations[0]
    if isinstance(operation, Elementwise) and op.kind in _ELEMENTWISE.get(operation.mode.name, ()):
        return _KIND
    if _is_copy(piece):
        if _is_table(op) if _has_table(piece) else op.kind in _MOVES:
            return _KIND
        row = BY_NAME.get(op.kind)
        return _VIEW if row is not None and row.cost is Cost.VIEW else 0
    if isinstance(operation, Pooling) and isinstance(op.attributes, Pool2DOptions):
        window = operation.kernel.height, operation.kernel.width
        is_same = op.kind == _POOLS.get(operation.mode) and window == (op.attributes.filter_height, op.attributes.filter_width)
        return _KIND if is_same else 0
    if isinstance(operation, WeightedOperation) and op.kind in _WEIGHTED:
        return _KIND if has_weights else _PARTIAL
    row = BY_NAME.get(op.kind)
    if op.kind in _SINGLE or row is None or row.cost is Cost.VIEW:
        return 0
    return _PARTIAL


def _is_table(op: Op) -> bool:
    row = BY_NAME.get(op.kind)
    return row is not None and (row.is_lut or row.cost is Cost.TABLE)


def _as_map(
    pieces: Sequence[Piece], file: CompiledFile, source: _Source, found: Mapping[int, _Found], database: VelaDatabase | None
) -> OperatorMap:
    graph = source.graph
    owner = {number: item.operator for number, item in found.items()}
    rows = _rows(pieces, source, owner, database)
    matches = _matches(rows, found, source)
    sources: dict[int, tuple[int, ...]] = {}
    for index, op in enumerate(file.model.graphs[0].ops):
        if is_npu_job(op):
            sources[index] = (-1,) * len(file.operations(0, index))
    for number, piece in enumerate(pieces):
        if number not in owner:
            row = SourceOperator(len(rows), piece.type, piece.shape, "npu" if piece.is_on_npu else "cpu", piece.macs)
            owner[number] = row.index
            rows.append(row)
        if piece.is_on_npu:
            held = list(sources[piece.operator])
            for position in piece.positions:
                held[position] = owner[number]
            sources[piece.operator] = tuple(held)
        else:
            sources[piece.operator] = (owner[number],)
    return OperatorMap(UNKNOWN_SOURCE, tuple(rows), sources, matches=matches, own=len(graph.ops))


def _rows(
    pieces: Sequence[Piece], source: _Source, owner: Mapping[int, int], database: VelaDatabase | None
) -> list[SourceOperator]:
    """One row per operator of the source: what no piece does is done by a neighbour, or needs nothing."""
    graph = source.graph
    devices = {owner[number]: "npu" if piece.is_on_npu else "cpu" for number, piece in enumerate(pieces) if number in owner}
    rows: list[SourceOperator] = []
    readers = [frozenset(reader for tensor in op.outputs for reader in source.readers(tensor)) for op in graph.ops]
    for index, op in enumerate(graph.ops):
        name = graph.tensors[op.outputs[0]].name if op.outputs else ""
        row = SourceOperator(index, op.name, name, devices.get(index, ""), max(macs(graph, op), 0))
        if row.placement == "cpu":
            row = replace(row, violations=(left_on_cpu(op),))
        elif not row.placement:
            row = replace(row, absorbed_into=_absorber(index, source, rows, devices, readers, database))
        rows.append(row)
    return _with_placements(rows, source, readers)


def _absorber(
    index: int, source: _Source, rows: Sequence[SourceOperator], devices: Mapping[int, str],
    readers: Sequence[frozenset[int]], database: VelaDatabase | None,
) -> int | None:  # fmt: skip
    """The operator that does the work of one that no piece does: None for views, and copies that became addresses."""
    op = source.graph.ops[index]
    if database is not None and database.fused.get(index) in devices:
        return database.fused[index]
    if op.kind in ("PAD", "PADV2"):
        return next((reader for reader in sorted(readers[index]) if reader in devices), None)
    if source.is_view(index) or (op.kind in _MOVES and op.kind != "QUANTIZE"):
        return None
    for feeder in sorted(source.feeds[index], reverse=True):
        root: int | None = feeder
        while root is not None and root not in devices:
            before = rows[root]
            root = before.absorbed_into if before.absorbed_into is not None else max(source.feeds[root], default=None)
        if root is not None and devices[root] == "npu":
            return root
    return next((reader for reader in sorted(readers[index]) if devices.get(reader) == "npu"), None)


def _with_placements(
    rows: Sequence[SourceOperator], source: _Source, readers: Sequence[frozenset[int]]
) -> list[SourceOperator]:
    """Rows without a device of their own are where the operator is that does their work, or that makes what they read."""
    placed = {row.index: row.placement for row in rows if row.placement}
    result = []
    for row in rows:
        if not row.placement:
            near = (row.absorbed_into, *sorted(source.feeds[row.index], reverse=True), *sorted(readers[row.index]))
            row = replace(row, placement=next((placed[one] for one in near if one in placed), "npu"))
            placed[row.index] = row.placement
        result.append(row)
    return result


def _matches(rows: Sequence[SourceOperator], found: Mapping[int, _Found], source: _Source) -> dict[int, Match]:
    """How each operator of the source was found: by the weakest evidence of its pieces."""
    strength = [SURE, LIKELY, GUESSED]
    matches: dict[int, Match] = {}
    for candidate in found.values():
        old = matches.get(candidate.operator)
        if old is None or strength.index(candidate.match.sure) > strength.index(old.sure):
            matches[candidate.operator] = candidate.match
    for row in rows:
        if row.index not in matches and row.absorbed_into is not None and row.absorbed_into in matches:
            how = f"fused into {row.absorbed_into}"
            sure = SURE if matches[row.absorbed_into].how == DATABASE else GUESSED if row.type in _MOVES else LIKELY
            matches[row.index] = Match(how, sure)
        elif row.index not in matches and (source.is_view(row.index) or row.type in _MOVES):
            matches[row.index] = Match("no work of its own", SURE if source.is_view(row.index) else LIKELY)
    return matches
