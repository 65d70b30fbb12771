"""The source of the project as trees, each file parsed once for all tests that look at code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The tree of a file; nobody changes it."""
    return ast.parse(path.read_text(encoding="utf-8"))
