"""From a model and a placement to a compiled model: the composition of the compiler's parts."""

from __future__ import annotations

from collections.abc import Callable

from npu.compiler.compiled import Compiled
from npu.graph.graph import Model
from npu.graph.placement import Placement
from npu.hardware.variant import Variant

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many of its parts are done, and how many there are."""


def compile_model(model: Model, placement: Placement, variant: Variant, *, progress: Progress | None = None) -> Compiled:
    """The model with each NPU partition of `placement` replaced by one `ethos-u` operator for `variant`.

    A placement without NPU operators gives the model back unchanged. Same input, same bytes. CompileError if the placement
    does not fit the model.
    """
    raise AssertionError("being written")
