"""diff: the first operator of a compiled file whose output is not what the source model computes on the CPU.

The source runs on the interpreter's reference kernels, FULLY_CONNECTED in the hardware's rounding and LSTM cells with the gates
of the session. Files with an operator map are compared operator by operator, by what the NPU has written when an operator's
last operation is done; so are files of other compilers, as far as their operators are matched to those of the source. Tensors
that keep their names and outputs count too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from npu.errors import ModelError, stream_errors_at
from npu.graph.ethos_u import is_compiled
from npu.graph.graph import Graph, Model
from npu.isa.decoded import Decoded
from npu.isa.operations import ElementType, FeatureMap, Layout
from npu.layouts import BRICK_DEPTH
from npu.numerics.arrays import Array
from npu.numerics.lstm_gates import LstmGates
from npu.records import dataclass
from npu.reports.operator_map import GUESSED, OperatorMap
from npu.reports.source_match import match_source
from npu.reports.vela_database import read_database
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import LOOP_LIMIT, RuntimeOptions
from npu.toolchain.labels import execution_errors_at, known_map
from npu.toolchain.origin import check_ends
from npu.toolchain.run import Inputs, execute
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, is_raw, load, load_compiled, model_name, settled
from npu.toolchain.tensors import Recorder, Written, offset_in
from sim.container import CompiledFile
from sim.delegate import EthosUDelegate


@dataclass(frozen=True, slots=True)
class Difference:
    """The first value that differs: `operator` of the source writes `tensor`; `position` is in the tensor's shape.

    `command_index` and `word_index` are those of the last NPU operation that wrote the tensor, None where it is not known.
    """

    operator: int
    type: str
    tensor: str
    position: tuple[int, ...]
    expected: float
    actual: float
    differing: int
    values: int
    command_index: int | None = None
    word_index: int | None = None


@dataclass(frozen=True, slots=True)
class DiffResult:
    """`first` is None if everything that was compared is equal; `skipped` are operators whose map is never whole in memory.

    `uncertain` are operators that were only guessed in the file of another compiler, which are not compared either.
    """

    first: Difference | None
    compared: tuple[str, ...]
    skipped: tuple[str, ...]
    uncertain: tuple[str, ...] = ()


def diff(
    reference: Source,
    compiled: Source,
    session: Session,
    inputs: Inputs = None,
    *,
    seed: int = 0,
    database: Path | None = None,
) -> DiffResult:
    """Run both on the same inputs (seeded random ones if none are given) and compare.

    Operators of a file that does not name them are matched to those of the source, by the compiler's debug database if one is
    given. ModelError if the two do not belong together.
    """
    source, made = settled(load(reference)), settled(load_compiled(compiled))
    if is_compiled(source):
        raise ModelError(
            f"{model_name(reference)}: must be the plain source model, but it holds compiled operators; compare each compiled "
            "file with the model that it was made from"
        )
    has_types = isinstance(compiled, bytes) or not is_raw(compiled)
    check_ends(source.graphs[0], made.graphs[0], model_name(reference), model_name(compiled), has_types=has_types)
    expected = _reference_values(source, inputs, seed, session.lstm_gates)
    variant = session.variant_of(made, model_name(compiled))
    with stream_errors_at(model_name(compiled)):
        file = CompiledFile(made, variant)
        known = None if database is None else read_database(database)
        operators = known_map(made, model_name(compiled)) or match_source(file, source.graphs[0], known)
        recorder = Recorder(file, operators)
        interpreter = CpuInterpreter(
            model=made,
            experimental_delegates=[EthosUDelegate(file=file, hook=recorder.hook)],
            experimental_preserve_all_tensors=True,
            options=RuntimeOptions(lstm_gates=session.lstm_gates, while_limit=LOOP_LIMIT),
        )
    given = [expected[index] for index in source.graphs[0].inputs]
    given = [array.reshape(made.graphs[0].tensors[k].shape) for array, k in zip(given, made.graphs[0].inputs, strict=True)]
    with execution_errors_at(model_name(compiled), file):
        execute(interpreter, made.graphs[0], given, seed)
    comparison = _TensorComparison(source.graphs[0], expected)
    if (operators.own or len(operators.operators)) == len(source.graphs[0].ops):
        comparison.by_operator(operators, recorder.written)
    comparison.by_name(made.graphs[0], interpreter)
    comparison.outputs(made.graphs[0], interpreter)
    return comparison.result()


def _reference_values(model: Model, inputs: Inputs, seed: int, gates: LstmGates) -> dict[int, Array]:
    """Values of all computed tensors of the main graph by index."""
    options = RuntimeOptions(fully_connected_rounding="npu", lstm_gates=gates, while_limit=LOOP_LIMIT)
    interpreter = CpuInterpreter(model=model, experimental_preserve_all_tensors=True, options=options)
    graph = model.graphs[0]
    execute(interpreter, graph, inputs, seed)
    computed = {*graph.inputs, *(index for op in graph.ops for index in op.outputs if index >= 0)}
    return {
        index: np.array(interpreter.get_tensor(index))
        for index in sorted(computed)
        if graph.tensors[index].dtype.numpy is not None
    }


class _TensorComparison:
    """Collects what was compared, at most once a tensor; the first difference is that of the earliest operator."""

    def __init__(self, graph: Graph, expected: Mapping[int, Array]) -> None:
        self._graph = graph
        self._expected = expected
        self._producer = {index: number for number, op in enumerate(graph.ops) for index in op.outputs}
        self._done: dict[int, Difference | None] = {}
        self._skipped: dict[int, str] = {}
        self._uncertain: dict[int, str] = {}

    def by_operator(self, operators: OperatorMap, written: Sequence[Written]) -> None:
        """Compare what the operations of each source operator wrote with the tensor that the operator computes."""
        last = {operator.index: operator.index for operator in operators.operators}
        guessed = {index for index, match in operators.matches.items() if match.sure == GUESSED}
        guessed |= {row.absorbed_into for row in operators.operators if row.index in guessed and row.absorbed_into is not None}
        for operator in operators.operators:
            if operator.absorbed_into is not None:
                last[operator.absorbed_into] = max(last[operator.absorbed_into], operator.index)
        mine = [write for write in written if write.label.source is not None]
        for source, group in groupby(mine, key=lambda row: row.label.source and row.label.source.index):
            assert source is not None
            if source >= len(self._graph.ops) or source in guessed:
                self._uncertain[source] = f"{source} {operators.operators[source].type}"
                continue
            operation = self._graph.ops[last[source]]
            if len(operation.outputs) != 1 or operation.outputs[0] not in self._expected:
                continue
            tensor = operation.outputs[0]
            pieces, order = list(group), operators.operators[last[source]].order
            values = _joined(pieces, _in_order(self._expected[tensor], order))
            if values is None:
                self._skipped[tensor] = self._title(last[source])
            else:
                values = _out_of_order(values, self._expected[tensor], order)
                own = _in_own_type(values, self._expected[tensor], pieces[-1].operation.ofm.element)
                self._compare(tensor, own, pieces[-1].decoded)

    def by_name(self, target: Graph, interpreter: CpuInterpreter) -> None:
        """Compare tensors of the compiled graph that have the name and size of one of the source."""
        names = {self._graph.tensors[index].name: index for index in self._expected if index in self._producer}
        for op in target.ops:
            for index in op.outputs:
                tensor = target.tensors[index]
                source = names.get(tensor.name)
                if source is not None and tensor.elements == self._expected[source].size:
                    self._compare(source, np.array(interpreter.get_tensor(index)), None)

    def outputs(self, target: Graph, interpreter: CpuInterpreter) -> None:
        """Compare the outputs by their position."""
        for index, source in zip(target.outputs, self._graph.outputs, strict=True):
            if source in self._expected:
                self._compare(source, np.array(interpreter.get_tensor(index)), None)

    def result(self) -> DiffResult:
        answer = sorted(
            (difference for difference in self._done.values() if difference is not None),
            key=lambda difference: difference.operator,
        )
        compared = [self._title(self._producer.get(tensor, -1)) for tensor in sorted(self._done, key=self._order)]
        skipped = [title for tensor, title in self._skipped.items() if tensor not in self._done]
        uncertain = [
            title for operator, title in self._uncertain.items()
            if operator >= len(self._graph.ops) or not self._done.keys() >= set(self._graph.ops[operator].outputs)
        ]  # fmt: skip
        return DiffResult(answer[0] if answer else None, tuple(compared), tuple(skipped), tuple(uncertain))

    def _order(self, tensor: int) -> int:
        return self._producer.get(tensor, -1)

    def _title(self, operator: int) -> str:
        return f"{operator} {self._graph.ops[operator].name}" if operator >= 0 else "input"

    def _compare(self, tensor: int, values: Array, writer: Decoded | None) -> None:
        if tensor in self._done:
            return
        expected = self._expected[tensor]
        if values.size != expected.size:
            raise ModelError(
                f"tensor '{self._graph.tensors[tensor].name}': must have the shape {list(expected.shape)} that the source "
                f"model computes, got {values.size} values; its declared shape is {list(self._graph.tensors[tensor].shape)}"
            )
        actual = values.reshape(expected.shape)
        unequal = actual != expected
        if expected.dtype.kind == "f":
            unequal &= ~(np.isnan(actual) & np.isnan(expected))
        operator = self._producer.get(tensor, -1)
        first = None
        if unequal.any():
            where = tuple(int(axis) for axis in np.unravel_index(int(unequal.argmax()), unequal.shape))
            kind = self._graph.ops[operator].name if operator >= 0 else "input"
            numbers = expected[where].item(), actual[where].item()
            counts = int(unequal.sum()), expected.size
            place = (None, None) if writer is None else (writer.command_index, writer.word_index)
            first = Difference(operator, kind, self._graph.tensors[tensor].name, where, *numbers, *counts, *place)
        self._done[tensor] = first


def _in_order(tensor: Array, order: Sequence[int]) -> Array:
    """A tensor as the NPU has it, with its axes in another order, as a map of one image; nothing changes without one.

    An order of other axes than the tensor has is that of a file that lies: the values differ then.
    """
    extents = [extent for extent in tensor.shape if extent != 1]
    if len(order) != len(extents) or not order:
        return tensor
    moved = tensor.reshape(extents).transpose(order)
    return moved.reshape((1,) * max(4 - moved.ndim, 0) + moved.shape)


def _out_of_order(values: Array, expected: Array, order: Sequence[int]) -> Array:
    """Values in the order of the expected tensor, which `_in_order` has changed."""
    extents = [extent for extent in expected.shape if extent != 1]
    if len(order) != len(extents) or not order:
        return values
    return values.reshape([extents[place] for place in order]).transpose(np.argsort(order))


def _joined(pieces: Sequence[Written], expected: Array) -> Array | None:
    """The tensor that the last operations wrote piece by piece; None if they do not make it whole."""
    whole, ofm = pieces[-1].values, pieces[-1].operation.ofm
    if whole.size == expected.size:
        whole = _in_bricks_of(whole, expected.shape) if ofm.layout is Layout.NHCWB16 else _as_they_lie(whole, ofm)
        return whole.astype(expected.dtype) if whole.dtype.itemsize == expected.dtype.itemsize else None
    if expected.ndim != 4 or expected.shape[0] != 1:
        return None
    alike = list(_alike(pieces))
    base = min(write.operation.ofm.addresses[0] for write in alike)
    joined, filled = np.zeros(expected.shape[1:], expected.dtype), np.zeros(expected.shape[1:], np.bool_)
    for write in alike:
        start = offset_in(write.operation.ofm, base)
        if start is None:
            return None
        ends = tuple(first + extent for first, extent in zip(start, write.values.shape, strict=True))
        if any(end > limit for end, limit in zip(ends, expected.shape[1:], strict=True)):
            return None
        box = tuple(slice(first, end) for first, end in zip(start, ends, strict=True))
        joined[box] = write.values.astype(expected.dtype)
        filled[box] = True
    return joined if filled.all() else None


def _in_own_type(values: Array, expected: Array, element: ElementType) -> Array:
    """Values of a map that was written in the other type of 8 bits: moved by 128, or as raw bytes, whichever is closer."""
    if expected.dtype not in (np.int8, np.uint8) or element.is_signed == (expected.dtype == np.int8):
        return values
    moved = (values.view(np.uint8) ^ np.uint8(128)).view(expected.dtype)
    wrong = [np.count_nonzero(one.reshape(-1) != expected.reshape(-1)) for one in (values, moved)]
    return values if wrong[0] <= wrong[1] else moved


def _as_they_lie(values: Array, ofm: FeatureMap) -> Array:
    """Rows, columns and channels of a map in NHWC in the order in which they lie in memory: strides can swap them."""
    steps = (ofm.stride_y, ofm.stride_x, ofm.element.bytes)
    return values.transpose(sorted(range(3), key=lambda axis: -steps[axis] if values.shape[axis] > 1 else 0))


def _in_bricks_of(values: Array, shape: tuple[int, ...]) -> Array:
    """A map in bricks as the tensor of another shape that lies in the same bytes: element by element any shape will do."""
    height, width, depth = values.shape
    if len(shape) < 3 or shape[-2:] == (width, depth) or depth % BRICK_DEPTH or shape[-1] % BRICK_DEPTH:
        return values
    rows = values.reshape(height, width, depth // BRICK_DEPTH, BRICK_DEPTH).swapaxes(1, 2)
    return rows.reshape(-1, shape[-1] // BRICK_DEPTH, shape[-2], BRICK_DEPTH).swapaxes(1, 2)


def _alike(pieces: Sequence[Written]) -> Iterator[Written]:
    """Operations that write into maps of the layout of the last one."""
    ofm = pieces[-1].operation.ofm
    key = (ofm.region, ofm.element, ofm.layout, ofm.steps)
    for piece in pieces:
        mine = piece.operation.ofm
        if (mine.region, mine.element, mine.layout, mine.steps) == key:
            yield piece
