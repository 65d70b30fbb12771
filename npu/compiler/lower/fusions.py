"""What is decided about a partition before any step is made: fusions and the tensors that live inside others."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from npu.compiler.lower.activation_tables import VALUES
from npu.compiler.lower.geometry import (
    Box,
    concatenation_boxes,
    fold_shape,
    gathered,
    joined_shapes,
    needed_after,
    pad_amounts,
    padding_before,
)
from npu.compiler.lower.late_joins import JOINING, Joins, all_but_last, early_parts
from npu.compiler.lower.pair_tables import PAIRS, is_pair
from npu.compiler.lower.rewriting import CONVOLUTIONS, PADS
from npu.compiler.lower.tensor_lives import TensorLives
from npu.graph.attributes import ConcatenationOptions, Conv2DOptions, DepthwiseConv2DOptions, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.graph.idle import VIEWS
from npu.graph.operands import Role
from npu.graph.ops import inputs_with
from npu.graph.progressions import progressions
from npu.graph.readers import readers_of
from npu.hardware.variant import Variant
from npu.layouts import MapShape
from npu.machine.output_unit import element_cycles
from npu.machine.rules import round_up
from npu.numerics.rectifiers import RECTIFIERS
from npu.records import dataclass

_CARRIERS = CONVOLUTIONS | {
    "ADD", "AVERAGE_POOL_2D", "FULLY_CONNECTED", "MAXIMUM", "MAX_POOL_2D", "MEAN", "MINIMUM", "MUL", "PRELU", "SOFTMAX",
    "SUB", "SUM", "TRANSPOSE_CONV", *VALUES,
}  # fmt: skip
"""Kinds that end in one step of the output unit for every value: functions of this value can be fused into it."""
_EIGHT_BITS = (DType.INT8, DType.UINT8)
_EXTREMES = frozenset({"MAXIMUM", "MINIMUM"})
_RESCALES = RECTIFIERS.keys() | {"QUANTIZE"}
"""Functions that alone are a scale and a clamp, not a table."""
_TABLES = VALUES.keys() - _RESCALES
"""Those that are one, whoever else is fused with them."""
_START_UPS = 4
"""What an operation of its own costs, with its latencies, in start-ups of the hardware description."""
CACHE_SHARE = 4
"""A map of one part of a cache in so many lies in it."""
_LARGEST_GROUP = 8
"""Operators among which one is looked for that ends what others began."""
_PARTS = VIEWS | {"SPLIT", "SPLIT_V", "SLICE", "UNPACK"}
_STRIDED_PARTS = frozenset({"GATHER", "STRIDED_SLICE"})


@dataclass(frozen=True, slots=True)
class Nest:
    """Where a tensor lives: inside tensor `parent`, at `offset` of its folded shape, or all of it if `offset` is None."""

    parent: int
    offset: MapShape | None


@dataclass(frozen=True, slots=True)
class Fusions:
    """`carrier`: operator without steps -> operator that does its work. `fused_ops`: operator -> its functions, in order.

    `pad`: convolution -> PAD that it carries. `nest`: tensors that live inside another. `inputs`, `outputs`: the partition's
    boundary tensors, inputs by first use and outputs by production.
    """

    carrier: Mapping[int, int]
    fused_ops: Mapping[int, tuple[int, ...]]
    pad: Mapping[int, int]
    nest: Mapping[int, Nest]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class _Uses:
    """Who makes and who reads each tensor."""

    def __init__(self, graph: Graph, ops: Sequence[int]) -> None:
        self.graph = graph
        self.ops = tuple(ops)
        inside = frozenset(ops)
        self.producer = {t: i for i in ops for t in graph.ops[i].outputs}
        self.readers = readers_of(graph)
        outside = {t for t in self.producer if not inside.issuperset(self.readers[t])}.union(graph.outputs)
        states = (graph.ops[i].inputs[at] for i in ops for at in inputs_with(Role.STATE, graph.ops[i]))
        self.outputs = (*(t for t in self.producer if t in outside), *dict.fromkeys(states))
        self.inside = inside

    def are_outputs(self, tensors: Sequence[int]) -> bool:
        """Whether something outside of the partition sees any of the tensors."""
        return not set(tensors).isdisjoint(self.outputs)

    def sole_reader(self, tensor: int) -> int | None:
        """The only operator that reads a tensor, if it is in the partition and nothing else sees the tensor."""
        readers = self.readers[tensor]
        return readers[0] if len(readers) == 1 and readers[0] in self.inside and tensor not in self.outputs else None

    def inputs(self) -> tuple[int, ...]:
        """Computed tensors that come from outside, by first use."""
        used = (t for i in self.ops for t in self.graph.ops[i].inputs)
        return tuple(
            dict.fromkeys(t for t in used if t >= 0 and t not in self.producer and not self.graph.tensors[t].is_constant)
        )


def same_quantization(a: Tensor, b: Tensor) -> bool:
    """Whether equal integers mean equal reals in both tensors."""
    x, y = a.quantization, b.quantization
    if x is None or y is None:
        return x is y
    return np.array_equal(x.scales, y.scales) and x.zero_point == y.zero_point


def find_fusions(
    graph: Graph, ops: Sequence[int], most_padding: int, prices: TablePrices, *, joins: Joins = Joins.EARLY
) -> Fusions:
    """Decide the fusions and nestings of the partition `ops`; those of inputs of joins by `joins`."""
    uses = _Uses(graph, ops)
    fused_ops = _fuse_functions(uses, prices)
    pad = _fuse_pads(uses, most=most_padding)
    carrier = {fused_op: carrier for carrier, row in fused_ops.items() for fused_op in row} | {
        p: conv for conv, p in pad.items()
    }
    nest = _nest_tensors(uses, frozenset((*pad.values(), *fused_ops)))
    if joins is not Joins.EARLY:
        copied = _copied_parts(uses, nest, carrier, joins)
        nest = {tensor: place for tensor, place in nest.items() if tensor not in copied}
    return Fusions(carrier, fused_ops, pad, nest, uses.inputs(), uses.outputs)


def _fuse_functions(uses: _Uses, prices: TablePrices) -> dict[int, tuple[int, ...]]:
    """Fuse functions of one value into what computes it: one after the other they are one table, or one clamp."""
    fused: dict[int, tuple[int, ...]] = {}
    riding: set[int] = set()
    for index in uses.ops:
        if _is_carrier(uses, index) and index not in riding:
            row = tuple(_riders(uses, index))
            if row and not _is_cheaper_apart(uses.graph, index, row, prices):
                riding.update(row)
                fused[index] = row
    return fused


@dataclass(frozen=True, slots=True)
class TablePrices:
    """What decides whether a rescaling is a table of what makes its operand, or an operation of its own.

    `table` and `plain` are the output unit's cycles per element with a table and without one, `macs` the products of a core in
    a cycle, of which it makes `dot_product` at a time for an element, whether there are as many or not. `start` are the cycles
    that an operation costs besides, `most` the elements up to which the rescaling may be one.
    """

    table: float
    plain: float
    macs: float
    dot_product: int
    start: float
    most: float


def table_prices(variant: Variant, *, saves_memory: bool) -> TablePrices:
    """Those of a variant. The map between two operations must find room near the NPU, and to save memory there is none."""
    mode, accelerator = variant.memory_mode, variant.accelerator
    table, plain = (element_cycles(variant, "other", has_function=one, has_clamp=True) for one in (True, False))
    room = mode.arena_cache_bytes / CACHE_SHARE if mode.has_separate_cache else math.inf
    start, most = _START_UPS * variant.timing.operation_overhead_cycles, 0.0 if saves_memory else room
    return TablePrices(table, plain, accelerator.macs_per_cycle / accelerator.cores, accelerator.dot_product_width, start, most)


def _is_cheaper_apart(graph: Graph, index: int, row: Sequence[int], prices: TablePrices) -> bool:
    """Whether what is fused into an operator is a rescaling of 8-bit values that takes longer as its table."""
    op, function = graph.ops[index], graph.ops[row[0]]
    before, after = graph.tensors[op.outputs[0]], graph.tensors[function.outputs[0]]
    is_rescaling = function.kind in _RESCALES and function.lookup is None
    if len(row) > 1 or not is_rescaling or before.dtype not in _EIGHT_BITS or _has_same_scale(before, after):
        return False
    work, elements = _products(graph, op, prices.dot_product) / prices.macs, math.prod(before.shape)
    saved = max(work, prices.table) - max(work, prices.plain) - prices.plain
    return elements <= prices.most and elements * saved > prices.start


def _products(graph: Graph, op: Op, dot_product: int) -> float:
    """Products of the MAC array for an element of an operator's result, as long as it takes; none of an extreme."""
    if op.kind in _EXTREMES:
        return 0.0
    if op.kind not in CONVOLUTIONS:
        return math.inf
    _, height, width, depth = graph.tensors[op.inputs[1]].shape
    return height * width * (dot_product if op.kind == "DEPTHWISE_CONV_2D" else round_up(depth, dot_product))


