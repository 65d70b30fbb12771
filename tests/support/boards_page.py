"""Writes docs/boards.md: every board of `configs/boards`, what its numbers are, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from npu.hardware.catalogue import list_boards, load_board, load_variant
from npu.hardware.shipped import BOARDS_FOLDER, board_target, configs_folder

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "boards.md"
HEAD = """# Boards

Boards, chips and virtual platforms that `--board NAME` stands for wherever `--target` does. A board is a target with its own
memories, clock and host processor: `configs/boards`. A number marked *assumed* is not public: the reason for
its value stands beside it, and what depends on it is as good as that reason. Sizes of a family are those of its largest part.
No prediction for these boards has been compared with a measurement on one.

Left for the model are the bytes of the arena (`memory_mode.arena_cache_bytes`) and of the memory of the constants
(`system.memories.*.size_bytes`, 0 = not limited); `--arena-cache-size` and `--set` change them.

Generated from `configs/boards` by `python -m tests.support.boards_page`; do not edit.
"""
COMMENTS = ("source", "assumed")


def boards_page() -> str:
    """The page as Markdown."""
    boards = {name: load_board(name) for name in list_boards()}
    lines = [HEAD, "| board | NPU | MHz | CPU | arena | constants |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [f"| [{name}](#{name}) | {_facts(name)} |" for name in boards]
    for name, board in boards.items():
        document = yaml.safe_load((configs_folder() / BOARDS_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        lines += [
            "",
            f"## {name}",
            "",
            f"{board.title}. {board.vendor}, <{board.page}>. Starts from `{document['extends']}`.",
            "",
        ]
        rows = list(said(document))
        if rows:
            lines += ["| value | | where from |", "| --- | --- | --- |"]
            lines += [
                f"| `{key}` | {value} | {'*assumed*: ' if kind == 'assumed' else ''}{text} |" for key, value, kind, text in rows
            ]
    return "\n".join(lines) + "\n"


def _facts(name: str) -> str:
    variant = load_variant(board_target(name))
    product = f"{variant.accelerator.product.name.replace('_', '-').title()}-{variant.accelerator.macs_per_cycle}"
    memory = variant.system.memories[variant.memory_mode.constants]
    size = f"{memory.size_bytes / 1024:,.0f} KiB {memory.name}" if memory.size_bytes else f"{memory.name}, not limited"
    arena = variant.system.memories[variant.memory_mode.cache].name
    return (
        f"{product} | {variant.system.clock_hz / 1e6:,.0f} | {variant.cpu.name}, {variant.cpu.clock_hz / 1e6:,.0f} MHz | "
        f"{variant.memory_mode.arena_cache_bytes / 1024:,.0f} KiB {arena} | {size}"
    )


def said(document: dict[str, Any], above: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Every number of a description: key, value, `source` or `assumed` ("" for neither), and what that says."""
    for key, value in document.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            if key not in COMMENTS:
                yield from said(value, f"{name}.")
        elif isinstance(value, int | float):
            kind = next((kind for kind in COMMENTS if key in document.get(kind, {})), "")
            yield name, f"{value:,}", kind, document[kind][key] if kind else ""


if __name__ == "__main__":
    PAGE.write_text(boards_page(), encoding="utf-8")
