"""Processes that make missing libraries side by side, and keep what they made."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

from npu.errors import UserError
from npu.native import sources, store
from npu.native.cpu import CpuTier

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.path += sys.argv.pop(1).split(sys.argv.pop(1)); "
    "from npu.native.make import main; main()"
)
"""The package is the copy that this process has, though another one may be installed."""


class Maker:
    """A process that makes one library. What it made is kept as soon as it is there, if there is a place for it."""

    def __init__(self, group: str, tier: CpuTier, path: Path) -> None:
        self.group, self.tier, self._path = group, tier, path
        self.problem: OSError | None = None
        """Why the library could not be kept."""
        self.done, self.total = 0, 1
        """How many of its kernels are compiled."""
        self._output = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, str(sources.ROOT), _search_path(), os.pathsep, group, tier.name],
            stdin=subprocess.PIPE,  # its end ends the process, however this one ends
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        atexit.register(self._end)

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the process is done, after so many seconds at the latest."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def code(self) -> bytes:
        """The object that the process made. Raises UserError."""
        self.wait()
        code = store.decode(self.group, self.tier, self._output)
        if code is None:
            reason = self._output.decode(errors="replace").strip() or f"exit code {self._process.returncode}"
            raise UserError(f"the kernels of {self.group} must compile for {self.tier.name}, got: {reason}")
        return code

    def _read(self) -> None:
        with self._process as process:
            assert process.stdout
            counter = Thread(target=self._count, daemon=True)
            counter.start()
            self._output = process.stdout.read()
            counter.join()
        if store.decode(self.group, self.tier, self._output) is not None:
            try:
                store.keep(self._path, self._output)
            except OSError as error:
                self.problem = error

    def _count(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            numbers = line.split()
            if len(numbers) == 2 and all(number.isdigit() for number in numbers):
                self.done, self.total = map(int, numbers)

    def _end(self) -> None:
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join()


def _search_path() -> str:
    """Where the process looks for modules after its own folders."""
    return os.pathsep.join(sources.search_path())


def start(groups: Iterable[str], tier: CpuTier, folder: Path | None = None) -> list[Maker]:
    """A process for each group, whose libraries go to the cache or, as a wheel has them, to a folder. Raises UserError."""
    if not sys.executable:
        raise UserError("kernels must be compiled, but this program cannot start Python: run `npu warm-up` first")
    try:
        return [
            Maker(group, tier, folder / store.shipped_path(group, tier).name if folder else store.cache_path(group, tier))
            for group in groups
        ]
    except OSError as error:
        raise UserError(f"kernels must be compiled, but a process cannot be started: {error}") from error