def _has_same_scale(a: Tensor, b: Tensor) -> bool:
    """Whether a move and a clamp bring values of one to the other."""
    assert a.quantization is not None
    assert b.quantization is not None
    return np.array_equal(a.quantization.scales, b.quantization.scales)


def _is_carrier(uses: _Uses, index: int) -> bool:
    """Whether functions can be fused into an operator: a join takes them where it copies an input all the same.

    A function of wide values has a step for which its own scale and table are made, which takes no others.
    """
    op = uses.graph.ops[index]
    if op.kind == "CONCATENATION":
        parts = _parts_of(uses, op)
        return any(not _fits_into(uses, tensor, op, boxes) or tensor not in uses.producer for tensor, boxes in parts)
    return op.kind in _CARRIERS and (op.kind not in _TABLES or uses.graph.tensors[op.outputs[0]].dtype in _EIGHT_BITS)


def _riders(uses: _Uses, index: int) -> Iterator[int]:
    """The functions behind operator `index`: what all of them make of its result is read, nothing in between."""
    op = uses.graph.ops[index]
    has_table = _goes_through_table(uses, op)
    known = {op.outputs[0]} | ({op.inputs[0]} if has_table else set())
    groups: list[list[int]] = []
    last = op.outputs[0]
    while group := _function_of(uses, last, known):
        groups.append(group)
        last = uses.graph.ops[group[-1]].outputs[0]
    while not has_table and not _are_worth_a_table(uses.graph, groups):
        groups.pop()
    for group in groups:
        yield from group


