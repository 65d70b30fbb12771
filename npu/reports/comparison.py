"""Two runs side by side, operator by operator of the source: what each costs, and what explains the difference.

The columns sum to the totals: what the CPU does around operators has rows, and so has work that belongs to no operator.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from difflib import SequenceMatcher
from typing import Any

from npu.records import dataclass
from npu.reports.report import HEAD, OperatorReport, Report, Totals, Traffic

MOST_EXPLAINED = 3
AROUND, UNMATCHED, OPERATOR = "around", "unmatched", "operator"
"""Kinds of rows: what the CPU does around operators, work of no operator of the source, and operators of the source."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What an operator costs in one of the two runs. `blocks` are the OFM blocks of its operations, the commonest first.

    `arena_bytes` is what is in use of the memory of feature maps while it is at work, at most. `done_in` is the operator that
    does its work, None if it does it itself or has none.
    """

    placement: str
    cycles: int
    bytes: Mapping[str, Traffic] = field(default_factory=dict)
    blocks: tuple[str, ...] = ()
    arena_bytes: int = 0
    done_in: int | None = None
    bound_by: str | None = None

    @property
    def traffic(self) -> int:
        """Bytes read and written over all ports."""
        return sum(memory.read + memory.write for memory in self.bytes.values())


@dataclass(frozen=True, slots=True)
class ComparedOperator:
    """An operator in both runs; None where a run does not have it. `match` says how it was found where a file names none."""

    kind: str
    index: int | None
    type: str
    name: str
    a: Figures | None
    b: Figures | None
    match: str = ""

    @property
    def more_cycles(self) -> int:
        """What `b` takes more than `a`."""
        return (self.b.cycles if self.b else 0) - (self.a.cycles if self.a else 0)

    @property
    def title(self) -> str:
        """What people call the row."""
        return " ".join(filter(None, ("" if self.index is None else str(self.index), self.type, self.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """One of the two runs: what was run, where, and its sums."""

    name: str
    target: str
    system: str
    memory_mode: str
    totals: Totals
    bytes: Mapping[str, Traffic]
    notes: tuple[str, ...] = ()
    hardware_sha256: str = ""
    model_sha256: str | None = None

    @property
    def traffic(self) -> int:
        """Bytes read and written over all ports."""
        return sum(memory.read + memory.write for memory in self.bytes.values())


@dataclass(frozen=True, slots=True)
class Reason:
    """One of the operators that explain the difference: its share of it, and what differs."""

    row: ComparedOperator
    share: float
    what: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, their rows, and the operators that explain the difference."""

    a: ComparedRun
    b: ComparedRun
    rows: tuple[ComparedOperator, ...]

    @property
    def more_cycles(self) -> int:
        """What `b` takes more than `a` in all."""
        return (self.b.totals.total_cycles or 0) - (self.a.totals.total_cycles or 0)

    @property
    def unmatched(self) -> tuple[ComparedOperator, ...]:
        """Rows that only one of the two has."""
        return tuple(row for row in self.rows if row.a is None or row.b is None)

    def reasons(self) -> tuple[Reason, ...]:
        """The operators with the largest part in the difference, the largest first; none if there is no difference."""
        more = self.more_cycles
        pulling = sorted((row for row in self.rows if row.more_cycles * more > 0), key=lambda row: -abs(row.more_cycles))
        return tuple(Reason(row, row.more_cycles / more, tuple(_differences(row))) for row in pulling[:MOST_EXPLAINED])

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        content = dataclasses.asdict(self)
        reasons = [
            {
                "operator": reason.row.title,
                "more_cycles": reason.row.more_cycles,
                "share": reason.share,
                "what": list(reason.what),
            }
            for reason in self.reasons()
        ]
        return {**HEAD, "kind": "compare", "more_cycles": self.more_cycles, "reasons": reasons, **content}

    def to_json(self) -> str:
        """`to_dict` as indented text that ends with a newline."""
        return json.dumps(self.to_dict(), indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class Subject:
    """A run to be compared: its report, per operator blocks and the most of the arena; `own` of them are the source's."""

    report: Report
    blocks: Mapping[int, tuple[str, ...]]
    arena: Mapping[int, int]
    matches: Mapping[int, str]
    own: int


def compare_reports(a: Subject, b: Subject) -> Comparison:
    """The rows of both, aligned by source operator."""
    rows = [*_operator_rows(a, b), *_around_rows(a.report, b.report)]
    return Comparison(_side(a), _side(b), tuple(rows))


def _side(subject: Subject) -> ComparedRun:
    report = subject.report
    held: dict[str, Traffic] = {}
    for row in report.operators:
        for memory, traffic in row.bytes.items():
            old = held.get(memory, Traffic())
            held[memory] = Traffic(old.read + traffic.read, old.write + traffic.write)
    return ComparedRun(
        name=report.model,
        target=report.target,
        system=report.system,
        memory_mode=report.memory_mode,
        totals=report.totals,
        bytes=held,
        notes=report.notes or (),
        hardware_sha256=report.hardware_sha256,
        model_sha256=report.model_sha256,
    )


def _operator_rows(a: Subject, b: Subject) -> Iterator[ComparedOperator]:
    pairs = _aligned([subject.report.operators[: subject.own] for subject in (a, b)])
    for one, other in pairs:
        given = a.report.operators[one] if one is not None else None
        counterpart = b.report.operators[other] if other is not None else None
        row = given or counterpart
        assert row is not None
        match = b.matches.get(other, "") if other is not None else ""
        match = match or (a.matches.get(one, "") if one is not None else "")
        kind = OPERATOR if given and counterpart else UNMATCHED
        yield ComparedOperator(kind, row.index, row.type, row.name, _figures(a, given), _figures(b, counterpart), match)
    for position, subject in enumerate((a, b)):
        for row in subject.report.operators[subject.own :]:
            held: list[Figures | None] = [None, None]
            held[position] = _figures(subject, row)
            yield ComparedOperator(
                UNMATCHED, None, row.type, row.name, held[0], held[1], "belongs to no operator of the source"
            )


def _figures(subject: Subject, row: OperatorReport | None) -> Figures | None:
    if row is None:
        return None
    return Figures(
        row.placement,
        row.cycles or 0,
        row.bytes,
        subject.blocks.get(row.index, ()),
        subject.arena.get(row.index, 0),
        row.absorbed_into,
        row.bound_by,
    )


def _aligned(sides: Sequence[Sequence[OperatorReport]]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of positions: the same one if both have as many operators, else by name and type, and by type in between."""
    first, second = sides
    if len(first) == len(second):
        yield from ((position, position) for position in range(len(first)))
        return
    known = {(row.type, row.name) for row in first} & {(row.type, row.name) for row in second}
    keys = [[(row.type, row.name if (row.type, row.name) in known else "") for row in side] for side in sides]
    ends = [0, 0]
    for start_a, start_b, size in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_matching_blocks():
        yield from ((position, None) for position in range(ends[0], start_a))
        yield from ((None, position) for position in range(ends[1], start_b))
        yield from ((start_a + step, start_b + step) for step in range(size))
        ends = [start_a + size, start_b + size]


def _around_rows(a: Report, b: Report) -> Iterator[ComparedOperator]:
    """What the CPU does around operators, by kind."""
    sums: list[dict[str, int]] = [{}, {}]
    for held, report in zip(sums, (a, b), strict=True):
        for overhead in report.overheads or ():
            held[overhead.what] = held.get(overhead.what, 0) + overhead.cycles
    for what in dict.fromkeys((*sums[0], *sums[1])):
        figures = [Figures("cpu", held[what]) if what in held else None for held in sums]
        yield ComparedOperator(AROUND, None, what, "", figures[0], figures[1])


def _differences(row: ComparedOperator) -> Iterator[str]:
    """What is not the same in both, in words."""
    a, b = row.a, row.b
    if a is None or b is None:
        yield f"only in {'B' if a is None else 'A'}"
        return
    if a.placement != b.placement:
        yield f"on the {a.placement.upper()} in A, on the {b.placement.upper()} in B"
    if a.done_in != b.done_in:
        yield ", ".join(
            f"done in operator {side.done_in} in {name}" for name, side in (("A", a), ("B", b)) if side.done_in is not None
        )
    if a.blocks[:1] != b.blocks[:1] and a.blocks and b.blocks:
        yield f"blocks {a.blocks[0]} in A, {b.blocks[0]} in B"
    if a.traffic and b.traffic and abs(b.traffic / a.traffic - 1) >= 0.05:
        yield f"traffic {b.traffic / a.traffic - 1:+.0%}"
    if a.bound_by != b.bound_by and a.bound_by and b.bound_by:
        yield f"bound by {a.bound_by} in A, {b.bound_by} in B"
