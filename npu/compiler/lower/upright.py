"""A dilated convolution over a sequence, which converters write between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND, moves nothing.

What lies `block` elements apart is a column of the map whose rows have `block` elements: on it the kernel stands upright, every
column is what was a batch, and both operators, like the views between, are another view of the same bytes (or a padding in
front, a crop behind).
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.lower.rewriting import CONVOLUTIONS, Rewriter, TensorUses
from npu.graph.attributes import Attributes, Conv2DOptions, DepthwiseConv2DOptions
from npu.graph.graph import Graph, Op
from npu.graph.idle import VIEWS
from npu.graph.operands import Shape
from npu.records import dataclass, replace

_NOTHING = (0, 0)


@dataclass(frozen=True, slots=True)
class _PhasedSequence:
    """Operators in front of a convolution, which make its input of `source`; the convolution; those that follow to `target`.

    `length` elements and what is put before and after them are `rows` of `block`; `crop` is cut off the end again.
    """

    front: tuple[int, ...]
    convolution: int
    behind: tuple[int, ...]
    source: int
    target: int
    block: int
    length: int
    pads: tuple[int, int]
    crop: int


def with_upright_kernels(graph: Graph, ops: Sequence[int]) -> tuple[Graph, list[int]]:
    """The graph with such convolutions over maps of rows, and those of the operators `ops` that are still needed."""
    candidates = [index for index in ops if graph.ops[index].kind in CONVOLUTIONS]
    if not candidates or all(graph.ops[index].kind != "SPACE_TO_BATCH_ND" for index in ops):
        return graph, list(ops)
    surroundings = _SequenceUses(graph, ops)
    rewriter = _RowsRewriter(graph)
    for index in candidates:
        chain = surroundings.chain(index)
        if chain is not None:
            rewriter.rewrite(chain)
    unneeded = graph.unneeded.union(rewriter.removed)  # else they would read what is between them still
    made = replace(rewriter.graph, unneeded=unneeded)
    return made, [index for index in ops if index not in rewriter.removed]


class _SequenceUses(TensorUses):
    """Who makes and who alone reads a tensor, among the operators `ops`."""

    def maker(self, tensor: int) -> int | None:
        """The operator that makes a tensor which nobody else reads than who asks."""
        return self.producer.get(tensor) if self.sole_reader(tensor) is not None else None

    def chain(self, index: int) -> _PhasedSequence | None:
        """What surrounds convolution `index`, if it is one of a sequence that is cut into phases for it."""
        graph, op = self.graph, self.graph.ops[index]
        front = self._front(op.inputs[0])
        behind = self._behind(op.outputs[0])
        if front is None or behind is None:
            return None
        cut, joined = graph.ops[front[-1]], graph.ops[behind[-1]]
        entry, leaving = _along(graph, cut), _along(graph, joined)
        options = op.attributes
        assert isinstance(options, Conv2DOptions | DepthwiseConv2DOptions)
        if (
            entry is None
            or leaving is None
            or entry[0] != leaving[0]
            or leaving[1][0]
            or (options.stride_h, options.stride_w) != (1, 1)
        ):
            return None
        block, pads = entry
        if not self._is_one_row(op, block):
            return None
        chain = _PhasedSequence(
            tuple(reversed(front)),
            index,
            behind,
            cut.inputs[0],
            joined.outputs[0],
            block,
            _length(graph, cut.inputs[0]),
            pads,
            leaving[1][1],
        )
        return self._with_pad(chain)

    def _front(self, tensor: int) -> list[int] | None:
        """From the views before a convolution to SPACE_TO_BATCH_ND, backwards."""
        between: list[int] = []
        while (maker := self.maker(tensor)) is not None:
            between.append(maker)
            if self.graph.ops[maker].kind == "SPACE_TO_BATCH_ND":
                return between
            if self.graph.ops[maker].kind not in VIEWS:
                return None
            tensor = self.graph.ops[maker].inputs[0]
        return None

    def _behind(self, tensor: int) -> tuple[int, ...] | None:
        """From the views behind a convolution to BATCH_TO_SPACE_ND."""
        between: list[int] = []
        while (reader := self.sole_reader(tensor)) is not None:
            between.append(reader)
            if self.graph.ops[reader].kind == "BATCH_TO_SPACE_ND":
                return tuple(between)
            if self.graph.ops[reader].kind not in VIEWS:
                return None
            tensor = self.graph.ops[reader].outputs[0]
        return None

    def _is_one_row(self, op: Op, block: int) -> bool:
        """Whether the phases are images of one row or column, and the kernel lies along it."""
        shape, kernel = self.graph.tensors[op.inputs[0]].shape, self.graph.tensors[op.inputs[1]].shape
        made = self.graph.tensors[op.outputs[0]].shape
        lies = any(shape[axis] == made[axis] == kernel[axis] == 1 for axis in (1, 2))
        return lies and shape[0] == made[0] == block and self.graph.tensors[op.inputs[1]].is_constant

    def _with_pad(self, chain: _PhasedSequence) -> _PhasedSequence:
        """The chain with the PAD before it, where that only lengthens the sequence."""
        pad = self.maker(chain.source)
        if pad is None or self.graph.ops[pad].kind != "PAD":
            return chain
        op = self.graph.ops[pad]
        data = self.graph.tensors[op.inputs[1]].data
        if data is None:
            return chain
        amounts = [(int(before), int(after)) for before, after in data.reshape(-1, 2)]
        length = _length(self.graph, op.inputs[0])
        grown = [pair for pair in amounts if pair != _NOTHING]
        if len(grown) != 1 or amounts[-1] != _NOTHING or sum(grown[0]) + length != chain.length:
            return chain
        pads = (grown[0][0] + chain.pads[0], grown[0][1] + chain.pads[1])
        return replace(chain, front=(pad, *chain.front), source=op.inputs[0], length=length, pads=pads)


def _along(graph: Graph, op: Op) -> tuple[int, tuple[int, int]] | None:
    """Block and padding or crop of a single sequence; None for images, and for several."""
    block, pairs = (graph.tensors[index].data for index in op.inputs[1:3])
    whole = graph.tensors[(op.inputs if op.kind == "SPACE_TO_BATCH_ND" else op.outputs)[0]].shape
    if block is None or pairs is None or whole[0] != 1 or sum(extent > 1 for extent in whole[1:-1]) != 1:
        return None
    between = [
        (int(parts), (int(before), int(after)))
        for parts, (before, after), extent in zip(block.reshape(-1), pairs.reshape(-1, 2), whole[1:], strict=False)
        if parts > 1 or before or after or extent > 1
    ]
    return between[0] if len(between) == 1 and between[0][0] > 1 else None


def _length(graph: Graph, tensor: int) -> int:
    shape = graph.tensors[tensor].shape
    return max(shape[1:-1])


class _RowsRewriter(Rewriter):
    """Tensors and operators of a graph under change; an operator that is removed keeps its number."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.removed: set[int] = set()

    def rewrite(self, chain: _PhasedSequence) -> None:
        """Replace what surrounds a convolution, where there are as many operators as are needed then."""
        op = self.ops[chain.convolution]
        depth, made = self.tensors[op.inputs[0]].shape[3], self.tensors[op.outputs[0]].shape
        rows, results = (chain.length + sum(chain.pads)) // chain.block, max(made[1:3])
        before = self._entry(chain, rows, depth)
        after = 1 + (chain.crop > 0)
        if before is None or after > len(chain.behind):
            return
        last = chain.source
        for index, (kind, shape, amounts) in zip(chain.front, before, strict=False):
            numbers = () if amounts is None else (self.numbers(amounts),)
            last = self.put(index, kind, (last, *numbers), self.like(op.inputs[0], shape))
        self.removed.update(chain.front[len(before) :])
        self._stand_up(chain.convolution, last, (1, results, chain.block, made[3]))
        self._leave(chain, results * chain.block, made[3])

    def _entry(
        self, chain: _PhasedSequence, rows: int, depth: int
    ) -> list[tuple[str, Shape, list[tuple[int, int]] | None]] | None:
        """Kind, shape and amounts of the operators that make the map of rows; None where there is no room for them."""
        whole = (1, rows, chain.block, depth)
        if chain.pads == _NOTHING:
            return [("RESHAPE", whole, None)]
        if any(part % chain.block for part in (chain.length, *chain.pads)):
            padded = (1, rows * chain.block, depth)
            steps = [("PAD", padded, [_NOTHING, chain.pads, _NOTHING]), ("RESHAPE", whole, None)]
        else:
            pads = (chain.pads[0] // chain.block, chain.pads[1] // chain.block)
            cut = (1, chain.length // chain.block, chain.block, depth)
            steps = [("RESHAPE", cut, None), ("PAD", whole, [_NOTHING, pads, _NOTHING, _NOTHING])]
        if steps[0][0] == "PAD" and len(self.tensors[chain.source].shape) != 3:
            return None
        return steps if len(chain.front) >= len(steps) else None

    def _stand_up(self, index: int, source: int, made: Shape) -> None:
        """The convolution of map `source` with its kernel upright."""
        op, options = self.ops[index], self.ops[index].attributes
        assert isinstance(options, Conv2DOptions | DepthwiseConv2DOptions)
        weights = self.tensors[op.inputs[1]]
        assert weights.data is not None
        first, *kernel, depth = weights.shape
        shape = (first, max(kernel), 1, depth)
        upright_weights = self.with_data(op.inputs[1], weights.data.reshape(shape))
        dilation = options.dilation_w_factor if kernel[1] > 1 else options.dilation_h_factor
        upright: Attributes = replace(options, dilation_h_factor=dilation, dilation_w_factor=1)
        inputs = (source, upright_weights, *op.inputs[2:])
        self.resize(op.outputs[0], made)
        self.ops[index] = replace(op, inputs=inputs, attributes=upright)

    def _leave(self, chain: _PhasedSequence, length: int, depth: int) -> None:
        """The result as a sequence again, and the end that is cut off."""
        last = self.ops[chain.convolution].outputs[0]
        *between, end = chain.behind
        if chain.crop:
            last = self.put(between[-1], "RESHAPE", (last,), self.like(last, (1, length, depth)))
            between.pop()
            begin, size = self.numbers([0, 0, 0]), self.numbers([1, length - chain.crop, depth])
            self.ops[end] = Op("SLICE", (last, begin, size), (chain.target,))
        else:
            self.ops[end] = Op("RESHAPE", (last,), (chain.target,))
        self.removed.update(between)