def _goes_through_table(uses: _Uses, op: Op) -> bool:
    """Whether the values of an operator's operand, and not those of its result, are what its step looks up."""
    if op.kind == "PRELU":
        return is_pair(uses.graph, op, {op.inputs[0]})
    is_table = op.kind in _TABLES or op.lookup is not None
    return is_table and uses.graph.tensors[op.inputs[0]].dtype in _EIGHT_BITS


def _function_of(uses: _Uses, last: int, known: set[int]) -> list[int]:
    """The fewest operators that make one tensor of `last` and what is `known`, and alone read `last` and all between."""
    group: list[int] = []
    made = [last]
    while len(group) < _LARGEST_GROUP and not uses.are_outputs((last, *made[:-1])):
        waiting = {reader for tensor in made[:-1] for reader in uses.readers[tensor]}.difference(group)
        if group and not waiting:
            return group
        readers = waiting.union(uses.readers[made[-1]]).difference(group)
        following = min(readers, default=None)
        if following is None or following not in uses.inside or not _is_function(uses, following, known):
            return []
        group.append(following)
        made.append(uses.graph.ops[following].outputs[0])
        known.add(made[-1])
    return []


def _are_worth_a_table(graph: Graph, groups: Sequence[Sequence[int]]) -> bool:
    """Whether functions are fused: tables are, and a sum or product with a number unless it is the only one without a table.

    A table takes the output unit about as long as one of these.
    """
    kinds = [graph.ops[index].kind for group in groups for index in group]
    numbers = sum(kind in PAIRS for kind in kinds)
    return numbers != 1 or not _TABLES.isdisjoint(kinds) or "PRELU" in kinds


def _is_function(uses: _Uses, index: int, known: Collection[int]) -> bool:
    """Whether an operator makes something of values that are known, and of nothing else."""
    op = uses.graph.ops[index]
    return is_pair(uses.graph, op, known) or (op.inputs[0] in known and _can_ride(uses, index))


