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
    """What is looked at: a map of the last operation that has it, or of the next one, and a channel of it."""

    name: str = "OFM"
    is_next: bool = False
    channel: int = 0
    is_picture: bool = True

    def other(self) -> MapView:
        """The map after this one: OFM and IFM of the last operation, operands and OFM of the next."""
        order = [("OFM", False), ("IFM", False), ("IFM", True), ("IFM2", True), ("OFM", True)]
        name, is_next = order[(order.index((self.name, self.is_next)) + 1) % len(order)]
        return replace(self, name=name, is_next=is_next)


def map_text(debugger: Debugger, view: MapView, columns: int = _MOST_COLUMNS) -> str:
    """The map that a view shows, with what it is of; pictures fit into the columns."""
    places = range(debugger.position, len(debugger.operations)) if view.is_next else range(debugger.position - 1, -1, -1)
    position, fm = next(((at, debugger.maps(at)[view.name]) for at in places if view.name in debugger.maps(at)), (0, None))
    if fm is None:
        return f"{view.name}: no {'later' if view.is_next else 'earlier'} operation has one"
    values = debugger.map_values(fm)
    channel = min(view.channel, fm.depth - 1)
    plane = values[:, :, channel]
    title = f"{view.name} of operation {position}, channel {channel} of {fm.depth}, {fm.height} x {fm.width} {fm.element}"
    limits = f"values {plane.min()} to {plane.max()}, at {fm.addresses[0]:#x} of region {fm.region}"
    return "\n".join([f"{title}: {limits}", picture(plane, columns) if view.is_picture else numbers(plane, columns)])


def picture(plane: npt.NDArray[np.integer], columns: int = _MOST_COLUMNS) -> str:
    """Two characters a value, the darkest the lowest; large maps show every n-th value."""
    step = max(1, -(-plane.shape[0] // _MOST_ROWS), -(-plane.shape[1] * 2 // min(max(columns, 2), _MOST_COLUMNS)))
    shown = plane[::step, ::step].astype(np.int64)
    low, high = int(shown.min()), int(shown.max())
    levels = (shown - low) * (len(_LEVELS) - 1) // max(1, high - low)
    return "\n".join("".join(_LEVELS[level] * 2 for level in row) for row in levels)


def numbers(plane: npt.NDArray[np.integer], columns: int = _MOST_COLUMNS) -> str:
    """The corner of a plane as numbers."""
    width = max(len(str(value)) for value in (plane.min(), plane.max()))
    shown = plane[:_MOST_NUMBERS, : min(_MOST_NUMBERS, max(1, (columns + 1) // (width + 1)))]
    rows = [" ".join(f"{value:>{width}}" for value in row) for row in shown]
    return "\n".join([*rows, "..."] if shown.size < plane.size else rows)
