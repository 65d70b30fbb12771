"""Files of the installed Vela with the debug database that it writes."""

from __future__ import annotations

from pathlib import Path

from tests.support.vela_fork import run_vela


def compile_with_database(model: Path, folder: Path, target: str = "ethos-u55-128") -> tuple[Path, Path]:
    """The compiled file and the database, in `folder`."""
    return run_vela(model, folder, target, "--enable-debug-db"), folder / f"{model.stem}_debug.xml"
