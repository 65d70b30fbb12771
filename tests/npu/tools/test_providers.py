"""Parameters, flags and the registrar of delegate providers."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npu.cli.main import build_parser, main
from npu.errors import InterpreterError, UserError
from npu.runtime.dummy import DummyOptions, create_dummy_delegate, default_options, delete_dummy_delegate
from npu.tools.parameters import ToolParameters, add_flags, create_flag, take_flags
from npu.tools.providers.dummy import DummyDelegateProvider
from npu.tools.providers.external import parse_pairs
from npu.tools.registrar import default_parameters, providers, register_delegate_provider, unregister_delegate_provider
from npu.tools.runner import open_runner

from tests.support.delegates import chain

TOOLS = ("benchmark", "inference-diff", "eval-classification", "eval-detection")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(chain("ADD", "MUL"))
    return path


@pytest.mark.seed("D-O-3")
def test_parameters_keep_their_type() -> None:
    parameters = ToolParameters()
    parameters.add("use_dummy_delegate", False)
    assert parameters.get("use_dummy_delegate", bool) is False
    parameters.set("use_dummy_delegate", True)
    assert parameters.get("use_dummy_delegate", bool) is True
    with pytest.raises(UserError, match="must be of type bool, got 1"):
        parameters.set("use_dummy_delegate", 1)
    with pytest.raises(UserError, match="must be read as bool, got int"):
        parameters.get("use_dummy_delegate", int)
    with pytest.raises(UserError, match="parameter 'other': must be one of use_dummy_delegate"):
        parameters.get("other", bool)
    with pytest.raises(UserError, match="must be added once"):
        parameters.add("use_dummy_delegate", False)
    assert "use_dummy_delegate" in parameters


@pytest.mark.seed("D-O-2", "D-O-3")
@pytest.mark.parametrize(
    ("given", "expected"),
    [([], False), (["--on"], True), (["--on=true"], True), (["--on=false"], False), (["--on", "--on=false"], False)],
)
def test_a_flag_of_a_bool_needs_no_value(given: list[str], expected: bool) -> None:
    parameters = ToolParameters()
    parameters.add("on", False)
    parameters.add("level", 2)
    parser = argparse.ArgumentParser()
    flags = [create_flag("on", parameters, "switch on"), create_flag("level", parameters, "how much")]
    add_flags(parser.add_argument_group("x"), flags, parameters)
    take_flags(parser.parse_args([*given, "--level", "7"]), parameters)
    assert parameters.get("on", bool) is expected
    assert parameters.get("level", int) == 7
    with pytest.raises(SystemExit):
        parser.parse_args(["--level", "many"])


@pytest.mark.seed("D-O-1", "D-O-7")
def test_the_registrar_finds_all_providers_in_a_fresh_process() -> None:
    code = "from npu.tools.registrar import providers; print(*(p.name() for p in providers()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["DummyDelegate", "ExternalDelegate", "EthosUDelegate", "XnnpackDelegate"]


@pytest.mark.seed("D-O-4")
def test_a_provider_registers_by_one_line_and_only_once() -> None:
    class Mine(DummyDelegateProvider):
        def name(self) -> str:
            return "Mine"

    register_delegate_provider(Mine)
    assert "Mine" in [provider.name() for provider in providers()]
    with pytest.raises(UserError, match="'Mine': must be registered once"):
        register_delegate_provider(Mine)
    unregister_delegate_provider("Mine")
    with pytest.raises(UserError, match="must be registered before it is removed"):
        unregister_delegate_provider("Mine")


@pytest.mark.seed("D-O-2", "D-O-5")
def test_a_provider_makes_no_delegate_unless_asked() -> None:
    parameters = default_parameters()
    assert [provider.create_delegate(parameters) for provider in providers()] == [None, None, None, None]
    provider = DummyDelegateProvider()
    parameters.set("use_dummy_delegate", True)
    made = provider.create_delegate(parameters)
    assert made is not None
    assert made.name() == provider.name() == "DummyDelegate"
    assert provider.log_parameters(parameters) == ["use dummy delegate: True"]


@pytest.mark.seed("D-O-6")
def test_the_dummy_delegate_has_default_options_create_and_delete() -> None:
    assert default_options() == DummyOptions()
    delegate = create_dummy_delegate()
    delete_dummy_delegate(delegate)
    with pytest.raises(InterpreterError, match="must be deleted once"):
        delete_dummy_delegate(delegate)


@pytest.mark.seed("D-O-8", "D-X-6")
@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_lists_the_flags_of_every_provider(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([tool, "--help"])
    text = capsys.readouterr().out
    for provider in providers():
        for flag in provider.create_flags(provider.default_parameters()):
            assert f"--{flag.name}" in text


def test_a_command_line_without_tools_loads_no_provider() -> None:
    code = "import sys; from npu.cli.main import main; main(['--version']); print('npu.tools.registrar' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.seed("D-O-9")
@pytest.mark.parametrize("callback", ["init", "prepare", "invoke"])
def test_the_dummy_delegate_fails_where_it_is_told_to(model: Path, callback: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["benchmark", str(model), "--num-runs", "1", "--use_dummy_delegate", f"--dummy_error_during_{callback}"]
    assert main(arguments) == 1
    assert f"dummy delegate: error during {callback}, as its options ask for" in capsys.readouterr().err


@pytest.mark.seed("D-O-9")
def test_the_dummy_delegate_takes_only_what_it_is_allowed_to(model: Path) -> None:
    parameters = default_parameters()
    parameters.set("use_dummy_delegate", True)
    parameters.set("dummy_allowed_builtins", "MUL, SUB")
    session = open_runner(model, parameters)
    assert [step["replaces"] for step in session.interpreter.execution_plan()] == [[], [1]]


@pytest.mark.seed("D-X-6")
def test_the_external_provider_loads_a_plugin_with_options(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["benchmark", str(model), "--num-runs", "1", "--external_delegate_path", "dummy"]
    assert main([*arguments, "--external_delegate_options", "allowed_builtins:ADD;min_nodes_per_partition:1"]) == 0
    assert "DummyDelegate: 1 of 2 nodes in 1 partition," in capsys.readouterr().out
    assert main([*arguments, "--external_delegate_options", "speed:9"]) == 1
    assert "got 'speed'" in capsys.readouterr().err


@pytest.mark.seed("D-X-6")
def test_pairs_are_separated_by_semicolons() -> None:
    assert parse_pairs("") == {}
    assert parse_pairs("a:1; b:x:y;") == {"a": "1", "b": "x:y"}
    with pytest.raises(UserError, match=r'must be "key:value;key:value", got \'b\''):
        parse_pairs("a:1;b")


@pytest.mark.seed("D-P-1")
def test_the_four_tools_are_commands_and_console_scripts() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    for tool in TOOLS:
        assert f'npu-{tool} = "npu.__main__:{tool.replace("-", "_")}"' in text
        assert tool in build_parser(with_delegates=False).format_help()


@pytest.mark.seed("D-O-5")
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--xnnpack_qs8", "--xnnpack_num_threads", "2"], "--xnnpack_qs8, --xnnpack_num_threads: must be given together with"),
        (["--npu_target", "ethos-u65-256"], "--npu_target: must be given together with --use_npu"),
        (["--external_delegate_options", "a:b"], "must be given together with --external_delegate_path"),
        (["--use_dummy_delegate=false", "--dummy_error_during_init"], "must be given together with --use_dummy_delegate"),
    ],
)
def test_flags_of_a_delegate_that_is_not_asked_for_are_refused(
    model: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(model), *flags]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.seed("D-B-2", "X-E-10")
@pytest.mark.parametrize(
    ("flags", "threads"), [([], 1), (["--num-threads", "2"], 2), (["--num-threads", "2", "--xnnpack_num_threads", "1"], 1)]
)
def test_the_threads_of_the_tool_are_those_of_the_delegate(
    model: Path, flags: list[str], threads: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(model), "--num-runs", "1", "--use_xnnpack", *flags]) == 0
    assert f"use XNNPACK-like delegate: True, threads: {threads}\n" in capsys.readouterr().out


THIRD_PARTY = """
from npu.runtime.dummy import create_dummy_delegate
from npu.tools.parameters import ToolParameters, create_flag
from npu.tools.registrar import DelegateProvider, register_delegate_provider

