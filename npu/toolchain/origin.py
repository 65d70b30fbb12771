"""Where the file of another compiler comes from, as far as the caller knows: its source model, and Vela's debug database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npu.digests import sha256
from npu.errors import ModelError
from npu.graph.graph import Graph, Model
from npu.records import dataclass
from npu.reports.operator_map import GUESSED, LIKELY, SURE, OperatorMap, map_of_file, stored_map
from npu.toolchain.sources import Source, contents, load_plain, model_name, settled
from sim.container import CompiledFile

if TYPE_CHECKING:
    from npu.reports.vela_database import VelaDatabase


@dataclass(frozen=True, slots=True)
class Origin:
    """The model that a file was compiled from, and the debug database that the compiler wrote; None where not given."""

    source: Source | None = None
    database: Path | None = None

    @property
    def digest(self) -> str:
        """What tells two origins apart by what their files hold."""
        held = (*(() if self.source is None else (self.source,)), *(() if self.database is None else (self.database,)))
        return "".join(sha256(contents(source)) for source in held)

    def map_of(self, file: CompiledFile, name: str) -> OperatorMap:
        """The map that the file carries; without one, what its origin tells; else what its streams tell."""
        if (self.source is None and self.database is None) or stored_map(file.model, name) is not None:
            return map_of_file(file, name)
        from npu.reports.vela_database import map_of_database, read_database  # which reads XML; few files have an origin

        database = None if self.database is None else read_database(self.database)
        if self.source is None:
            assert database is not None
            return map_of_database(file, database)
        return map_to_source(file, settled(load_plain(self.source)), database, (name, model_name(self.source)))


def map_to_source(file: CompiledFile, source: Model, database: VelaDatabase | None, names: tuple[str, str]) -> OperatorMap:
    """The map of a compiled file to its source. ModelError if they do not belong together; `names` are theirs."""
    from npu.reports.source_match import match_source

    check_ends(source.graphs[0], file.model.graphs[0], names[1], names[0], has_types=False)  # raw archives have none
    operators = match_source(file, source.graphs[0], database)
    if not operators.matches:
        raise ModelError(f"{names[0]}: must be compiled from {names[1]}, but no operator of it was found")
    return operators


def check_ends(source: Graph, target: Graph, reference: str, compiled: str, *, has_types: bool = True) -> None:
    """ModelError if a compiled graph takes or gives something else than the source."""
    for kind in ("inputs", "outputs"):
        ends = [[graph.tensors[index] for index in getattr(graph, kind)] for graph in (source, target)]
        texts = [", ".join(f"{tensor.dtype if has_types else ''}[{tensor.elements}]" for tensor in side) for side in ends]
        if texts[0] != texts[1]:
            raise ModelError(f"{compiled}: must be compiled from {reference}, whose {kind} are {texts[0]}, got {texts[1]}")


def match_notes(operators: OperatorMap) -> tuple[str, ...]:
    """How the operators of a map were found, for reports; nothing if the file names them."""
    if not operators.matches:
        return ()
    counts = {sure: sum(match.sure == sure for match in operators.matches.values()) for sure in (SURE, LIKELY, GUESSED)}
    parts = ", ".join(f"{count} {sure}" for sure, count in counts.items() if count)
    missing = (operators.own or 0) - len(operators.matches)
    more = len(operators.operators) - (operators.own or 0)
    tail = (f"; {missing} not found" if missing else "") + (f"; {more} rows of work that belongs to none" if more else "")
    return (f"operators of the source found in the file: {parts}{tail}",)
