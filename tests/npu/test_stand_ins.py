"""What stands in for modules while numpy is loaded does what it must, and leaves no trace."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import get_args, get_origin

import numpy as np
import numpy.typing as npt
import pytest

from npu import stand_ins
from npu.stand_ins import FOR_NUMPY, FOR_PYTHON, NDArray, StandIn

_ALL = {**FOR_PYTHON, **FOR_NUMPY}
EXAMPLES = Path(__file__).parents[2] / "examples"
_LOADED = """
import sys
from npu.stand_ins import FOR_NUMPY, FOR_PYTHON, StandIn, load_numpy, load_python
load_python()
load_numpy()
assert not (FOR_NUMPY.keys() | FOR_PYTHON.keys() | {"datetime"}) & sys.modules.keys(), "something was loaded"
assert [name for name, module in sys.modules.items() if isinstance(module, StandIn)] == ["numpy.typing"]
"""
_USED = """
import argparse, dataclasses, datetime, gettext, inspect, io, pathlib, pickle, urllib.parse
import numpy, numpy.typing
from numpy.typing import ArrayLike, NDArray
assert inspect.cleandoc("  a") == "a" and str(inspect.signature(lambda a: 0)) == "(a)"
assert dataclasses.make_dataclass("Pair", ["one"]).__doc__.startswith("Pair(one")
assert numpy.typing.NBitBase and NDArray[numpy.int8].__args__[1] == numpy.dtype[numpy.int8]
assert pathlib.Path("/one two").as_uri() == "file:///one%20two" and urllib.parse.quote(" ") == "%20"
day = datetime.date(2026, 1, 2)
assert numpy.datetime64(day).astype(object) == day and isinstance(numpy.datetime64(day).item(), datetime.date)
assert gettext.gettext("one") == "one" and gettext.NullTranslations()
assert "usage: some" in argparse.ArgumentParser(prog="some").format_usage()
file = io.BytesIO()
numpy.save(file, numpy.array([{"one": 1}]), allow_pickle=True)
assert numpy.load(io.BytesIO(file.getvalue()), allow_pickle=True)[0] == {"one": 1}
assert numpy.linalg.solve([[2.0]], [4.0]) == [2.0] and pickle.loads(pickle.dumps(numpy.arange(3))).sum() == 3
assert "numpy" in numpy.info.__module__ and numpy.matrix("1 2").shape == (1, 2)
import numpy.ma, numpy.random
"""


def _python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stderr


def test_numpy_is_loaded_without_what_it_hardly_uses() -> None:
    assert _python(_LOADED) == ""


def test_what_was_left_out_is_there_when_it_is_used() -> None:
    assert _python(_LOADED + _USED) == ""


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("compile", ("-o", "{folder}/out.tflite")),
        ("check", ()),
        ("run", ("--input", f"{EXAMPLES}/digit_3.npy")),
        ("run", ("--timing-only",)),
        ("explain", ()),
    ],
)
def test_a_command_loads_none_of_it(tmp_path: Path, command: str, options: tuple[str, ...]) -> None:
    """Nor what takes as long to load as a small model to run: the rest of numpy, OpenSSL, archives, XML."""
    words = (command, str(EXAMPLES / "digits.tflite"), *(option.format(folder=tmp_path) for option in options))
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "npu", *words], capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "numpy.lib" in loaded
    others = {"numpy.typing", "numpy.ma", "numpy.random", "_hashlib", "zipfile", "xml.etree.ElementTree", "subprocess", "numba"}
    used = {"textwrap", "ast"}  # where a table is folded, and of numpy to read the header of a file
    assert not loaded & ((_ALL.keys() - (used if command != "compile" else set())) | others)


def test_numpy_that_is_there_already_stays_as_it_is() -> None:
    loaded = "import numpy, sys; there = {*sys.modules}; from npu.stand_ins import load_numpy; load_numpy()"
    assert _python(f"{loaded}; assert there <= {{*sys.modules}}") == ""


@pytest.mark.parametrize("name", _ALL)
def test_every_module_that_is_stood_in_for_exists(name: str) -> None:
    assert _ALL[name].keys() <= vars(import_module(name)).keys()


def test_another_attribute_loads_the_real_module(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn("textwrap")
    monkeypatch.setitem(sys.modules, "textwrap", stand_in)
    assert stand_in.dedent(" a") == "a"
    assert sys.modules["textwrap"] is not stand_in


def test_a_module_that_is_loaded_or_stood_in_for_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "npu_absent", ModuleType("npu_absent"))
    assert list(stand_ins._stand_in({"npu_absent": {"one": 1}})) == []


def test_arrays_are_named_as_numpy_names_them() -> None:
    """Of any shape, for which versions of numpy have different names."""
    alias = npt.NDArray[np.int8]
    value = getattr(alias, "__value__", alias)  # from numpy 2.5 on an alias of its own kind
    assert get_origin(NDArray[np.int8]) is get_origin(value) is np.ndarray
    assert get_args(NDArray[np.int8])[1] == np.dtype[np.int8]


def test_the_help_is_what_argparse_makes_of_it_without_stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    real = "import sys; sys.argv[0] = 'npu'; from npu.cli.main import main; main()"
    texts = [
        subprocess.run([sys.executable, *program, "--help"], capture_output=True, text=True, check=True).stdout
        for program in (("-c", real), ("-m", "npu"))
    ]
    assert texts[1] == texts[0]
    assert "commands:\n  COMMAND\n" in texts[0]
