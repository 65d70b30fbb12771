"""How modules of packages are found in the processes that belong to this project: in two thirds of the time of Python's own
finder, which looks at the folder, the module and its bytecode anew for each. A command imports three hundred of them.

A folder is listed once. Bytecode counts where it does elsewhere: if a source of this size and time was made into it. All
else is left to Python's finder and loader.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from marshal import loads

TYPE_CHECKING = False  # that of `typing` takes longer to import than all of this
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any

_HEAD = MAGIC_NUMBER + bytes(4)
"""Of bytecode that says the time and the size of its source next, 4 bytes each."""
_WORD = 0xFFFFFFFF


class _BytecodeLoader(SourceFileLoader):
    """Reads the bytecode of a source that has not changed since."""

    bytecode: str

    def get_code(self, fullname: str) -> CodeType | None:
        """Code of the module; where its bytecode is not what it should be, Python's loader says what to do."""
        try:
            source = os.stat(self.path)
            with open(self.bytecode, "rb", 0) as file:
                content = file.read()
        except OSError:
            return super().get_code(fullname)
        made_of = (int(source.st_mtime) & _WORD).to_bytes(4, "little") + (source.st_size & _WORD).to_bytes(4, "little")
        if content[:16] != _HEAD + made_of:
            return super().get_code(fullname)
        code: CodeType = loads(memoryview(content)[16:])
        return code


class _PackageFinder:
    """Finds the modules in the folder of a package."""

    def __init__(self, folder: str, usual: Any) -> None:
        self._folder, self._usual = folder, usual
        package = usual.find_spec("__init__")
        if package is None or not package.cached:
            raise ImportError(f"{folder} must be that of a package", path=folder)
        self._before, self._behind = package.cached.rsplit("__init__", 1)
        self._list()

    def _list(self) -> None:
        """Modules that are a source and nothing else."""
        names = os.listdir(self._folder)
        others = {name.partition(".")[0] for name in names if name.endswith(tuple(EXTENSION_SUFFIXES))}
        self._sources = {name[:-3] for name in names if name.endswith(".py")}.difference(names, others)

    def find_spec(self, name: str, _target: object = None) -> ModuleSpec | None:
        """What Python loads a module by."""
        own = name.rpartition(".")[2]
        if own not in self._sources:
            usual: ModuleSpec | None = self._usual.find_spec(name)
            return usual
        path = f"{self._folder}{os.sep}{own}.py"
        loader = _BytecodeLoader(name, path)
        result = ModuleSpec(name, loader, origin=path)
        result.has_location = True
        result.cached = loader.bytecode = f"{self._before}{own}{self._behind}"
        return result

    def invalidate_caches(self) -> None:
        """Look into the folder again."""
        self._usual.invalidate_caches()
        self._list()


def find_quickly() -> None:
    """To be called where the process is ours: the command line. A library leaves its user's process alone."""
    usual = sys.path_hooks[-1]
    sys.path_hooks.insert(0, lambda folder: _PackageFinder(folder, usual(folder)))
    sys.path_importer_cache.pop(os.path.dirname(__file__), None)  # that of this module
