"""Broken files beside the model, such as descriptions, arrays, listings, images: one clear error, no traceback, no hang."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu.cli.main import main

ROOT = Path(__file__).parents[2]
DIGITS = str(ROOT / "examples" / "digits.tflite")
VELA_FILE = str(ROOT / "tests" / "golden" / "vela-5.0" / "padded_average.tflite")
SECONDS = 30.0
"""Longest that a command may take, with the compilation of kernels on a busy machine."""

TOKENS = [
    *(b"", b"\0", b"\xff\xfe", b"nan", b"1e999", b"-1", b"9" * 20, b"9" * 5000, b"{}", b"[]", b"null", b"true", b":", b"\n"),
    *(b"[" * 3000, b"&a *a", b"!!python/object:os.system", b"\xc3\x28", b'"', b"0x", b"1_000", b"~", b"- - -", b"<<: *x"),
    *(b"'", b"P6"),
]

CONFIG = """extends: ethos-u55-128
name: Board
system:
  extends: High_End_Embedded
  clock_hz: 400_000_000
  memories: {axi1: {clock_scale: 0.5}}
  adapters: {}
memory_mode: Shared_Sram
cpu: cortex-m4
shram: {banks: 24}
timing: {output_cycles: {other: 0.5}}
"""
DATABASE = """<?xml version="1.0" ?>
<debug source="digits" optimised="digits_vela">
<table name="source"><![CDATA[
"id","operator","kernel_w","kernel_h","ofm_w","ofm_h","ofm_d","ext_key"
1,"CONV_2D",3,3,8,8,16,0
2,"SOFTMAX",1,1,1,1,10,9
]]></table>
<table name="optimised"><![CDATA[
"id","source_id","operator"
1,1,"CONV_2D"
2,2,"SOFTMAX"
]]></table>
<table name="cmdstream"><![CDATA[
"id","file_offset"
0,32
]]></table>
<table name="queue"><![CDATA[
"offset","cmdstream_id","optimised_id"
152,0,1
400,0,2
]]></table>
</debug>
"""
STUDY = """models: [{}]
targets: [ethos-u55-32]
set: [system.clock_hz=400000000]
over: {{optimise: "performance,size", memory_mode.arena_cache_bytes: 64K..512K:2}}
compare_outputs: false
"""
ANNOTATIONS = {
    "images": [{"id": 1, "file_name": "0/0.ppm"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], "iscrowd": 0}],
    "categories": [{"id": 1, "name": "a"}],
}


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three things broken."""
    data = content
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, kind, token = rng.randrange(len(data) + 1), rng.randrange(5), rng.choice(TOKENS)
        words = list(re.finditer(rb"[\w.+-]+", data))
        if kind == 0:
            data = data[:at]
        elif kind == 1 and data:
            data = data[: at - 1] + bytes([rng.randrange(256)]) + data[at:]
        elif kind == 2:
            data = data[:at] + token + data[at:]
        elif kind == 3:
            data = data[:at] + data[at + rng.randrange(40) :]
        elif words:
            word = rng.choice(words)
            data = data[: word.start()] + token + data[word.end() :]
    return data


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    make_good_files(folder)
    return folder


def make_good_files(folder: Path) -> None:
    image = folder / "images" / "0" / "0.ppm"
    image.parent.mkdir(parents=True)
    image.write_bytes(b"P6 8 8 255\n" + bytes(range(192)))
    (folder / "image.ppm").write_bytes(image.read_bytes())
    (folder / "board.yaml").write_text(CONFIG)
    (folder / "budget.yaml").write_text("max_cpu_ops: 3\nmax_cycles: 100000\nmax_sram: 100000\n")
    (folder / "labels.txt").write_text("zero\none\n")
    (folder / "truth.txt").write_text("0/0.ppm 0\n")
    (folder / "annotations.json").write_text(json.dumps(ANNOTATIONS))
    (folder / "digit.npy").write_bytes((ROOT / "examples" / "digit_7.npy").read_bytes())
    assert main(["compile", DIGITS, "-o", str(folder / "compiled.tflite")]) == 0
    assert main(["disasm", str(folder / "compiled.tflite"), "-o", str(folder / "listing.lst")]) == 0
    assert main(["check", DIGITS, "--format", "json", "-o", str(folder / "baseline.json")]) == 0
    (folder / "debug.xml").write_text(DATABASE)
    (folder / "study.yaml").write_text(STUDY.format(DIGITS))
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["sweep", DIGITS, "-o", str(folder / "table.csv")]) == 0
    np.savez(folder / "raw.npz", cmd_data=np.zeros(4, np.uint8), weight_data=np.zeros(4, np.uint8))


