"""What is told to people who write commands, options and targets that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu.cli.hints import OF_VELA, options_of
from npu.cli.main import build_parser, main
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits.tflite")

CASES = {
    "command": (["runn", DIGITS], "there is no command 'runn'; did you mean npu run?"),
    "model alone": (["digits.tflite"], "npu run digits.tflite runs a model, npu compile digits.tflite compiles it"),
    "nothing near": (["frobnicate"], "there is no command 'frobnicate'; npu --help lists the commands"),
    "option": (["run", DIGITS, "--tartget", "x"], "unrecognized arguments: --tartget x; did you mean --target?"),
    "of Vela": (["compile", DIGITS, "--accelerator-config", "ethos-u55-64"],
                "--accelerator-config is an option of Vela, here: --target"),
    "of Vela with a value": (["compile", DIGITS, "--optimize=Size"], "--optimize is an option of Vela, here: --optimise"),
    "far from all": (["run", DIGITS, "--nonsense"], "unrecognized arguments: --nonsense\n"),
    "no hint": (["run", DIGITS, "extra"], "unrecognized arguments: extra\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_hint_says_what_may_be_meant(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, told = CASES[case]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_no_option_of_vela_that_has_a_hint_is_known_here() -> None:
    parser = build_parser()
    commands = parser._subparsers._group_actions[0].choices  # type: ignore[union-attr]
    assert commands is not None
    compile_, run = (options_of(commands[name]) for name in ("compile", "run"))  # type: ignore[index]
    assert not set(OF_VELA) & set(compile_)
    for here in OF_VELA.values():
        if here.startswith("--"):
            assert here in {*compile_, *run}


def test_a_missing_file_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "none.tflite"]) == 1
    assert capsys.readouterr().err == "npu: error: none.tflite: must be a TFLite file, but there is no such file\n"


def test_names_are_whole_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = "functional_1/conv2d_1/Relu;functional_1/conv2d_1/BiasAdd;functional_1/conv2d_1/convolution"
    for arguments in (["run", DIGITS], ["check", DIGITS], ["compare", DIGITS, "--b-target", "ethos-u55-32"]):
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert whole in printed
        sentences = [line for line in printed.splitlines() if line.startswith(("error", "memory", "note", "  Error"))]
        assert all(len(line) <= 120 for line in sentences)


def test_a_long_name_makes_its_own_line_long_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    b = ModelBuilder()
    x = b.input((1, 8, 8, 16), DType.INT8, scale=0.5)
    for name in ("conv/Conv2D;" * 150, "abs"):
        x = b.op("ABS", [x], (1, 8, 8, 16), DType.INT8, 0.5, name=name)
    b.output(x)
    path = tmp_path / "model.tflite"
    path.write_bytes(b.build())
    for command in ("run", "check"):
        assert main([command, str(path)]) == 0
        lengths = [len(line) for line in capsys.readouterr().out.splitlines()]
        assert sum(length > 1800 for length in lengths) == 1
        assert sum(length > 300 for length in lengths) == 1
