"""Code for macOS and Windows, which no test of this project runs on: how functions are called is tried on this machine."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from npu.native import cpu, link, load

KERNEL = """
target triple = "any"
define i64 @kernel(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, double %f) {
  %g = fptosi double %f to i64
  %x = mul i64 %a, 2
  %y = sub i64 %x, %b
  %z = mul i64 %y, %c
  %v = add i64 %z, %d
  %w = sub i64 %v, %e
  %r = add i64 %w, %g
  ret i64 %r
}
"""
CALLER = """
target triple = "{triple}"
define i64 @caller(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, double %f) {{
  %k = inttoptr i64 {address} to ptr
  %r = call {convention} i64 %k(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, double %f)
  ret i64 %r
}}
"""
NUMBERS = (11, 5, 7, 100, 3, 4.0)
RESULT = (2 * 11 - 5) * 7 + 100 - 3 + 4


@pytest.mark.skipif(sys.platform != "linux" or "x86_64" not in llvm.get_process_triple(), reason="conventions of x86-64 Linux")
@pytest.mark.parametrize(("platform", "convention"), [("linux", "ccc"), ("darwin", "x86_64_sysvcc"), ("win32", "win64cc")])
def test_a_kernel_is_called_as_its_system_calls_functions(
    platform: str, convention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "PLATFORM", platform)
    code = link.make_object([KERNEL], ["kernel"], cpu.named("x86-64"))
    engine = load.load(code)
    monkeypatch.setattr(cpu, "PLATFORM", "linux")
    address = engine.get_function_address("kernel")
    assert address
    text = CALLER.format(triple=cpu.named("x86-64").triple, address=address, convention=convention)
    calling = llvm.create_mcjit_compiler(llvm.parse_assembly(text), llvm.Target.from_default_triple().create_target_machine())
    calling.finalize_object()
    caller = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5, ctypes.c_double)(calling.get_function_address("caller"))
    assert caller(*NUMBERS) == RESULT


MAKE = """
import sys
from npu.native import cpu
cpu.PLATFORM = sys.argv[1]
from npu.native import link, make, store
content = make.make("npu.tools.kernels", cpu.named(sys.argv[2]))
code = store.decode("npu.tools.kernels", cpu.named(sys.argv[2]), content)
print(cpu.named(sys.argv[2]).triple, *sorted(link.undefined_symbols(code)))
"""


@pytest.mark.parametrize(
    ("platform", "tier", "triple"),
    [("darwin", "aarch64", "aarch64-apple-darwin-elf"), ("win32", "avx2", "x86_64-pc-windows-msvc-elf")],
)
def test_a_library_is_made_for_other_systems(platform: str, tier: str, triple: str) -> None:
    made = subprocess.run([sys.executable, "-c", MAKE, platform, tier], capture_output=True, text=True, check=True)
    name, *needed = made.stdout.split()
    assert (name, set(needed) <= link.C_LIBRARY) == (triple, True)


WITHOUT = """
import sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
import npu.cli.main as main
for arguments in (["run", "examples/digits.tflite"], ["benchmark", "examples/digits.tflite", "--num-runs", "1"]):
    assert main.main(arguments) == 0
"""


def test_no_module_that_only_unix_has_is_needed() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, check=True)
