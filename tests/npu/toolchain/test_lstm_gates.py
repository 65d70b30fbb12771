"""`--lstm-gates table`: what compiles with it says so, and equals the reference that makes the same choice."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import npu
from npu.cli.main import main
from npu.errors import UserError
from npu.numerics.lstm_gates import LstmGates
from npu.toolchain.session import Session

from tests.support.vela_differences import lstm

NOTE = "LSTM gates come from the hardware's table (operators: 1), not exact: docs/exactness.md#lstm-gates"
SEED = 4
"""Of a cell whose outputs show the table."""


@pytest.fixture(scope="module")
def cell() -> bytes:
    return lstm(SEED, steps=2, features=256, units=128)


@pytest.mark.parametrize("optimise", ["performance", "size"])
@pytest.mark.parametrize("target", ["ethos-u55-32", "ethos-u55-128", "ethos-u65-512"])
def test_a_file_by_the_table_equals_its_source_by_the_table_alone(cell: bytes, target: str, optimise: str) -> None:
    compiled = npu.compile(cell, target, optimise=optimise, lstm_gates="table")
    assert compiled.report.notes == (NOTE,)
    assert npu.diff(cell, compiled.content, lstm_gates="table").first is None
    difference = npu.diff(cell, compiled.content).first
    assert difference is not None
    assert difference.type == "UNIDIRECTIONAL_SEQUENCE_LSTM"


def test_exact_gates_are_the_default_and_say_nothing(cell: bytes) -> None:
    compiled = npu.compile(cell)
    assert compiled.report.notes is None
    assert npu.compile(cell, lstm_gates="exact").content == compiled.content
    assert npu.diff(cell, compiled.content).first is None


def test_check_and_run_say_it_too(cell: bytes) -> None:
    assert NOTE in npu.check_report(cell, lstm_gates="table").notes
    assert NOTE in (npu.run(cell, lstm_gates="table").report.notes or ())


def test_the_table_takes_fewer_cycles(cell: bytes) -> None:
    exact, table = (npu.time_model(cell, lstm_gates=gates).timeline.total_cycles for gates in ("exact", "table"))
    assert table < exact


def test_a_session_keeps_its_choice_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(Session(lstm_gates="table"))).lstm_gates is LstmGates.TABLE


def test_another_name_is_refused(cell: bytes) -> None:
    with pytest.raises(UserError, match="lstm_gates: must be one of exact, table, got 'fast'"):
        npu.compile(cell, lstm_gates="fast")


def test_the_commands_take_the_choice(cell: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, compiled = tmp_path / "cell.tflite", tmp_path / "cell_npu.tflite"
    source.write_bytes(cell)
    assert main(["compile", str(source), "--lstm-gates", "table", "-o", str(compiled)]) == 0
    assert NOTE in " ".join(capsys.readouterr().out.split())
    assert main(["diff", str(source), str(compiled), "--lstm-gates", "table"]) == 0
    assert main(["diff", str(source), str(compiled)]) == 3
    assert main(["compare", str(source), "--b-lstm-gates", "table"]) == 0
