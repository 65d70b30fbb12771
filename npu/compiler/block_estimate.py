"""What an operation costs with a given block: the planner's question to the machine model (`npu.machine`).

The units work on different blocks at the same time, so a block takes as long as its busiest unit: MAC array, output unit,
weight decoder, a direction of a port, a port as a whole, or the round of an input fetch, of as many as buffers hold. Blocks
that are alike are counted together: those along an edge, and the rest. What the planner does not know yet, where its maps will
lie, it takes to be the start of a beat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from npu.compiler.kernels.block_estimate import BUFFER_RULE, choose
from npu.hardware.variant import Accelerator, Variant
from npu.isa.families import family_of
from npu.isa.operations import AccumulatorFormat, Block, IfmPadding, OfmTranspose, Traversal, Upscale, ifm_plane
from npu.isa.shram import BufferProblem, Work
from npu.isa.weight_stream.encode import padding_bytes
from npu.isa.weight_stream.order import WeightShape
from npu.isa.weight_stream.use import WeightUse
from npu.layouts import MapShape, dense_steps
from npu.machine.kernels import rows as r
from npu.machine.output_unit import element_cycles
from npu.machine.parameters import PORT_NUMBERS, burst_bytes, machine_rows, port_rows, working_ublock
from npu.machine.rules import (
    ARRAY_CHANNELS,
    BUFFER_HALVES,
    SCALE_RECORD_BYTES,
    ceil_div,
    deep_set_depth,
    ifm_block_depth,
    kernel_group,
    sub_kernel,
)
from npu.memo import cached_property
from npu.numerics.arrays import Ints
from npu.records import dataclass, replace

_KINDS = {
    Work.CONVOLUTION: r.CONV_DEPTH_FIRST,
    Work.DEPTHWISE: r.DEPTHWISE,
    Work.MAX_POOL: r.POOL,
    Work.AVERAGE_POOL: r.POOL,
    Work.REDUCE_SUM: r.REDUCE_SUM,
    Work.ELEMENTWISE: r.ELEMENTWISE,
    Work.RESIZE: r.ELEMENTWISE,
    Work.PRODUCT: r.CONV_DEPTH_FIRST,
    Work.TRANSPOSE: r.POOL,
}

_FIELDS, _MAP_FIELDS = r.OPERATION.names or (), r.OPERATION["ifm"].names or ()

_NO_PADDING = IfmPadding()

_IN_LONG_RUNS = 0.5
"""What zeros take in long runs, relative to as many behind every weight: tests/npu/compiler/test_expected_constants.py holds it
against encoded streams."""

_FEWEST_FETCHES = 64
"""Room for those of most blocks: to hand over a new one takes longer than a search."""


class SecondInput(NamedTuple):
    """The shape of the second input, the attribute of the memory mode that says where it lies, and whether it has bricks."""

    shape: MapShape
    memory: str
    is_bricked: bool


@dataclass(frozen=True, kw_only=True)
class BlockProblem(BufferProblem):
    """Everything about an operation that its block depends on. Shapes are height, width, depth.

    `ifm_map_depth` and `ofm_map_depth` are the channels of the maps that IFM and OFM are part of (0: their own).
    `output_rank` is the field of `OutputCycles` that holds for it.
    `ifm_in_arena` and `ofm_in_arena`: the map lies in the arena although the mode has a separate fast memory. Without an
    `ifm2` that of an operation with two inputs is like the first one. `ifm_plane` are height and width of the IFM of a resize,
    which do not follow from the OFM. The axes of the OFM are stored in `ofm_order`.
    `weights_in_place`: they are read where the constants lie. `weight_bytes` are the bytes of the compressed stream per weight.
    A problem keeps its hash and its parts: stripes and gathered rows ask the same again and again.
    """

    ofm_bits: int
    ifm_map_depth: int = 0
    ofm_map_depth: int = 0
    padding: IfmPadding = _NO_PADDING
    has_clamp: bool = False
    output_rank: str = "other"
    ifm_is_bricked: bool = False
    ofm_is_bricked: bool = False
    ifm_in_arena: bool = False
    ofm_in_arena: bool = False
    ofm_order: OfmTranspose = OfmTranspose.HWC
    ifm2: SecondInput | None = None
    ifm_plane: tuple[int, int] | None = None
    weights_in_place: bool = False
    weight_bytes: float = 1.0

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.ofm, self.ifm_depth, self.kernel, self.weights_in_place, self.weight_bytes, self.ifm_map_depth))

    @cached_property
    def _parts(self) -> dict[tuple[int, bool], BlockProblem]:
        return {}

    def part(self, channels: int, *, in_place: bool = False) -> BlockProblem:
        """The problem of so many of the output channels, with weights `in_place` or copied."""
        key = channels, in_place
        if key not in self._parts:
            self._parts[key] = replace(self, ofm=(*self.ofm[:2], channels), weights_in_place=in_place)
        return self._parts[key]

    @property
    def has_weights(self) -> bool:
        return self.work in (Work.CONVOLUTION, Work.DEPTHWISE)


class BlockSearch:
    """Finds the best block of an operation on one variant. Threads may share it.

    The rows that it hands to the kernel stay where they are: to hand over new ones takes longer than most searches.
    """

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        limit = variant.accelerator.max_block
        self.buffers = family_of(variant.accelerator.product).buffers
        self._operation, self._rule = np.zeros(1, r.OPERATION), np.zeros(1, BUFFER_RULE)
        self._machine, self._ports, self._costs = machine_rows(variant), port_rows(variant), np.zeros(2, r.BLOCK_COST)
        self._axes = np.zeros((3, max(limit.height, limit.width, limit.depth)), np.int64)
        self._counts, self._block = np.zeros(3, np.int64), np.zeros(3, np.int64)
        self._limits, self._lock, self._fetches = np.zeros(2), Lock(), 0

    def micro_blocks(self, problem: BlockProblem) -> Sequence[Block | None]:
        """Those that the operation may have; None alone where there is no choice."""
        return (None,) if self.buffers.micro_blocks is None else self.buffers.micro_blocks(problem, self.variant)

    def best(
        self,
        problem: BlockProblem,
        axes: tuple[Ints, Ints, Ints],
        ublock: Block | None = None,
        halves: int = BUFFER_HALVES,
        below: float = math.inf,
    ) -> tuple[Block, float] | None:
        """The block of the lowest estimated cycles, and these, of all combinations of heights, widths and depths of which so
        many find room at the same time. Ties go to the larger block. None if none is `below` so many."""
        with self._lock:
            self._make_room(_fetches_of_block(problem))
            fill_operation(self._operation, problem, self.variant, ublock)
            self._rule[0] = self.buffers.rule(problem, ublock, self.variant, halves)
            for axis, sizes in enumerate(axes):
                self._counts[axis] = len(sizes)
                self._axes[axis, : len(sizes)] = sizes
            self._limits[:] = below, problem.ifm_in_arena
            cycles, block = self._choose(), self._block.tolist()
        return (Block(*block), cycles) if block[0] else None

    def _make_room(self, fetches: int) -> None:
        if fetches > self._fetches:
            self._fetches = max(fetches, 2 * self._fetches, _FEWEST_FETCHES)
            self._choose = choose.bind(
                *(self._operation, self._machine, self._ports, self._rule, self._axes, self._counts),
                *(np.zeros(self._fetches, r.FETCH), np.zeros(self._fetches), self._costs, self._block, self._limits),
            )


def fill_operation(rows: npt.NDArray[Any], problem: BlockProblem, variant: Variant, ublock: Block | None = None) -> None:
    """Makes the one OPERATION row that of a problem, without a block and with maps that begin at address 0."""
    kernel, mode = problem.kernel, variant.memory_mode
    ifm_block_depth, set_depth = _ifm_block_depth(problem), 0
    if ublock is None:
        is_convolution = problem.work is Work.CONVOLUTION
        plane = working_ublock(variant, problem.ofm[:2], kernel.height, is_convolution=is_convolution)
        ublock = Block(*plane, variant.accelerator.ofm_ublock.depth)
    else:
        ifm_block_depth = deep_set_depth(_is_part_kernel(problem))
        set_depth = ifm_block_depth if problem.work in (Work.CONVOLUTION, Work.PRODUCT) else 0
    ports = [mode.arena if is_far else mode.cache for is_far in (problem.ifm_in_arena, problem.ofm_in_arena)]
    other = problem.ifm2 or SecondInput(problem.ofm, "arena" if problem.ifm_in_arena else "cache", problem.ifm_is_bricked)
    ports.append(getattr(mode, other.memory))
    ifm_port, ofm_port, ifm2_port = ((PORT_NUMBERS[port], burst_bytes(variant, port)) for port in ports)
    plane = problem.ifm_plane or ifm_plane(*problem.ofm[:2], kernel, problem.padding, problem.upscale)
    ifm_shape = (*plane, problem.ifm_depth)
    ifm_bytes, ofm_bytes, is_bricked = problem.ifm_bits // 8, problem.ofm_bits // 8, problem.ifm_is_bricked
    stored = problem.ofm_order.axes
    known: dict[str, Any] = {
        "kind": r.CONV_PART_KERNEL if _is_part_kernel(problem) else _KINDS[problem.work],
        "kernel_height": kernel.height,
        "kernel_width": kernel.width,
        "stride_y": kernel.stride_y,
        "stride_x": kernel.stride_x,
        "dilation_y": kernel.dilation_y,
        "dilation_x": kernel.dilation_x,
        "pad_top": problem.padding.top,
        "pad_left": problem.padding.left,
        "upscale": 1 if problem.upscale is Upscale.NONE else 2,
        "sub_kernel_height": sub_kernel(kernel.dilation_y),
        "sub_kernel_width": sub_kernel(kernel.dilation_x),
        "ublock_height": ublock.height,
        "ublock_width": ublock.width,
        "ublock_depth": ublock.depth,
        "ifm_block_depth": ifm_block_depth,
        "set_depth": set_depth,
        "has_40_bit_accumulators": problem.accumulator is AccumulatorFormat.INT40,
        "has_ifm2": problem.reads_ifm2,
        "stored_rows": stored[0],
        "stored_columns": stored[1],
        "stored_channels": stored[2],
        "output_element_cycles": element_cycles(
            variant,
            problem.output_rank,
            has_function=problem.has_lut,
            has_clamp=problem.has_clamp,
            has_nhwc_operand=not is_bricked or (problem.reads_ifm2 and not other.is_bricked),
        ),
        "ifm": _map_row(ifm_shape, ifm_bytes, problem.ifm_map_depth, ifm_port, is_bricked=is_bricked),
        "ifm2": _map_row(other.shape, ifm_bytes, 0, ifm2_port, is_bricked=other.is_bricked),
        "ofm": _map_row(problem.ofm, ofm_bytes, problem.ofm_map_depth, ofm_port, stored, is_bricked=problem.ofm_is_bricked),
    }
    if problem.has_weights:
        known["stream_bytes"] = round(constant_bytes(problem, variant, ublock))
        known["weight_port"] = PORT_NUMBERS[mode.constants if problem.weights_in_place else mode.cache]
    rows[0] = tuple(map(known.get, _FIELDS, repeat(0)))  # all at once: one by one takes as long as the search


def constant_bytes(problem: BlockProblem, variant: Variant, ublock: Block | None) -> float:
    """Expected bytes of compressed weights, in the order of the problem's traversal, and of scale records."""
    is_depthwise, accelerator = problem.work is Work.DEPTHWISE, variant.accelerator
    depth, kernel = problem.ofm[2], problem.kernel
    use = WeightUse(
        kernel=kernel,
        block_depth=accelerator.ofm_ublock.depth * accelerator.cores,
        traversal=problem.traversal,
        is_depthwise=is_depthwise,
        ifm_bits=problem.ifm_bits,
        cores=accelerator.cores,
        ublock=ublock,
    )
    shape = depth, kernel.height, kernel.width, 1 if is_depthwise else problem.ifm_depth
    return math.prod(shape) * problem.weight_bytes + filled_bytes(use, shape, accelerator) + depth * SCALE_RECORD_BYTES


