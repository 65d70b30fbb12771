"""The first run on a machine: what is compiled beside it, and that this is all that the run needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from npu.numerics import first_compile
from npu.numerics.first_compile import at_first_compile, compiling
from npu.toolchain import warm_up

ROOT = Path(__file__).parents[3]

RUN = """
import sys
from npu import compile, run
from npu.numerics.first_compile import at_first_compile
from npu.toolchain import warm_up

found = []
compiled = compile(sys.argv[1], "ethos-u55-128").content
warm_up.main(warm_up.GROUPS)
at_first_compile(lambda: found.append("compiled"))
run(compiled)
print(found)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    commands: list[list[str]] = []

    def start(command: list[str], **_options: Any) -> object:
        commands.append(command[3:])
        return object()

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(warm_up.atexit, "register", lambda *_: None)
    return commands


@pytest.mark.parametrize(
    ("processors", "expected"),
    [(1, []), (2, [["timing", "execution"]]), (3, [["timing"], ["execution"]]), (64, [["timing"], ["execution"]])],
)
def test_there_is_a_helper_for_every_other_processor_that_has_work(
    processors: int, expected: list[list[str]], started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)), raising=False)
    warm_up.start_beside()
    assert started == expected


def test_a_machine_that_starts_no_process_goes_on_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> object:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    warm_up.start_beside()


def test_the_first_compilation_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_compile, "_actions", [])
    told: list[int] = []
    at_first_compile(lambda: told.append(1))
    compiling()
    compiling()
    assert told == [1]


@pytest.mark.slow
def test_a_run_finds_all_its_kernels_in_the_cache(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT / "examples" / "digits.tflite")],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
