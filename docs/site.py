"""Build the documentation site: the pages of the tree, at their places in it, and the reference made of docstrings."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "build" / "pages"
BESIDE = ("LICENSE", "docs/*.png", "docs/*.svg", "npu/reports/report.schema.json", "configs/**/*.yaml", "examples/**/*")
"""What pages link to that is no page."""


def collect() -> None:
    """Copy every page, and what pages link to, into an empty folder."""
    shutil.rmtree(PAGES, ignore_errors=True)
    for source in _sources():
        target = PAGES / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    shutil.copytree(ROOT / "docs/reference", PAGES / "reference")


def _sources() -> Iterator[Path]:
    for pattern in ("*.md", "docs/*.md", "configs/*.md", "examples/**/*.md", *BESIDE):
        yield from (path for path in ROOT.glob(pattern) if path.is_file() and "__pycache__" not in path.parts)


def main() -> int:
    collect()
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(ROOT / "docs/mkdocs.yml")]
    return subprocess.run(build, check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
