"""A sweep: the points that are asked for, figures equal to those of `npu run`, and nothing lost by an interruption."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import pytest

import npu
from npu import extras
from npu.cli.main import main
from npu.errors import UserError
from npu.explore.journal import Journal
from npu.explore.point import RESULTS, Point, code_digest, measure, model_digest
from npu.explore.space import field_values, make_space, parse_over, read_study
from npu.explore.sweep import sweep
from npu.hardware.choice import Hardware
from npu.hardware.shipped import list_boards
from npu.workers import Here

DIGITS = "examples/digits.tflite"
PARTIAL = "examples/digits_partial.tflite"
LATENCY = "system.memories.axi1.read_latency_cycles"
OVER = {"memory_mode.arena_cache_bytes": "4K..16K:2", "optimise": ["performance", "size"]}

RANGES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "evenly": ("64K..512K:8", tuple(range(65536, 524289, 65536))),
    "ends of one value": ("7..7:1", (7,)),
    "fractions": ("0.25..1:4", (0.25, 0.5, 0.75, 1.0)),
    "close whole ends": ("1..2:3", (1.0, 1.5, 2.0)),
    "by a factor": ("1..256:9:log", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    "list": ("16, 64,1M", (16, 64, 1 << 20)),
    "names": ("Shared_Sram,Sram_Only", ("Shared_Sram", "Sram_Only")),
    "one": ("cortex-m4", ("cortex-m4",)),
}

WRONG: dict[str, tuple[list[str], int, str]] = {
    "unknown field": (["--over", "shram.bank=1,2"], 1, "--over shram.bank: is no known key (did you mean 'banks'?)"),
    "empty range": (["--over", "shram.banks=8..24:0"], 1, "a range must have values"),
    "range backwards": (["--over", "shram.banks=24..8:3"], 1, "a range must have values"),
    "range without end": (["--over", "shram.banks=0..1e999:3"], 1, "the ends of a range must be finite numbers"),
    "range too wide": (["--over", "shram.banks=-1e308..1e308:3"], 1, "the ends of a range must be finite numbers"),
    "number without end": (["--over", "shram.banks=1e999,1"], 1, ""),
    "range without count": (["--over", "shram.banks=8..24"], 1, "a range must be FIRST..LAST:COUNT"),
    "factor from nothing": (["--over", "shram.banks=0..24:3:log"], 1, "must begin above 0"),
    "no values": (["--over", "shram.banks="], 1, "--over: must be FIELD=VALUES"),
    "empty list": (["--over", "shram.banks=,"], 1, "must have at least one value"),
    "unknown goal": (["--over", "optimise=speed"], 1, "must be among performance, size, got 'speed'"),
    "field twice": (["--over", "shram.banks=8,9", "--over", "shram.banks=8"], 1, "a field may be given only once"),
    "unknown board": (["--board", "himax"], 1, "board: must be one of"),
    "no model": (["--no-model"], 1, "must be given at least one model"),
    "table of another form": (["-o", "x.xlsx"], 1, "must end in .csv or .parquet"),
    "workers and scheduler": (["--workers", "2", "--scheduler", "tcp://127.0.0.1:1"], 2, "not allowed with argument"),
    "no address": (["--scheduler", "localhost"], 1, "must be an address such as tcp://"),
    "no number of workers": (["--workers", "0"], 2, "must be a whole number from 1 up"),
    "too many points": (
        ["--over", "shram.banks=1..2:999999", "--over", "shram.lut_bytes=1..2:2"],
        1,
        "at most 1,000,000 points",
    ),
}


@pytest.mark.parametrize(("text", "values"), RANGES.values(), ids=RANGES)
def test_values_of_a_field(text: str, values: tuple[Any, ...]) -> None:
    made = field_values("x", text)
    assert made == pytest.approx(values) if isinstance(values[0], float) else made == values
    assert [type(value) for value in made] == [type(value) for value in values]


def test_every_point_is_what_npu_run_says(tmp_path: Path) -> None:
    chosen = make_space([DIGITS, PARTIAL], targets=["ethos-u55-64"], boards=["himax-we2"], over=OVER)
    rows = sweep(list(chosen.points()), Here(), Journal()).rows
    assert len(rows) == chosen.size == 16
    for row in rows[::5]:
        report = tmp_path / "report.json"
        assert main([*row["command"].split()[1:], "--report", str(report)]) == 0
        said = json.loads(report.read_text())
        assert {name: row[name] for name in said["totals"]} == said["totals"]
        assert row["cpu_operators"] == sum(operator["placement"] == "cpu" for operator in said["operators"])


def test_outputs_are_compared_if_asked() -> None:
    assert measure(Point(DIGITS, Hardware(), compares_outputs=True))["outputs_equal"] is True
    assert measure(Point(DIGITS, Hardware()))["outputs_equal"] is None


def test_a_difference_of_outputs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from npu.explore import point

    monkeypatch.setattr(point, "_outputs_equal", lambda model, session: False)
    assert measure(Point(DIGITS, Hardware(), compares_outputs=True))["outputs_equal"] is False


def test_a_point_that_fails_is_a_row_and_the_others_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken, table = tmp_path / "broken.tflite", tmp_path / "x.csv"
    broken.write_bytes(b"nonsense" * 9)
    assert main(["sweep", DIGITS, str(broken), "-o", str(table), "--over", "memory_mode.arena_cache_bytes=1,8192"]) == 1
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["total_cycles"] != "" for row in rows] == [False, True, False, False]
    assert "must be an integer in [1024" in rows[0]["error"]
    assert "broken.tflite" in rows[2]["error"]
    told = capsys.readouterr()
    assert "4 points, 4 of them measured now, 3 without a result" in told.out
    assert told.err.count("npu: error: ") == 2


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_question_gets_one_paragraph(
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = [] if arguments == ["--no-model"] else [str(Path(DIGITS).resolve())]
    monkeypatch.chdir(tmp_path)
    try:
        given = main(["sweep", *models, *(word for word in arguments if word != "--no-model")])
    except SystemExit as error:
        given = int(str(error.code))
    assert given == code
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert list(tmp_path.iterdir()) == []


def test_a_journal_is_taken_up_and_the_table_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = [str(tmp_path / "a.csv"), str(tmp_path / "a.parquet")]
    command = ["sweep", DIGITS, "-o", tables[0], "-o", tables[1], "--over", f"{LATENCY}=16..256:6"]
    assert main(command) == 0
    first = [Path(table).read_bytes() for table in tables]
    journal = Path(f"{tables[0]}.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 6
    journal.write_bytes(b"".join(lines[:2]) + lines[3][:40])  # as a kill leaves it
    capsys.readouterr()
    assert main(command) == 0
    assert "6 points, 4 of them measured now" in capsys.readouterr().out
    assert [Path(table).read_bytes() for table in tables] == first
    assert sorted(journal.read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, whole = tmp_path / "a.csv", tmp_path / "whole.csv"
    command = [sys.executable, "-m", "npu", "sweep", DIGITS, "--compare-outputs", "--over", f"{LATENCY}=1..60:20", "-o"]
    process = subprocess.Popen([*command, str(table)], stdout=subprocess.DEVNULL)
    journal = Path(f"{table}.journal")
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 3):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not table.exists()
    kept = journal.read_bytes().count(b"\n")
    assert 3 <= kept < 20
    assert main([*command[3:], str(table)]) == 0
    assert f"20 points, {20 - kept} of them measured now, 0 without a result" in capsys.readouterr().out
    assert main([*command[3:], str(whole)]) == 0
    assert table.read_bytes() == whole.read_bytes()


def test_an_interrupted_sweep_says_what_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "a.csv"
    command = [
        sys.executable,
        "-m",
        "npu",
        "sweep",
        DIGITS,
        "--compare-outputs",
        "--over",
        f"{LATENCY}=1..400:200",
        "-o",
        str(table),
    ]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a job in the background of a shell ignores it
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heeds)
    journal = Path(f"{table}.journal")
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") >= 5):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    told = process.communicate()[1]
    assert process.returncode == 130
    assert f"new points are kept in {journal}; the same command goes on" in told
    assert "Traceback" not in told


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "a.csv.journal"
    journal.write_text("a list of what to buy\n")
    assert main(["sweep", DIGITS, "-o", str(tmp_path / "a.csv")]) == 1
    assert "must be a journal of npu sweep" in capsys.readouterr().err
    assert journal.read_text() == "a list of what to buy\n"


@pytest.mark.parametrize(("name", "value"), [("error", {}), ("error", 7), ("total_cycles", "many"), ("outputs_equal", [])])
def test_a_journal_with_what_no_sweep_writes_is_refused(tmp_path: Path, name: str, value: object) -> None:
    path = tmp_path / "a.csv.journal"
    sound = dict.fromkeys(RESULTS)
    path.write_text(json.dumps({"key": "k", "result": sound}) + "\n")
    assert Journal(path).results == {"k": sound}
    path.write_text(json.dumps({"key": "k", "result": sound | {name: value}}) + "\n")
    with pytest.raises(UserError, match=r"must be a journal of npu sweep .*got line 1"):
        Journal(path)


def test_a_point_is_known_by_content_not_by_name(tmp_path: Path) -> None:
    copy = tmp_path / "copy.tflite"
    copy.write_bytes(Path(DIGITS).read_bytes())
    digests = {name: model_digest(name) for name in (DIGITS, str(copy), PARTIAL)}

    def key(model: str, **hardware: Any) -> str:
        return Point(model, Hardware(**hardware)).key(digests)

    assert key(DIGITS) == key(str(copy)) == key(DIGITS, target="ethos-u55-128")
    assert key(DIGITS, target="boards/alif-ensemble-e3-hp") == key(DIGITS, target="boards/alif-ensemble-e7-hp")
    others = {key(DIGITS), key(PARTIAL), key(DIGITS, target="ethos-u55-64"), key(DIGITS, changes=("shram.banks=20",))}
    assert len(others) == 4


def test_another_version_of_the_code_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from npu.explore import point

    digests = {DIGITS: model_digest(DIGITS)}
    before = Point(DIGITS, Hardware()).key(digests)
    assert len(code_digest()) == 64
    monkeypatch.setattr(point, "code_digest", lambda: "another")
    assert Point(DIGITS, Hardware()).key(digests) != before


def test_points_of_equal_content_are_measured_once() -> None:
    chosen = make_space([DIGITS], boards=["alif-ensemble-e3-hp", "alif-ensemble-e7-hp", "himax-we2"])
    swept = sweep(list(chosen.points()), Here(), Journal())
    assert swept.measured == 2
    assert [row["target"] for row in swept.rows] == ["alif-ensemble-e3-hp", "alif-ensemble-e7-hp", "himax-we2"]
    assert swept.rows[0]["total_cycles"] == swept.rows[1]["total_cycles"] != swept.rows[2]["total_cycles"]


def test_every_board() -> None:
    names = {Path(str(point.hardware.target)).name for point in make_space([DIGITS], boards=["all"]).points()}
    assert names == set(list_boards())


def test_a_study_in_a_file_is_the_same_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.yaml"
    model = os.path.relpath(DIGITS, tmp_path)
    study.write_text(
        f"models: [{model}]\ntargets: [ethos-u55-64]\nover: {{{LATENCY}: 16..64:2, optimise: [performance, size]}}\n"
    )
    read = make_space(**read_study(study))
    assert [point.swept for point in read.points()] == [
        ((LATENCY, latency), ("optimise", goal)) for latency in (16, 64) for goal in ("performance", "size")
    ]
    assert main(["sweep", "--study", str(study), "-o", str(tmp_path / "a.csv")]) == 0
    assert "4 points" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modles: [a]", "modles: is no known key (did you mean 'models'?)"),
        ("models: [1]", "models: must be a text or a list of texts"),
        ("models: [a]\nover: 3", "over: must be a mapping of fields to values"),
        ("[a]", "must be a description of a sweep"),
    ],
)
def test_a_wrong_study_is_refused(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = tmp_path / "study.yaml"
    study.write_text(text)
    assert main(["sweep", "--study", str(study)]) == 1
    assert message in capsys.readouterr().err


def test_the_frame_has_a_type_for_every_column() -> None:
    frame = npu.sweep([DIGITS], ["ethos-u55-64"], over={"memory_mode.arena_cache_bytes": [1, 1 << 22]})
    kinds = {name: str(frame[name].dtype) for name in ("model", "total_cycles", "time_ms", "outputs_equal", "error")}
    assert kinds == {
        "model": "string",
        "total_cycles": "Int64",
        "time_ms": "Float64",
        "outputs_equal": "Float64",
        "error": "string",
    }
    assert frame["total_cycles"].isna().tolist() == [True, False]
    assert frame["total_cycles"][1] == npu.time_model(DIGITS, "ethos-u55-64").report.totals.total_cycles


def test_parquet_and_csv_hold_the_same(tmp_path: Path) -> None:
    over = ["--over", f"{LATENCY}=16..64:3", "--over", "timing.port_beat_cycles=1,1.06"]
    assert main(["sweep", DIGITS, *over, "-o", str(tmp_path / "a.csv"), "-o", str(tmp_path / "a.parquet")]) == 0
    parquet, text = pandas.read_parquet(tmp_path / "a.parquet"), pandas.read_csv(tmp_path / "a.csv", dtype=str)
    assert list(parquet.columns) == list(text.columns)
    for name in (LATENCY, "timing.port_beat_cycles", "total_cycles", "time_ms", "command"):
        values = parquet[name].tolist()  # older versions of pandas read numbers inexactly
        assert values == [type(value)(word) for value, word in zip(values, text[name], strict=True)]


def test_without_the_extra_the_command_tells_before_it_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(extras, "import_module", missing)
    assert main(["sweep", DIGITS, "-o", str(tmp_path / "a.parquet")]) == 1
    assert "pip install 'npulab[sweep]'" in capsys.readouterr().err
    assert main(["sweep", DIGITS, "-o", str(tmp_path / "a.csv")]) == 0  # needs none


def test_the_pictures_of_a_sweep(tmp_path: Path) -> None:
    picture = tmp_path / "x.svg"
    over = ["--over", f"{LATENCY}=16..64:3", "--over", "optimise=performance,size"]
    assert main(["sweep", DIGITS, *over, "--plot", str(picture)]) == 0
    drawn = picture.read_text()
    assert f"time ms over {LATENCY}" in drawn
    assert "time ms against sram bytes" in drawn
    assert "optimise size" in drawn


def test_a_field_without_values_is_no_argument() -> None:
    with pytest.raises(UserError, match="must be FIELD=VALUES"):
        parse_over("shram.banks")
    with pytest.raises(UserError, match="a value must be a number or a text"):
        field_values("shram.banks", [None])
