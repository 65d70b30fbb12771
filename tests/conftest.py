"""Settings of all tests, and the golden files: `pytest --update-golden` (or `make golden`) rewrites them."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from difflib import unified_diff
from pathlib import Path

import pytest
from hypothesis import settings

from npu.api import compile
from npu.compiler import pipeline
from npu.compiler.verify import ChangeVerifier

from tests.support.coverage_table import Collector
from tests.support.plugged import DELEGATES
from tests.support.shared import shared_models

settings.register_profile("reproducible", derandomize=True, deadline=None, max_examples=40)
settings.register_profile("thorough", settings.get_profile("reproducible"), max_examples=200)
settings.load_profile("reproducible")

COLLECTOR = pytest.StashKey[Collector]()
GOLDEN = Path(__file__).with_name("golden")
_MOST_LINES = 40
"""Changed lines of a golden file that are shown."""


def pytest_configure(config: pytest.Config) -> None:
    """Runs with slow tests draw more examples of everything that is drawn."""
    if "not slow" not in config.option.markexpr:
        settings.load_profile("thorough")
    config.stash[COLLECTOR] = Collector()
    config.pluginmanager.register(config.stash[COLLECTOR], "requirement markers")


sys.dont_write_bytecode = False  # hundreds of processes that tests start read it, whatever PYTHONDONTWRITEBYTECODE says
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
gc.disable()  # until all tests are collected: thousands of them stay, and none is garbage


def pytest_itemcollected(item: pytest.Item) -> None:
    """In a clone, tests whose cases are models of other owners have none."""
    if "NOTSET" in item.name and not shared_models():  # as pytest writes it
        item.add_marker(pytest.mark.skip(reason="the model is not here"), append=False)


def pytest_collection_finish() -> None:
    """The collected tests stay, and are not looked through for garbage; what tests leave is looked for rarely."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """What is left is looked through once, not at each of the steps by which a process ends."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the files under tests/golden")
    parser.addoption("--delegate", choices=sorted(DELEGATES), help="run the operator tests with this delegate plugged in")


@pytest.fixture(scope="session", autouse=True)
def terminal() -> Iterator[None]:
    """Text is laid out for 120 plain columns, whatever terminal the tests run in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")
        for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def verified_passes() -> Iterator[None]:
    """Whatever the tests compile is verified after every pass."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "DEFAULT_OBSERVERS", (ChangeVerifier(),))
        yield


@pytest.fixture(scope="session")
def compiled_digits() -> bytes:
    """`examples/digits.tflite` compiled for the default target, for tests of what is done with such a file."""
    return compile(GOLDEN.parents[1] / "examples" / "digits.tflite").content


@pytest.fixture
def collected(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """Every test of the project, deselected ones too; skips a run that was given only some files."""
    if request.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        pytest.skip("only some tests were collected")
    return request.config.stash[COLLECTOR].items


def changed_lines(before: str, after: str) -> str:
    """The lines that differ, as far as one reads them."""
    lines = [line for line in unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0) if line[:1] in "-+"][2:]
    return "\n".join([*lines[:_MOST_LINES], *[f"... {len(lines)} lines in all"] * (len(lines) > _MOST_LINES)])


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)`: the text must be what the golden file of this name holds."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        command = f"make golden TESTS={request.path.relative_to(GOLDEN.parents[1])}"
        assert path.is_file(), f"{path} is missing; make it with: {command}"
        recorded = path.read_text(encoding="utf-8")
        if text != recorded:
            pytest.fail(f"{path} differs; if that is right: {command}\n{changed_lines(recorded, text)}", pytrace=False)

    return compare
