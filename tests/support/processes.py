"""Python programs in processes of their own, with caches of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(**changes: object) -> dict[str, str]:
    """This one with changes; the project is found wherever the program runs."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **{name: str(value) for name, value in changes.items()}}


def python(code: str, *arguments: object, cwd: Path | None = None, **changes: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; `changes` are variables of its environment."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment(**changes), cwd=cwd, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