@register_delegate_provider
class Provider(DelegateProvider):
    def name(self): return "ThirdParty"
    def default_parameters(self):
        parameters = ToolParameters()
        parameters.add("use_third_party", False)
        parameters.add("third_party_level", 3)
        return parameters
    def create_flags(self, parameters):
        return [create_flag(name, parameters, "of another project") for name in parameters]
    def log_parameters(self, parameters): return [f"third party, level {parameters.get('third_party_level', int)}"]
    def create_delegate(self, parameters):
        return create_dummy_delegate() if parameters.get("use_third_party", bool) else None
"""


@pytest.mark.seed("D-O-4", "D-O-8")
def test_the_provider_of_an_installed_package_is_in_every_tool(model: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    information = site / "third_party-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[npulab.delegate_providers]\nthird = third_party:Provider\n")
    (site / "third_party.py").write_text(THIRD_PARTY)

    def run(*arguments: str) -> str:
        path = os.pathsep.join([str(site), str(Path(__file__).parents[3])])
        environment = {**os.environ, "PYTHONPATH": path}
        command = [sys.executable, "-m", "npu", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    for tool in TOOLS:
        assert "--third_party_level INT" in run(tool, "--help")
    text = run("benchmark", str(model), "--num-runs", "1", "--use_third_party", "--third_party_level", "5")
    assert "third party, level 5" in text
    assert "DummyDelegate: 2 of 2 nodes in 1 partition, 3 tensors cross its border" in text


@pytest.mark.parametrize("content", ["import no_such_module", "raise RuntimeError('\\x1b[31mred')", "1 / 0", "def"])
def test_the_tools_work_without_a_provider_of_another_package_that_is_broken(content: str, tmp_path: Path) -> None:
    information = tmp_path / "third_party-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[npulab.delegate_providers]\nthird = third_party:Provider\n")
    (tmp_path / "third_party.py").write_text(content)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    command = [sys.executable, "-m", "npu", "benchmark", "--help"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "--num-runs" in done.stdout
    assert done.stderr.startswith("npu: note: delegate provider 'third' is left out: must be importable as third_party, got ")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
