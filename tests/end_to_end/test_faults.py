"""What a machine does to a process: a full disk, a folder that takes nothing, death while it writes, threads, forks, locales.

The old file stays until the new one is whole, and whatever fails is one line that names the file.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.cli.main import build_parser, main
from npu.runtime.interpreter import CpuInterpreter

from tests.end_to_end.test_hostile_inputs import make_good_files

ROOT = Path(__file__).parents[2]
DIGITS = str(ROOT / "examples" / "digits.tflite")
DIGIT = str(ROOT / "examples" / "digit_7.npy")
OLD = b"what was there before"
Arguments = Callable[[str, Path], list[str]]
WRITERS: dict[str, Arguments] = {
    "check --output": lambda out, _: ["check", DIGITS, "-o", out],
    "fix --output": lambda out, _: ["fix", DIGITS, "-o", out],
    "compile --output": lambda out, _: ["compile", DIGITS, "-o", out],
    "compile --report": lambda out, good: ["compile", DIGITS, "-o", str(good / "c.tflite"), "--report", out],
    "run --output": lambda out, _: ["run", DIGITS, "-o", out],
    "report --output": lambda out, _: ["report", DIGITS, "-o", out],
    "fit --output": lambda out, _: ["fit", DIGITS, "--board", "alif-ensemble-e7-hp", "-o", out],
    "run --report": lambda out, _: ["run", DIGITS, "--report", out],
    "run --trace": lambda out, _: ["run", DIGITS, "--trace", out],
    "explain --output": lambda out, _: ["explain", DIGITS, "-o", out],
    "disasm --output": lambda out, good: ["disasm", str(good / "compiled.tflite"), "-o", out],
    "asm --output": lambda out, good: ["asm", str(good / "listing.lst"), "--base", str(good / "compiled.tflite"), "-o", out],
    "compare --output": lambda out, good: ["compare", DIGITS, DIGITS, "-o", out],
    "diff --output": lambda out, good: ["diff", DIGITS, str(good / "compiled.tflite"), "-o", out],
    "verify --output": lambda out, good: ["verify", str(good / "compiled.tflite"), "-o", out],
    "benchmark --output": lambda out, _: ["benchmark", DIGITS, "--num-runs", "1", "-o", out],
    "benchmark --csv": lambda out, _: ["benchmark", DIGITS, "--num-runs", "1", "--csv", out],
    "inference-diff --output": lambda out, _: ["inference-diff", DIGITS, "--num-runs", "1", "-o", out],
    "eval-classification --output": lambda out, good: [
        "eval-classification", DIGITS, "--images", str(good / "images"), "-o", out,
    ],
    "tf-compat --output": lambda out, _: ["tf-compat", "-o", out],
    "configs --output": lambda out, _: ["configs", "-o", out],
    "supported-ops --output": lambda out, _: ["supported-ops", "-o", out],
    "isa --output": lambda out, _: ["isa", "-o", out],
}  # fmt: skip
"""Every option by which a command writes one file, and a command that does."""
SAME_AS_OTHERS = {"eval-detection --output"}
"""Needs a detector; its text goes the way of eval-classification's."""
FOLDERS = {"run --output-dir", "export --c", "export-workload --output-dir"}
NOT_FILES = {"compile --dump-after"}
_DESTINATIONS = ("output", "report", "trace", "csv", "output_dir", "c", "dump_after")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    make_good_files(folder)
    return folder


