"""Which operators of a source model a compiled file of another compiler executes, and how sure that is.

Three kinds of evidence, in this order: the compiler's debug database where one is given; weights, which are the same multiset
of values in both files; and for the rest what lies between operators that are known, by kind, shape, zero point and order.
Work that belongs to no operator of the source becomes rows of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from npu.graph.ethos_u import Input
from npu.graph.graph import Graph
from npu.reports.operator_map import GUESSED, LIKELY, SURE, Match, OperatorMap
from npu.reports.source_graph import SourceGraph
from npu.reports.source_rows import PieceOwner, map_of_found
from npu.reports.source_scores import ORDER, Surroundings, has_table, is_copy, match_of
from npu.reports.stream_dataflow import Piece, pieces_of
from npu.reports.vela_database import DATABASE, VelaDatabase
from npu.reports.weight_counts import counts_of_streams
from sim.container import CompiledFile

WEIGHTS, NAME = "weights", "tensor name"


def match_source(file: CompiledFile, graph: Graph, database: VelaDatabase | None = None) -> OperatorMap:
    """The map of a compiled file to the operators of `graph`, the main subgraph of the model that it was made from."""
    pieces, source = pieces_of(file), SourceGraph(graph)
    owners: dict[int, PieceOwner] = {}
    if database is not None:
        _by_database(pieces, file, database, owners)
    _by_name(pieces, file.model.graphs[0], source, owners)
    _by_weights(pieces, file, source, owners)
    _by_place(pieces, source, owners)
    return map_of_found(pieces, file, source, owners, database)


def _by_database(pieces: Sequence[Piece], file: CompiledFile, database: VelaDatabase, owners: dict[int, PieceOwner]) -> None:
    """The database names the source operator of every kernel operation by the place of its command."""
    jobs = {job.index: number for number, job in enumerate(file.jobs())}
    for number, piece in enumerate(pieces):
        if piece.is_on_npu:
            decoded = file.operations(0, piece.operator)
            owner = database.owner(jobs[piece.operator], [decoded[position] for position in piece.positions])
            if owner is not None:
                owners[number] = PieceOwner(owner, Match(DATABASE, SURE))


def _by_name(pieces: Sequence[Piece], compiled: Graph, source: SourceGraph, owners: dict[int, PieceOwner]) -> None:
    """Operators on the CPU keep kind and names."""
    names = {source.graph.tensors[tensor].name: index for tensor, index in source.makers.items()}
    taken: set[int] = set()
    for number, piece in enumerate(pieces):
        if not piece.is_on_npu and number not in owners:
            named = [names[compiled.tensors[tensor].name] for tensor in piece.tensors if compiled.tensors[tensor].name in names]
            fits = [index for index in named if source.graph.ops[index].name == piece.type]
            how = NAME
            if not fits:
                fits = [i for i, op in enumerate(source.graph.ops) if op.name == piece.type and i not in taken][:1]
                how = ORDER
            if fits:
                taken.add(fits[0])
                owners[number] = PieceOwner(fits[0], Match(how, SURE if how == NAME else LIKELY))


def _by_weights(pieces: Sequence[Piece], file: CompiledFile, source: SourceGraph, owners: dict[int, PieceOwner]) -> None:
    """Weights tell operators apart; of several with the same ones, the order does."""
    graph = file.model.graphs[0]
    taken = {known.operator for known in owners.values()}
    for number, piece in enumerate(pieces):
        if number in owners or not piece.weights:
            continue
        constants = graph.tensors[graph.ops[piece.operator].inputs[Input.CONSTANTS]].data
        if constants is None:
            continue
        counts = counts_of_streams(piece.weights, constants.view(np.uint8).ravel(), file.variant.accelerator)
        alike = source.counts.get(counts or b"", [])
        free = [index for index in alike if index not in taken]
        if free:
            taken.add(free[0])
            owners[number] = PieceOwner(free[0], Match(WEIGHTS, SURE if len(alike) == 1 else GUESSED))


def _by_place(pieces: Sequence[Piece], source: SourceGraph, owners: dict[int, PieceOwner]) -> None:
    """Everything else lies between operators that are known: the best candidate there, if any fits at all.

    Copies come last, because they only tell something by what is around them.
    """
    readers: dict[int, set[int]] = defaultdict(set)
    for number, piece in enumerate(pieces):
        for maker in piece.reads:
            readers[maker].add(number)
    anchored = {candidate.operator for candidate in owners.values()}
    unknown = [number for number in range(len(pieces)) if number not in owners]
    for number in sorted(unknown, key=lambda number: (is_copy(pieces[number]), number)):
        piece = pieces[number]
        before = {owners[maker].operator for maker in piece.reads if maker in owners}
        after = {owners[reader].operator for reader in readers[number] if reader in owners}
        surroundings = Surroundings(source, before, after, {candidate.operator for candidate in owners.values()}, anchored)
        scores = {index: surroundings.score(piece, index) for index in surroundings.between()}
        best = max((index for index in scores if scores[index] > 0), key=lambda index: (scores[index], -index), default=None)
        if best is not None:
            rivals = sum(score == scores[best] for score in scores.values())
            is_alone = sum(score > 0 for score in scores.values()) == 1
            is_vague = is_copy(piece) and not has_table(piece)
            is_vague |= any(owners[one].match.sure == GUESSED for one in (*piece.reads, *readers[number]) if one in owners)
            owners[number] = PieceOwner(best, match_of(scores[best], rivals, is_alone=is_alone, is_vague=is_vague))
        elif is_copy(piece) and len(before) == 1:  # rounds or clamps what its maker has written
            owners[number] = PieceOwner(min(before), Match(ORDER, GUESSED))
