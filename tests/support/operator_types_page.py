"""Writes docs/operator-types.md."""

from __future__ import annotations

from pathlib import Path

from npu.runtime.type_page import operator_types_page

if __name__ == "__main__":
    (Path(__file__).parents[2] / "docs" / "operator-types.md").write_text(operator_types_page(), encoding="utf-8")
