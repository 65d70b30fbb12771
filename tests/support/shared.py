"""Real models beside the project, where they are there: additional cases, never the only ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT.parent / "shared" / "models", ROOT.parent / "shared" / "cycles" / "models")


@cache
def shared_models() -> dict[str, Path]:
    """Every TFLite file of the model folders by its name without suffix; empty where there are none."""
    found = (path for folder in FOLDERS if folder.is_dir() for path in sorted(folder.rglob("*.tflite")))
    return {path.stem: path for path in found}
