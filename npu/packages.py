"""The packages of this distribution: `npu`, `sim` and `constraints`. The last two have names that others may have too."""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

_FOLDER = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
_OTHERS = ("sim", "constraints")


def require_own_packages() -> None:
    """Raise ImportError if `import sim` or `import constraints` gives, or gave, a package that stands elsewhere than `npu`."""
    for name in _OTHERS:
        known = sys.modules.get(name)
        spec = PathFinder.find_spec(name) if known is None else known.__spec__
        origin = None if spec is None else spec.origin
        if origin is not None and os.path.dirname(os.path.dirname(os.path.realpath(origin))) != _FOLDER:
            raise ImportError(
                f"import npu: package '{name}' must be npulab's, in {_FOLDER}, got {origin}; "
                f"take that one from the path, or give it another name"
            )
