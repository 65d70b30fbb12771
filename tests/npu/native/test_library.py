"""Libraries: what they are made from, where they are kept, and that nothing that is wrong with a file stops a run."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from npu.native import cpu, link, sources, store
from npu.native.kernel import DECLARED

from tests.support.processes import ROOT, environment, python

GROUP = "npu.numerics"
CALL = """
import warnings
warnings.simplefilter("error" if not sys.argv[1:] else "always")
from npu.numerics.rounding import rounding_divide_by_power_of_two as divide
print(divide(5, 1), "numba" in sys.modules)
"""
CALL = "import sys\n" + CALL
"""Prints 3 False, with warnings as errors unless it is given an argument."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with the library of GROUP."""
    folder = tmp_path_factory.mktemp("cache")
    done = python(CALL, NPULAB_CACHE_DIR=folder)
    assert (done.stdout, done.stderr) == ("3 False\n", "")
    return folder


def library_in(folder: Path) -> Path:
    (path,) = folder.glob("*.kernels")
    return path


def test_a_library_is_kept_and_used_without_numba(made: Path, tmp_path: Path) -> None:
    path = library_in(made)
    before = path.stat().st_mtime_ns
    (tmp_path / "numba.py").write_text("raise SystemExit('numba was imported')")
    done = python(CALL, cwd=tmp_path, NPULAB_CACHE_DIR=made)
    assert (done.stdout, path.stat().st_mtime_ns) == ("3 False\n", before)


DAMAGE = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "one_bit_changed": lambda content: content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
    "foreign": lambda content: b"\x80\x04N." * 1000,
    "of_another_version": lambda content: content.replace(b'"npulab kernels": 2', b'"npulab kernels": 1'),
    "of_another_cpu": lambda content: content.replace(b'"tier": "', b'"tier": "not-', 1),
    "of_other_sources": lambda content: content.replace(b'"sources": "', b'"sources": "0', 1),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_library_that_is_damaged_or_foreign_counts_as_missing(damage: str, made: Path) -> None:
    whole = library_in(made).read_bytes()
    assert store.decode(GROUP, cpu.current(), whole) is not None
    assert store.decode(GROUP, cpu.current(), DAMAGE[damage](whole)) is None


@pytest.mark.parametrize("damage", ["truncated", *(pytest.param(name, marks=pytest.mark.slow) for name in DAMAGE)])
def test_a_library_that_counts_as_missing_is_made_again(damage: str, made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(made, folder)
    path = library_in(folder)
    whole = path.read_bytes()
    path.write_bytes(DAMAGE[damage](whole))
    done = python(CALL, NPULAB_CACHE_DIR=folder)
    assert (done.stdout, done.stderr) == ("3 False\n", "")
    assert library_in(folder).read_bytes() == whole


def test_without_a_place_to_keep_it_a_library_is_made_and_that_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = python(CALL, "warn", NPULAB_CACHE_DIR=tmp_path / "file" / "cache")
    assert done.stdout == "3 False\n"
    assert done.stderr.count("set NPULAB_CACHE_DIR to a folder that can be written") == 1


def test_a_full_disk_is_no_obstacle(tmp_path: Path) -> None:
    limit = "import resource, signal, sys; sys.dont_write_bytecode = True; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
    done = python(limit + CALL, "warn", NPULAB_CACHE_DIR=tmp_path)
    assert done.stdout == "3 False\n"
    assert "cannot be kept" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_processes_on_an_empty_cache_both_run(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        done = [item.result() for item in [pool.submit(python, CALL, NPULAB_CACHE_DIR=tmp_path) for _ in range(2)]]
    assert [(item.stdout, item.stderr) for item in done] == [("3 False\n", "")] * 2
    assert library_in(tmp_path).is_file()


def test_eight_threads_start_at_once(made: Path, tmp_path: Path) -> None:
    code = """
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from npu.numerics.rounding import multiply_by_quantized_multiplier as a, rounding_divide_by_power_of_two as b
with ThreadPoolExecutor(8) as pool:
    print(sorted(pool.map(lambda k: (a if k % 2 else b)(*((7, 1 << 30, 1) if k % 2 else (5, 1))), range(8))))
"""
    for folder in (made, tmp_path):
        done = python(code, NPULAB_CACHE_DIR=folder)
        assert (done.stdout, done.stderr) == ("[3, 3, 3, 3, 7, 7, 7, 7]\n", "")


PLANTED = ("numba", "llvmlite", "numpy", "yaml", "rich", "flatbuffers", "npu", "sim", "json", "hashlib", "npu/native/make")


PROGRAMS = {
    "one_group": "from npu.native import library; library.prepare(['npu.numerics'])",
    "a_run": "from npu.cli.main import main; sys.exit(main())",
}


@pytest.mark.parametrize("program", ["one_group", pytest.param("a_run", marks=pytest.mark.slow)])
def test_nothing_in_the_current_folder_is_executed(program: str, tmp_path: Path) -> None:
    folder = tmp_path / "downloads"
    for name in PLANTED:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(tmp_path / 'executed')!r}, 'a').write({name!r})")
    code = f"import sys; sys.path[:0] = [{str(ROOT)!r}]; {PROGRAMS[program]}"
    flag = "-P" if sys.version_info >= (3, 11) else "-I"  # as an installed script: without the current folder
    done = subprocess.run(
        [sys.executable, flag, "-c", code, "run", ROOT / "examples" / "digits.tflite"],
        cwd=folder, env=environment(NPULAB_CACHE_DIR=tmp_path / "cache", PYTHONPATH=""), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "cache").glob("*.kernels"))
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL"])
def test_no_process_goes_on_making_libraries_for_one_that_was_killed(signal: str, tmp_path: Path) -> None:
    code = """
import os, signal, sys
from npu.native import makers, cpu
maker, = makers.start(["sim.timing.kernels"], cpu.current())
print(maker._process.pid, flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""
    done = python(code, signal, NPULAB_CACHE_DIR=tmp_path)
    child = Path(f"/proc/{int(done.stdout)}/stat")
    for _ in range(200):
        if not child.exists() or child.read_text().split()[2] == "Z":  # ended, although nobody may have waited for it
            return
        time.sleep(0.05)
    raise AssertionError("the process goes on")


def test_a_numba_told_to_make_code_for_another_cpu_is_not_obeyed(made: Path, tmp_path: Path) -> None:
    for folder in (made, tmp_path):
        done = python(CALL, NPULAB_CACHE_DIR=folder, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
        assert (done.stdout, done.stderr) == ("3 False\n", "")


def test_a_cpu_that_this_one_is_not_is_refused() -> None:
    done = python("from npu.native.cpu import current; current()", NPULAB_CPU="z80")
    assert done.stderr.endswith("a CPU must be one of vnni, avx512, avx2, x86-64, dotprod, aarch64, got 'z80'\n")


def test_a_library_changes_with_all_that_its_kernels_use() -> None:
    files = sources.files_of("npu.runtime.kernels")
    assert {"npu.numerics.rounding", "npu.native.compile", "npu.native.link", "npu.runtime.kernels.softmax"} <= files.keys()
    assert "sim.functional.kernels.rows" not in files


def test_modules_are_told_from_all_forms_of_imports() -> None:
    source = b"""import npu.errors
