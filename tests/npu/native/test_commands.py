"""The command that makes libraries ahead, and what the version says about them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from npu.cli import kernels
from npu.cli.main import main
from npu.errors import UserError
from npu.native import cpu, library, sources, store

from tests.support.processes import environment

TIER = cpu.current()
DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and a group of few kernels to fill it with."""
    monkeypatch.setenv("NPULAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(sources, "GROUPS", ("npu.tools.kernels",))
    monkeypatch.setattr(library, "_makers", {})
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted("-".join(path.name.split("-")[:-3]) for path in folder.glob("*.kernels"))


def test_libraries_are_made_ahead_for_this_cpu(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up"]) == 0
    assert names(cache) == [f"npu.tools.kernels-{TIER.name}"]
    before = [path.stat().st_mtime_ns for path in cache.iterdir()]
    assert main(["warm-up"]) == 0
    assert [path.stat().st_mtime_ns for path in cache.iterdir()] == before
    assert capsys.readouterr().out == ""


def test_modules_are_compiled_ahead(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "PACKAGES", ("constraints",))
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "bytecode"))
    assert main(["warm-up"]) == 0
    assert Path(cache_from_source(str(sources.ROOT / "constraints" / "rule.py"))).is_file()


def test_libraries_are_made_ahead_for_another_cpu(cache: Path) -> None:
    assert main(["warm-up", "--cpu", "aarch64"]) == 0
    assert names(cache) == ["npu.tools.kernels-aarch64"]


def test_an_unknown_cpu_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm-up", "--cpu", "z80"]) == 1
    assert "a CPU must be one of vnni, avx512, avx2, x86-64, dotprod, aarch64, got 'z80'" in capsys.readouterr().err


def test_the_version_tells_which_libraries_are_used(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version", "--verbose"]) == 0
    assert "npu.tools.kernels              not made yet\n" in capsys.readouterr().out
    assert main(["warm-up"]) == 0
    assert main(["--version", "--verbose"]) == 0
    text = capsys.readouterr().out
    assert f"kernels for {TIER.name} (this CPU runs " in text
    assert f"npu.tools.kernels              {store.cache_path('npu.tools.kernels', TIER)}\n" in text


def test_a_library_that_cannot_be_made_ends_in_an_error_with_the_reason(cache: Path) -> None:
    with pytest.raises(UserError, match=r"npu.tools.kernels must compile for z80, got: UserError: a CPU must be one of"):
        library.prepare(["npu.tools.kernels"], cpu.CpuTier("z80", "z80", ""))
    assert names(cache) == []


def test_the_header_of_a_file_says_what_it_was_made_for() -> None:
    head = json.loads(store.encode("npu.tools.kernels", TIER, b"code").split(b"\n")[0])
    assert head.keys() == {"npulab kernels", "group", "tier", "sources", "object"}


def test_a_terminal_is_shown_how_far_the_making_is(tmp_path: Path) -> None:
    import pty  # which Windows has not

    program = """
import sys
from npu.cli.main import main
from npu.native import sources
sources.GROUPS = ("npu.tools.kernels",)
sys.argv = ["npu", "warm-up"]
sys.exit(main())
"""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=environment(NPULAB_CACHE_DIR=tmp_path))
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # Linux says so at the end
        while part := os.read(ours, 1000):
            shown += part
    os.close(ours)
    assert process.wait() == 0
    lines = shown.decode().split("\r")
    assert lines[0] == "npu: compiling the kernels for this CPU, once"
    assert lines[1] == "\n"
    counts = [tuple(map(int, re.findall(r"\d+", line))) for line in lines[2:-1]]
    assert counts == sorted(counts)
    assert {done for done, _ in counts} >= {0, 3}  # two kernels, and linking them
    assert lines[-2:] == [f"[{'#' * 24}] 3 of 3", "\n"]


@pytest.mark.parametrize("command", ["run", "compile"])
def test_a_command_says_ahead_which_libraries_it_loads(command: str, tmp_path: Path) -> None:
    """What it finds missing is made side by side, and nothing else is made."""
    program = (
        "import sys; from npu.cli.main import main; from npu.native import library\n"
        "main(sys.argv[1:]); print(*sorted(library._loaded), sep='\\n', file=sys.stderr)"
    )
    options = ["-o", str(tmp_path / "out.tflite")] if command == "compile" else []
    done = subprocess.run(
        [sys.executable, "-c", program, command, str(DIGITS), *options], capture_output=True, text=True, check=True
    )
    assert done.stderr.split() == sorted(kernels.NEEDED[command])
