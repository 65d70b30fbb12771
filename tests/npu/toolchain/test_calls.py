"""The time of WHILE, IF and CALL: what their subgraphs take, as often as these were executed."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

I8, I32, BOOL = DType.INT8, DType.INT32, DType.BOOL
TARGET = "ethos-u55-128"


def _sums(b: ModelBuilder, x: int) -> int:
    """Work for the NPU."""
    return b.op("ADD", [x, x], (1, 8, 8, 16), I8, 0.5, attributes=at.AddOptions())


def loop(times: int) -> bytes:
    """A WHILE that counts up to `times` and adds a map to itself in each round."""
    condition, body, b = ModelBuilder("condition"), ModelBuilder("body"), ModelBuilder()
    count, _ = condition.input((1,), I32), condition.input((1, 8, 8, 16), I8, scale=0.5)
    condition.output(condition.op("LESS", [count, condition.constant(np.array([times], np.int32))], (1,), BOOL))
    count, x = body.input((1,), I32), body.input((1, 8, 8, 16), I8, scale=0.5)
    one = body.constant(np.array([1], np.int32))
    body.output(body.op("ADD", [count, one], (1,), I32, attributes=at.AddOptions()), _sums(body, x))
    start, x = b.constant(np.array([0], np.int32)), b.input((1, 8, 8, 16), I8, scale=0.5)
    options = at.WhileOptions(b.subgraph(condition), b.subgraph(body))
    counted, y = b.tensor((1,), I32), b.tensor((1, 8, 8, 16), I8, scale=0.5)
    b.multi_op("WHILE", [start, x], [counted, y], attributes=options)
    b.output(y)
    return b.build()


def totals(content: bytes) -> tuple[int, int]:
    report = npu.run(content, target=TARGET).report.totals
    return report.npu_cycles or 0, report.cpu_cycles or 0


def test_a_loop_takes_what_its_rounds_take() -> None:
    runs = [totals(loop(times)) for times in (0, 1, 2, 12)]
    (npu_round, cpu_round) = (runs[2][0] - runs[1][0], runs[2][1] - runs[1][1])
    assert npu_round > 0
    assert cpu_round > 2_000, "a job of each round is started by the CPU"
    assert runs[0][0] == 0
    assert runs[1][0] == npu_round
    assert runs[3] == pytest.approx((12 * npu_round, runs[0][1] + 12 * cpu_round), abs=2)


def test_without_a_run_each_subgraph_counts_once_and_a_note_says_so() -> None:
    timed = npu.time_model(loop(12), target=TARGET).report
    npu_cycles, cpu_cycles = totals(loop(1))
    assert timed.totals.npu_cycles == npu_cycles
    assert 0 < cpu_cycles - (timed.totals.cpu_cycles or 0) < 100, "the condition is executed once more in a run"
    assert any("subgraphs 1 (once), 2 (once); npu run without --timing-only counts how often" in n for n in timed.notes or ())


@pytest.mark.parametrize("compiled", [False, True], ids=["model", "compiled file"])
def test_a_check_counts_each_subgraph_once(compiled: bool) -> None:
    content = npu.compile(loop(12), target=TARGET).content if compiled else loop(12)
    timed, checked = npu.time_model(content, target=TARGET).report.totals, npu.check_report(content, target=TARGET).totals
    assert (checked.npu_cycles, checked.cpu_cycles) == (timed.npu_cycles, timed.cpu_cycles)
    assert (checked.flash_bytes, checked.sram_bytes) == (timed.flash_bytes, timed.sram_bytes)


def calls(times: int) -> bytes:
    """The same subgraph executed by so many operators."""
    shared, b = ModelBuilder("shared"), ModelBuilder()
    shared.output(_sums(shared, shared.input((1, 8, 8, 16), I8, scale=0.5)))
    x, number = b.input((1, 8, 8, 16), I8, scale=0.5), b.subgraph(shared)
    for _ in range(times):
        x = b.op("CALL", [x], (1, 8, 8, 16), I8, 0.5, attributes=at.CallOptions(number))
    b.output(x)
    return b.build()


def test_a_subgraph_of_several_callers_takes_as_much_for_each() -> None:
    rows = npu.run(calls(3), target=TARGET).report.operators
    assert len({row.cycles for row in rows}) == 1
    assert totals(calls(3))[0] == 3 * totals(calls(1))[0] > 0
