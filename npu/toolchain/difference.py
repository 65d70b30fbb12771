"""How far the outputs of a compiled model are from those of its source on the reference kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npu.errors import UserError
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import LOOP_LIMIT, RuntimeOptions
from npu.toolchain.origin import check_ends
from npu.toolchain.run import execute, run
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, is_compiled_file, load, load_plain, model_name, settled


def largest_difference(
    model: Source, session: Session, inputs: Sequence[Array] | None = None, *, seed: int = 0, source: Source | None = None
) -> float:
    """The largest absolute difference of stored output values, on these inputs (seeded random ones if none are given).

    `source` is the model that a compiled file was made from. UserError if that is not known.
    """
    if source is None and is_compiled_file(model):
        raise UserError(f"{model_name(model)}: cannot be compared with the reference without its source; give --source")
    reference = settled(load_plain(model if source is None else source))
    if source is not None:
        check_ends(reference.graphs[0], settled(load(model)).graphs[0], model_name(source), model_name(model))
    interpreter = CpuInterpreter(model=reference, options=RuntimeOptions(while_limit=LOOP_LIMIT))
    _, expected, _ = execute(interpreter, reference.graphs[0], inputs, seed)
    made = run(model, session, inputs, seed=seed).outputs
    pairs = zip(expected, made, strict=True)
    return max((_difference(one, other.reshape(one.shape)) for one, other in pairs if one.size), default=0.0)


def _difference(expected: Array, made: Array) -> float:
    """Of two arrays of numbers; infinite where only one is not a number."""
    apart = np.abs(expected.astype(np.float64) - made.astype(np.float64))
    both = np.isnan(expected.astype(np.float64)) & np.isnan(made.astype(np.float64))
    return float(np.where(np.isnan(apart), np.where(both, 0.0, np.inf), apart).max())