import os, sys
from npu.native import (
    cpu,
    link as joined,
)
    from sim import trace
from os import path
word = "what is important: import npu"
"""
    named = set(sources._imported(source))
    assert {"npu.errors", "npu.native", "npu.native.cpu", "npu.native.link", "sim", "sim.trace"} <= named
    assert not any(name.startswith(("os", "sys", "path")) for name in named)


def test_every_module_with_kernels_belongs_to_a_group() -> None:
    for path in [*ROOT.glob("npu/**/*.py"), *ROOT.glob("sim/**/*.py")]:
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if b"\n@kernel(" in path.read_bytes():
            import_module(module)
            assert DECLARED[module]
            assert module in sources.modules_of(sources.group_of(module))


IN_EVERY_RUN = ("x86-64", "aarch64")
"""CPUs that objects are made for in every run: one of each architecture."""


def test_an_object_that_needs_more_than_the_c_library_is_refused() -> None:
    calling = (
        'target triple = "x"\ndeclare void @PyErr_Clear()\ndefine void @f() {\n  call void @PyErr_Clear()\n  ret void\n}\n'
    )
    with pytest.raises(link.Unlinkable, match="the C library, got PyErr_Clear"):
        link.make_object([calling], ["f"], cpu.current())


LONG_LOOP = """
define i64 @add(ptr %numbers, i64 %count) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi i64 [ 0, %entry ], [ %more, %loop ]
  %place = getelementptr i64, ptr %numbers, i64 %k
  %number = load i64, ptr %place
  %more = add i64 %sum, %number
  %next = add i64 %k, 1
  %again = icmp slt i64 %next, %count
  br i1 %again, label %loop, label %end
end:
  ret i64 %more
}
"""


def test_less_of_llvm_is_less_code_and_said_of_groups_that_there_are() -> None:
    less = link.Optimisation(1, has_vectors=False)
    assert len(link.make_object([LONG_LOOP], ["add"], cpu.current(), less)) < len(
        link.make_object([LONG_LOOP], ["add"], cpu.current())
    )
    assert set(sources.GROUPS) >= link.OF_GROUP.keys()


@pytest.mark.parametrize(
    "tier",
    [pytest.param(tier, marks=() if tier.name in IN_EVERY_RUN else pytest.mark.slow, id=tier.name) for tier in cpu.TIERS],
)
def test_an_object_is_made_for_every_cpu(tier: cpu.CpuTier, tmp_path: Path) -> None:
    code = (
        "import sys; from npu.native import make, cpu; sys.stdout.buffer.write(make.make(sys.argv[1], cpu.named(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "npu.tools.kernels", tier.name], env=environment(), capture_output=True, check=True
    )
    content = store.decode("npu.tools.kernels", tier, done.stdout)
    assert content is not None
    machine = int(np.frombuffer(content, "<u2", 1, 18)[0])
    assert machine == {"aarch64": 183, "x86_64": 62}[tier.machine]  # EM_AARCH64, EM_X86_64
