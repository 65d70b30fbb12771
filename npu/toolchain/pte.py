"""An ExecuTorch program as a compiled model: its Ethos-U delegates become `ethos-u` operators.

Only what such programs consist of is taken: calls of Ethos-U delegates, and the quantization around them. A delegate's tensors
have places in its own scratch memory, so a RESHAPE hands each of them over, as the backend copies them.
"""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np

from npu.errors import ModelError
from npu.executorch import IDENTIFIER, schema
from npu.executorch.vela_stream import arrays_of
from npu.graph.dtype import DType
from npu.graph.ethos_u import ARENA_METADATA, Input, arena_metadata, arena_offsets
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.runtime.operators.executorch import QUANTIZE_KERNELS, QuantizeCall
from npu.tflite.flatbuffer import TableReader
from npu.toolchain.raw import model_of_entries

DELEGATE = "EthosUBackend"
_OF_PROGRAM = "value "
"""Names of the tensors that are values of the program begin so."""
_SEGMENTS = struct.Struct("<4sIQQ")
"""The extended header: magic, its length, bytes of the program, start of the segments."""


def read_pte(content: bytes, name: str) -> Model:
    """Read the method that the program has. ModelError for what is no program of Ethos-U delegates and quantization."""
    program = TableReader(content, name).root(schema.PteProgram, IDENTIFIER, "an ExecuTorch program")
    if len(program.execution_plan) != 1 or len(program.execution_plan[0].chains) != 1:
        plans = program.execution_plan
        raise ModelError(f"{name}: must have one method of one chain, got {[len(plan.chains) for plan in plans]} chains")
    return _Method(program, content, name).model()


