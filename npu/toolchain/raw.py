"""Vela's raw output (`--output-format raw`, an .npz archive) as a compiled model of one `ethos-u` operator.

Pickled entries (the quantization) are never loaded; every number that is used is checked. The archive says nothing about
signedness, which is taken from the feature maps of the command stream.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import ModelError
from npu.files import load_arrays, told_as_value_error
from npu.graph.dtype import DType
from npu.graph.ethos_u import ARENA_METADATA, CUSTOM_CODE, CUSTOM_OPTIONS, Region, arena_metadata
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.hardware.catalogue import list_variants, load_variant
from npu.isa.operations import FeatureMap, KernelOperation
from npu.isa.payload import decode_config, find_target, parse_payload
from npu.numerics.arrays import Array

_LIMIT_BYTES = 1 << 31
"""Of offsets and sizes."""
_LARGEST_ARCHIVE_BYTES = 1 << 28
"""Far above the constants of any model for these NPUs, and unpacked within seconds."""
_TYPES = {
    (1, True): DType.INT8,
    (1, False): DType.UINT8,
    (2, True): DType.INT16,
    (2, False): DType.UINT16,
    (4, True): DType.INT32,
    (4, False): DType.INT32,
}
_RANK = 4
"""Shapes are padded with leading ones to rank 6; those beyond this rank are dropped again."""


def read_raw(path: str | Path) -> Model:
    """Read Vela's raw output. ModelError names the file, the entry and what it must be."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _LARGEST_ARCHIVE_BYTES:
            raise ModelError(f"{path.name}: archive: must unpack to at most {_LARGEST_ARCHIVE_BYTES} bytes, got {size}")
        content = load_arrays(path)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise ModelError(f"{path.name}: must be a readable .npz archive, got: {error}") from error
    try:
        return model_of_entries(content, path.name)
    finally:
        content.close()


def model_of_entries(content: Mapping[str, Any], name: str) -> Model:
    """The model of one `ethos-u` operator that the entries describe. ModelError names the entry and what it must be."""
    return _Entries(content, name).model()


