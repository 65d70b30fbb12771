"""The typed graph: Model > Graph > Op, Tensor. Frozen values; a pass makes new ones with `dataclasses.replace`.

Nothing here knows flatbuffers or hardware. Tensors and operators are named by their index in the graph, as in the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.records import dataclass

ABSENT = -1
"""Index of an optional operator input that is not given."""


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """Affine quantization: real = scale * (value - zero_point).

    `scales` float32 and `zero_points` int64 have one entry (per tensor) or one per index of dimension `axis`.
    """

    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.int64]
    axis: int = 0
    minimum: npt.NDArray[np.float32] | None = None
    maximum: npt.NDArray[np.float32] | None = None

    @property
    def is_per_channel(self) -> bool:
        return self.scales.size > 1

    @property
    def scale(self) -> float:
        """The only scale, as the float32 value that the file holds."""
        return float(self.scales[0])

    @property
    def zero_point(self) -> int:
        return int(self.zero_points[0]) if self.zero_points.size else 0


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A value of the graph. `data` is the typed, read-only contents of a constant and None for everything computed.

    `shape_signature` has -1 where a dimension is dynamic. `extra` keeps what the file says and nobody here interprets.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quantization: Quantization | None = None
    data: npt.NDArray[Any] | None = None
    shape_signature: tuple[int, ...] | None = None
    is_variable: bool = False
    has_rank: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements, packed where they are smaller than a byte; 0 where they have no fixed size."""
        return -(-self.elements * self.dtype.bits // 8)


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One operator: `kind` is its TFLite builtin name ("CONV_2D"), "CUSTOM" with `custom_code`, or "UNKNOWN_<code>".

    `inputs` may hold ABSENT. `attributes` is the dataclass of the operator's options table, None if the file has none. No file
    has a `lookup`: the compiler is given one.
    """

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Attributes | None = None
    version: int = 1
    custom_code: str | None = None
    custom_options: bytes = b""
    intermediates: tuple[int, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    lookup: Lookup | None = None

    @property
    def name(self) -> str:
        """What people call it: the builtin name, or the custom code."""
        return self.custom_code or self.kind


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """What an operator of one 8-bit value looks up in place of a chain of operators (see `npu.graph.lookups`).

    `entries` are the stored results for all values, ascending. The file has `whole` in its place, behind operators `before`.
    """

    entries: npt.NDArray[np.int64]
    whole: Op
    before: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """One subgraph. Operators are in execution order; `inputs` and `outputs` are tensor indices in model order.

    `unneeded` are operators that need not run: their results are known before the model runs, or nobody reads them.
    """

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)
    unneeded: frozenset[int] = frozenset()

    def __repr__(self) -> str:
        """In a line; `tensors` and `ops` have the rest."""
        counts = f"{len(self.ops)} ops, {len(self.tensors)} tensors"
        return f"<Graph {self.name!r}: {counts}, inputs {list(self.inputs)}, outputs {list(self.outputs)}>"


@dataclass(frozen=True, slots=True, eq=False)
class Signature:
    """A named entry point: argument name to tensor index of subgraph `graph`."""

    key: str
    graph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]

    def defect(self, graph: Graph) -> str | None:
        """Why the signature cannot be called, None if it can. Its names must stand for the inputs and outputs of its subgraph.

        Converters that gave a model other types at its ends left the old tensors in the signature, which are inside now;
        the model runs all the same.
        """
        for what, entries, known in (("input", self.inputs, graph.inputs), ("output", self.outputs, graph.outputs)):
            others = set(entries.values()) - set(known)
            for name, tensor in entries.items():
                if tensor in others:
                    return f"{what} '{name}' must be among the {what}s of its subgraph, got tensor {tensor}"
        nameless = set(graph.inputs) - set(self.inputs.values())
        return f"input tensor {min(nameless)} of its subgraph must have a name" if nameless else None


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A whole file. `metadata` maps an entry's name to its buffer."""

    graphs: tuple[Graph, ...]
    signatures: tuple[Signature, ...] = ()
    metadata: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    description: str = ""
    version: int = 3
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
