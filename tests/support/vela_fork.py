"""Vela 5.2 in a fork of this process: the compiler of `compatibility.compile_with`, much sooner done with small models."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from ethosu.vela.vela import main as vela_main


def compile_forked(model: bytes, target: str, *arguments: str, suffix: str = ".tflite") -> bytes:
    """The file that the installed Vela makes; RuntimeError with the last line of its output if it makes none.

    `suffix` is ".tosa" for a TOSA graph.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, log = Path(folder) / f"model{suffix}", Path(folder) / "log"
        source.write_bytes(model)
        child = os.fork()
        if child == 0:
            _run([str(source), "--accelerator-config", target, "--output-dir", folder, *arguments], log)
        _, status = os.waitpid(child, 0)
        compiled = Path(folder) / "model_vela.tflite"
        if status != 0 or not compiled.exists():
            lines = log.read_text(errors="replace").strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit status {status}")
        return compiled.read_bytes()


def _run(arguments: Sequence[str], log: Path) -> None:
    """Never returns: the child ends here whatever the compiler does."""
    code = 1
    try:
        stream = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        vela_main(list(arguments))
        code = 0
    except SystemExit as end:
        code = 1 if end.code else 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