def _can_ride(uses: _Uses, index: int) -> bool:
    """Whether an operator is a table of 8-bit values, or a clamp of wider ones."""
    op = uses.graph.ops[index]
    before, after = uses.graph.tensors[op.inputs[0]], uses.graph.tensors[op.outputs[0]]
    if op.kind in VALUES and before.dtype in _EIGHT_BITS and after.dtype in _EIGHT_BITS:
        return True
    return op.kind in RECTIFIERS and before.dtype is after.dtype and same_quantization(before, after)


def _fuse_pads(uses: _Uses, *, most: int) -> dict[int, int]:
    """The PAD of convolutions whose padding unit can do it: the rows and columns in front are at most `most`."""
    fused: dict[int, int] = {}
    for index in uses.ops:
        op = uses.graph.ops[index]
        if op.kind in CONVOLUTIONS:
            pad = uses.producer.get(op.inputs[0])
            if pad is not None and uses.sole_reader(op.inputs[0]) == index and _pad_fits(uses.graph, pad, op, most):
                fused[index] = pad
    return fused


def _pad_fits(graph: Graph, pad: int, op: Op, most: int) -> bool:
    """Whether the padding unit can do a PAD: only height and width, with the convolution's own less than its kernel."""
    options = op.attributes
    if graph.ops[pad].kind != "PAD" or not isinstance(options, Conv2DOptions | DepthwiseConv2DOptions):
        return False
    amounts = pad_amounts(graph, graph.ops[pad])
    if len(amounts) < 3 or any(a for pair in (*amounts[:-3], amounts[-1]) for a in pair):
        return False
    _, *kernel, _ = graph.tensors[op.inputs[1]].shape
    dilations, strides = (options.dilation_h_factor, options.dilation_w_factor), (options.stride_h, options.stride_w)
    for axis, carried in enumerate(amounts[-3:-1]):
        extent = graph.tensors[op.inputs[0]].shape[axis + 1] - sum(carried)
        output, window = graph.tensors[op.outputs[0]].shape[axis + 1], (kernel[axis] - 1) * dilations[axis] + 1
        is_same = options.padding is Padding.SAME
        before = padding_before(extent, output, window, strides[axis], is_same=is_same, carried=carried)
        if before > most or max(before, needed_after(extent, output, window, strides[axis], before)) >= window:
            return False
    return True


def _nest_tensors(uses: _Uses, apart: frozenset[int]) -> dict[int, Nest]:
    """Let the inputs of joins live in the join's output, what is padded in the padded map, and a tensor that is only reshaped
    to an output in that output. `apart` are joins that compute something and paddings that a convolution carries.
    """
    nest: dict[int, Nest] = {}
    for index in reversed(uses.ops):
        op = uses.graph.ops[index]
        if op.kind in JOINING:
            if _is_plain_join(op) and index not in apart:
                _nest_join(uses, op, nest)
        elif op.kind in PADS and index not in apart:
            _nest_padded(uses, op, nest)
        elif op.kind in VIEWS and op.outputs[0] in uses.outputs and _can_move(uses, op.inputs[0], nest):
            nest[op.inputs[0]] = Nest(op.outputs[0], None)
    return nest


def _copied_parts(uses: _Uses, nest: Mapping[int, Nest], carrier: Mapping[int, int], mode: Joins) -> set[int]:
    """The inputs of joins that are copied, so that their results need not be there long before."""
    graph = uses.graph
    joins = {op.outputs[0]: op.inputs for op in map(graph.ops.__getitem__, uses.ops) if op.kind in JOINING}
    inside = {
        out: [part for part in dict.fromkeys(parts) if part in nest and nest[part].parent == out]
        for out, parts in joins.items()
    }
    if not any(inside.values()):
        return set()
    lives = TensorLives(graph, uses.ops, uses.outputs, in_one_place(graph, uses.ops, carrier))
    if mode is Joins.LATE:
        return all_but_last(lives, inside)
    return early_parts(lives, inside, {tensor: place.parent for tensor, place in nest.items()})