def filled_bytes(use: WeightUse, shape: WeightShape, accelerator: Accelerator) -> float:
    """Expected bytes of the zeros that fill up weights of a shape: those of channels, and channels that are not there.

    The zeros of a channel come in long runs, which sections of their own make shorter, unless it is depthwise.
    """
    depth, count = shape[0], math.prod(shape)
    channels, symbols = family_of(accelerator.product).constants.symbols(accelerator, use, shape)
    inside = padding_bytes(symbols * depth - count, count) * (1.0 if use.is_depthwise else _IN_LONG_RUNS)
    return inside + padding_bytes((channels - depth) * symbols, count)


def _map_row(
    shape: MapShape,
    element_bytes: int,
    map_depth: int,
    port: tuple[int, int],
    order: tuple[int, int, int] = OfmTranspose.HWC.axes,
    *,
    is_bricked: bool,
) -> tuple[int, ...]:
    """A feature map of an OPERATION row; `port` is its number and the bytes of a burst there. Its axes lie in `order`."""
    stride_y, stride_x, _ = dense_steps(shape[order[1]], map_depth or shape[order[2]], element_bytes, is_bricked=is_bricked)
    known = {
        "height": shape[0],
        "width": shape[1],
        "depth": shape[2],
        "element_bytes": element_bytes,
        "layout": is_bricked,
        "stride_y": stride_y,
        "stride_x": stride_x,
        "port": port[0],
        "burst_bytes": port[1],
    }
    return tuple(map(known.get, _MAP_FIELDS, repeat(0)))