class _Method:
    """The one method of a program on its way into a graph."""

    def __init__(self, program: schema.PteProgram, content: bytes, name: str) -> None:
        self._program, self._content, self._name = program, content, name
        self._plan = program.execution_plan[0]
        self._tensors: list[Tensor] = []
        self._offsets: list[int] = []
        self._numbers: dict[int, int] = {}
        self._ops: list[Op] = []
        self._scratch = 0

    def model(self) -> Model:
        """The whole method. It has at least one job."""
        inputs = tuple(self._tensor(value) for value in self._plan.inputs)
        for instruction in self._plan.chains[0].instructions:
            call = instruction.instr_args
            if isinstance(call, schema.DelegateCall):
                self._delegate(call)
            elif isinstance(call, schema.KernelCall):
                self._kernel(call)
            elif not isinstance(call, schema.FreeCall):
                raise self._error(f"instructions must be calls of kernels and delegates, got {type(call).__name__}")
        if not any(op.kind == "CUSTOM" and len(op.inputs) > Input.SCRATCH for op in self._ops):
            raise self._error(f"must call a delegate '{DELEGATE}', got none; only such programs can be run here")
        outputs = tuple(self._tensor(value) for value in self._plan.outputs)
        metadata = {ARENA_METADATA: arena_metadata(1, self._offsets)}
        graph = Graph(self._plan.name or "forward", tuple(self._tensors), tuple(self._ops), inputs, outputs)
        return Model((graph,), (), metadata, f"ExecuTorch program {self._name}")

    def _add(self, tensor: Tensor, offset: int = -1) -> int:
        self._tensors.append(tensor)
        self._offsets.append(offset)
        return len(self._tensors) - 1

    def _value(self, index: int) -> object:
        if not 0 <= index < len(self._plan.values):
            raise self._error(f"value numbers must be in [0, {len(self._plan.values)}), got {index}")
        return self._plan.values[index].val

    def _tensor(self, index: int) -> int:
        """The number of the tensor that a value is."""
        if index not in self._numbers:
            table = self._value(index)
            if not isinstance(table, schema.PteTensor) or table.scalar_type not in schema.TYPES:
                raise self._error(f"value {index} must be a tensor of integers or float32, got {table}")
            if any(extent < 1 for extent in table.sizes):
                raise self._error(f"value {index} must have a fixed shape, got {list(table.sizes)}")
            dtype = schema.TYPES[table.scalar_type]
            self._numbers[index] = self._add(Tensor(f"{_OF_PROGRAM}{index}", tuple(table.sizes), dtype))
        return self._numbers[index]

    def _delegate(self, call: schema.DelegateCall) -> None:
        if not 0 <= call.delegate_index < len(self._plan.delegates):
            raise self._error(f"delegates must be in [0, {len(self._plan.delegates)}), got {call.delegate_index}")
        delegate = self._plan.delegates[call.delegate_index]
        if delegate.id != DELEGATE:
            raise self._error(f"delegates must be '{DELEGATE}', got '{delegate.id}'")
        where = f"{self._name}: delegate {call.delegate_index}"
        job = model_of_entries(arrays_of(self._data_of(delegate), where), where)
        graph, offsets = job.graphs[0], arena_offsets(job)
        count = len(graph.inputs) + len(graph.outputs)
        if len(call.args) < count:
            raise self._error(f"delegate {call.delegate_index} must be called with {count} tensors, got {len(call.args)}")
        numbers = {
            index: self._add(tensor, int(offset) + self._scratch if offset >= 0 else -1)
            for index, (tensor, offset) in enumerate(zip(graph.tensors, offsets, strict=True))
        }
        for value, index in zip(call.args[: len(graph.inputs)], graph.inputs, strict=True):
            self._hand_over(self._tensor(value), numbers[index])
        (op,) = graph.ops
        given, made = (tuple(numbers[k] for k in ends) for ends in (op.inputs, op.outputs))
        self._ops.append(replace(op, inputs=given, outputs=made))
        for value, index in zip(call.args[len(call.args) - len(graph.outputs) :], graph.outputs, strict=True):
            self._hand_over(numbers[index], self._tensor(value))
        self._scratch += -(-graph.tensors[op.inputs[Input.SCRATCH]].bytes // 16) * 16

    def _hand_over(self, source: int, target: int) -> None:
        """Copy a tensor into one of as many bytes, whose shape may be another one."""
        first, second = self._tensors[source], self._tensors[target]
        if (first.bytes, first.dtype.bits) != (second.bytes, second.dtype.bits):
            raise self._error(
                f"a tensor of the program must be as large as the delegate's: {first.name} is {first.dtype.name} "
                f"{list(first.shape)}, {second.name} {second.dtype.name} {list(second.shape)}"
            )
        dtype = (first if first.name.startswith(_OF_PROGRAM) else second).dtype  # the stream may not tell signed from unsigned
        self._tensors[source], self._tensors[target] = replace(first, dtype=dtype), replace(second, dtype=dtype)
        shape = self._add(Tensor(f"shape_{target}", (len(second.shape),), DType.INT32, data=np.array(second.shape, np.int32)))
        self._ops.append(Op("RESHAPE", (source, shape), (target,)))

    def _data_of(self, delegate: schema.BackendDelegate) -> bytes:
        """The processed data of a delegate: in the program, or in a segment behind it."""
        place = delegate.processed or schema.DataReference()
        inline, segments = self._program.backend_delegate_data, self._program.segments
        if place.location == schema.INLINE:
            if place.index >= len(inline) or inline[place.index].data is None:
                raise self._error(f"data of delegates must be one of {len(inline)} in the program, got number {place.index}")
            data = inline[place.index].data
            assert data is not None
            return data.tobytes()
        if place.index >= len(segments):
            raise self._error(f"data of delegates must be one of {len(segments)} segments, got number {place.index}")
        start = self._start_of_segments() + segments[place.index].offset
        end = start + segments[place.index].size
        if end > len(self._content):
            raise self._error(
                f"segment {place.index} must lie inside the file of {len(self._content)} bytes, got {start} to {end}"
            )
        return self._content[start:end]

    def _start_of_segments(self) -> int:
        if self._content[8:12] != schema.EXTENDED_HEADER or len(self._content) < 8 + _SEGMENTS.size:
            raise self._error("must have an extended header that says where segments begin, got none")
        return int(_SEGMENTS.unpack_from(self._content, 8)[3])

    def _kernel(self, call: schema.KernelCall) -> None:
        operators = self._plan.operators
        if not 0 <= call.op_index < len(operators):
            raise self._error(f"operators must be in [0, {len(operators)}), got {call.op_index}")
        name = operators[call.op_index].name.rpartition("::")[2]
        if name not in QUANTIZE_KERNELS or len(call.args) < 6:
            raise self._error(
                f"kernels must be {' or '.join(sorted(QUANTIZE_KERNELS))}, got {operators[call.op_index].name}; "
                "whatever else the CPU runs is not known here"
            )
        scale, *numbers = (self._number(index) for index in call.args[1:5])
        options = QuantizeCall(float(scale), *(int(number) for number in numbers))
        ends = (self._tensor(call.args[0]),), (self._tensor(call.args[-1]),)
        self._ops.append(Op("CUSTOM", *ends, custom_code=QUANTIZE_KERNELS[name], custom_options=options.to_bytes()))

    def _number(self, index: int) -> float:
        value = self._value(index)
        if isinstance(value, schema.Double):
            return value.double_val
        if isinstance(value, schema.Int):
            return value.int_val
        raise self._error(f"value {index} must be a number, got {value}")

    def _error(self, what: str) -> ModelError:
        return ModelError(f"{self._name}: {what}")
