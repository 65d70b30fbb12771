"""Networks of published architectures with seeded weights, so that a first look at them can be made again anywhere."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType

from tests.support.architectures import detectors, maps, restoration, sequences, signals, vision

ARCHITECTURES: dict[str, Callable[[], bytes]] = {
    name: made
    for module in (vision, maps, sequences, detectors, restoration, signals)
    for name, made in vars(module).items()
    if isinstance(made, FunctionType) and made.__module__ == module.__name__
}
"""Functions that return the bytes of a model file, by name."""
