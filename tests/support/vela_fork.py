"""Vela 5.2 in forks of a small process: the compiler of `compatibility.compile_with`, much sooner done with small models.

`python -m tests.support.vela_fork` compiles what it is asked for, line by line, each time in a fork of its own. A fork of the
process that runs tests would copy the page tables of all that tests left there.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


@functools.cache
def compile_forked(model: bytes, target: str, *arguments: str, suffix: str = ".tflite") -> bytes:
    """The file that the installed Vela makes; RuntimeError with the last line of its output if it makes none.

    `suffix` is ".tosa" for a TOSA graph. Files are kept for the session.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"model{suffix}"
        source.write_bytes(model)
        return run_vela(source, Path(folder), target, *arguments).read_bytes()


def run_vela(source: Path, folder: Path, target: str, *arguments: str, suffix: str = ".tflite") -> Path:
    """The file of a model that the installed Vela writes into a folder; RuntimeError with its last words if it writes none."""
    log = folder / "log"
    status = _ask([str(source), "--accelerator-config", target, "--output-dir", str(folder), *arguments], log)
    compiled = folder / f"{source.stem}_vela{suffix}"
    if status != 0 or not compiled.exists():
        lines = log.read_text(errors="replace").strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit status {status}")
    return compiled


@functools.cache
def _server() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.vela_fork"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT)
    atexit.register(server.communicate)  # which ends it: it reads to the end
    return server


def _ask(arguments: Sequence[str], log: Path) -> int:
    """The exit status of the compiler."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps([arguments, str(log)]) + "\n")
    return int(server.stdout.readline())


def _serve() -> None:
    for line in sys.stdin:
        arguments, log = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(arguments, log)
        sys.stdout.write(f"{os.waitpid(child, 0)[1]}\n")
        sys.stdout.flush()


def _run(arguments: Sequence[str], log: str) -> None:
    """Never returns: the child ends here whatever the compiler does."""
    code = 1
    try:
        stream = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        vela_main(arguments)
        code = 0
    except SystemExit as end:
        code = 1 if end.code else 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


if __name__ == "__main__":
    from ethosu.vela.vela import main as vela_main

    _serve()
