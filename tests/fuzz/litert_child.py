"""LiteRT in a process of its own, which a model may kill: `python -m tests.fuzz.litert_child` answers requests one by one."""

from __future__ import annotations

import pickle
import resource
import select
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SECONDS = 20.0


class LiteRt:
    """The child; started when it is needed and again after each of its deaths."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._child: subprocess.Popen[bytes] | None = None

    def outputs(self, content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray] | str:
        """Outputs under the reference kernels; "refused", "died" or "slow" without."""
        child = self._started()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            pickle.dump((content, inputs), child.stdin)
            child.stdin.flush()
            if not select.select([child.stdout], [], [], self._seconds)[0]:
                self.stop()
                return "slow"
            answer: list[np.ndarray] | str = pickle.load(child.stdout)
            return answer
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.stop()
            return "died"

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            command = [sys.executable, "-m", "tests.fuzz.litert_child"]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
            )
        return self._child

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None


def _serve() -> None:
    from tests.support.litert import run_reference

    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    stream = sys.stdout.buffer
    while True:
        try:
            content, inputs = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: object = run_reference(content, inputs)
        except (RuntimeError, ValueError, MemoryError):
            answer = "refused"
        stream.write(pickle.dumps(answer))
        stream.flush()


if __name__ == "__main__":
    _serve()
