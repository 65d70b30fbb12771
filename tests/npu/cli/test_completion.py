"""Scripts for shells know every command, option and shipped name, and every shell runs its own."""

from __future__ import annotations

import argparse
import os
import select
import subprocess
from pathlib import Path

import pytest

from npu.cli.completion import SHELLS, commands_of, completion
from npu.cli.main import build_parser, main
from npu.hardware.catalogue import list_variants

from tests.support.processes import environment


@pytest.fixture(scope="module")
def parser() -> argparse.ArgumentParser:
    return build_parser()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command_and_option(shell: str, parser: argparse.ArgumentParser) -> None:
    script = completion(shell, parser)
    commands = commands_of(parser)
    assert {"check", "run", "report", "compare", "completion"} <= set(commands)
    for name, (summary, options) in commands.items():
        assert name in script
        assert shell == "bash" or summary[:20] in script
        for option in options:
            for one in option.names:
                assert (one if shell != "fish" else f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}") in script
    assert all(target in script for target in list_variants())


CASES = {
    "a command": (["npu", "expl"], ["explain"]),
    "an option": (["npu", "run", "m.tflite", "--timing"], ["--timing-only"]),
    "a target": (["npu", "run", "--target", "ethos-u65"], ["ethos-u65-256", "ethos-u65-512"]),
    "a target of B": (["npu", "compare", "a.tflite", "--b-target", "ethos-u55-3"], ["ethos-u55-32"]),
    "a form": (["npu", "check", "m.tflite", "--format", "s"], ["sarif"]),
    "a file": (["npu", "run", "mod"], ["model.tflite"]),
    "an option once more": (["npu", "sweep", "--over", "a=1", "--ove"], ["--over"]),
    "a file after an option": (["npu", "run", "m.tflite", "--input", "mod"], ["model.tflite"]),
}


COMMON = {"a target": "ethos-u65-"}
"""What zsh inserts where several words fit."""


@pytest.mark.parametrize("case", CASES)
def test_bash_completes(case: str, tmp_path: Path, parser: argparse.ArgumentParser) -> None:
    words, expected = CASES[case]
    (tmp_path / "model.tflite").touch()
    (tmp_path / "npu.bash").write_text(completion("bash", parser))
    given = " ".join(f"'{word}'" for word in words)
    ask = f'source ./npu.bash; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _npu; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stderr == ""
    assert done.stdout.split() == expected


@pytest.mark.shells
@pytest.mark.parametrize("case", CASES)
def test_fish_completes(case: str, tmp_path: Path, parser: argparse.ArgumentParser) -> None:
    words, expected = CASES[case]
    (tmp_path / "model.tflite").touch()
    (tmp_path / "npu.fish").write_text(completion("fish", parser))
    ask = ["fish", "--no-config", "-c", f"source ./npu.fish; complete -C '{' '.join(words)}'"]
    done = subprocess.run(ask, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stderr == ""
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == expected


@pytest.mark.shells
@pytest.mark.parametrize("case", CASES)
def test_zsh_completes(case: str, tmp_path: Path, parser: argparse.ArgumentParser) -> None:
    """As typed: what follows the tabulator key; where there are several, what they have in common."""
    words, expected = CASES[case]
    (tmp_path / "model.tflite").touch()
    (tmp_path / "_npu").write_text(completion("zsh", parser))
    function = 'npu() { print -r -- "<<$@>>" }'
    begin = f"PS1= ; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -D -u; {function}; print re''ady"
    inserted = COMMON.get(case, expected[0])
    with Terminal(["zsh", "-f", "-i"], tmp_path) as shell:
        shell.send(begin + "\n")
        shell.read_until("ready")
        shell.send(" ".join(words) + "\t")
        shell.read_until(inserted)
        shell.send("\n")
        typed = shell.read_until(">>").split("<<")[-1].split(">>")[0]
    assert typed.split() == [*words[1:-1], inserted]


class Terminal:
    """A program at a pseudo terminal, and what it shows."""

    def __init__(self, command: list[str], folder: Path) -> None:
        import pty  # which Windows has not

        self._ours, theirs = pty.openpty()
        settings = environment(TERM="dumb")
        self._process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=settings, cwd=folder)
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def send(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read_until(self, text: str) -> str:
        shown = ""
        while text not in shown:
            assert select.select([self._ours], [], [], 20)[0], f"must show {text!r}, got {shown!r}"
            shown += os.read(self._ours, 4096).decode()
        return shown


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out.endswith("complete -o filenames -F _npu npu\n")
