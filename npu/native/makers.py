"""Processes that make missing libraries side by side."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Iterable

from npu.errors import UserError
from npu.native import sources, store
from npu.native.cpu import CpuTier

_START = "import sys; sys.path += sys.argv.pop(1).split(sys.argv.pop(1)); from npu.native.make import main; main()"


class Maker:
    """A process that makes one library."""

    def __init__(self, group: str, tier: CpuTier) -> None:
        self.group, self.tier = group, tier
        self._content: bytes | None = None
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-c",
                _START,
                os.pathsep.join([*sources.search_path(), str(sources.ROOT)]),
                os.pathsep,
                group,
                tier.name,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.end)

    def content(self) -> bytes:
        """What the process made, when it is done. Raises UserError."""
        if self._content is None:
            with self._process:
                assert self._process.stdout
                output = self._process.stdout.read()
            if store.decode(self.group, self.tier, output) is None:
                reason = output.decode(errors="replace").strip() or f"exit code {self._process.returncode}"
                raise UserError(f"the kernels of {self.group} must compile for {self.tier.name}, got: {reason}")
            self._content = output
        return self._content

    def end(self) -> None:
        """Stop the process if nobody has waited for it."""
        if self._content is None:
            with self._process:
                self._process.kill()


def processors() -> int:
    """Those that this process may use, where the system tells."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def start(groups: Iterable[str], tier: CpuTier) -> list[Maker]:
    """A process for each group. Raises UserError where the system starts none."""
    if not sys.executable:
        raise UserError("kernels must be compiled, but this program cannot start Python: run `npu warm-up` first")
    try:
        return [Maker(group, tier) for group in groups]
    except OSError as error:
        raise UserError(f"kernels must be compiled, but a process cannot be started: {error}") from error
