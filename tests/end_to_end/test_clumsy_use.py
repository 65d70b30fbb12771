"""Clumsy use of the command line: odd paths, streams, encodings and values end in one clear line, or just work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.errors import InterpreterError
from npu.graph.attributes import AssignVariableOptions, ReadVariableOptions, VarHandleOptions, WhileOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Tensor
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.detector import write_detector

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.tflite"
STEERING = "\x1b]0;owned\x07\x9b31m\n"
"""A title for the terminal, a colour in 8-bit controls and a line break."""


def run_shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`line` in a shell, where $NPU is the command, with the buffers that Python has by default."""
    known = {**os.environ, "PYTHONPATH": str(ROOT), "NPU": f"{sys.executable} -m npu", "DIGITS": str(DIGITS), **environment}
    known.pop("PYTHONUNBUFFERED", None)
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=known, cwd=folder, check=False)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("npu: error: ")
    assert error.count("\n") == 1
    return error.removeprefix("npu: error: ").rstrip("\n")


def is_plain(text: str) -> bool:
    return all(character == "\n" or character.isprintable() for character in text)


@pytest.fixture
def compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "compiled.tflite"
    assert main(["compile", str(DIGITS), "-o", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_closed_standard_output_is_no_fault(tmp_path: Path) -> None:
    done = run_shell("$NPU check $DIGITS >&-", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_standard_output_is_one_clear_line(tmp_path: Path) -> None:
    done = run_shell("$NPU check $DIGITS >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "npu: error: standard output: must take the result, got No space left on device\n"


def test_a_reader_that_has_gone_is_no_fault_to_speak_of(tmp_path: Path) -> None:
    done = run_shell("$NPU isa | true; echo ${PIPESTATUS[0]} >&2", tmp_path)
    assert done.stderr in ("0\n", "1\n")


@pytest.mark.parametrize("command", ["check $DIGITS", "configs"])
def test_a_terminal_without_unicode_gets_ascii(command: str, tmp_path: Path) -> None:
    done = run_shell(f"$NPU {command}", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()
    assert "?" not in done.stdout
    assert "----" in done.stdout


def test_a_name_that_the_terminal_has_no_letters_for_gets_question_marks(tmp_path: Path) -> None:
    (tmp_path / "größe.tflite").write_bytes(Path(DIGITS).read_bytes())
    done = run_shell("$NPU check größe.tflite", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith("gr??e.tflite on ")


def test_standard_output_may_be_named_as_the_file_to_write(tmp_path: Path) -> None:
    done = run_shell("$NPU check $DIGITS --format json -o /dev/stdout | cat", tmp_path)
    assert len(json.loads(done.stdout)["operators"]) == 10


@pytest.mark.parametrize(
    "command",
    [
        "check $DIGITS --format json",
        *(pytest.param(other, marks=pytest.mark.slow) for other in ("isa", "configs --format json")),
    ],
)
def test_a_dash_is_standard_output(command: str, tmp_path: Path) -> None:
    assert run_shell(f"$NPU {command} -o -", tmp_path).stdout == run_shell(f"$NPU {command}", tmp_path).stdout != ""
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_said_to_be_no_model_file(tmp_path: Path) -> None:
    done = run_shell("$NPU check <(cat $DIGITS)", tmp_path)
    assert done.returncode == 1
    assert done.stderr.endswith("must be a TFLite file, got a pipe or device; save it to a file first\n")


OUTPUTS = {
    "a_folder": (["compile", "DIGITS", "-o", "."], "--output .: must be a file, got a folder"),
    "a_dash": (["compile", "DIGITS", "-o", "-"], "--output -: must be the name of a file, got the sign for standard output"),
    "a_missing_folder": (["run", "DIGITS", "--trace", "no/t.json"], "--trace no/t.json: must lie in a folder that exists"),
    "the_same_file_twice": (
        ["compile", "DIGITS", "-o", "x", "--report", "./x"],
        "--report x: must not be the file of --output too",
    ),
    "a_file_for_a_folder": (["run", "DIGITS", "--output-dir", "DIGITS"], "must be a folder, got a file"),
    "a_missing_folder_of_numbers": (["benchmark", "DIGITS", "--csv", "no/t.csv"], "--csv no/t.csv: must lie in a folder"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_cannot_be_written_is_told_before_the_work(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, expected = OUTPUTS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("npu.toolchain.compile.compile", None)  # would be called, were the outputs not judged first
    assert expected in error_of(capsys, *(DIGITS if argument == "DIGITS" else argument for argument in arguments))
    assert list(tmp_path.iterdir()) == []


def test_assembling_in_place_tells_that_the_file_changed(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listing = compiled.with_name("listing.lst")
    assert main(["disasm", str(compiled), "-o", str(listing)]) == 0
    listing.write_text(listing.read_text().replace("HEIGHT0_M1 value=7", "HEIGHT0_M1 value=6", 1))
    assert main(["asm", str(listing), "--base", str(compiled), "-o", str(compiled)]) == 0
    assert "changed from" in capsys.readouterr().out


SETTINGS = {
    "nested_too_deep": ("shram.banks=" + "[" * 30000, "--set shram.banks: must not nest deeper than 16 levels"),
    "no_integer": (
        "system.clock_hz=1000000.5",
        "--set system.clock_hz: must be an integer in [1,000,000, 10,000,000,000], got 1000000.5",
    ),
    "another_target": ("extends=ethos-u55-32", "--set: another target must be given as --target or --config"),
    "unknown_key": ("shrams.banks=3", "--set shrams.banks: shrams: is no known key (did you mean 'shram'?)"),
    "missing_file": (
        "system=nowhere.yaml",
        "nowhere.yaml: must be a YAML file with a hardware description, but there is no such file",
    ),
    "twice": ('shram={"banks": 24, "banks": 32}', "--set shram: banks: must stand here once, got it twice"),
    "no_power_of_two": ("timing.max_burst_bytes=48", "--set timing.max_burst_bytes: must be a power of two, got 48"),
    "not_a_number": ("system.memories.axi0.clock_scale=NaN", "--set system.memories.axi0.clock_scale: must be a number in ["),
    "steering": ("a\x1b[31m=1", "--set a\\x1b[31m: is no known key"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_bad_setting_is_told_as_a_setting(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    setting, expected = SETTINGS[name]
    message = error_of(capsys, "check", DIGITS, "--set", setting)
    assert expected in message
    assert "command-line.yaml" not in message


def test_a_path_in_a_setting_starts_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "slow.yaml").write_text("extends: ethos-u55-high-end-embedded\nclock_hz: 250_000_000\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", str(DIGITS), "--set", "system=slow.yaml"]) == 0
    assert "at 250 MHz" in capsys.readouterr().out


NUMBERS = {
    "tolerance_nan": (["inference-diff", "m", "--tolerance", "nan"], "must be a finite number, got 'nan'"),
    "tolerance_negative": (["inference-diff", "m", "--tolerance=-1"], "must be a number from 0 up, got '-1'"),
    "seed_negative": (["benchmark", "m", "--seed", "-1"], "must be a whole number from 0 up, got '-1'"),
    "seed_long": (["run", "m", "--seed", "9" * 5000], "must be a whole number from 0 up, got '999"),
    "no_runs": (["benchmark", "m", "--num-runs", "0"], "must be a whole number from 1 up, got '0'"),
    "mean_infinite": (["eval-classification", "m", "--images", ".", "--mean", "inf"], "must be a finite number, got 'inf'"),
    "offset_of_words": (
        ["eval-detection", "m", "--images", ".", "--annotations", "a", "--class-offset", "one"],
        "must be a whole number, got 'one'",
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_bad_number_is_wrong_usage_in_words(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, expected = NUMBERS[name]
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert expected in capsys.readouterr().err


def test_names_of_files_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain, compiled = tmp_path / f"a{STEERING}.tflite", tmp_path / f"b{STEERING}.tflite"
    plain.write_bytes(DIGITS.read_bytes())
    commands = [["compile", plain, "-o", compiled], ["diff", plain, compiled], ["verify", compiled], ["run", compiled]]
    commands += [["explain", compiled], ["fix", plain, "-o", tmp_path / "fixed"], ["tf-compat", "--model", plain]]
    commands += [
        ["check", plain],
        ["disasm", compiled],
        ["benchmark", plain, "--num-runs", "1"],
        ["check", tmp_path / STEERING],
    ]
    for command in commands:
        code = main([str(item) for item in command])
        captured = capsys.readouterr()
        assert code == (0 if command[1] != tmp_path / STEERING else 1)
        assert is_plain(captured.out), command
        assert is_plain(captured.err), command


def test_a_listing_of_a_file_with_an_odd_name_can_be_assembled(tmp_path: Path, compiled: Path) -> None:
    odd, listing, new = (tmp_path / name for name in (os.fsdecode(b"x\nNPU_OP_STOP\xff.tflite"), "l.lst", "new.tflite"))
    odd.write_bytes(compiled.read_bytes())
    assert main(["disasm", str(odd), "-o", str(listing)]) == 0
    assert main(["asm", str(listing), "--base", str(odd), "-o", str(new)]) == 0
    assert new.read_bytes() == compiled.read_bytes()


def test_names_in_models_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = ModelBuilder()
    x = builder.input((1, 4), DType.INT8, scale=0.1, name=f"x{STEERING}")
    y = builder.op("RELU", [x], (1, 4), DType.INT8, scale=0.1, name=f"y{STEERING}")
    builder.output(builder.op("CUSTOM", [y], (1, 4), DType.INT8, scale=0.1, custom_code=f"my{STEERING}"))
    plain, compiled = tmp_path / "plain.tflite", tmp_path / "compiled.tflite"
    plain.write_bytes(builder.build())
    commands = [
        ["check", plain],
        ["explain", plain],
        ["run", plain, "--timing-only"],
        ["run", plain],
        ["tf-compat", "--model", plain],
    ]
    commands += [["compile", plain, "-o", compiled], ["disasm", compiled], ["explain", compiled], ["inference-diff", plain]]
    for command in commands:
        main([str(item) for item in command])
        captured = capsys.readouterr()
        assert captured.out + captured.err, command
        assert is_plain(captured.out), command
        assert is_plain(captured.err), command


def endless() -> bytes:
    """A loop whose condition is true forever."""
    model, condition, body = ModelBuilder(), ModelBuilder("condition"), ModelBuilder("body")
    condition.input((2,), DType.FLOAT32)
    condition.output(condition.constant(np.array([True]), DType.BOOL))
    body.output(body.op("NEG", [body.input((2,), DType.FLOAT32)], (2,), DType.FLOAT32))
    options = WhileOptions(model.subgraph(condition), model.subgraph(body))
    x = model.input((2,), DType.FLOAT32)
    model.output(model.op("WHILE", [x], (2,), DType.FLOAT32, attributes=options))
    return model.build()


@pytest.mark.parametrize("command", ["run", "benchmark", "inference-diff"])
def test_a_loop_without_end_is_an_error(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for user in ("npu.toolchain.run", "npu.tools.runner"):
        monkeypatch.setattr(f"{user}.LOOP_LIMIT", 100)
    path = tmp_path / "endless.tflite"
    path.write_bytes(endless())
    assert "the loop must end within 100 iterations" in error_of(capsys, command, path)


def no_ends() -> bytes:
    """A model without operators, inputs and outputs."""
    return write_model(Model((Graph("main", (Tensor("x", (1, 8, 8, 3), DType.FLOAT32),), (), (), ()),)))


ENDLESS = {
    "labels": (
        ["run", "MODEL", "--labels", "labels.txt"],
        "--labels labels.txt: needs a model whose first output holds scores",
    ),
    "classification": (["eval-classification", "MODEL", "--images", "images"], "got 0 inputs and 0 outputs"),
    "detection": (
        ["eval-detection", "MODEL", "--images", "images", "--annotations", "a.json"],
        "must have 1 input and 4 outputs (boxes, classes, scores, count), got 0 inputs and 0 outputs",
    ),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_model_without_inputs_and_outputs_is_refused_where_they_are_needed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images" / "0").mkdir(parents=True)
    (tmp_path / "images" / "0" / "0.ppm").write_bytes(b"P6 8 8 255\n" + bytes(range(192)))
    (tmp_path / "a.json").write_text(json.dumps({"images": [{"id": 1, "file_name": "0/0.ppm"}], "annotations": []}))
    (tmp_path / "labels.txt").write_text("zero\n")
    (tmp_path / "model.tflite").write_bytes(no_ends())
    arguments, expected = ENDLESS[name]
    assert expected in error_of(capsys, *("model.tflite" if argument == "MODEL" else argument for argument in arguments))


def test_an_image_that_is_a_device_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    annotations = tmp_path / "a.json"
    annotations.write_text(json.dumps({"images": [{"id": 1, "file_name": "/dev/zero"}], "annotations": []}))
    detector = write_detector(tmp_path / "detector.tflite")
    message = error_of(capsys, "eval-detection", detector, "--images", tmp_path, "--annotations", annotations)
    assert message == "/dev/zero: must be a readable image, got: a folder, pipe or device"


def test_an_archive_that_unpacks_to_more_than_any_model_is_refused_unread(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("cmd_data.npy", "w") as entry:
        for _ in range(257):
            entry.write(bytes(1 << 20))
    assert "bomb.npz: archive: must unpack to at most 268435456 bytes, got 269484032" in error_of(capsys, "explain", path)


MISTAKES = {
    "empty_target": (["check", "DIGITS", "--target", ""], "target: must be one of ethos-u55-32"),
    "empty_target_with_a_setting": (
        ["check", "DIGITS", "--target", "", "--set", "name=x"],
        "target: must be one of ethos-u55-32",
    ),
    "missing_memory_mode": (["run", "DIGITS", "--memory-mode", "no.yaml"], "shipped names of memory_mode are dedicated-sram"),
    "missing_system": (["run", "DIGITS", "--system", "./no"], "shipped names of system are ethos-u55-deep-embedded"),
    "tiny_std": (["eval-classification", "DIGITS", "--images", ".", "--std", "1e-320"], "std must be in [1e-06, 1e+06]"),
    "huge_mean": (["eval-classification", "DIGITS", "--images", ".", "--mean", "1e308"], "mean must be in [-1e+06, 1e+06]"),
}


@pytest.mark.parametrize("condition", ["bogus", "", ",,"])
def test_a_condition_that_does_not_exist_is_wrong_usage(condition: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["check", str(DIGITS), "--fail-on", condition])
    assert caught.value.code == 2
    expected = f"--fail-on: must be cpu, reference, split or a rule id of profile u55-u65, got {condition!r}"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_what_must_hold(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, expected = MISTAKES[name]
    assert expected in error_of(capsys, *(DIGITS if argument == "DIGITS" else argument for argument in arguments))


def test_a_tool_says_how_compiled_files_run(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, "benchmark", compiled).endswith("in tools with --use_npu")


def test_a_negative_seed_is_an_error_in_python_too() -> None:
    with pytest.raises(InterpreterError, match="seed: must be a whole number from 0 up, got -1"):
        npu.run(DIGITS, seed=-1)


def test_resources_are_left_out_of_a_bisection(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = ModelBuilder()
    x = b.input((1, 4), DType.FLOAT32)
    handle = b.tensor((1,), DType.RESOURCE)
    b.multi_op("VAR_HANDLE", [], [handle], attributes=VarHandleOptions("", "state"))
    b.multi_op("ASSIGN_VARIABLE", [handle, x], [], attributes=AssignVariableOptions())
    b.output(b.op("READ_VARIABLE", [handle], (1, 4), DType.FLOAT32, attributes=ReadVariableOptions()))
    path = tmp_path / "state.tflite"
    path.write_bytes(b.build())
    assert main(["inference-diff", str(path), "--num-runs", "1", "--bisect", "--use_xnnpack"]) == 0
    assert "all outputs are equal" in capsys.readouterr().out
