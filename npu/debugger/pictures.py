"""Feature maps in a terminal: a channel as a picture of grey levels, or as numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from npu.debugger.debugger import Debugger
from npu.records import dataclass

_LEVELS = " .:-=+*#%@"
_MOST_ROWS, _MOST_COLUMNS, _MOST_NUMBERS = 48, 96, 16


@dataclass(frozen=True, slots=True)
class MapView:
    """What is looked at: a map of the operation that has just been executed or comes next, and a channel of it."""

    name: str = "OFM"
    is_next: bool = False
    channel: int = 0
    is_picture: bool = True

    def other(self) -> MapView:
        """The map after this one: OFM and IFM of the last operation, operands and OFM of the next."""
        order = [("OFM", False), ("IFM", False), ("IFM", True), ("IFM2", True), ("OFM", True)]
        name, is_next = order[(order.index((self.name, self.is_next)) + 1) % len(order)]
        return replace(self, name=name, is_next=is_next)


def map_text(debugger: Debugger, view: MapView) -> str:
    """The map that a view shows, with what it is of."""
    position = debugger.position - (not view.is_next)
    which = "next" if view.is_next else "last"
    fm = debugger.maps(position).get(view.name)
    if fm is None:
        return f"{view.name} of the {which} operation: none"
    values = debugger.map_values(fm)
    channel = min(view.channel, fm.depth - 1)
    plane = values[:, :, channel]
    title = f"{view.name} of the {which} operation, channel {channel} of {fm.depth}, {fm.height} x {fm.width} {fm.element}"
    limits = f"values {plane.min()} to {plane.max()}, at {fm.addresses[0]:#x} of region {fm.region}"
    return "\n".join([f"{title}: {limits}", picture(plane) if view.is_picture else numbers(plane)])


def picture(plane: npt.NDArray[np.integer]) -> str:
    """Two characters a value, the darkest the lowest; large maps show every n-th value."""
    step = max(1, -(-plane.shape[0] // _MOST_ROWS), -(-plane.shape[1] * 2 // _MOST_COLUMNS))
    shown = plane[::step, ::step].astype(np.int64)
    low, high = int(shown.min()), int(shown.max())
    levels = (shown - low) * (len(_LEVELS) - 1) // max(1, high - low)
    return "\n".join("".join(_LEVELS[level] * 2 for level in row) for row in levels)


def numbers(plane: npt.NDArray[np.integer]) -> str:
    """The corner of a plane as numbers."""
    shown = plane[:_MOST_NUMBERS, :_MOST_NUMBERS]
    width = max(len(str(value)) for value in (shown.min(), shown.max()))
    rows = [" ".join(f"{value:>{width}}" for value in row) for row in shown]
    return "\n".join([*rows, "..."] if shown.size < plane.size else rows)
