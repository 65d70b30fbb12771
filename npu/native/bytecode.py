"""The bytecode of all modules that the program has imported, in one file of the cache.

A command imports 400 modules. To look for each of them on the path and to open two files for it takes a seventh of a short
run; here it is one look at the time and the size of the source, by which Python's own caches go too. What does not fit, and
whatever is wrong with the file, is imported as usual. Only the program does this: a library leaves the imports of its user's
process alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source
from itertools import accumulate
from marshal import dumps, loads
from mmap import ACCESS_READ, mmap
from types import CodeType, ModuleType
from zlib import crc32

from npu.native.folder import cache_path

_HEAD = 16
"""Bytes of the length of the table and of the whole file."""
_WORTH_WRITING = 20
"""Modules that were not in the file, from which on it is written anew."""
_KnownModule = tuple[str, str, float, int, int, int]
"""Of a module: its source, Python's own file for its code, time and size of the source, and where its code lies."""


class Bytecode:
    """A finder of modules."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._table: dict[str, _KnownModule] = {}
        with suppress(OSError, ValueError, EOFError, TypeError), open(path, "rb") as file:
            self._content = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
            self._table = self._read()

    def _read(self) -> dict[str, _KnownModule]:
        length, whole = (int.from_bytes(self._content[at : at + 8], "little") for at in (0, 8))
        table = loads(self._content[_HEAD : _HEAD + length]) if whole == len(self._content) else None
        self._start = _HEAD + length
        return table if isinstance(table, dict) else {}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What Python's own finder would say of a module that is in the file and has not changed since."""
        entry = self._table.get(name)
        if entry is None or not _is_current(entry):
            self._table.pop(name, None)
            return None
        folder, file = os.path.split(entry[0])
        is_package = file == "__init__.py"
        if path is not None and (os.path.dirname(folder) if is_package else folder) not in path:
            return None  # a package of this name elsewhere
        spec = ModuleSpec(name, _BytecodeLoader(name, entry[0], self), origin=entry[0], is_package=is_package)
        if is_package:
            spec.submodule_search_locations = [folder]
        spec.has_location, spec.cached = True, entry[1]
        return spec

    def code(self, name: str) -> memoryview:
        """The code of a module in the file."""
        *_, place, length = self._table[name]
        return self._content[self._start + place : self._start + place + length]

    def keep(self) -> None:
        """Write the file anew if many modules of this process are not in it. A cache that cannot be written stays as it is."""
        new = [loader for loader in _plain_loaders() if loader.name not in self._table]
        if sys.dont_write_bytecode or len(new) < _WORTH_WRITING:
            return
        known = {name: (entry[:4], self.code(name)) for name, entry in self._table.items() if _is_current(entry)}
        with suppress(OSError, ImportError, SyntaxError):
            content = _content(known | {loader.name: _part(loader) for loader in new})
            from pathlib import Path

            from npu.native.store import keep

            keep(Path(self.path), content)


class _BytecodeLoader(SourceFileLoader):
    """Python's own, but for where the code is read."""

    def __init__(self, name: str, path: str, kept: Bytecode) -> None:
        super().__init__(name, path)
        self._kept = kept

    def get_code(self, fullname: str) -> CodeType | None:
        """That of the file; what is broken there is compiled or read as usual."""
        with suppress(OSError, ValueError, EOFError, TypeError, KeyError):
            code = loads(self._kept.code(fullname))
            if isinstance(code, CodeType):
                return code
        return super().get_code(fullname)


_KeptCode = tuple[tuple[str, str, float, int], "bytes | memoryview"]
"""Of a module: the first four of its entry, and its code."""


def _is_current(entry: _KnownModule) -> bool:
    try:
        status = os.stat(entry[0])
    except OSError:
        return False
    return (status.st_mtime, status.st_size) == entry[2:4]


def _plain_loaders() -> list[SourceFileLoader]:
    """Of the modules of this process that Python's own finder has found."""
    specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
    return [spec.loader for spec in specs if spec is not None and type(spec.loader) is SourceFileLoader]


def _part(loader: SourceFileLoader) -> _KeptCode:
    status = os.stat(loader.path)
    code = dumps(loader.get_code(loader.name))
    return (loader.path, cache_from_source(loader.path), status.st_mtime, status.st_size), code


def _content(parts: Mapping[str, _KeptCode]) -> bytes:
    places = accumulate((len(code) for _, code in parts.values()), initial=0)
    table = {name: (*source, place, len(code)) for (name, (source, code)), place in zip(parts.items(), places, strict=False)}
    head = dumps(table)
    whole = _HEAD + len(head) + sum(len(code) for _, code in parts.values())
    return b"".join((len(head).to_bytes(8, "little"), whole.to_bytes(8, "little"), head, *(code for _, code in parts.values())))


def use() -> Bytecode:
    """From now on imports look into the file first, of this Python with this path and of this place of the product."""
    made_by = (sys.version, sys.flags.optimize, sys.path[1:], __file__)  # the first entry is where the program or the user is
    key = crc32(repr(made_by).encode("utf-8", "surrogateescape"))
    finder = Bytecode(os.path.join(cache_path(), f"bytecode-{key:08x}.modules"))
    sys.meta_path.insert(sys.meta_path.index(PathFinder), finder)
    return finder
