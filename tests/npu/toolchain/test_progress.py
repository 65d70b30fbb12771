"""Progress moves: it names what is done, counts up, and ends with all of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from npu.graph.attributes import Conv2DOptions, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.hardware.choice import Hardware
from npu.progress import Progress
from npu.rendering import progress_bars
from npu.toolchain.check import check_report
from npu.toolchain.explain import explain
from npu.toolchain.report import report
from npu.toolchain.run import run
from npu.toolchain.session import Session

from tests.support.builder import ModelBuilder
from tests.support.processes import environment

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
COMPILE = {"compile", "weights of operations"}
VERBS: dict[str, tuple[Callable[[Progress], object], set[str]]] = {
    "check": (lambda progress: check_report(DIGITS, Session(), progress=progress), COMPILE),
    "explain": (lambda progress: explain(DIGITS, Session(), progress=progress), COMPILE | {"operators"}),
    "report": (lambda progress: report(DIGITS, Session(), progress=progress), COMPILE | {"operators"}),
    "run": (lambda progress: run(DIGITS, Session(), progress=progress), COMPILE | {"operations of the NPU"}),
}


@pytest.mark.parametrize("verb", VERBS)
def test_progress_counts_up_to_all_of_it(verb: str) -> None:
    call, stages = VERBS[verb]
    told: list[tuple[str, int, int]] = []
    call(lambda what, done, total: told.append((what, done, total)))
    assert {what for what, _, _ in told} == stages
    for stage in stages:
        counts = [(done, total) for what, done, total in told if what == stage]
        assert len(counts) >= 8
        assert [done for done, _ in counts] == list(range(1, counts[-1][1] + 1))


def test_the_stripes_of_a_cascade_count_when_compiled_and_when_simulated(tmp_path: Path) -> None:
    model = tmp_path / "wide.tflite"
    model.write_bytes(two_convolutions())
    told: dict[str, list[tuple[int, int]]] = {}

    def progress(what: str, done: int, total: int) -> None:
        told.setdefault(what, []).append((done, total))

    run(model, Session(Hardware("ethos-u55-128", arena_cache_bytes=48 * 1024)), progress=progress)
    assert told["cascades to try"]
    assert told["weights of operations"][-1][1] > 2  # the operators of the model
    assert [done for done, _ in told["operations of the NPU"]] == list(range(1, told["operations of the NPU"][0][1] + 1))
    assert told["operations of the NPU"][0][1] > min(total for _, total in told["weights of operations"])


def test_operators_between_the_jobs_of_the_npu_count_too() -> None:
    told: list[tuple[str, int, int]] = []
    run(DIGITS.with_name("digits_partial.tflite"), Session(), progress=lambda *step: told.append(step))
    assert [step[1:] for step in told if step[0] == "operators of the model"] == [(1, 3), (2, 3), (3, 3)]


def two_convolutions() -> bytes:
    """16 KiB in and out and 64 KiB between them: two convolutions that 48 KiB hold in stripes only."""
    b, random = ModelBuilder(), np.random.default_rng(1)
    value = b.input((1, 64, 64, 4), DType.INT8, scale=0.1)
    for depth, ofm_depth in ((4, 16), (16, 4)):
        kernel = b.constant(random.integers(-127, 128, (ofm_depth, 3, 3, depth), np.int8), scale=[0.01] * ofm_depth)
        bias = b.constant(np.zeros(ofm_depth, np.int32), scale=[0.001] * ofm_depth)
        options = Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE)
        value = b.op("CONV_2D", [value, kernel, bias], (1, 64, 64, ofm_depth), DType.INT8, 0.1, 0, attributes=options)
    b.output(value)
    return b.build()


def test_without_a_terminal_nobody_is_told() -> None:
    with progress_bars.progress() as progress:
        assert progress is None


def test_a_bar_shows_work_that_takes_long_and_goes_with_it() -> None:
    import pty  # which Windows has not

    program = """
import time
from npu.rendering.progress_bars import progress
with progress() as tell:
    tell("soon", 1, 9)
    time.sleep(0.4)
    for done in range(1, 10):
        tell("stripes", done, 9)
        time.sleep(0.06)
"""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=environment(TERM="xterm")) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux says so at the end
            while part := os.read(ours, 1000):
                shown += part
        os.close(ours)
    assert process.returncode == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "soon" not in text
    counts = [int(done) for done in re.findall("stripes .*?([0-9])/9", text)]
    assert counts == sorted(counts)
    assert {1, 2, 9} <= set(counts)
    assert shown.endswith(b"\x1b[2K")  # the line is cleared
