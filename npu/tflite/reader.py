"""TFLite file to `Model`; the only place that interprets the file's tables.

What the graph has no field for is kept in `extra` under the schema's field name (see `npu.tflite.writer`, which puts it back):

* Tensor.extra: `sparsity` (SparsityParameters), `quantization` (QuantizationParameters without scales), `details`
  (quantization details), `variant_tensors`, `external_buffer`.
* Op.extra: `mutating_variable_inputs`, `custom_options_format`, `debug_metadata_index`, `unknown_options` and
  `unknown_options_2` (number of an options table that this schema does not have), `builtin_options` (beside
  `builtin_options_2`, where a file has both).
* Graph.extra: `debug_metadata_index`. Model.extra: `metadata_buffer`, `external_buffer_groups`, `external_buffers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu.errors import ModelError
from npu.graph.attributes import Attributes, CustomOptionsFormat
from npu.graph.graph import Graph, Model, Op, Quantization, Signature, Tensor
from npu.graph.ops import kind_of_code
from npu.graph.verify import raw_bytes, verify_model
from npu.graph.wire import UnknownMember
from npu.records import replace
from npu.tflite.flatbuffer import TableReader, aligned_view
from npu.tflite.schema import (
    IDENTIFIER,
    VERSION,
    Buffer,
    MetadataTable,
    ModelTable,
    OperatorCode,
    OperatorTable,
    QuantizationParameters,
    SignatureDef,
    SubGraphTable,
    TensorTable,
)

MAX_FILE_BYTES = 1 << 36
"""Far above what the format's 32-bit offsets reach; guards against reading a disk by mistake."""

BufferBytes = npt.NDArray[np.uint8] | None


