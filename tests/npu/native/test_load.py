"""Objects in memory: linked here or by LLVM with the same results, code that cannot be written, and what is left to LLVM."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import pytest

from npu.native import cpu, load
from npu.native.link import make_object

from tests.support.processes import ROOT, python

IS_LINKED = sys.platform == "linux" and os.uname().machine == "x86_64"
needs_linker = pytest.mark.skipif(not IS_LINKED, reason="objects are linked here on x86-64 Linux only")
PROGRAM = """
@table = private constant [3 x double] [double 1.0, double 2.5, double 4.0]
@places = private constant [2 x ptr] [ptr @table, ptr getelementptr (i8, ptr @table, i64 16)]
@counter = private global i64 40
declare double @exp(double)
define i64 @count() {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
define double @third(i64 %index) {
  %place = getelementptr ptr, ptr @places, i64 %index
  %address = load ptr, ptr %place
  %value = load double, ptr %address
  %result = call double @exp(double %value)
  ret double %result
}
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    """An object with constants, addresses of them, a variable and a call of the C library."""
    return make_object([PROGRAM], ["count", "third"], cpu.current())


def called(engine: Any) -> tuple[int, int, float, float]:
    count = ctypes.CFUNCTYPE(ctypes.c_int64)(engine.get_function_address("count"))
    third = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(engine.get_function_address("third"))
    return count(), count(), third(0), third(1)


EXPECTED = (41, 42, 2.718281828459045, 54.598150033144236)


def test_linked_code_does_what_llvm_s_does(code: bytes) -> None:
    assert called(load.load(code)) == called(load._load_by_llvm(code)) == EXPECTED


@needs_linker
def test_code_may_not_be_written_and_data_may_not_be_executed(code: bytes) -> None:
    engine = load.load(code)
    assert isinstance(engine, load.MachineCode)
    address = engine.get_function_address("count")
    with open("/proc/self/maps") as file:
        ranges = [line.split() for line in file]
    rights = {
        right
        for place, right, *_ in ranges
        for first, last in [(int(end, 16) for end in place.split("-"))]
        if first < address + len(engine.memory) and last > address
    }
    assert "r-xp" in rights
    assert not any("w" in right and "x" in right for right in rights)


def test_an_unknown_name_has_no_address(code: bytes) -> None:
    assert load.load(code).get_function_address("nothing") == 0


def _with_relocation(code: bytes, kind: int) -> bytes:
    """The first relocation as another one."""
    start, count = struct.unpack_from("<Q", code, 40)[0], struct.unpack_from("<H", code, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * index) for index in range(count)]
    offset = next(section[4] for section in sections if section[1] == 4 and sections[section[7]][2] & 2)
    changed = bytearray(code)
    struct.pack_into("<I", changed, offset + 8, kind)
    return bytes(changed)


LEFT_TO_LLVM: dict[str, Callable[[bytes], bytes]] = {
    "a relocation that is not known": lambda code: _with_relocation(code, 10),  # R_X86_64_32
    "another machine": lambda code: code[:18] + b"\xb7\x00" + code[20:],
}


@needs_linker
@pytest.mark.parametrize("case", LEFT_TO_LLVM)
def test_what_is_not_known_is_left_to_llvm(case: str, code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bytes] = []
    monkeypatch.setattr(load, "_load_by_llvm", given.append)
    changed = LEFT_TO_LLVM[case](code)
    load.load(changed)
    assert given == [changed]


def test_memory_that_may_not_hold_code_is_left_to_llvm(code: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: int, size: int) -> None:
        raise OSError("no")

    monkeypatch.setattr(load, "_make_code", refuse)
    assert called(load.load(code)) == EXPECTED


@needs_linker
def test_a_run_imports_neither_llvm_nor_numba() -> None:
    program = "import sys, npu; npu.run(sys.argv[1]); print([name for name in ('llvmlite', 'numba') if name in sys.modules])"
    done = python(program, ROOT / "examples" / "digits.tflite")
    assert (done.stdout, done.stderr) == ("[]\n", "")


@needs_linker
def test_a_delegate_with_threads_imports_neither() -> None:
    program = """
import sys
import numpy as np
from tests.support.xnnpack import INT8, Layers, delegated
net = Layers(INT8, (1, 40, 40, 16))
net.conv(48)
net.depthwise(3)
interpreter, _ = delegated(net.build(), qs8=True, num_threads=2)
interpreter.allocate_tensors()
interpreter.invoke()
print([name for name in ("llvmlite", "numba") if name in sys.modules])
"""
    done = python(program)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@needs_linker
def test_a_compilation_loads_no_openssl_until_digests_are_asked_for() -> None:
    asked = "print('_hashlib' in sys.modules, len(made.report.model_sha256))"
    program = f"import sys, npu; made = npu.compile(sys.argv[1]); {asked}"
    done = python(program, ROOT / "examples" / "digits.tflite")
    assert (done.stdout, done.stderr) == ("False 64\n", "")


def test_features_of_the_cpu_are_those_that_llvm_finds() -> None:
    needed = {name for tier in cpu.TIERS for name in tier.needs}
    features = llvm.get_host_cpu_features()
    assert cpu._features() & needed == {name for name in needed if features.get(name, False)}
