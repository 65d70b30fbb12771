"""ExecuTorch programs around a compiled file: float input, quantize, one Ethos-U delegate, dequantize."""

from __future__ import annotations

import struct

import numpy as np

import npu
from npu.executorch import IDENTIFIER, schema
from npu.graph.ethos_u import Input, arena_offsets, is_npu_job
from npu.graph.wire import Table
from npu.tflite.flatbuffer import TableWriter

SCALAR_TYPES = {dtype: number for number, dtype in schema.TYPES.items()}


def vela_stream(compiled: bytes) -> bytes:
    """The one job of a compiled file as ExecuTorch's backend keeps it."""
    model = npu.load(compiled)
    graph, offsets = model.graphs[0], arena_offsets(model)
    (op,) = (op for op in graph.ops if is_npu_job(op))
    commands, weights, scratch = (graph.tensors[op.inputs[k]] for k in (Input.COMMANDS, Input.CONSTANTS, Input.SCRATCH))
    assert commands.data is not None
    assert weights.data is not None

    def maps(indices: tuple[int, ...]) -> bytes:
        rows = []
        for index in indices:
            shape = graph.tensors[index].shape
            rows.append([*[1] * (6 - len(shape)), *shape, graph.tensors[index].dtype.bits // 8, int(offsets[index]), 1])
        return struct.pack("<i", len(rows)) + np.array(rows, "<i4").tobytes()

    return stream_of(
        {
            "vela_bin_stream": b"",
            "cmd_data": commands.data.tobytes(),
            "weight_data": weights.data.tobytes(),
            "scratch_size": struct.pack("<I", scratch.bytes),
            "inputs": maps(op.inputs[Input.FIRST_MAP :]),
            "outputs": maps(op.outputs),
            "vela_end_stream": b"",
        }
    )


def stream_of(blocks: dict[str, bytes]) -> bytes:
    """Blocks one behind the other, each padded to 16 bytes."""
    return b"".join(
        struct.pack("<16sIB11s", name.encode(), len(content), 0, b"") + content + bytes(-len(content) % 16)
        for name, content in blocks.items()
    )


def tensor(shape: tuple[int, ...], scalar_type: int) -> schema.EValue:
    return schema.EValue(schema.PteTensor(scalar_type, 0, shape))


def quantized_program(compiled: bytes, *, in_segment: bool, kernel: str = "quantized_decomposed::quantize_per_tensor") -> bytes:
    """A program with float input and output; the scales are those of the compiled file."""
    graph = npu.load(compiled).graphs[0]
    source, target = graph.tensors[graph.inputs[0]], graph.tensors[graph.outputs[0]]
    assert source.quantization is not None
    assert target.quantization is not None
    f32, i8 = 6, 1
    values = [tensor(source.shape, f32), tensor(source.shape, i8), tensor(target.shape, i8), tensor(target.shape, f32)]
    for quantization in (source.quantization, target.quantization):
        values.append(schema.EValue(schema.Double(quantization.scale)))
        values += [schema.EValue(schema.Int(number)) for number in (quantization.zero_point, -128, 127, i8)]
    instructions = tuple(
        schema.Instruction(call)
        for call in (
            schema.KernelCall(0, (0, 4, 5, 6, 7, 8, 1, 1)),
            schema.DelegateCall(0, (1, 2)),
            schema.KernelCall(1, (2, 9, 10, 11, 12, 13, 3, 3)),
        )
    )
    plan = schema.ExecutionPlan(
        "forward",
        schema.ContainerMetadata(),
        tuple(values),
        (0,),
        (3,),
        (schema.PteChain(instructions=instructions),),
        (schema.PteOperator(kernel, "out"), schema.PteOperator("quantized_decomposed::dequantize_per_tensor", "out")),
        (schema.BackendDelegate("EthosUBackend", schema.DataReference(int(in_segment), 0)),),
    )
    return program(plan, vela_stream(compiled), in_segment=in_segment)


def program(plan: schema.ExecutionPlan, data: bytes, *, in_segment: bool) -> bytes:
    """The file: the delegate's data inside the program, or behind it in a segment that the extended header tells of."""
    inline = () if in_segment else (schema.InlineData(np.frombuffer(data, np.uint8)),)
    segments = (schema.DataSegment(0, len(data)),) if in_segment else ()
    root: Table = schema.PteProgram(0, (plan,), (schema.InlineData(np.zeros(0, np.uint8)),), inline, segments)
    content = TableWriter(16).file(root, IDENTIFIER)
    if not in_segment:
        return content
    header = struct.pack("<4sIQQ", schema.EXTENDED_HEADER, 24, len(content) + 32, len(content) + 32)
    root_at = struct.unpack_from("<I", content)[0] + 32
    return struct.pack("<I", root_at) + content[4:8] + header + bytes(32 - 8 - len(header) + 8) + content[8:] + data
