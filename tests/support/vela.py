"""Vela 5.2 as an independent compiler: models to compiled files, kept for the session; and what a compiled file holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tflite

from tests.support.vela_fork import compile_forked


def compile_with_vela(model: bytes, accelerator: str, *arguments: str) -> bytes:
    """What the installed Vela makes of `model`, e.g. for "ethos-u55-128"; RuntimeError with its last words if it fails."""
    return compile_forked(model, accelerator, *arguments)


@dataclass(frozen=True, slots=True)
class Job:
    """The only `ethos-u` operator of a compiled file: payload, constants, sizes, and (offset, shape, dtype) of its ends."""

    payload: bytes
    read_only: npt.NDArray[np.uint8]
    scratch_bytes: int
    fast_bytes: int
    inputs: tuple[tuple[int, tuple[int, ...], np.dtype], ...]
    outputs: tuple[tuple[int, tuple[int, ...], np.dtype], ...]


_TYPES = {
    tflite.TensorType.INT8: np.dtype(np.int8),
    tflite.TensorType.UINT8: np.dtype(np.uint8),
    tflite.TensorType.INT16: np.dtype(np.int16),
    tflite.TensorType.INT32: np.dtype(np.int32),
}


def only_job(content: bytes) -> Job:
    """The job of a file that runs entirely on the NPU; RuntimeError if it holds other operators."""
    model = tflite.Model.GetRootAsModel(content, 0)
    graph = model.Subgraphs(0)
    if graph.OperatorsLength() != 1 or model.OperatorCodes(graph.Operators(0).OpcodeIndex()).CustomCode() != b"ethos-u":
        raise RuntimeError("the file must hold exactly one ethos-u operator")
    operator = graph.Operators(0)
    data = [model.Buffers(graph.Tensors(operator.Inputs(k)).Buffer()).DataAsNumpy() for k in range(2)]
    sizes = [int(np.prod(graph.Tensors(operator.Inputs(k)).ShapeAsNumpy())) for k in range(4)]
    entries = [model.Metadata(k) for k in range(model.MetadataLength())]
    (entry,) = (item for item in entries if item.Name() == b"OfflineMemoryAllocation")
    offsets = model.Buffers(entry.Buffer()).DataAsNumpy().view(np.int32)[3:]

    def end(index: int) -> tuple[int, tuple[int, ...], np.dtype]:
        tensor = graph.Tensors(index)
        return int(offsets[index]), tuple(int(n) for n in tensor.ShapeAsNumpy()), _TYPES[tensor.Type()]

    read_only = data[1] if sizes[1] else np.zeros(0, np.uint8)
    inputs = tuple(end(int(k)) for k in graph.InputsAsNumpy())
    outputs = tuple(end(int(k)) for k in graph.OutputsAsNumpy())
    return Job(bytes(data[0]), np.array(read_only), sizes[2], sizes[3], inputs, outputs)
