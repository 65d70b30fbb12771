"""Tensors while a model runs; the only place that knows buffers, dynamic shapes and delegate buffer handles."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.graph.graph import Quantization, Tensor
from npu.numerics.arrays import Array
from npu.tflite.sparsity import densify, is_sparse

if TYPE_CHECKING:
    from npu.runtime.delegate import Delegate

NO_BUFFER_HANDLE = -1


class Moves:
    """`last` is another object whenever a tensor was given a buffer: who has noted buffers looks again when it has changed.

    Numbers would not do: two threads that count at once may give one twice.
    """

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = object()


MOVES = Moves()
"""Of all tensors."""


class RuntimeTensor:
    """One tensor of one subgraph at run time: the current shape, and the numpy buffer once tensors are allocated.

    `data` has exactly `shape` and the numpy type of `dtype`; it is read-only for constants and None before allocation and for
    types that numpy cannot hold. `is_dynamic` marks a shape that is known only after the producer has run.

    `delegate` and `buffer_handle` name a second copy in a delegate's memory. `data_is_stale`: that copy is newer than `data`;
    `buffer_is_stale`: `data` is newer. Both copies are brought up to date when somebody reads them, not before.
    """

    __slots__ = (
        "_data", "buffer_handle", "buffer_is_stale", "data_is_stale", "delegate", "dtype", "index", "is_constant", "is_dynamic",
        "is_variable", "name", "quantization", "shape", "source",
    )  # fmt: skip

    def __init__(self, index: int, source: Tensor) -> None:
        self.index = index
        self.source = source
        self.name = source.name
        self.dtype: DType = source.dtype
        self.shape: tuple[int, ...] = source.shape
        self.quantization: Quantization | None = source.quantization
        self.is_constant = source.is_constant
        self.is_variable = source.is_variable
        self.is_dynamic = False
        self._data = _values(source)
        self.delegate: Delegate | None = None
        self.buffer_handle = NO_BUFFER_HANDLE
        self.data_is_stale = False
        self.buffer_is_stale = False

    @property
    def data(self) -> Array | None:
        return self._data

    @data.setter
    def data(self, buffer: Array | None) -> None:
        self._data = buffer
        MOVES.last = object()

    def mark_written(self) -> None:
        """The numpy buffer has new values: a copy that a delegate holds is out of date."""
        self.data_is_stale = False
        self.buffer_is_stale = self.delegate is not None

    @property
    def elements(self) -> int:
        """How many elements the current shape has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the buffer at the current shape."""
        return (self.elements * self.dtype.bits + 7) // 8

    @property
    def array(self) -> Array:
        """The buffer of a tensor that is known to be allocated."""
        if self._data is None:
            raise InterpreterError(f"tensor {self.index} '{self.name}': must be written before it is read")
        return self._data

    @property
    def scale(self) -> float:
        """The only scale as the file's float32 value; 0.0 if there is none, or several, as TFLite's `params.scale` has it."""
        return self.quantization.scale if self.quantization is not None and self.quantization.scales.size == 1 else 0.0

    @property
    def zero_point(self) -> int:
        """The first zero point, 0 if there is none."""
        return self.quantization.zero_point if self.quantization is not None else 0

    @property
    def first_scale(self) -> float:
        """The first of its scales, 0.0 if there is none: what kernels that read the quantization itself take."""
        return self.quantization.scale if self.quantization is not None and self.is_quantized else 0.0

    @property
    def is_quantized(self) -> bool:
        return self.quantization is not None and self.quantization.scales.size > 0


def _values(source: Tensor) -> Array | None:
    """The values of a constant, one element of the array per element: sparse, 4-bit and string ones are unpacked."""
    if source.data is None:
        return None
    if is_sparse(source):
        dense = densify(source)
    elif source.dtype is DType.INT4:
        dense = _nibbles(source.data, source.elements).reshape(source.shape)
    elif source.dtype is DType.STRING:
        dense = _strings(source)
    else:
        return source.data
    dense.flags.writeable = False
    return dense


def _nibbles(packed: Array, elements: int) -> Array:
    """Two's complement 4-bit numbers as int8; the first of two is in the low half of a byte."""
    halves = np.stack([packed << 4, packed & 0xF0], axis=-1).astype(np.uint8)
    values: Array = halves.view(np.int8).reshape(-1)[:elements] >> 4
    return values


def _strings(source: Tensor) -> Array:
    """The strings of a constant as bytes objects: the file has their number, where each starts, the end, then the bytes."""
    assert source.data is not None
    raw = source.data.tobytes()
    where = f"tensor '{source.name}'"
    count = int.from_bytes(raw[:4], "little", signed=True)
    if len(raw) < 4 or count != source.elements or len(raw) < 4 * (count + 2):
        raise InterpreterError(f"{where}: string data must hold {source.elements} strings, got {len(raw)} bytes for {count}")
    bounds = np.frombuffer(raw, "<i4", count + 1, 4).tolist()
    if any(not 4 * (count + 2) <= a <= b <= len(raw) for a, b in pairwise(bounds)):
        raise InterpreterError(f"{where}: strings must lie inside the {len(raw)} bytes of data, got offsets {bounds}")
    strings = np.empty(count, object)
    strings[:] = [raw[a:b] for a, b in pairwise(bounds)]
    return strings.reshape(source.shape)
