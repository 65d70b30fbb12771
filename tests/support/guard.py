"""Memory whose neighbouring bytes cannot be touched: a read or write outside ends the process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_C = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0


def guarded(content: np.ndarray, *, at_end: bool) -> np.ndarray:
    """A copy of bytes between two pages without access, directly before the second (`at_end`) or behind the first."""
    page = mmap.PAGESIZE
    size = -(-content.size // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    whole = np.frombuffer(memory, np.uint8)
    for edge in (0, size + page):
        address = ctypes.c_void_p(whole.ctypes.data + edge)
        if _C.mprotect(address, ctypes.c_size_t(page), _NO_ACCESS) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    start = page + (size - content.size if at_end else 0)
    inside = whole[start : start + content.size]
    inside[:] = content
    return inside
