"""The build hook: a wheel with libraries, and one without where they cannot be made."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import cache_from_source, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from npu.native import cpu, makers, sources

from tests.support.processes import ROOT, environment


class App:
    """What hatchling shows warnings with."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, message: str) -> None:
        self.warnings.append(message)


class Packages:
    """The part of hatchling's settings that the hook reads."""

    packages = ("npu", "sim")


def hook() -> Any:
    spec = spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.KernelBuildHook.__new__(module.KernelBuildHook)
    made.__dict__.update({"_BuildHookInterface__root": str(ROOT), "_BuildHookInterface__app": App()})
    return made


def built(made: Any, version: str = "standard") -> dict[str, Any]:
    data: dict[str, Any] = {"force_include": {}, "pure_python": True}
    made.initialize(version, data)
    return data


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GROUPS", ("npu.tools.kernels",))
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.usefixtures("small")
def test_a_wheel_gets_the_libraries_of_this_cpu(tmp_path: Path) -> None:
    made = hook()
    data = built(made)
    tier = cpu.current()
    ((path, inside),) = data["force_include"].items()
    assert Path(path).is_file()
    assert inside == f"npu/native/libraries/npu.tools.kernels-{tier.name}.kernels"
    assert (data["pure_python"], data["tag"]) == (False, f"py3-none-manylinux_2_17_{tier.machine}")
    made.finalize("standard", data, "")
    assert not Path(path).exists()


@pytest.mark.usefixtures("small")
def test_a_wheel_can_be_made_for_other_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULAB_BUILD_CPUS", "aarch64")
    made = hook()
    data = built(made)
    assert data["tag"] == "py3-none-manylinux_2_17_aarch64"
    made.finalize("standard", data, "")


@pytest.mark.usefixtures("small")
def test_a_library_that_cannot_be_made_leaves_a_wheel_for_every_platform_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError("no processes left")

    monkeypatch.setattr(makers, "start", refuse)
    made = hook()
    assert built(made) == {"force_include": {}, "pure_python": True}
    (message,) = made.app.warnings
    assert message.endswith("the first run will compile them: no processes left")


def test_no_library_is_made_where_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPULAB_BUILD_CPUS", "none")
    assert built(hook()) == {"force_include": {}, "pure_python": True}


def test_an_editable_install_gets_bytecode_and_no_library(tmp_path: Path) -> None:
    package = tmp_path / "npu" / "isa"
    package.mkdir(parents=True)
    (package / "command.py").write_text("ONE = 1\n")
    (tmp_path / "npu" / "broken.py").write_text("def\n")
    made = hook()
    made.__dict__.update({"_BuildHookInterface__root": str(tmp_path), "_BuildHookInterface__build_config": Packages()})
    assert built(made, "editable") == {"force_include": {}, "pure_python": True}
    assert Path(cache_from_source(str(package / "command.py"))).is_file()


@pytest.mark.slow
def test_a_wheel_runs_without_compiling(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, env=environment(), check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    cache = tmp_path / "cache"
    where = environment(PYTHONPATH=tmp_path / "installed", NPULAB_CACHE_DIR=cache)
    done = subprocess.run(
        [sys.executable, "-m", "npu", "run", str(ROOT / "examples" / "digits.tflite")],
        cwd=tmp_path, env=where, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stderr == b""
    assert not list(cache.glob("*.kernels"))  # parsed descriptions alone are kept
