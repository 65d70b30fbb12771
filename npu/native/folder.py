"""Where this machine keeps what was worked out once: libraries of kernels, parsed descriptions, bytecode."""

from __future__ import annotations

import os


def cache_path() -> str:
    """NPULAB_CACHE_DIR, or npulab in the user's folder for caches."""
    return os.environ.get("NPULAB_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "npulab"
    )
