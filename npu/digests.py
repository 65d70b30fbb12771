"""`hashlib.blake2b` alone: the rest of `hashlib` is OpenSSL's, and to load that takes as long as ten modules of ours."""

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # a Python that keeps it elsewhere
    from hashlib import blake2b as blake2b
