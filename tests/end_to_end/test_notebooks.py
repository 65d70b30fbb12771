"""The notebooks run from top to bottom, as a reader would run them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples/notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv("IPYTHONDIR", "/nonexistent")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # an active environment other than this one is warned about
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    shell = InteractiveShell(history_manager=None)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) > 3
    for source in cells:
        shell.run_cell(source, silent=False, store_history=False).raise_error()


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["first_run", "where_do_cycles_go", "write_a_delegate"]