class _Entries:
    """The entries of an archive, checked as they are read."""

    def __init__(self, content: Mapping[str, Any], name: str) -> None:
        self._content, self._name = content, name

    def model(self) -> Model:
        """The graph of the job, its inputs and outputs."""
        payload, read_only = self._bytes("cmd_data"), self._bytes("weight_data")
        if self._numbers("variable_region").size:
            raise self._error("variable_region", "must be empty, variables are not supported", "variables")
        scratch, fast = self._number("scratch_size"), self._number("scratch_fast_size")
        for name, wanted in (("weight_region", Region.CONSTANTS), ("scratch_region", Region.ARENA)):
            if self._number(name) != wanted:
                raise self._error(name, f"must be {wanted}", self._number(name))
        tensors = [_bytes_tensor("command_stream", payload), _bytes_tensor("read_only", read_only)]
        tensors += [_bytes_tensor("scratch", scratch)] + ([_bytes_tensor("scratch_fast", fast)] if fast else [])
        offsets = [-1, -1, 0, 0][: len(tensors)]
        maps = _maps(payload)
        first = len(tensors)
        for kind, regions in (
            ("input", (Region.ARENA, Region.INPUTS)),
            ("output", (Region.ARENA, Region.OUTPUTS)),
        ):
            for tensor, offset in self._ends(kind, regions, maps):
                tensors.append(tensor)
                offsets.append(offset)
        count = self._numbers("input_offset").size
        inputs, outputs = tuple(range(first, first + count)), tuple(range(first + count, len(tensors)))
        op = Op("CUSTOM", (0, 1, 2, first - 1, *inputs), outputs, None, 1, CUSTOM_CODE, CUSTOM_OPTIONS)
        metadata = {ARENA_METADATA: arena_metadata(1, offsets)}
        return Model((Graph("main", tuple(tensors), (op,), inputs, outputs),), (), metadata)

    def _ends(self, kind: str, regions: tuple[int, int], maps: dict[tuple[int, int], FeatureMap]) -> list[tuple[Tensor, int]]:
        columns = [self._numbers(f"{kind}_{column}") for column in ("elem_size", "region", "offset")]
        shapes = self._numbers(f"{kind}_shape")
        count = columns[2].size
        if shapes.ndim != 2 or any(column.shape != (count,) for column in columns) or shapes.shape[0] != count or not count:
            raise self._error(f"{kind}_shape", f"must have a row for each of the {kind}s, at least one", shapes.shape)
        tensors = []
        for index in range(count):
            size, region, offset = (int(column[index]) for column in columns)
            shape = _trimmed([int(extent) for extent in shapes[index]])
            fm = maps.get((region, offset))
            dtype = _TYPES.get((size, fm is None or fm.element.is_signed))
            if dtype is None:
                raise self._error(f"{kind}_elem_size", "must be 1, 2 or 4", size)
            if region not in regions:
                raise self._error(f"{kind}_region", f"must be {regions[0]} or {regions[1]}", region)
            if not 0 <= offset < _LIMIT_BYTES or min(shape) < 1 or math.prod(shape) > _LIMIT_BYTES:
                raise self._error(f"{kind} {index}", "must have a positive shape and an offset within 2 GiB", (shape, offset))
            tensors.append((Tensor(f"{kind}_{index}", shape, dtype), offset))
        return tensors

    def _entry(self, name: str) -> Array:
        try:
            with told_as_value_error():
                array = self._content[name]
        except (KeyError, ValueError, OSError, zlib.error, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
            raise self._error(
                name, "must be an array of numbers or bytes", (str(error) or type(error).__name__).splitlines()[0]
            ) from error
        if not isinstance(array, np.ndarray):
            raise self._error(name, "must be an array", type(array).__name__)
        return array

    def _bytes(self, name: str) -> bytes:
        array = self._entry(name)
        if array.dtype.kind not in "Su":
            raise self._error(name, "must be bytes", array.dtype)
        return array.tobytes()

    def _numbers(self, name: str) -> npt.NDArray[np.int64]:
        array = self._entry(name)
        if array.size and array.dtype.kind not in "iu":
            raise self._error(name, "must be integers", array.dtype)
        return array.astype(np.int64)

    def _number(self, name: str) -> int:
        array = self._numbers(name).reshape(-1)
        if array.size != 1 or not 0 <= int(array[0]) <= _LIMIT_BYTES:
            raise self._error(name, f"must be one number in [0, {_LIMIT_BYTES}]", array[:4].tolist())
        return int(array[0])

    def _error(self, entry: str, rule: str, got: object) -> ModelError:
        return ModelError(f"{self._name}: {entry}: {rule}, got {got}")


def _bytes_tensor(name: str, content: bytes | int) -> Tensor:
    if isinstance(content, int):
        return Tensor(name, (content,), DType.UINT8)
    return Tensor(name, (len(content),), DType.UINT8, None, np.frombuffer(content, np.uint8))


def _trimmed(shape: Sequence[int]) -> tuple[int, ...]:
    while len(shape) > _RANK and shape[0] == 1:
        shape = shape[1:]
    return tuple(shape)


def _maps(data: bytes) -> dict[tuple[int, int], FeatureMap]:
    """Feature maps of the stream by region and address."""
    from npu.isa.decode import decode  # nearly no file has no model around its stream

    payload = parse_payload(data)
    variant = find_target(decode_config(payload.config_word), [load_variant(name) for name in list_variants()])
    maps: dict[tuple[int, int], FeatureMap] = {}
    for decoded in decode(payload.words, variant):
        operation = decoded.operation
        if isinstance(operation, KernelOperation):
            for fm in operation.maps_in_memory.values():
                maps.setdefault((fm.region, fm.addresses[0]), fm)
    return maps
