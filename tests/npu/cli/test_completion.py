"""Scripts for shells know every command, option and shipped name; bash runs its own."""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

import pytest

from npu.cli.completion import SHELLS, commands_of, completion
from npu.cli.main import build_parser, main
from npu.hardware.catalogue import list_variants


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
    "a file after an option": (["npu", "run", "m.tflite", "--input", "mod"], ["model.tflite"]),
}


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


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    assert capsys.readouterr().out.endswith("complete -o filenames -F _npu npu\n")
