"""Vela's debug database (`vela --enable-debug-db`): the only place that knows its XML.

Each table is CSV in a CDATA section. `queue` names, for the place of a kick-off in a stream, the optimised operator;
`optimised` names the source operator of that, and `source` its index in the TFLite file (`ext_key`). `group` tells which
scheduled operators (`perf`) are fused into which. Seen in Vela 5.2.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from npu.errors import ModelError
from npu.files import read_text
from npu.isa.decoded import Decoded
from npu.records import dataclass
from npu.reports.operator_map import SURE, UNKNOWN_SOURCE, Match, OperatorMap, SourceOperator, left_on_cpu
from sim.container import CompiledFile

DATABASE = "debug database"
"""What matches say that rest on it."""
_WORD_BYTES = 4
_MOST_BYTES = 1 << 28
_MOST_OPERATORS = 1 << 16


@dataclass(frozen=True, slots=True)
class VelaDatabase:
    """`owners`: (number of the job, word of the kick-off) to the source operator; `fused`: source operator to its host.

    `kinds` are Vela's names of the source operators, `names` those of their tensors where it tells them.
    """

    owners: Mapping[tuple[int, int], int]
    fused: Mapping[int, int]
    kinds: Mapping[int, str]
    names: Mapping[int, str]

    def owner(self, job: int, decoded: Sequence[Decoded]) -> int | None:
        """The source operator that operations of one job work for; None if the database names none."""
        places = ((job, started.word_index) for started in decoded)
        return next((self.owners[place] for place in places if place in self.owners), None)


def read_database(path: Path) -> VelaDatabase:
    """Read the XML file. ModelError if it is no debug database."""
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(f"{path}: must be a debug database of Vela, got: {reason}") from error
    return parse_database(text, str(path))


def parse_database(text: str, name: str) -> VelaDatabase:
    """`read_database` for its text."""
    if len(text) > _MOST_BYTES or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ModelError(f"{name}: must be a debug database of Vela, got a document with definitions of its own, or too long")
    try:
        tables = {str(table.get("name")): _rows(table.text or "") for table in ElementTree.fromstring(text).iter("table")}
        keys = {row["id"]: _operator(row["ext_key"]) for row in tables["source"]}
        optimised = {row["id"]: keys[row["source_id"]] for row in tables["optimised"] if row["source_id"] in keys}
        streams = {row["id"]: number for number, row in enumerate(tables["cmdstream"])}
        owners = {
            (streams[row["cmdstream_id"]], int(row["offset"]) // _WORD_BYTES): optimised[row["optimised_id"]]
            for row in tables["queue"]
            if row["optimised_id"] in optimised
        }
        kinds = {keys[row["id"]]: row["operator"] for row in tables["source"]}
        names = {keys[row["source_id"]]: row["name"] for row in tables.get("perf", []) if row["source_id"] in keys}
        return VelaDatabase(owners, _fused(tables, keys), kinds, names)
    except (ElementTree.ParseError, KeyError, ValueError, csv.Error) as error:
        raise ModelError(f"{name}: must be a debug database of Vela (--enable-debug-db), got: {error!r}") from error


def map_of_database(file: CompiledFile, database: VelaDatabase) -> OperatorMap:
    """The map of a file whose source is not at hand: rows are what the database calls the operators of the source."""
    last = max(database.kinds, default=-1)
    rows = [
        SourceOperator(
            index, database.kinds.get(index, "?"), database.names.get(index, ""), "npu", 0, (), database.fused.get(index)
        )
        for index in range(last + 1)
    ]
    sources: dict[int, tuple[int, ...]] = {}
    for number, job in enumerate(file.jobs()):
        decoded = file.operations(job.graph, job.index)
        owners = [database.owner(number, (row,)) for row in decoded]
        following = -1
        for position in reversed(range(len(owners))):
            following = owner if (owner := owners[position]) is not None else following
            owners[position] = -1 if position == len(owners) - 1 else following
        sources[job.index] = tuple(-1 if owner is None else owner for owner in owners)
    for index, op in enumerate(file.model.graphs[0].ops):
        if index not in sources:
            name = file.model.graphs[0].tensors[op.outputs[0]].name if op.outputs else ""
            rows.append(SourceOperator(len(rows), op.name, name, "cpu", 0, (left_on_cpu(op),)))
            sources[index] = (len(rows) - 1,)
    known = {owner for owners in sources.values() for owner in owners if 0 <= owner <= last}
    matches = {index: Match(DATABASE, SURE) for index in sorted(known)}
    return OperatorMap(UNKNOWN_SOURCE, tuple(rows), sources, matches=matches, own=last + 1)


def _operator(text: str) -> int:
    number = int(text)
    if not 0 <= number < _MOST_OPERATORS:
        raise ValueError(f"ext_key must be in [0, {_MOST_OPERATORS}), got {number}")
    return number


def _rows(text: str) -> list[dict[str, str]]:
    rows = list(csv.DictReader(io.StringIO(text.strip())))
    for row in rows:
        if None in row or None in row.values():
            raise ValueError("a row with more or fewer entries than its table has columns")
    return rows


def _fused(tables: Mapping[str, list[dict[str, str]]], keys: Mapping[str, int]) -> dict[int, int]:
    """Source operators whose scheduled operator is part of a group that belongs to another one."""
    sources = {row["id"]: keys[row["source_id"]] for row in tables.get("perf", []) if row["source_id"] in keys}
    pairs = ((sources.get(row["id"]), sources.get(row["group_id"])) for row in tables.get("group", []))
    return {one: host for one, host in pairs if one is not None and host is not None and one != host}
