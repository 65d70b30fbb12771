"""The text of `npu/initialisers.py`: `python -m tests.support.initialisers > npu/initialisers.py`."""

from __future__ import annotations

import sys

from npu.records import initialiser_name, initialiser_text

MOST = {True: 19, False: 12}
"""Fields of the frozen records that there are, with slots and without."""
HEAD = '''"""Initialisers of frozen records, which Python keeps compiled: `npu.records` gives them the names of fields.

Made by `python -m tests.support.initialisers`. To compile their text takes a process as long as to load twenty modules.
"""

# mypy: ignore-errors
# ruff: noqa: F821
'''


def text() -> str:
    """The module."""
    parts = [
        initialiser_text(initialiser_name(count, by_slot=by_slot), [False] * count, frozen=True, by_slot=by_slot, checked=False)
        for by_slot, most in MOST.items()
        for count in range(1, most + 1)
    ]
    return "\n\n\n".join([HEAD.rstrip("\n"), *parts]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
