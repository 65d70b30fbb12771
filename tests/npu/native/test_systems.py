"""Code for macOS and Windows, which no test of this project runs on: how functions are called is tried on this machine."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from npu.native import cpu, link, load

ROOT = Path(__file__).parents[3]
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
import asyncio, os, signal, subprocess, sys, numpy  # these know where they are
for name in ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty"):
    sys.modules[name] = None
for name in ("sysconf", "sched_getaffinity", "fork", "forkpty", "getuid", "geteuid", "getgid", "getloadavg", "nice", "mkfifo",
             "killpg", "setsid", "statvfs", "posix_spawn", "pread", "sendfile", "mknod", "chown", "uname", "O_NOFOLLOW",
             "O_DIRECTORY"):
    delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGALRM", "SIGPIPE", "SIGXCPU", "SIGUSR1", "alarm", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
import npu.cli.main as main
for arguments in COMMANDS:
    assert main.main(arguments) == 0, arguments
"""
COMMANDS = [
    ["run", "examples/digits.tflite"],
    ["benchmark", "examples/digits.tflite", "--num-runs", "1"],
    ["check", "examples/digits_partial.tflite"],
    ["compile", "examples/digits.tflite", "-o", "{}/d.tflite"],
    ["verify", "{}/d.tflite"],
    ["diff", "examples/digits.tflite", "{}/d.tflite"],
    ["export", "{}/d.tflite", "--c", "{}/c"],
    ["report", "examples/digits.tflite", "-o", "{}/report.html"],
    ["compare", "examples/digits.tflite", "{}/d.tflite"],
    ["sweep", "examples/digits.tflite", "--target", "ethos-u55-32", "--target", "ethos-u55-64", "-o", "{}/sweep.csv"],
    ["fit", "examples/digits.tflite", "--board", "himax-we2"],
]


def test_nothing_that_only_unix_has_is_needed(tmp_path: Path) -> None:
    """The commands in a process whose `os` and `signal` are those of Windows; `import` of what it lacks fails."""
    commands = [[word.format(tmp_path) for word in words] for words in COMMANDS]
    done = subprocess.run(
        [sys.executable, "-c", f"COMMANDS = {commands}\n{WITHOUT}"],
        env={**os.environ, "PROCESSOR_ARCHITECTURE": "AMD64"}, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
