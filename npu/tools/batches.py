"""Many items of a data set, here or on workers: the only place of the tools that shares them out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from npu.progress import Progress
from npu.records import dataclass
from npu.runtime.custom import import_custom_operators
from npu.workers import Here, WorkerDiedError, Workers

Told = Callable[[int], None]
"""Called with how many more items are done."""
T = TypeVar("T")
_BATCHES_PER_WORKER = 4
"""Each opens the model anew; with one, all would wait for the slowest worker."""


@dataclass(frozen=True, slots=True)
class DataSetRun:
    """What is done with the items of a data set.

    `work(setting, items, told)` is a function at the top of a module; it gives the lines that say which delegates took what,
    and one outcome per item, in order. `plugins` are modules of custom operators, which workers import too.
    """

    work: Callable[[Any, Sequence[Any], Told], tuple[tuple[str, ...], list[Any]]]
    setting: Any
    plugins: tuple[str, ...] = ()


def run_on(
    workers: Workers, run: DataSetRun, items: Sequence[Any], what: str, progress: Progress | None = None
) -> tuple[tuple[str, ...], list[Any]]:
    """The lines of the run and the outcome of every item, in order, wherever it comes from."""
    done = 0

    def told(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(what, done, len(items))

    if isinstance(workers, Here):
        return run.work(run.setting, items, told)
    size = max(1, -(-len(items) // (workers.count * _BATCHES_PER_WORKER)))
    batches = [items[first : first + size] for first in range(0, len(items), size)]
    answers: dict[int, tuple[tuple[str, ...], list[Any]]] = {}
    for number, answer in workers.as_completed(_work, [(run, batch) for batch in batches]):
        if isinstance(answer, WorkerDiedError):
            raise answer
        answers[number] = answer
        told(len(batches[number]))
    return answers[0][0], [outcome for number in range(len(batches)) for outcome in answers[number][1]]


def _work(argument: tuple[DataSetRun, Sequence[Any]]) -> tuple[tuple[str, ...], list[Any]]:
    run, items = argument
    for source in run.plugins:
        import_custom_operators(source)
    return run.work(run.setting, items, lambda _: None)
