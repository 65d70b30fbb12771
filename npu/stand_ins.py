"""numpy and modules of Python, loaded without the modules that they name and hardly use: a third of the time that it takes.

What they ask of these while they are loaded goes into docstrings, annotations, translations that do not exist and a check of
numpy's own signatures, which nobody reads or needs here. A stand-in loads the real module as soon as anything else is asked
for, also if another version does so. Then the stand-ins make room: who imports `inspect` gets `inspect`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    """A module of which the real one is loaded for what this one does not have."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # whether this is a package, which nobody asks the real one for
            raise AttributeError(name)
        self.make_room()
        return getattr(import_module(self.__name__), name)

    def make_room(self, names: Iterable[str] = ()) -> None:
        """Let who imports the module get the real one; those who have this one get its attributes, also of these names."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        for name in names:
            delattr(self, name)


class NDArray:
    """`numpy.typing.NDArray`, as far as it goes in front of brackets."""

    def __class_getitem__(cls, scalar: Any) -> Any:
        import numpy as np

        return np.ndarray[tuple[Any, ...], np.dtype[scalar]]


def _nothing_said(_: object) -> tuple[tuple[()], None, None, None]:
    """Arguments of a function: those of all look alike, so that numpy finds that they agree."""
    return (), None, None, None


def _quote_from_bytes(*arguments: Any) -> str:
    """For addresses of paths."""
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(*arguments)


FOR_PYTHON: Mapping[str, Mapping[str, Any]] = {
    "gettext": {"gettext": lambda text: text, "ngettext": lambda one, more, count: one if count == 1 else more},
    "urllib.parse": {"quote_from_bytes": _quote_from_bytes},
}
"""Modules that are stood in for until argparse and pathlib are loaded, and what these take from them."""

FOR_NUMPY: Mapping[str, Mapping[str, Any]] = {
    "numpy._core._add_newdocs": {},
    "numpy._core._add_newdocs_scalars": {},
    "numpy._typing": {"NDArray": list},
    "numpy._utils._inspect": {"getargspec": _nothing_said},
    "inspect": {"cleandoc": str, "signature": lambda _: None},
    **{name: {} for name in ("ast", "pickle", "platform", "textwrap")},
}
"""The same for numpy and dataclasses."""

_TYPING = "numpy.typing"
"""Stood in for as long as the process lasts, or until more than NDArray is asked for: three fifths of our modules name it."""


def load_python() -> None:
    """Import argparse and pathlib. To be called where the process is ours, before anything else imports them."""
    _load(("argparse", "pathlib"), FOR_PYTHON)


def load_numpy() -> None:
    """Import dataclasses and numpy, under the same conditions."""
    if "numpy" not in sys.modules:
        import _datetime  # type: ignore[import-not-found]  # what `datetime` is made of, without its twin in Python

        _load(("dataclasses", "numpy"), {**FOR_NUMPY, "datetime": {"datetime_CAPI": _datetime.datetime_CAPI}})
        for typing in _stand_in({_TYPING: {"NDArray": NDArray}}):
            import_module("numpy").typing = typing  # type: ignore[attr-defined]


def _load(names: Iterable[str], meanwhile: Mapping[str, Mapping[str, Any]]) -> None:
    standing = list(_stand_in(meanwhile))
    try:
        for name in names:
            import_module(name)
    finally:
        for module in standing:
            module.make_room(meanwhile[module.__name__])


def _stand_in(wanted: Mapping[str, Mapping[str, Any]]) -> Iterable[StandIn]:
    for name, attributes in wanted.items():
        if name not in sys.modules:
            module = sys.modules[name] = StandIn(name)
            vars(module).update(attributes)
            yield module
