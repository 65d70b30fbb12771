"""Where independent pieces of work are done: here, in processes of this machine, or on a cluster. Dask does the distributing.

A piece of work is a function at the top of a module and one picklable argument. Each is done once and gives the same wherever
it is done; one whose worker dies is done again by another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from npu.errors import UserError
from npu.extras import load
from npu.garbage import collect_rarely

A = TypeVar("A")
R = TypeVar("R")

ANSWER_SECONDS = 10
"""How long a scheduler may take to answer."""
MOST_DEATHS = 3
"""Workers that one argument may cost before it is given up."""
_IN_FLIGHT = 64
"""Items per worker that are handed out ahead, so that nobody waits for the next one."""

_SETTINGS: Mapping[str, Any] = {
    "distributed.scheduler.allowed-failures": MOST_DEATHS - 1,
    "distributed.scheduler.worker-saturation": 1.0,  # no second argument that is blamed for the death of its neighbour
    # The rest leaves the processors to the work. Dask looks at itself up to 100 times a second, for a dashboard,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    # and returns memory to the system at every free, to ask for it again at once.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
    "distributed.nanny.pre-spawn-environ.MALLOC_ARENA_MAX": 1,
    "distributed.worker.preload": [__name__],
}
"""How a cluster of this machine differs from what Dask would start."""
_SILENT = logging.CRITICAL + 1
"""Level of Dask's logs: what a person can do about a lost worker or scheduler is said by errors here."""


class WorkerDiedError(UserError):
    """An argument was tried by several workers, and each of them died: it needs more memory than there is, or crashes."""


class Workers(ABC):
    """Something that does pieces of work."""

    count: int
    """How many are done at a time."""

    @abstractmethod
    def as_completed(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R | WorkerDiedError]]:
        """The number of an argument and its result, in the order in which they are done.

        What `function` raises is raised here. A WorkerDiedError is a result, because it says nothing of the other arguments.
        """


class Here(Workers):
    """This process, one argument after the other."""

    count = 1

    def as_completed(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R | WorkerDiedError]]:
        """Results in the order of the arguments."""
        for number, argument in enumerate(arguments):
            yield number, function(argument)


class Cluster(Workers):
    """The workers of a Dask scheduler."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count = max(1, len(client.scheduler_info(n_workers=-1)["workers"]))

    def as_completed(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R | WorkerDiedError]]:
        """Results as they come."""
        distributed = load("distributed", "cluster")
        waiting = iter(enumerate(arguments))
        numbers: dict[Any, int] = {}

        def hand_out() -> Any:
            for number, argument in waiting:
                future = self._client.submit(_work, function, argument, pure=False, retries=0)
                numbers[future] = number
                return future
            return None

        first = [future for _ in range(_IN_FLIGHT * self.count) if (future := hand_out()) is not None]
        done = distributed.as_completed(first, loop=self._client.loop)
        for future in done:
            number = numbers.pop(future)
            yield number, self._result(future, distributed)
            future.release()
            if (following := hand_out()) is not None:
                done.add(following)

    @staticmethod
    def _result(future: Any, distributed: Any) -> Any:
        try:
            return future.result()
        except distributed.KilledWorker:
            return WorkerDiedError(
                f"{MOST_DEATHS} workers died of it, one after the other; it may need more memory than there is"
            )


def dask_setup(_: Any) -> None:
    """What Dask calls in a worker of this machine: Ctrl-C, which a terminal sends to it too, is for the command to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(function: Callable[[A], R], argument: A) -> R:
    """What a worker runs."""
    collect_rarely()
    return function(argument)


@contextlib.contextmanager
def open_workers(count: int | None = None, scheduler: str | None = None) -> Iterator[Workers]:
    """`count` processes of this machine, the workers of a running `scheduler` (tcp://...), or this process.

    UserError if both are given, or if the scheduler does not answer.
    """
    if count is not None and scheduler is not None:
        raise UserError("--workers and --scheduler: only one of them, because a scheduler has workers of its own")
    if scheduler is None and (count is None or count < 2):
        yield Here()
        return
    distributed, dask = load("distributed", "cluster"), load("dask", "cluster")
    logging.getLogger("distributed").setLevel(_SILENT)
    with dask.config.set(_SETTINGS), contextlib.ExitStack() as stack:
        place: Any = scheduler
        if scheduler is None:
            place = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=_SILENT
                )
            )
        yield Cluster(stack.enter_context(_connected(distributed, place)))


def _connected(distributed: Any, place: Any) -> Any:
    if isinstance(place, str) and not re.fullmatch(r"[a-z]+://[^:/]+:[0-9]{1,5}", place):
        raise UserError(f"--scheduler {place}: must be an address such as tcp://192.168.1.5:8786")
    if isinstance(place, str):
        _require_answer(distributed, place)
    return distributed.Client(place, timeout=ANSWER_SECONDS, set_as_default=False)


def _require_answer(distributed: Any, address: str) -> None:
    """UserError unless a scheduler answers in time. Dask's client waits for ever for one that takes the call and is silent."""

    async def greet() -> None:
        scheduler = distributed.rpc(address)
        try:
            await asyncio.wait_for(scheduler.identity(), ANSWER_SECONDS)
        finally:
            await scheduler.close_rpc()

    try:
        with ThreadPoolExecutor(1) as thread:  # this one may have an event loop already, as in a notebook
            thread.submit(asyncio.run, greet()).result()
    except (OSError, ValueError, TimeoutError, asyncio.TimeoutError) as error:
        reason = str(error) or "no answer"
        raise UserError(
            f"--scheduler {address}: must be the address of a running Dask scheduler that answers within {ANSWER_SECONDS} s "
            f"(dask scheduler starts one), got: {reason}"
        ) from error
