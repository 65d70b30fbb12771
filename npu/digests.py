"""Digests without the rest of `hashlib`, which is OpenSSL's: to load that takes as long as ten modules of ours."""

from __future__ import annotations

from importlib import import_module

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # a Python that keeps it elsewhere
    from hashlib import blake2b as blake2b

_MANY_BYTES = 1 << 19
"""Of more, OpenSSL's SHA-256 is sooner done, in spite of the time that it takes to load."""


def sha256(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    names = ("_sha2", "_sha256", "hashlib") if len(content) < _MANY_BYTES else ("hashlib",)
    for name in names:  # the module is called so since Python 3.12, and before
        try:
            return str(import_module(name).sha256(content).hexdigest())
        except ImportError:
            continue
    raise AssertionError("hashlib")