def options_that_write() -> Iterator[str]:
    (commands,) = (action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        for action in parser._actions:
            if action.dest in _DESTINATIONS:
                yield f"{name} {action.option_strings[-1]}"


def test_every_option_that_writes_is_tried() -> None:
    assert set(options_that_write()) == set(WRITERS) | SAME_AS_OTHERS | FOLDERS | NOT_FILES


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a disk that has this much room: what is written beyond fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # Python would keep the first bytes of a module
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes


def is_one_line_about(text: str, name: str) -> bool:
    return text.startswith("npu: error: ") and name in text and text.count("\n") == 1


@pytest.mark.parametrize("option", WRITERS)
def test_a_full_disk_leaves_the_old_file_and_says_so(
    option: str, good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.file"
    path.write_bytes(OLD)
    with files_of_at_most(16):
        code = main(WRITERS[option](str(path), good))
    assert (code, path.read_bytes()) == (1, OLD)
    assert list(tmp_path.iterdir()) == [path], "something is left beside it"
    error = capsys.readouterr().err
    assert is_one_line_about(error, "out.file") or "compile --report" in option, error
    assert os.strerror(errno.EFBIG) in error


@pytest.mark.parametrize("option", WRITERS)
def test_a_file_is_whole_before_it_has_its_name(
    option: str, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is killed while writing leaves the old file: it is there, untouched, until one rename."""
    path, seen, replace = tmp_path / "out.file", [], os.replace
    path.write_bytes(OLD)

    def watched(source: str, target: str) -> None:
        if Path(target) == path:
            seen.append(path.read_bytes())
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    assert main(WRITERS[option](str(path), good)) in (0, 3)
    assert seen == [OLD]
    assert path.read_bytes() != OLD


@pytest.mark.parametrize("option", [*WRITERS, *sorted(FOLDERS)])
def test_a_folder_that_takes_nothing_is_named(option: str, good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "/proc/nothing/out.file"
    folders: dict[str, Arguments] = {
        "run --output-dir": lambda out, _: ["run", DIGITS, "--output-dir", out],
        "export --c": lambda out, _: ["export", DIGITS, "--c", out],
        "export-workload --output-dir": lambda out, _: ["export-workload", DIGITS, "--form", "zigzag", "--output-dir", out],
    }
    assert main({**WRITERS, **folders}[option](place, good)) == 1
    assert is_one_line_about(capsys.readouterr().err, "/proc/nothing")


@pytest.mark.slow
def test_a_compiler_that_is_killed_at_any_time_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    path, rng = tmp_path / "out.tflite", np.random.default_rng(22)
    whole = npu.compile(DIGITS).content
    ends = set()
    for _ in range(60):
        path.write_bytes(OLD)
        child = subprocess.Popen(
            [sys.executable, "-m", "npu", "compile", DIGITS, "-o", str(path)], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.05, 1.5))
        child.send_signal(signal.SIGKILL)
        child.wait()
        content = path.read_bytes()
        assert content in (OLD, whole)
        ends.add(content)
    assert OLD in ends


def outputs(interpreter: CpuInterpreter) -> bytes:
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.load(DIGIT))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tobytes()


def test_threads_that_share_an_interpreter_get_its_results() -> None:
    interpreter = CpuInterpreter(model_path=DIGITS)
    interpreter.allocate_tensors()
    expected, results = outputs(interpreter), []

    def work() -> None:
        results.extend(outputs(interpreter) for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 600


FORKED = """
import os, signal, sys
import numpy as np
import npu
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.xnnpack.delegate import XnnpackDelegate

model, data = sys.argv[1], np.load(sys.argv[2])
interpreter = CpuInterpreter(model_path=model, num_threads=2, experimental_delegates=[XnnpackDelegate()])
interpreter.allocate_tensors()

def everything():
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data)
    interpreter.invoke()
    own = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tobytes()
    return own, npu.run(model, [data]).outputs[0].tobytes()

expected = everything()
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(everything() != expected)
assert os.waitpid(child, 0)[1] == 0, "the child"
assert everything() == expected, "the parent"
"""


def test_a_process_that_forks_after_use_goes_on_in_both() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, DIGITS, DIGIT], cwd=ROOT, capture_output=True, timeout=120
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


def run_npu(arguments: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    everything = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run([sys.executable, "-m", "npu", *arguments], cwd=folder, env=everything, capture_output=True)


def test_a_locale_without_letters_gets_files_and_text(tmp_path: Path) -> None:
    (tmp_path / "größe.tflite").write_bytes(Path(DIGITS).read_bytes())
    plain = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TERM": "dumb"}
    done = run_npu(["compile", "größe.tflite", "-o", "aus/größer.tflite"], tmp_path, **plain)
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False)
    done = run_npu(["compile", "größe.tflite", "-o", "größer.tflite"], tmp_path, **plain)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "größer.tflite").read_bytes() == npu.compile(DIGITS).content
    done = run_npu(["check", "größe.tflite", "--format", "json", "-o", "bericht.json"], tmp_path, **plain)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(json.loads((tmp_path / "bericht.json").read_text("utf-8"))["operators"]) == 10


def test_a_gibibyte_of_address_space_is_enough(tmp_path: Path) -> None:
    limited = ["import resource, runpy, sys", "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))"]
    code = "; ".join([*limited, "sys.argv = ['npu', *sys.argv[1:]]", "runpy.run_module('npu', run_name='__main__')"])
    command = [sys.executable, "-c", code, "run", DIGITS, "--input", DIGIT]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    )
    assert (done.returncode, done.stderr) == (0, b"")
