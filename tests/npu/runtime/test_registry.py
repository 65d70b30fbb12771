"""The table of CPU kernels knows the module of every kind without importing it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

from npu.runtime import registry

_NOT_IMPORTED = "from npu.runtime.registry import OPERATORS; import sys; OPERATORS['GATHER']; print(*sys.modules)"


def test_every_kind_stands_at_the_module_that_has_its_row() -> None:
    for module, kinds in registry._KINDS.items():
        rows = import_module(f"npu.runtime.operators.{module}").OPERATORS
        assert [row.kind for row in rows] == kinds.split()


def test_every_module_with_rows_is_named() -> None:
    folder = Path(registry.__file__).parent / "operators"
    with_rows = {path.stem for path in folder.glob("*.py") if "\nOPERATORS" in path.read_text(encoding="utf-8")}
    assert with_rows == set(registry._KINDS)


def test_a_kind_imports_its_own_module_alone() -> None:
    done = subprocess.run([sys.executable, "-c", _NOT_IMPORTED], capture_output=True, text=True, check=True)
    imported = {name for name in done.stdout.split() if name.startswith("npu.runtime.operators.")}
    assert "npu.runtime.operators.gather" in imported
    assert "npu.runtime.operators.convolution" not in imported
