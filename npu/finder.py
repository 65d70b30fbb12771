"""Finds the modules of this project where they lie, without a search: every process loads two hundred of them.

Python's own finder lists folders, tries four kinds of files, and asks twice for the time of each source. What is not plain, a
package, a module without compiled code or with that of another source, is left to it.
"""

from __future__ import annotations

import marshal
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source, spec_from_file_location
from io import FileIO
from os import sep, stat

TYPE_CHECKING = False  # `typing` is not loaded yet
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

_BY_TIME = MAGIC_NUMBER + bytes(4)
"""How compiled code begins that holds for a source of one time and size, which follow."""
_HEADER_BYTES = 16


class _CodeLoader(SourceFileLoader):
    """Python's loader, but that the code is here already."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class Finder:
    """Finds modules in packages of these names."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages
        self._compiled: dict[str, tuple[str, str]] = {}
        """Of each folder what stands before and behind the name of a module in that of its compiled code."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where a module is and its code, None if Python must search for it."""
        if not path or name.partition(".")[0] not in self._packages:
            return None
        folder, module = path[0], name.rpartition(".")[2]
        before, after = self._compiled.get(folder) or self._compiled_in(folder)
        source, compiled = f"{folder}{sep}{module}.py", f"{before}{module}{after}"
        code = _code_of(source, compiled)
        if code is None:
            return None
        spec = spec_from_file_location(name, source, loader=_CodeLoader(name, source, code), submodule_search_locations=None)
        if spec is not None:
            spec.cached = compiled
        return spec

    def _compiled_in(self, folder: str) -> tuple[str, str]:
        before, _, after = cache_from_source(f"{folder}{sep}*.py").rpartition("*")
        self._compiled[folder] = before, after
        return before, after


def _code_of(source: str, compiled: str) -> CodeType | None:
    """The compiled code of a source, if it is there and was made of it as it is."""
    try:
        with FileIO(compiled) as file:
            content = file.read()
        known = stat(source)
    except OSError:
        return None
    of_source = [int(known.st_mtime), known.st_size]
    header = _BY_TIME + b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in of_source)
    if content[:_HEADER_BYTES] != header:
        return None
    code: CodeType = marshal.loads(memoryview(content)[_HEADER_BYTES:])
    return code if code.co_filename == source else None


def find_quickly(packages: Sequence[str]) -> None:
    """Find modules of these packages here from now on, not before what others look for. To be called in a process of ours."""
    if PathFinder in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(PathFinder), Finder(packages))
