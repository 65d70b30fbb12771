"""Files that are not what a command reads: one line that names the file and says what it must be, and nothing written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from npu.api import disassemble
from npu.cli.main import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"
NO_MODEL = {
    "missing": "must be a TFLite file, but there is no such file",
    "folder": "must be a TFLite file, got a folder",
    "empty": "must be a TFLite file, got an empty file",
    "text": "must be a TFLite model",
    "cut short": "and may be cut short",
    "noise": "must be a TFLite model",
    "/dev/zero": "must be a TFLite file, got a pipe or device",
    "pipe": "must be a TFLite file, got a pipe or device",
}
COMMANDS = {
    "check": ["check", "FILE"],
    "fix": ["fix", "FILE", "-o", "out"],
    "compile": ["compile", "FILE", "-o", "out"],
    "run": ["run", "FILE"],
    "explain": ["explain", "FILE"],
    "disasm": ["disasm", "FILE"],
    "asm": ["asm", "listing", "--base", "FILE", "-o", "out"],
    "diff": ["diff", "FILE", "compiled"],
    "diff, second": ["diff", str(DIGITS), "FILE"],
    "verify": ["verify", "FILE"],
}


@pytest.fixture(scope="module")
def listing(compiled_digits: bytes) -> str:
    return disassemble(compiled_digits)


@pytest.fixture(autouse=True)
def folder(compiled_digits: bytes, listing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    data = DIGITS.read_bytes()
    contents = {"empty": b"", "text": b"hello\n" * 100, "cut short": data[:3000], "noise": bytes(range(256)) * 20}
    for name, content in contents.items():
        Path(name).write_bytes(content)
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("compiled").write_bytes(compiled_digits)
    Path("listing").write_text(listing)
    return tmp_path


def error_of(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    before = sorted(Path().iterdir())
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert sorted(Path().iterdir()) == before
    return captured.err.removeprefix("npu: error: ").rstrip("\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_model_is_named_with_what_it_must_be(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name, expected in NO_MODEL.items():
        message = error_of(capsys, [name if item == "FILE" else item for item in COMMANDS[command]])
        assert message.startswith(f"{name}: ")
        assert expected in message


OTHERS = {
    "labels": (["run", str(DIGITS), "--labels", "FILE"], "must be a text file with one class a line, got: "),
    "input": (["run", str(DIGITS), "--input", "FILE"], "must be a readable .npy file of numbers, got: "),
    "listing": (["asm", "FILE", "--base", "compiled", "-o", "out"], "must be a listing of npu disasm, got: "),
    "budget": (
        ["check", str(DIGITS), "--budget", "FILE"],
        "must be a budget, that is a YAML file of text, got: ",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize(("name", "reason"), [("missing", "No such file or directory"), ("folder", "Is a directory")])
def test_a_file_beside_the_model_that_cannot_be_read_is_named_once(
    kind: str, name: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, expected = OTHERS[kind]
    assert (
        error_of(capsys, [name if argument == "FILE" else argument for argument in arguments]) == f"{name}: {expected}{reason}"
    )


def test_a_file_of_labels_without_any_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, ["run", str(DIGITS), "--labels", "empty"])
    assert message == "empty: must be a text file with one class a line, got an empty file"


def test_a_budget_is_told_what_it_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    message = error_of(capsys, ["check", str(DIGITS), "--budget", "empty"])
    assert message == "empty: must be a budget, that is a mapping such as 'max_cycles: 100000', got an empty file"
    Path("budget.yaml").write_text("max_cylces: 3\n")
    assert "got 'max_cylces' (did you mean 'max_cycles'?)" in error_of(
        capsys, ["check", str(DIGITS), "--budget", "budget.yaml"]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "LONG"],
        ["run", "LONG"],
        ["verify", "LONG"],
        ["run", str(DIGITS), "--config", "LONG.yaml"],
        ["run", str(DIGITS), "--labels", "LONG"],
        ["run", str(DIGITS), "--input", "LONG"],
        ["check", str(DIGITS), "--budget", "LONG"],
        ["asm", "listing", "--base", "LONG", "-o", "out"],
        ["compile", str(DIGITS), "-o", "LONG"],
        ["check", str(DIGITS), "-o", "LONG"],
        ["run", str(DIGITS), "--timing-only", "--trace", "LONG"],
        ["run", str(DIGITS), "--output-dir", "LONG"],
        ["run", str(DIGITS), "--dump-tensors", "LONG"],
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have_is_an_error_of_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A component of a path has at most 255 bytes."""
    error_of(capsys, [argument.replace("LONG", "x" * 300) for argument in arguments])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
@pytest.mark.parametrize("arguments", [["--version"], ["check", str(DIGITS)]])
def test_output_that_nobody_can_take_is_one_line_of_error(arguments: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(DIGITS.parents[1])}
    environment.pop("PYTHONUNBUFFERED", None)
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "npu", *arguments]
        done = subprocess.run(command, env=environment, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.decode() == "npu: error: standard output: must take the result, got No space left on device\n"


INTERRUPTED = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupt())
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
from npu.__main__ import program
program()
"""
EARLY = -signal.SIGINT


@pytest.mark.parametrize(
    ("module", "code"),
    [("npu.cli.main", EARLY), ("argparse", EARLY), ("npu.cli.commands", 130), ("npu.toolchain.run", 130)],
)
def test_an_interrupt_of_a_program_that_begins_has_no_traceback(module: str, code: int) -> None:
    """When a module is imported, the first ones before the command line is there to say anything."""
    environment = {**os.environ, "PYTHONPATH": str(DIGITS.parents[1])}
    command = [sys.executable, "-c", INTERRUPTED, module, "run", str(DIGITS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "npu: stopped\n" if code == 130 else "")


def test_a_program_imports_hardly_anything_before_it_can_be_interrupted() -> None:
    code = "import sys; sys.path[:0] = sys.argv[1:]; import npu.__main__; print(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, str(DIGITS.parents[1])]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "npu.__main__" in imported
    assert not {"typing", "re", "argparse", "pathlib", "npu.cli"} & set(imported)


def test_an_interrupt_ends_with_130_and_writes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle of a compilation, and in the middle of writing its result."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    before = sorted(folder.iterdir())
    for place in ("npu.toolchain.compile.compile_model", "npu.files.os.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(place, interrupt)
            assert main(["compile", str(DIGITS), "-o", "out.tflite"]) == 130
        assert capsys.readouterr() == ("", "npu: stopped\n")
        assert sorted(folder.iterdir()) == before
