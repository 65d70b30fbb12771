"""Rows of a compiled file whose operators were found: one per operator of the source, and one per work that belongs to none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from npu.graph.ethos_u import is_npu_job
from npu.graph.ops import MOVES
from npu.graph.work import macs
from npu.records import dataclass
from npu.reports.operator_map import GUESSED, LIKELY, SURE, UNKNOWN_SOURCE, Match, OperatorMap, SourceOperator, left_on_cpu
from npu.reports.source_graph import SourceGraph, is_table
from npu.reports.stream_dataflow import Piece
from npu.reports.vela_database import DATABASE, VelaDatabase
from sim.container import CompiledFile


@dataclass(slots=True)
class PieceOwner:
    """What a piece is taken for."""

    operator: int
    match: Match


def map_of_found(
    pieces: Sequence[Piece],
    file: CompiledFile,
    source: SourceGraph,
    owners: Mapping[int, PieceOwner],
    database: VelaDatabase | None,
) -> OperatorMap:
    graph = source.graph
    owner = {number: known.operator for number, known in owners.items()}
    rows = _rows(pieces, source, owner, database)
    matches = how_each_was_matched(rows, owners, source)
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
    pieces: Sequence[Piece], source: SourceGraph, owner: Mapping[int, int], database: VelaDatabase | None
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
    index: int, source: SourceGraph, rows: Sequence[SourceOperator], devices: Mapping[int, str],
    readers: Sequence[frozenset[int]], database: VelaDatabase | None,
) -> int | None:  # fmt: skip
    """The operator that does the work of one that no piece does: None for views, and copies that became addresses."""
    op = source.graph.ops[index]
    if database is not None and database.fused.get(index) in devices:
        return database.fused[index]
    if op.kind in ("PAD", "PADV2"):
        return next((reader for reader in sorted(readers[index]) if reader in devices), None)
    if source.is_view(index) or (op.kind in MOVES and op.kind != "QUANTIZE"):
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
    rows: Sequence[SourceOperator], source: SourceGraph, readers: Sequence[frozenset[int]]
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


def how_each_was_matched(
    rows: Sequence[SourceOperator], owners: Mapping[int, PieceOwner], source: SourceGraph
) -> dict[int, Match]:
    """How each operator of the source was found: by the weakest evidence of its pieces."""
    strength = [SURE, LIKELY, GUESSED]
    matches: dict[int, Match] = {}
    for candidate in owners.values():
        old = matches.get(candidate.operator)
        if old is None or strength.index(candidate.match.sure) > strength.index(old.sure):
            matches[candidate.operator] = candidate.match
    for row in rows:
        if row.index not in matches and row.absorbed_into is not None and row.absorbed_into in matches:
            how = f"fused into {row.absorbed_into}"
            op, is_named = source.graph.ops[row.index], matches[row.absorbed_into].how == DATABASE
            is_fusible = is_table(op) or op.kind in ("PAD", "PADV2")
            matches[row.index] = Match(how, SURE if is_named else LIKELY if is_fusible else GUESSED)
        elif row.index not in matches and (source.is_view(row.index) or row.type in MOVES):
            matches[row.index] = Match("no work of its own", SURE if source.is_view(row.index) else LIKELY)
    return matches
