"""Files that are broken on purpose: every command answers with a result or with an error text, soon and in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 10.0
"""Longest that a command may take on a small broken file, on a busy machine; compiling kernels does not count."""
WARM_UP = 12
"""Files whose commands may wait for the compilation of kernels."""


def attacked(first: int, count: int, folder: Path, seconds: float) -> list[dict[str, object]]:
    """Records of one attacking process, which must end by itself within `seconds`."""
    command = [sys.executable, "-m", "tests.support.hostile", str(first), str(count), str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, timeout=seconds, check=False)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"died at {records[-1] if records else 'the start'}: {done.stderr[-2000:]}"
    return records


def assert_answered(first: int, count: int, folder: Path, seconds: float = 600) -> None:
    records = attacked(first, count, folder, seconds)
    ended = [record for record in records if "code" in record]
    assert len({record["name"] for record in ended}) == count
    failures = [f"{record['name']} | {record['command']}: {record['failure']}" for record in ended if record["failure"]]
    assert not failures, "\n".join(failures)
    slow = [
        f"{record['name']} | {record['command']}: {record['seconds']} s"
        for record in ended
        if float(str(record["seconds"])) > SECONDS and int(str(record["name"]).split(":")[0]) >= first + WARM_UP
    ]
    assert not slow, "\n".join(slow)


def test_some_broken_files_are_answered(tmp_path: Path) -> None:
    """The campaign tries more of them, through the interface of Python."""
    assert_answered(0, 30, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 5000, 400))
def test_thousands_of_broken_files_are_answered(first: int, tmp_path: Path) -> None:
    assert_answered(first, 400, tmp_path, 3600)
