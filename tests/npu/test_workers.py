"""Work on several workers: the same results as here, whoever dies."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from npu import extras, workers
from npu.errors import UserError
from npu.explore.journal import Journal
from npu.explore.space import make_space
from npu.explore.sweep import sweep
from npu.workers import Here, WorkerDiedError, Workers, open_workers

DIGITS = "examples/digits.tflite"


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with open_workers(2) as chosen:
        yield chosen


def square(number: int) -> int:
    return number * number


def surroundings(_: int) -> tuple[int, str | None, object]:
    import dask

    profiles = dask.config.get("distributed.worker.profile.enabled")
    return gc.get_threshold()[0], os.environ.get("MALLOC_TRIM_THRESHOLD_"), profiles


def ignores_interrupts(_: int) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def die_once(item: tuple[int, str]) -> int:
    """Kill the worker the first time that item 5 comes."""
    number, marker = item
    if number == 5 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_always(number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def refuse(number: int) -> int:
    raise UserError(f"item {number} is at fault")


def test_one_worker_is_this_process() -> None:
    with open_workers(1) as chosen:
        assert isinstance(chosen, Here)
        assert list(chosen.as_completed(square, [3, 4])) == [(0, 9), (1, 16)]


def test_workers_spend_their_time_on_the_work(two: Workers) -> None:
    [(_, (threshold, trims, profiles))] = two.as_completed(surroundings, [0])
    assert (threshold, trims, profiles) == (300_000, None, False)


def test_an_interrupt_of_the_terminal_is_answered_by_the_command_alone(two: Workers) -> None:
    assert list(two.as_completed(ignores_interrupts, [0])) == [(0, True)]


def test_every_item_is_done_once_in_any_number(two: Workers) -> None:
    assert two.count == 2
    assert dict(two.as_completed(square, list(range(300)))) == {number: number * number for number in range(300)}
    assert list(two.as_completed(square, [])) == []


def test_a_killed_worker_is_replaced_and_its_item_done_again(two: Workers, tmp_path: Path) -> None:
    marker = str(tmp_path / "died")
    done = dict(two.as_completed(die_once, [(number, marker) for number in range(20)]))
    assert Path(marker).exists()
    assert done == {number: number * number for number in range(20)}


def test_an_item_that_kills_every_worker_is_given_up_and_the_others_are_done(two: Workers) -> None:
    done = dict(two.as_completed(die_always, list(range(12))))
    assert isinstance(done.pop(5), WorkerDiedError)
    assert done == {number: number for number in range(12) if number != 5}


def test_an_error_of_an_item_is_raised_here(two: Workers) -> None:
    with pytest.raises(UserError, match="is at fault"):
        list(two.as_completed(refuse, [1]))


def test_a_sweep_on_two_workers_gives_the_rows_of_one(two: Workers) -> None:
    space = make_space([DIGITS], targets=["ethos-u55-64", "ethos-u65-256"], over={"memory_mode.arena_cache_bytes": "1..16K:5"})
    points = list(space.points())
    here, there = Journal(), Journal()
    assert sweep(points, two, there).rows == sweep(points, Here(), here).rows
    assert here.results == there.results


def test_a_point_whose_workers_die_is_an_error_that_is_tried_again_next_time(tmp_path: Path) -> None:
    class Deadly(Here):
        def as_completed(self, function, arguments):  # type: ignore[no-untyped-def]
            for number, _ in enumerate(arguments):
                yield number, WorkerDiedError("3 workers died of it")

    journal = Journal(tmp_path / "journal.jsonl")
    swept = sweep(list(make_space([DIGITS]).points()), Deadly(), journal)
    assert swept.errors == ["3 workers died of it"]
    assert not (tmp_path / "journal.jsonl").exists()


def test_a_scheduler_that_does_not_answer_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "ANSWER_SECONDS", 1)
    with socket.socket() as listener:  # takes the connection and says nothing
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        with (
            pytest.raises(UserError, match=f"--scheduler {address}: must be .* that answers within 1 s"),
            open_workers(scheduler=address),
        ):
            pass


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(UserError, match=r"pip install 'npulab\[cluster\]'"), open_workers(2):
        pass


def test_workers_and_a_scheduler_exclude_each_other() -> None:
    with pytest.raises(UserError, match="only one of them"), open_workers(2, "tcp://127.0.0.1:1"):
        pass


def test_a_running_scheduler_lends_its_workers() -> None:
    from distributed import LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=60) as cluster,
        open_workers(scheduler=cluster.scheduler_address) as chosen,
    ):
        assert dict(chosen.as_completed(square, [2, 3])) == {0: 4, 1: 9}