Arguments = Callable[[str, Path], list[str]]
COMMANDS: dict[str, tuple[str, Arguments]] = {
    "run_config": ("board.yaml", lambda file, _: ["run", DIGITS, "--timing-only", "--config", file]),
    "check_config": ("board.yaml", lambda file, _: ["check", DIGITS, "--config", file]),
    "explain_config": ("board.yaml", lambda file, _: ["explain", DIGITS, "--config", file]),
    "budget": ("budget.yaml", lambda file, _: ["check", DIGITS, "--budget", file]),
    "baseline": ("baseline.json", lambda file, _: ["check", DIGITS, "--baseline", file]),
    "run_input": ("digit.npy", lambda file, _: ["run", DIGITS, "--input", file]),
    "benchmark_input": ("digit.npy", lambda file, _: ["benchmark", DIGITS, "--num-runs", "1", "--input", file]),
    "diff_input": ("digit.npy", lambda file, good: ["diff", DIGITS, str(good / "compiled.tflite"), "--input", file]),
    "labels": ("labels.txt", lambda file, _: ["run", DIGITS, "--labels", file]),
    "listing": (
        "listing.lst",
        lambda file, good: ["asm", file, "--base", str(good / "compiled.tflite"), "-o", str(good / "new.tflite")],
    ),
    "explain_raw": ("raw.npz", lambda file, _: ["explain", file]),
    "truth": (
        "truth.txt",
        lambda file, good: ["eval-classification", DIGITS, "--images", str(good / "images"), "--ground-truth", file],
    ),
    "database": ("debug.xml", lambda file, _: ["explain", VELA_FILE, "--debug-db", file]),
    "study": ("study.yaml", lambda file, _: ["sweep", "--study", file]),
    "journal": ("table.csv.journal", lambda file, _: ["sweep", DIGITS, "-o", file.removesuffix(".journal")]),
    "image": ("image.ppm", lambda file, _: ["eval-classification", DIGITS, "--images", str(Path(file).parent)]),
    "annotations": (
        "annotations.json",
        lambda file, good: ["eval-detection", DIGITS, "--images", str(good / "images"), "--annotations", file],
    ),
}


def attack(name: str, count: int, files: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, arguments = COMMANDS[name]
    content, rng = (files / base).read_bytes(), random.Random(name)
    (folder / "0").mkdir()
    broken = folder / "0" / base
    for number in range(count):
        broken.write_bytes(mutated(content, rng))
        start = time.monotonic()
        code = main(arguments(str(broken), files))
        error = capsys.readouterr().err
        assert code in (0, 1, 3), number
        assert time.monotonic() - start < SECONDS, number
        if code == 1 and error:
            assert error.startswith(("npu: error: ", "npu: check failed: ")), number
            assert error.count("\n") == 1, (number, error)
            assert len(error) < 1000, (number, error)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_broken_file_is_one_clear_error(name: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attack(name, 4, files, tmp_path, capsys)  # of which the campaign tries more


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_many_broken_files_are_one_clear_error_each(
    name: str, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    attack(name, 600, files, tmp_path, capsys)


WILD = (None, True, -1, 0, 1 << 70, 1e308, float("nan"), float("inf"), "", "x", "\x1b[31m", [], [1], {}, {"a": 1})


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of a JSON document with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def baselines(content: str, rng: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        document = json.loads(content)
        for _ in range(rng.randint(1, 3)):
            container, key = rng.choice(list(places(document)))
            container[key] = rng.choice(WILD)
        yield json.dumps(document)


@pytest.mark.parametrize("count", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_baseline_of_any_values_is_judged_or_refused(
    count: int, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, codes = tmp_path / "baseline.json", set()
    for text in baselines((files / "baseline.json").read_text(), random.Random(22), count):
        path.write_text(text)
        code = main(["check", DIGITS, "--baseline", str(path)])
        error = capsys.readouterr().err
        codes.add(code)
        assert code in (0, 1, 3), text
        assert "\x1b" not in error
        if code == 1:
            assert error.startswith("npu: error: ")
            assert error.count("\n") == 1, error
    assert {0, 1} <= codes
