"""Models that agree or disagree with themselves, and what is to be said of them; LiteRT is the judge of what runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.builder import ModelBuilder

MAP = (1, 4, 4, 2)
POOL = at.Pool2DOptions(at.Padding.VALID, 2, 2, 2, 2)


def one(
    kind: str, inputs: Sequence[Any], outputs: Sequence[Sequence[int]], options: at.Attributes | None = None, scale: float = 0.1
) -> bytes:
    """A model of one int8 operator: tuples are maps of scale 0.1, lists are constants; `scale` is that of the outputs."""
    b = ModelBuilder()
    given = [b.input(x, DType.INT8, scale=0.1) if isinstance(x, tuple) else b.constant(np.array(x, np.int32)) for x in inputs]
    made = [b.tensor(shape, DType.INT8, scale=scale) for shape in outputs]
    b.multi_op(kind, given, made, attributes=options)
    b.output(*made)
    return b.build()


def is_run_by_litert(model: bytes) -> bool:
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    try:
        interpreter.allocate_tensors()
        interpreter.invoke()
    except (RuntimeError, ValueError):
        return False
    return True


CONSISTENT = {
    "reshape": one("RESHAPE", [MAP, [32]], [(32,)]),
    "pool": one("MAX_POOL_2D", [MAP], [(1, 2, 2, 2)], POOL),
    "mean": one("MEAN", [MAP, [1, 2]], [(1, 2)], at.ReducerOptions()),
    "split": one("SPLIT", [[3], MAP], [(1, 4, 4, 1)] * 2, at.SplitOptions(2)),
    "unequal scales of a slice": one("SLICE", [MAP, [0] * 4, [1, 2, 2, 2]], [(1, 2, 2, 2)], scale=0.2),
    "unequal scales of a transpose": one("TRANSPOSE", [MAP, [0, 2, 1, 3]], [MAP], scale=0.2),
}
"""Models without a finding."""

DECLARED_OTHERWISE = {
    "reshape operand": (one("RESHAPE", [MAP, [16, 2]], [(32,)]), "output 't2' must have shape [16, 2], got [32]"),
    "kept dimensions": (one("MEAN", [MAP, [1, 2]], [(1, 1, 1, 2)], at.ReducerOptions()), "shape [1, 2], got [1, 1, 1, 2]"),
    "lost dimensions": (one("MEAN", [MAP, [1, 2]], [(1, 2)], at.ReducerOptions(True)), "shape [1, 1, 1, 2], got [1, 2]"),
    "slice": (
        one("STRIDED_SLICE", [MAP, [0] * 4, [1, 2, 2, 2], [1] * 4], [(1, 2, 4, 2)], at.StridedSliceOptions()),
        "shape [1, 2, 2, 2], got [1, 2, 4, 2]",
    ),
    "padding": (one("PAD", [MAP, [[0, 0], [1, 1], [1, 1], [0, 0]]], [(1, 4, 4, 2)]), "shape [1, 6, 6, 2], got [1, 4, 4, 2]"),
    "wide stride": (
        one("MAX_POOL_2D", [MAP], [(1, 1, 1, 2)], replace(POOL, stride_w=1, stride_h=1)),
        "shape [1, 3, 3, 2], got [1, 1, 1, 2]",
    ),
    "join": (
        one("CONCATENATION", [MAP, MAP], [(1, 4, 4, 3)], at.ConcatenationOptions(3)),
        "shape [1, 4, 4, 4], got [1, 4, 4, 3]",
    ),
    "operands of a sum": (one("ADD", [MAP, MAP], [(1, 4, 4, 1)], at.AddOptions()), "shape [1, 4, 4, 2], got [1, 4, 4, 1]"),
    "pack": (one("PACK", [(4,), (4,)], [(8,)], at.PackOptions(2, 0)), "shape [2, 4], got [8]"),
    "squeeze": (one("SQUEEZE", [MAP], [(32,)], at.SqueezeOptions((0,))), "shape [4, 4, 2], got [32]"),
}
"""Models that LiteRT runs with other shapes than they declare."""

IMPOSSIBLE = {
    "new shape of other size": (one("RESHAPE", [MAP, [31]], [(31,)]), "new shape must hold 32 elements, got [31]"),
    "stride of 0": (one("MAX_POOL_2D", [MAP], [MAP], at.Pool2DOptions()), "kernel and stride must be positive"),
    "unequal scales of a join": (
        one("CONCATENATION", [MAP, MAP], [(1, 4, 4, 4)], at.ConcatenationOptions(3), scale=0.2),
        "'t0' must have the scale 0.2",
    ),
    "unequal scales of a pack": (
        one("PACK", [(4,), (4,)], [(2, 4)], at.PackOptions(2, 0), scale=0.2),
        "'t0' must have the scale 0.2",
    ),
    "unequal scales of an unpack": (
        one("UNPACK", [(2, 4)], [(4,), (4,)], at.UnpackOptions(2, 0), scale=0.2),
        "'t0' must have the scale 0.2",
    ),
    "unequal scales of an added axis": (one("EXPAND_DIMS", [(4,), [0]], [(1, 4)], scale=0.2), "'t0' must have the scale 0.2"),
    "pieces that are not there": (one("SPLIT", [[3], MAP], [(1, 4, 4, 1)] * 2, at.SplitOptions(3)), "num_splits must be"),
    "inputs that are not there": (one("PACK", [(4,), (4,)], [(2, 4)], at.PackOptions(3, 0)), "values_count must be"),
    "axis": (one("CONCATENATION", [MAP, MAP], [MAP], at.ConcatenationOptions(4)), "axis must be in [-4, 4), got 4"),
    "unequal maps of a join": (
        one("CONCATENATION", [MAP, (1, 4, 3, 2)], [MAP], at.ConcatenationOptions(3)),
        "inputs must agree in all dimensions but 3",
    ),
    "permutation": (one("TRANSPOSE", [MAP, [0, 1, 2, 4]], [MAP]), "axis must be in [-4, 4), got 4"),
    "sum": (one("ADD", [MAP, (1, 4, 3, 2)], [MAP], at.AddOptions()), "shapes must be broadcastable"),
    "box": (one("SLICE", [MAP, [0, 3, 0, 0], [1, 2, 4, 2]], [(1, 2, 4, 2)]), "slice must lie inside [1, 4, 4, 2]"),
    "index": (one("GATHER", [MAP, [4]], [(1, 1, 4, 2)], at.GatherOptions(1, 0)), "indices must be in [0, 4), got 4 to 4"),
    "index from the end": (one("GATHER", [MAP, [0, -1]], [(1, 2, 4, 2)], at.GatherOptions(1, 0)), "got -1 to 0"),
    "row of indices": (one("GATHER_ND", [MAP, [[0, 1, 4]]], [(1, 2)], at.GatherNdOptions()), "indices must be in [0, 4)"),
    "row of a table": (one("EMBEDDING_LOOKUP", [[9], (4, 2)], [(1, 2)]), "indices must be in [0, 4), got 9 to 9"),
    "squeezed extent": (one("SQUEEZE", [MAP], [(1, 4, 2)], at.SqueezeOptions((1,))), "squeezed dimensions must be 1"),
}
"""Models that LiteRT refuses."""
