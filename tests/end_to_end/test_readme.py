"""The README tells the truth: every `$ npu ...` in it prints what stands below it (`pytest --update-golden` rewrites it)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import npu
from npu.cli.main import main

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
WIDTH = "100"
BLOCK = re.compile(r"```text\n(\$ npu .*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def output_of(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    call, _, head = command.partition(" | head -")
    assert main(shlex.split(call)[1:]) == 0, call
    captured = capsys.readouterr()
    assert captured.err == ""
    lines = captured.out.splitlines()
    return "".join(f"{line}\n" for line in (lines[: int(head)] if head else lines))


def told_by(block: str, capsys: pytest.CaptureFixture[str]) -> str:
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{output_of(command, capsys)}" for command in commands)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", WIDTH)
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
def test_every_command_prints_what_the_readme_says(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> None:
    text = README.read_text(encoding="utf-8")
    blocks = BLOCK.findall(text)
    assert len(blocks) >= 5
    told = {block: told_by(block, capsys) for block in blocks}
    if request.config.getoption("--update-golden"):
        for block, output in told.items():
            text = text.replace(block, output)
        README.write_text(text, encoding="utf-8")
    for block, output in told.items():
        assert request.config.getoption("--update-golden") or block == output


def test_the_python_of_the_readme_runs(elsewhere: Path) -> None:
    (code,) = PYTHON.findall(README.read_text(encoding="utf-8"))
    exec(compile(code, str(README), "exec"), {})
    assert (elsewhere / "digits_u55_256.tflite").is_file()


def test_every_file_that_the_readme_links_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_public_names_of_the_readme_exist() -> None:
    for name in re.findall(r"npu\.(\w+)\(", README.read_text(encoding="utf-8")):
        assert hasattr(npu, name)