def in_one_place(graph: Graph, ops: Sequence[int], carrier: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Pairs of tensors that use the same memory: of views and of fused operators."""
    for index in ops:
        op = graph.ops[index]
        if index in carrier or _is_view(graph, op):
            yield from ((tensor, other) for tensor in op.inputs[:2] for other in op.outputs)


def _nest_join(uses: _Uses, op: Op, nest: dict[int, Nest]) -> None:
    for tensor, boxes in _parts_of(uses, op):
        if _fits_into(uses, tensor, op, boxes) and _can_move(uses, tensor, nest):
            nest[tensor] = Nest(op.outputs[0], boxes[0].offset)


def _is_plain_join(op: Op) -> bool:
    """Whether it does nothing but put its inputs side by side."""
    options = op.attributes
    return not isinstance(options, ConcatenationOptions) or options.fused_activation_function is FusedActivation.NONE


def _parts_of(uses: _Uses, op: Op) -> Iterator[tuple[int, list[Box]]]:
    """The inputs of a join with the boxes of its output in which they lie."""
    axis, shapes = joined_shapes(uses.graph, op)
    boxes = concatenation_boxes(uses.graph.tensors[op.outputs[0]].shape, axis, shapes)
    return zip(op.inputs, boxes, strict=True)


def _fits_into(uses: _Uses, tensor: int, op: Op, boxes: Sequence[Box]) -> bool:
    """Whether an input of a join is a box of its output as it is."""
    own = uses.graph.tensors[tensor]
    is_box = len(boxes) == 1 and fold_shape(own.shape) == boxes[0].shape
    return is_box and same_quantization(own, uses.graph.tensors[op.outputs[0]])


def _nest_padded(uses: _Uses, op: Op, nest: dict[int, Nest]) -> None:
    """A single map that is padded in height and width, or behind its channels: in front of them it could not lie in bricks."""
    amounts = ((0, 0), (0, 0), (0, 0), *pad_amounts(uses.graph, op))
    is_one_map = math.prod(uses.graph.tensors[op.outputs[0]].shape[:-3]) == 1
    before = (amounts[-3][0], amounts[-2][0], amounts[-1][0])
    if is_one_map and before[2] == 0 and _can_move(uses, op.inputs[0], nest):
        nest[op.inputs[0]] = Nest(op.outputs[0], before)


def _can_move(uses: _Uses, tensor: int, nest: Mapping[int, Nest]) -> bool:
    """Whether a tensor has a storage of its own that may be put elsewhere."""
    producer = uses.producer.get(tensor)
    if producer is None or tensor in uses.outputs or tensor in nest:
        return False
    return not _is_view(uses.graph, uses.graph.ops[producer])


def _is_view(graph: Graph, op: Op) -> bool:
    """Whether results are parts of what an operator reads."""
    return op.kind in _PARTS or (op.kind in _STRIDED_PARTS and is_strided_view(graph, op))


def is_strided_view(graph: Graph, op: Op) -> bool:
    """Whether a STRIDED_SLICE or GATHER makes a map of other pitches: rows and columns may lie apart, channels may not."""
    shape = graph.tensors[op.inputs[0]].shape
    steps = _gathered_steps(graph, op) if op.kind == "GATHER" else _sliced_steps(graph, op)
    return bool(steps) and (max(steps) == 1 or (len(shape) >= 3 and steps[-1] == 1 and math.prod(shape[:-3]) == 1))


def _gathered_steps(graph: Graph, op: Op) -> list[int]:
    """Elements from one to the next that a GATHER of evenly spaced indices takes, along every axis; none of other indices."""
    if graph.tensors[op.inputs[1]].data is None:
        return []
    axis, indices = gathered(graph, op)
    first, *others = progressions(indices, 2)
    return [] if others else [first.step if at == axis else 1 for at in range(len(graph.tensors[op.inputs[0]].shape))]


def _sliced_steps(graph: Graph, op: Op) -> list[int]:
    """Elements from one to the next that a STRIDED_SLICE takes, along every axis."""
    rank, strides = len(graph.tensors[op.inputs[0]].shape), graph.tensors[op.inputs[3]].data
    assert strides is not None
    return [*strides.reshape(-1).tolist(), *[1] * rank][:rank]
