"""Libraries that only some commands need, which `pip install npulab` leaves out: the only place that imports them by name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from npu.errors import UserError


def load(module: str, extra: str) -> Any:
    """A module of an extra. UserError tells which extra to install where it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(f"{module.partition('.')[0]}: must be installed for this; pip install 'npulab[{extra}]'") from error
