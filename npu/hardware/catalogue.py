"""The public face of hardware descriptions: list them, load one."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from npu.errors import ConfigError
from npu.hardware.board import Board, board_of
from npu.hardware.loader import describe, read_variant
from npu.hardware.shipped import board_target, configs_folder, is_path, list_boards, list_examples, list_section, list_variants
from npu.hardware.variant import Variant

__all__ = ["list_boards", "list_examples", "list_section", "list_variants", "load_board", "load_variant"]


def load_variant(
    name_or_path: str | Path,
    *,
    memory_mode: str | Path | None = None,
    system: str | Path | None = None,
    cpu: str | Path | None = None,
) -> Variant:
    """`npu.hardware.loader.read_variant`, which reads the shipped descriptions only once per process.

    What a path leads to is read every time, because the user may be editing it.
    """
    choices = (memory_mode, system, cpu)
    if is_path(name_or_path) or any(choice is not None and is_path(choice) for choice in choices):
        return read_variant(name_or_path, memory_mode=memory_mode, system=system, cpu=cpu)
    return _load_shipped(configs_folder(), str(name_or_path), *choices)


def load_board(name: str) -> Board:
    """The board of that name, or of a YAML file by its path. ConfigError if it has no section `board`."""
    board = board_of(describe(board_target(name)))
    if board is None:
        raise ConfigError(f"{name}: must have a section 'board' with title, vendor and page")
    return board


@lru_cache(maxsize=64)
def _load_shipped(
    _folder: Path, name: str, memory_mode: str | Path | None, system: str | Path | None, cpu: str | Path | None
) -> Variant:
    return read_variant(name, memory_mode=memory_mode, system=system, cpu=cpu)
