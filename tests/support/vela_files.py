"""Files of the installed Vela with the debug database that it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

VELA = Path(sys.executable).with_name("vela")


def compile_with_database(model: Path, folder: Path, target: str = "ethos-u55-128") -> tuple[Path, Path]:
    """The compiled file and the database, in `folder`."""
    command = [str(VELA), str(model), "--accelerator-config", target, "--output-dir", str(folder), "--enable-debug-db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / f"{model.stem}_vela.tflite", folder / f"{model.stem}_debug.xml"
