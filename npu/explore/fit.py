"""Which boards a model fits, how fast it is there, and what is missing where it does not fit."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence

from npu.explore.point import Point, PointRow, failed, measure, model_digest
from npu.hardware.catalogue import load_board, load_variant
from npu.hardware.choice import Hardware
from npu.hardware.shipped import board_target
from npu.hardware.variant import Variant
from npu.progress import Progress
from npu.records import dataclass
from npu.toolchain.sources import Source, model_name
from npu.workers import WorkerDiedError, Workers

_PROBES = 5
"""Arena limits that are tried at most."""
ARENA = "arena"


@dataclass(frozen=True, slots=True)
class Missing:
    """Bytes that a model needs beyond what there is: in the arena that the memory mode gives it, or in a whole memory."""

    where: str
    needed_bytes: int
    available_bytes: int


@dataclass(frozen=True, slots=True)
class Fit:
    """A model on a board: it fits if it compiles and nothing is `missing`.

    `figures` has the columns of a sweep's results. `arena_bytes` of `arena_limit_bytes` are taken (of the NPU's own memory,
    where it has one); `least_arena_bytes`, if asked, is what the smallest plan found takes that has no more cycles.
    """

    model: str
    board: str
    title: str
    figures: PointRow
    arena_bytes: int = 0
    arena_limit_bytes: int = 0
    least_arena_bytes: int | None = None
    missing: tuple[Missing, ...] = ()

    @property
    def fits(self) -> bool:
        return self.figures["error"] is None and not self.missing


@dataclass(frozen=True, slots=True)
class _Question:
    """A model on the hardware of a board, whose memory of the constants may be of any size: what is missing is told then."""

    point: Point
    arena_limit_bytes: int
    finds_least_arena: bool


def fit(
    models: Sequence[Source],
    boards: Sequence[str],
    workers: Workers,
    *,
    finds_least_arena: bool = False,
    progress: Progress | None = None,
) -> list[Fit]:
    """Every model on every board, in this order. Boards of equal hardware are measured once.

    `finds_least_arena` compiles for smaller arenas too, until cycles grow, which takes many times as long.
    """
    digests = {model: model_digest(model) for model in models}
    questions = {(model, board): _question(model, board, finds_least_arena) for model in models for board in boards}
    keys = {pair: question.point.key(digests) for pair, question in questions.items()}
    unique = {key: questions[pair] for pair, key in keys.items()}
    answers: dict[str, tuple[PointRow, int | None]] = {}
    names = list(unique)
    for done, (number, answer) in enumerate(workers.as_completed(_answer, list(unique.values())), 1):
        answers[names[number]] = (failed(str(answer)), None) if isinstance(answer, WorkerDiedError) else answer
        if progress is not None:
            progress("models and boards", done, len(unique))
    return [_judged(model, board, *answers[keys[model, board]]) for model, board in questions]


def _question(model: Source, board: str, finds_least_arena: bool) -> _Question:
    """What is measured."""
    variant = load_variant(board_target(board))
    lifted = f"system.memories.{variant.memory_mode.constants.value}.size_bytes=0"
    point = Point(model, Hardware(board_target(board), changes=(lifted,)))
    return _Question(point, variant.memory_mode.arena_cache_bytes, finds_least_arena)


def _answer(question: _Question) -> tuple[PointRow, int | None]:
    """The results with all of the board's memory, and the least arena limit that costs no cycles."""
    best = measure(question.point)
    searches = question.finds_least_arena and best["error"] is None
    return best, _least_arena(question, best) if searches else None


def _least_arena(question: _Question, best: PointRow) -> int:
    """What the smallest plan found takes that has as few cycles as the board's: the interval of limits is halved."""
    low, high = 0, min(_fast_bytes(question.point, best), question.arena_limit_bytes)
    for _ in range(_PROBES):
        middle = (low + high) // 2 // 16 * 16 if low else high * 15 // 16 // 16 * 16  # most models have no slack at all
        if high - low <= max(1024, high // 32) or middle < 1024:
            break
        tried = measure(_with_arena(question.point, middle))
        if (
            tried["error"] is None
            and tried["total_cycles"] <= best["total_cycles"]
            and _fast_bytes(question.point, tried) <= middle
        ):
            high = middle
        else:
            low = middle
    return high


def _with_arena(point: Point, limit: int) -> Point:
    change = f"memory_mode.arena_cache_bytes={limit}"
    return dataclasses.replace(point, hardware=dataclasses.replace(point.hardware, changes=(*point.hardware.changes, change)))


def _fast_bytes(point: Point, figures: PointRow) -> int:
    """Bytes of what the arena limit is about: the fast memory of the NPU alone, or the arena."""
    return int(figures[_cache_column(load_variant(str(point.hardware.target)))])


def _cache_column(variant: Variant) -> str:
    """The column of a result that holds what the arena limit is about."""
    return "dram_bytes" if variant.system.memories[variant.memory_mode.cache].name == "dram" else "sram_bytes"


def _judged(model: Source, board: str, figures: PointRow, least: int | None) -> Fit:
    variant = load_variant(board_target(board))
    missing = tuple(_missing(figures, variant)) if figures["error"] is None else ()
    used = 0 if figures["error"] is not None else int(figures[_cache_column(variant)])
    return Fit(
        model_name(model), board, load_board(board).title, figures, used, variant.memory_mode.arena_cache_bytes, least, missing
    )


def _missing(figures: PointRow, variant: Variant) -> list[Missing]:
    """What a compiled model needs beyond the arena's limit, and beyond each memory as a whole."""
    mode, memories = variant.memory_mode, variant.system.memories
    needs = [Missing(f"{ARENA} in {memories[mode.cache].name}", figures[_cache_column(variant)], mode.arena_cache_bytes)]
    held: dict[str, int] = {}
    for name in {memories[mode.arena].name, memories[mode.cache].name}:
        held[name] = held.get(name, 0) + figures["dram_bytes" if name == "dram" else "sram_bytes"]
    constants = memories[mode.constants].name
    held[constants] = held.get(constants, 0) + figures["flash_bytes"]
    sizes = {memory.name: memory.size_bytes or sys.maxsize for memory in memories.values()}
    needs += [Missing(name, size, sizes[name]) for name, size in held.items()]
    return [need for need in needs if need.needed_bytes > need.available_bytes]