def _is_part_kernel(problem: BlockProblem) -> bool:
    return problem.work is Work.CONVOLUTION and problem.traversal is Traversal.PART_KERNEL_FIRST


def _depth_slices(problem: BlockProblem) -> int:
    return 1 if problem.work.shares_depth else int(ceil_div(problem.ifm_depth, _ifm_block_depth(problem)))


def _ifm_block_depth(problem: BlockProblem) -> int:
    return ifm_block_depth(problem.ifm_depth, problem.ifm_bits // 8, _is_part_kernel(problem))


def _fetches_of_block(problem: BlockProblem) -> int:
    kernel = problem.kernel
    down, across = ceil_div(kernel.height, sub_kernel(kernel.dilation_y)), ceil_div(kernel.width, sub_kernel(kernel.dilation_x))
    return int(_depth_slices(problem) * down * across)


def multiplying_steps(problem: BlockProblem) -> int:
    """Steps of the MAC array per micro-block of a convolution that cannot choose one."""
    kernel, group = problem.kernel, kernel_group(problem.ifm_bits // 8) if _is_part_kernel(problem) else 1
    most_y, most_x = sub_kernel(kernel.dilation_y), sub_kernel(kernel.dilation_x)
    steps = sum(
        ceil_div(min(most_y, kernel.height - y) * min(most_x, kernel.width - x), group)
        for y in range(0, kernel.height, most_y)
        for x in range(0, kernel.width, most_x)
    )
    return int(steps * (ceil_div(problem.ifm_depth, ARRAY_CHANNELS) if _is_part_kernel(problem) else _depth_slices(problem)))