def read_model(source: str | Path | bytes, name: str | None = None) -> Model:
    """The model in a file, or in the bytes of one. Constant arrays are read-only views of the file. `name` is for messages.

    Raises ModelError for everything that is wrong with the file, malformed or inconsistent.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _ModelReader(bytes(source), "model" if name is None else name).model()
    return _ModelReader(bytes_of(Path(source)), str(source)).model()


def bytes_of(path: Path) -> bytes:
    """The contents of a file that must hold a model. ModelError if it cannot be read, is empty or larger than any model."""
    try:
        if not path.is_file():
            got = "got a folder" if path.is_dir() else "got a pipe or device; save it to a file first"
            raise ModelError(f"{path}: must be a TFLite file, {got if path.exists() else 'but there is no such file'}")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ModelError(f"{path}: must have at most {MAX_FILE_BYTES} bytes, got {path.stat().st_size}")
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: must be readable, got {error}") from error
    if not data:
        raise ModelError(f"{path}: must be a TFLite file, got an empty file")
    return data


class _ModelReader:
    """State of reading one file: its tables, and the contents of its buffers."""

    def __init__(self, data: bytes, source: str) -> None:
        self._source = source
        self._data = data
        self._tables = TableReader(data, source)
        self._root = self._tables.root(ModelTable, IDENTIFIER)
        if self._root.version != VERSION:
            raise self._tables.error("", f"schema version must be {VERSION}, got {self._root.version}")
        self._buffers = [self._contents(index, buffer) for index, buffer in enumerate(self._root.buffers)]
        self._kinds = [self._kind(index, code) for index, code in enumerate(self._root.operator_codes)]

    def model(self) -> Model:
        root = self._root
        model = Model(
            graphs=tuple(self._graph(number, graph) for number, graph in enumerate(root.subgraphs)),
            signatures=tuple(map(_signature, root.signature_defs)),
            metadata=self._metadata(root.metadata),
            description=root.description,
            version=root.version,
            extra=_present(
                metadata_buffer=root.metadata_buffer,
                external_buffer_groups=root.external_buffer_groups,
                external_buffers=root.external_buffers,
            ),
        )
        verify_model(model, self._source)
        return model

    def _contents(self, index: int, buffer: Buffer) -> BufferBytes:
        """A buffer's bytes: in its table, or further back in the file; None if it has none."""
        if buffer.data is not None:
            return buffer.data
        if buffer.offset <= 1:  # 0 and 1 are placeholders of the converter
            return None
        if buffer.offset + buffer.size > len(self._data):
            end = f"{buffer.offset} + {buffer.size}"
            raise self._tables.error(f"buffers[{index}]", f"must lie inside the file of {len(self._data)} bytes, got {end}")
        return aligned_view(self._data, np.dtype(np.uint8), buffer.offset, buffer.size)

    def _buffer(self, index: int, path: str) -> BufferBytes:
        if index == 0:  # empty by convention, and missing in some files
            return None
        if index >= len(self._buffers):
            raise self._tables.error(path, f"buffer must be in [0, {len(self._buffers)}), got {index}")
        return self._buffers[index]

    def _kind(self, index: int, code: OperatorCode) -> tuple[str, str | None, int]:
        """Kind, custom code and version. Old files have only the deprecated byte, new files both, the larger one counts."""
        number = max(code.deprecated_builtin_code, code.builtin_code)
        if number < 0:
            raise self._tables.error(f"operator_codes[{index}]", f"must not be negative, got {number}")
        kind = kind_of_code(number)
        return kind, code.custom_code if kind == "CUSTOM" else None, code.version

    def _graph(self, number: int, table: SubGraphTable) -> Graph:
        path = f"subgraphs[{number}]"
        return Graph(
            name=table.name,
            tensors=tuple(self._tensor(f"{path}.tensors[{index}]", tensor) for index, tensor in enumerate(table.tensors)),
            ops=tuple(self._op(f"{path}.operators[{index}]", op) for index, op in enumerate(table.operators)),
            inputs=table.inputs or (),
            outputs=table.outputs or (),
            extra=_present(debug_metadata_index=_unless(table.debug_metadata_index, -1)),
        )

    def _tensor(self, path: str, table: TensorTable) -> Tensor:
        shape = table.shape or ()
        quantization, extra = self._quantization(path, table.quantization, len(shape))
        extra |= _present(
            sparsity=table.sparsity,
            variant_tensors=table.variant_tensors,
            external_buffer=_unless(table.external_buffer, 0),
        )
        tensor = Tensor(
            name=table.name,
            shape=shape,
            dtype=table.type,
            quantization=quantization,
            shape_signature=table.shape_signature,
            is_variable=table.is_variable,
            has_rank=table.has_rank,
            extra=extra,
        )
        contents = self._buffer(table.buffer, path)
        if contents is None or min(shape, default=0) < 0:
            return tensor
        if contents.size == 0 and raw_bytes(tensor) != 0 and table.sparsity is None:
            return tensor  # an empty buffer of its own, as converters give to every computed tensor
        constant = replace(tensor, data=self._typed(path, tensor, contents))
        if table.sparsity is not None:
            from npu.tflite.sparsity import check_sparsity  # few models have any

            check_sparsity(constant, f"{self._source}: {path}")
        return constant

    def _typed(self, path: str, tensor: Tensor, contents: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The contents with the tensor's type and shape, or in one dimension where they must stay raw.

        What a buffer has behind them is left out, as LiteRT does: some vendors' converters pad constants for their kernels.
        """
        expected = raw_bytes(tensor)
        if expected is not None and contents.size < expected:
            what = f"data of shape {list(tensor.shape)} {tensor.dtype} must have at least {expected} bytes"
            raise self._tables.error(path, f"{tensor.name!r}: {what}, got {contents.size}")
        contents = contents[:expected]
        dtype = tensor.dtype.numpy
        if dtype is None:
            return contents
        if contents.size % dtype.itemsize:
            raise self._tables.error(path, f"{tensor.name!r}: data must be whole {tensor.dtype}, got {contents.size} bytes")
        if contents.ctypes.data % dtype.alignment:
            contents = contents.copy()
            contents.flags.writeable = False
        values = contents.view(dtype)
        try:
            return values if expected is None else values.reshape(tensor.shape)
        except ValueError as error:  # nothing in it, and other dimensions of more than 64 bits or too many of them
            what = f"must have a shape of an array, got {list(tensor.shape)}"
            raise self._tables.error(path, f"{tensor.name!r}: {what}") from error

    def _quantization(
        self, path: str, table: QuantizationParameters | None, rank: int
    ) -> tuple[Quantization | None, dict[str, Any]]:
        if table is None:
            return None, {}
        if table.scale is None or table.scale.size == 0:
            return None, {"quantization": table}
        scales, zero_points = table.scale, table.zero_point
        count = 0 if zero_points is None else zero_points.size
        if zero_points is None or count != scales.size:
            raise self._tables.error(path, f"must have one zero point per scale, got {count} for {scales.size}")
        # The only dimension of a vector is meant, whatever the file says: tflite-micro's person_detect says 3.
        axis = 0 if rank == 1 else table.quantized_dimension
        return Quantization(scales, zero_points, axis, table.min, table.max), _present(details=table.details)

    def _op(self, path: str, table: OperatorTable) -> Op:
        if table.opcode_index >= len(self._kinds):
            raise self._tables.error(path, f"opcode index must be in [0, {len(self._kinds)}), got {table.opcode_index}")
        kind, custom_code, version = self._kinds[table.opcode_index]
        attributes, extra = _attributes(table)
        extra |= _present(
            mutating_variable_inputs=table.mutating_variable_inputs,
            custom_options_format=_unless(table.custom_options_format, CustomOptionsFormat.FLEXBUFFERS),
            debug_metadata_index=_unless(table.debug_metadata_index, -1),
        )
        return Op(
            kind=kind,
            inputs=table.inputs or (),
            outputs=table.outputs or (),
            attributes=attributes,
            version=version,
            custom_code=custom_code,
            custom_options=self._custom_options(path, table),
            intermediates=table.intermediates or (),
            extra=extra,
        )

    def _custom_options(self, path: str, table: OperatorTable) -> bytes:
        start, size = table.large_custom_options_offset, table.large_custom_options_size
        if start <= 1:
            return table.custom_options
        if start + size > len(self._data):
            raise self._tables.error(
                path, f"large custom options must lie inside the file of {len(self._data)} bytes, got {start} + {size}"
            )
        return self._tables.copy(start, size, path)

    def _metadata(self, entries: Sequence[MetadataTable]) -> dict[str, bytes]:
        """Contents by name. Of entries with one name the first counts, as for TFLite's own look-up."""
        result: dict[str, bytes] = {}
        for index, entry in enumerate(entries):
            contents = self._buffer(entry.buffer, f"metadata[{index}]")
            if contents is not None:
                self._tables.count_bytes(contents.size, f"metadata[{index}]")
            result.setdefault(entry.name, b"" if contents is None else contents.tobytes())
        return result


def _attributes(table: OperatorTable) -> tuple[Attributes | None, dict[str, Any]]:
    """The options of an operator: of both unions the second counts, the first is then kept aside."""
    first, second = table.builtin_options, table.builtin_options_2
    extra: dict[str, Any] = {}
    if isinstance(first, UnknownMember):
        extra["unknown_options"] = first.number
        first = None
    if isinstance(second, UnknownMember):
        extra["unknown_options_2"] = second.number
        second = None
    if first is not None and second is not None:
        extra["builtin_options"] = first
    return second if second is not None else first, extra


def _signature(table: SignatureDef) -> Signature:
    """Of arguments with one name the last counts, as for TFLite's interpreter; Vela 5.2 writes some outputs twice."""
    inputs, outputs = ({entry.name: entry.tensor_index for entry in entries} for entries in (table.inputs, table.outputs))
    return Signature(key=table.signature_key, graph=table.subgraph_index, inputs=inputs, outputs=outputs)


def _unless(value: Any, default: Any) -> Any:
    """None for the default, so that `extra` stays empty."""
    return None if value == default else value


def _present(**entries: Any) -> dict[str, Any]:
    """The entries that say something: neither None nor empty."""
    return {name: value for name, value in entries.items() if value is not None and value != ()}
