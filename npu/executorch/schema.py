"""The tables of a .pte file, as far as an Ethos-U program needs them.

Source: schema/program.fbs and schema/scalar_type.fbs of ExecuTorch (identifier ET12). Names are the schema's, fields stand in
its order; those behind the last one that is needed are left out.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from npu.graph.dtype import DType
from npu.graph.wire import (
    NumberArray,
    NumberField,
    SubTable,
    SubTables,
    Table,
    UnionMember,
    UnknownMember,
    boolean,
    i8,
    i32,
    i32s,
    i64,
    text,
    u32,
    u64,
)

EXTENDED_HEADER = b"eh00"
"""At byte 8 of a file whose data lies in segments behind the program."""
TYPES = {0: DType.UINT8, 1: DType.INT8, 2: DType.INT16, 3: DType.INT32, 4: DType.INT64, 6: DType.FLOAT32, 11: DType.BOOL}
"""ScalarType."""
INLINE, SEGMENT = 0, 1
"""DataLocation."""

bytes_view = Annotated[npt.NDArray[np.uint8] | None, NumberArray("uint8")]
f64 = Annotated[float, NumberField("float64")]


class Null(Table):
    pass


class Int(Table):
    int_val: i64 = 0


class Bool(Table):
    bool_val: boolean = False


class Double(Table):
    double_val: f64 = 0.0


class PteTensor(Table):
    scalar_type: i8 = 0
    storage_offset: i32 = 0
    sizes: i32s = ()


value_union = Annotated[Table | UnknownMember | None, UnionMember((Null, Int, Bool, Double, PteTensor))]


class EValue(Table):
    val: value_union = None


class PteOperator(Table):
    name: text = ""
    overload: text = ""


class KernelCall(Table):
    op_index: i32 = 0
    args: i32s = ()


class DelegateCall(Table):
    delegate_index: i32 = 0
    args: i32s = ()


class MoveCall(Table):
    move_from: i32 = 0
    move_to: i32 = 0


class JumpFalseCall(Table):
    cond_value_index: i32 = 0
    destination_instruction: i32 = 0


class FreeCall(Table):
    value_index: i32 = 0


instruction_union = Annotated[
    Table | UnknownMember | None, UnionMember((KernelCall, DelegateCall, MoveCall, JumpFalseCall, FreeCall))
]


class Instruction(Table):
    instr_args: instruction_union = None


class DataReference(Table):
    location: i8 = INLINE
    index: u32 = 0


class BackendDelegate(Table):
    id: text = ""
    processed: Annotated[DataReference | None, SubTable()] = None


class PteChain(Table):
    inputs: i32s = ()
    outputs: i32s = ()
    instructions: Annotated[tuple[Instruction, ...], SubTables()] = ()


class ContainerMetadata(Table):
    encoded_inp_str: text = ""
    encoded_out_str: text = ""


class ExecutionPlan(Table):
    name: text = ""
    container_meta_type: Annotated[ContainerMetadata | None, SubTable()] = None
    values: Annotated[tuple[EValue, ...], SubTables()] = ()
    inputs: i32s = ()
    outputs: i32s = ()
    chains: Annotated[tuple[PteChain, ...], SubTables()] = ()
    operators: Annotated[tuple[PteOperator, ...], SubTables()] = ()
    delegates: Annotated[tuple[BackendDelegate, ...], SubTables()] = ()


class InlineData(Table, eq=False):
    data: bytes_view = None


class DataSegment(Table):
    offset: u64 = 0
    size: u64 = 0


class PteProgram(Table, eq=False):
    version: u32 = 0
    execution_plan: Annotated[tuple[ExecutionPlan, ...], SubTables()] = ()
    constant_buffer: Annotated[tuple[InlineData, ...], SubTables()] = ()
    backend_delegate_data: Annotated[tuple[InlineData, ...], SubTables()] = ()
    segments: Annotated[tuple[DataSegment, ...], SubTables()] = ()
