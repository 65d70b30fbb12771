"""Delegates loaded at run time: Python modules, files, shipped names, and shared libraries with the C interface."""

from __future__ import annotations

import gc
import shutil
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.errors import InterpreterError
from npu.runtime.interpreter import CpuInterpreter, load_delegate

from tests.support.delegates import C, X, chain, run

LIBRARY = r"""
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
static int alive = 0;
int delegates_alive(void) { return alive; }
void* tflite_plugin_create_delegate(char** keys, char** values, size_t n, void (*report_error)(const char*)) {
  for (size_t i = 0; i < n; ++i) {
    if (strcmp(keys[i], "level") != 0) { report_error(keys[i]); return NULL; }
    if (strcmp(values[i], "3") != 0) { report_error("level must be 3"); return NULL; }
  }
  ++alive;
  return malloc(16);
}
void tflite_plugin_destroy_delegate(void* delegate) { --alive; free(delegate); }
"""

MODULE = """
    from npu.runtime.dummy import DummyDelegate, default_options
    destroyed = []

    def tflite_plugin_create_delegate(keys, values, count, report_error):
        if "colour" in keys[:count]:
            report_error("colour is not known here")
            return None
        return DummyDelegate(default_options())

    def tflite_plugin_destroy_delegate(delegate):
        destroyed.append(delegate.name())
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    return _compile(LIBRARY, tmp_path / "libplugin.so")


@pytest.fixture
def module(tmp_path: Path) -> Path:
    path = tmp_path / "my_plugin.py"
    path.write_text(textwrap.dedent(MODULE))
    return path


@pytest.mark.seed("D-X-1", "D-X-8", "D-X-9")
def test_a_shared_library_creates_and_destroys_a_delegate_once(library: Path) -> None:
    import ctypes

    alive = ctypes.CDLL(str(library)).delegates_alive
    delegate = load_delegate(str(library), {"level": 3})
    assert alive() == 1
    delegate.delete()
    assert alive() == 0
    with pytest.raises(InterpreterError, match="must be deleted once"):
        delegate.delete()
    forgotten = load_delegate(str(library))
    assert alive() == 1
    del forgotten
    gc.collect()
    assert alive() == 0


@pytest.mark.seed("D-X-2", "D-X-3")
@pytest.mark.parametrize(("options", "message"), [({"speed": 1}, "speed"), ({"level": 4}, "level must be 3")])
def test_what_a_library_reports_is_the_text_of_a_value_error(library: Path, options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"must create a delegate, got an error: {message}"):
        load_delegate(str(library), options)


@pytest.mark.seed("D-X-1")
def test_the_delegate_of_a_shared_library_says_that_it_cannot_run_here(library: Path) -> None:
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL"))
    with pytest.raises(InterpreterError, match="must be a Python plug-in to run in this interpreter"):
        interpreter.modify_graph_with_delegate(load_delegate(library))
    np.testing.assert_array_equal(run(interpreter), (X + C) * C)


@pytest.mark.seed("D-X-1")
def test_a_file_that_is_no_plugin_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"no library")
    with pytest.raises(ValueError, match="must be a shared library with tflite_plugin_create_delegate"):
        load_delegate(tmp_path / "x.so")


def _compile(text: str, target: Path) -> Path:
    source = target.with_suffix(".c")
    source.write_text(text)
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None, "this test needs a C compiler: install gcc"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(source)], check=True)
    return target


@pytest.mark.seed("D-X-1", "D-X-3")
@pytest.mark.parametrize("missing", ["create", "destroy"])
def test_a_library_must_have_both_functions(missing: str, tmp_path: Path) -> None:
    name = f"tflite_plugin_{missing}_delegate"
    library = _compile(LIBRARY.replace(f"{name}(", f"other_{missing}("), tmp_path / "libhalf.so")
    with pytest.raises(ValueError, match=f"must be a shared library with .*undefined symbol: {name}"):
        load_delegate(library)


@pytest.mark.seed("D-X-3")
def test_a_library_may_report_as_late_as_in_its_destroy_function(tmp_path: Path) -> None:
    text = LIBRARY.replace("static int alive", "static void (*late)(const char*) = NULL;\nstatic int alive")
    text = text.replace("++alive;", "++alive; late = report_error;").replace("--alive;", '--alive; late("bye"); late(NULL);')
    delegate = load_delegate(_compile(text, tmp_path / "liblate.so"))
    gc.collect()
    delegate.delete()


@pytest.mark.seed("D-X-1", "D-X-2", "D-X-9")
def test_a_library_may_have_a_version_in_its_name_and_lie_in_the_working_folder(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(library, tmp_path / "libother.so.2.1")
    monkeypatch.chdir(tmp_path)
    delegate = load_delegate("libother.so.2.1", {"level": 3})
    assert delegate.name() == "libother.so.2.1"
    delegate.delete()


@pytest.mark.seed("D-X-1", "D-X-4", "D-X-8")
def test_a_python_file_is_a_plugin(module: Path) -> None:
    delegate = load_delegate(str(module), {"shape": "round"})
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL"), experimental_delegates=[delegate])
    assert [step["delegate"] for step in interpreter.execution_plan()] == ["DummyDelegate"]
    np.testing.assert_array_equal(run(interpreter), (X + C) * C)
    with pytest.raises(InterpreterError, match="'DummyDelegate': must outlive its interpreters, got delete while 1 use it"):
        delegate.delete()
    interpreter.close()
    delegate.delete()


@pytest.mark.seed("D-X-2", "D-X-3")
def test_what_a_python_plugin_reports_is_the_text_of_a_value_error(module: Path) -> None:
    with pytest.raises(ValueError, match="got an error: colour is not known here"):
        load_delegate(str(module), {"colour": "red"})


@pytest.mark.seed("D-X-2", "D-X-3")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 1}, "option must be one of allowed_builtins, error_during_init.*got 'speed'"),
        ({"error_during_init": "perhaps"}, "option 'error_during_init' must be of type bool, got 'perhaps'"),
        ({"min_nodes_per_partition": "few"}, "must be of type int, got 'few'"),
        ({"allowed_builtins": "ADD,CONV3"}, "dummy options: allowed_builtins must be names of operators, got 'CONV3'"),
    ],
)
def test_text_options_are_parsed_as_flags(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_delegate("dummy", options)


@pytest.mark.seed("D-X-4", "D-O-9")
def test_the_dummy_delegate_loads_by_name_with_options() -> None:
    delegate = npu.load_delegate("dummy", {"allowed_builtins": "ADD,SUB"})
    interpreter = npu.Interpreter(model_content=chain("ADD", "MUL"), experimental_delegates=[delegate])
    plan = [(step["op_name"], step["replaces"]) for step in interpreter.execution_plan()]
    assert plan == [("DummyDelegate", [0]), ("MUL", [])]


@pytest.mark.seed("D-X-5")
def test_the_simulated_npu_loads_by_name() -> None:
    assert load_delegate("ethos-u").name() == "EthosUDelegate"
    assert load_delegate("ethos-u", {"target": "ethos-u55-64"}).name() == "EthosUDelegate"
    with pytest.raises(ValueError, match=r"load_delegate 'ethos-u'.*ethos-u99"):
        load_delegate("ethos-u", {"target": "ethos-u99"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module_anywhere", "or of dummy, ethos-u, xnnpack"),
        ("json", "module must offer tflite_plugin_create_delegate"),
        ("/nowhere/plugin.py", "must be a Python file that exists"),
    ],
)
def test_what_is_no_plugin_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_delegate(name)


@pytest.mark.seed("D-X-1")
def test_entry_points_name_plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "third_party-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    lines = "[npulab.delegates]\nthird = npu.runtime.dummy\nfourth = npu.runtime.dummy:create_dummy_delegate\n"
    (folder / "entry_points.txt").write_text(lines)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert load_delegate("third").name() == "DummyDelegate"
    assert load_delegate("fourth").name() == "DummyDelegate"


def test_a_module_must_create_a_delegate(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(textwrap.dedent(MODULE).replace("return DummyDelegate(default_options())", "return 42"))
    with pytest.raises(ValueError, match="must create a Delegate or SimpleDelegate, got int"):
        load_delegate(path)


@pytest.mark.seed("D-X-8", "D-R-14")
def test_a_forgotten_interpreter_frees_its_kernels_before_the_plugin_is_destroyed(module: Path) -> None:
    delegate = load_delegate(module)
    interpreter = CpuInterpreter(model_content=chain("ADD", "MUL"), experimental_delegates=[delegate])
    run(interpreter)
    destroyed = delegate._finalizer.peek()
    assert destroyed is not None
    del interpreter
    gc.collect()
    delegate.delete()
    assert delegate._finalizer.peek() is None


@pytest.mark.seed("D-X-5", "D-X-8")
def test_a_delegate_that_only_its_interpreter_refers_to_outlives_the_kernels() -> None:
    interpreter = CpuInterpreter(
        model_content=chain("ADD", "MUL"), experimental_delegates=[load_delegate("xnnpack", {"num_threads": 1})]
    )
    np.testing.assert_array_equal(run(interpreter), (X + C) * C)
    assert {step["delegate"] for step in interpreter.execution_plan()} == {"XnnpackDelegate"}
    interpreter.close()  # the delegate is closed when its last reference goes, and refuses while it has kernels
    gc.collect()


def test_what_a_plugin_raises_is_one_plain_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        textwrap.dedent(MODULE).replace("return DummyDelegate(default_options())", "raise KeyError('\\x1b[31mred')")
    )
    with pytest.raises(ValueError, match="its tflite_plugin_create_delegate raised KeyError") as found:
        load_delegate(path)
    assert "\x1b" not in str(found.value)
    path.write_text("1 / 0")
    with pytest.raises(ValueError, match="must be a file that can be imported, got ZeroDivisionError"):
        load_delegate(path)


def test_a_library_that_is_cut_off_is_refused(library: Path) -> None:
    content = library.read_bytes()
    for size in (100, 1000, 4096, len(content) // 2):
        cut = library.with_name(f"cut{size}.so")
        cut.write_bytes(content[:size])
        with pytest.raises(
            ValueError, match=r"must be a (complete shared library, loading it ended in SIG|shared library with)"
        ):
            load_delegate(cut)
