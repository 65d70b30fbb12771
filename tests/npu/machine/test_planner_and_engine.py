"""The planner of the compiler and the timing engine give every block the same cycles on every unit and port."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from npu.compiler.block_estimate import BlockProblem, SecondInput, fill_operation
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    AccumulatorFormat,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    Convolution,
    DepthwiseConvolution,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWindow,
    Layout,
    OperandScaling,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    Traversal,
    Upscale,
    WeightedOperation,
    WindowOperation,
    ifm_plane,
)
from npu.isa.shram import BufferProblem, buffers_of
from npu.machine.kernels.costs import cost_blocks
from npu.machine.kernels.rows import BLOCK_COST, COSTS, FETCH, OPERATION
from npu.machine.parameters import machine_rows, port_rows
from sim.timing.kernels.prepare import cost_fetches
from sim.timing.kernels.rows import TIMED_FETCH
from sim.timing.preparation import engine_rows
from sim.timing.stream_rows import stream_rows

from tests.support.registers import modes

TARGETS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")
MODES = modes("NPU_OP_ELEMENTWISE")
ADDRESS = 4096
"""A multiple of any beat: where the planner takes maps to begin."""
CACHE = 2
MOST_BLOCKS = 300
RATES = {
    "mul": "mul_or_40_bit_accumulator", "mul_32": "mul_32_bit_ofm", "scaled_add": "add_sub", "simple_add": "add_sub_simple",
    "unary_32": "elementwise_32_bit_unary", "binary_32": "elementwise_32_bit_binary", "maximum": "max_pool",
    "wide": "mul_or_40_bit_accumulator", "other": "other",
}  # fmt: skip


def random_map(rng: np.random.Generator, shape: tuple[int, int, int], element: ElementType, region: int) -> FeatureMap:
    """A map of either layout, in NHWC perhaps a part of the channels of a deeper one."""
    height, width, depth = shape
    layout = Layout(int(rng.integers(2)))
    size, deeper = element.bytes, depth + int(rng.choice([0, 0, 0, 5, 16]))
    if layout is Layout.NHCWB16:
        bricks = -(-depth // 16)
        strides = (width * bricks * 16 * size, 16 * size, width * 16 * size)
    else:
        strides = (width * deeper * size, deeper * size, size)
    addresses = (ADDRESS, 0, 0, 0)
    return FeatureMap(region, height, width, depth, element, layout, 0, addresses, height, height, width, *strides)


def random_window(rng: np.random.Generator) -> tuple[KernelWindow, IfmPadding, Upscale]:
    sizes = [int(rng.choice([1, 1, 2, 3, 3, 5, 9, 12])) for _ in range(2)]
    strides, dilations = rng.integers(1, 4, 2).tolist(), rng.integers(1, 3, 2).tolist()
    kernel = KernelWindow(*sizes, *strides, *dilations)
    top, left = int(rng.integers(kernel.dilated_height)), int(rng.integers(kernel.dilated_width))
    padding = IfmPadding(top, left, kernel.dilated_height - 1 - top, kernel.dilated_width - 1 - left)
    return kernel, padding, Upscale(int(rng.choice([0, 0, 0, 1, 2])))


def random_block(rng: np.random.Generator, ofm: tuple[int, int, int], variant: Variant) -> Block:
    """A block of whole micro-blocks; large enough that there are not too many."""
    ublock, limit = variant.accelerator.ofm_ublock, variant.accelerator.max_block
    while True:
        height = ublock.height * int(rng.integers(1, limit.height // ublock.height + 1))
        width = ublock.width * int(rng.integers(1, limit.width // ublock.width + 1))
        depth = 16 * int(rng.integers(1, limit.depth // 16 + 1))
        if -(-ofm[0] // height) * -(-ofm[1] // width) * -(-ofm[2] // depth) <= MOST_BLOCKS:
            return Block(height, width, depth)


def random_operation(rng: np.random.Generator, variant: Variant) -> tuple[KernelOperation, str]:
    """A kernel operation, its maps in the fast memory, and which rate of the output unit is right for it."""
    region = CACHE
    ofm_shape = (int(rng.integers(1, 40)), int(rng.integers(1, 40)), int(rng.choice([1, 3, 8, 16, 20, 64, 100, 200])))
    sort = str(rng.choice(["convolution", "depthwise", "pooling", "reduce_sum", "elementwise"]))
    wide = {"elementwise": [INT8, INT16, INT32], "reduce_sum": [INT8, INT16, INT32]}.get(sort, [INT8, INT8, INT16])
    element = wide[int(rng.integers(len(wide)))]
    is_40 = element is INT16 and sort in ("convolution", "depthwise")
    function = ActivationFunction.LUT_0 if rng.integers(4) == 0 else ActivationFunction.NONE
    result = INT32 if element is INT32 else INT8
    clamp = Activation(result.minimum, result.maximum // 2 if rng.integers(2) else result.maximum, function)
    if sort == "reduce_sum":
        ofm_shape = (*ofm_shape[:2], 1)
    common: dict[str, Any] = {
        "ofm": random_map(rng, ofm_shape, result, region), "block": random_block(rng, ofm_shape, variant),
        "shram": ShramLayout(10, 14), "activation": clamp, "scale": Scale(),
        "accumulator": AccumulatorFormat.INT40 if is_40 else AccumulatorFormat.INT32,
    }  # fmt: skip
    if sort == "elementwise":
        return random_elementwise(rng, common, ofm_shape, element, result)
    kernel, padding, upscale = random_window(rng)
    plane = ifm_plane(*ofm_shape[:2], kernel, padding, upscale)
    depth = int(rng.choice([1, 5, 16, 24, 32, 33, 64, 100])) if sort in ("convolution", "reduce_sum") else ofm_shape[2]
    common |= {
        "ifm": random_map(rng, (*plane, depth), element, region),
        "kernel": kernel,
        "padding": padding,
        "upscale": upscale,
    }
    streams = {"weights": (AddressRange(region, 0, int(rng.integers(1, 9000))),), "scales": (AddressRange(region, 0, 160),)}
    if sort == "convolution":
        return Convolution(**common, **streams, traversal=Traversal(int(rng.integers(2)))), "wide" if is_40 else "other"
    if sort == "depthwise":
        return DepthwiseConvolution(**common, **streams), "wide" if is_40 else "other"
    mode = PoolingMode.REDUCE_SUM if sort == "reduce_sum" else PoolingMode(int(rng.integers(2)))
    return Pooling(**common, mode=mode), "maximum" if mode is PoolingMode.MAX else "other"


def random_elementwise(
    rng: np.random.Generator, common: dict[str, Any], shape: tuple[int, int, int], element: ElementType, result: ElementType
) -> tuple[KernelOperation, str]:
    mode = MODES[int(rng.integers(len(MODES)))]
    scaling = OperandScaling(int(rng.integers(3)))
    ifm = random_map(rng, shape, element, CACHE)
    height, width, depth = (1 if rng.integers(4) == 0 else extent for extent in shape)
    ifm2 = None if mode.is_unary else random_map(rng, (height, width, depth), element, CACHE)
    adds = mode in (ElementwiseMode.ADD, ElementwiseMode.SUB)
    if element is INT32:
        rate = "unary_32" if mode.is_unary else "binary_32"
    elif mode is ElementwiseMode.MUL:
        rate = "mul_32" if result is INT32 else "mul"
    else:
        rate = ("simple_add" if scaling is OperandScaling.BOTH_16 else "scaled_add") if adds else "other"
    return Elementwise(**common, ifm=ifm, ifm2=ifm2, mode=mode, operand_scaling=scaling), rate


def problem_of(operation: KernelOperation, rate: str, variant: Variant) -> BlockProblem:
    """What the planner would be asked of the operation."""
    buffers = buffers_of(operation)
    known = {field.name: getattr(buffers, field.name) for field in fields(BufferProblem)}
    ifm, ofm, separate = operation.ifm, operation.ofm, variant.memory_mode.has_separate_cache
    assert separate or variant.memory_mode.cache == variant.memory_mode.arena
    is_nhwc = [fm.layout is Layout.NHWC for fm in (ifm, ofm)]
    ifm2 = operation.ifm2 if isinstance(operation, Elementwise) else None
    return BlockProblem(
        **known, ofm_bits=ofm.element.bits, output_rank=RATES[rate],
        has_clamp=operation.activation.maximum < ofm.element.maximum,
        padding=operation.padding if isinstance(operation, WindowOperation) else IfmPadding(),
        ifm_is_bricked=not is_nhwc[0], ofm_is_bricked=not is_nhwc[1],
        ifm2=ifm2 and SecondInput((ifm2.height, ifm2.width, ifm2.depth), "cache", ifm2.layout is Layout.NHCWB16),
        ifm_map_depth=ifm.stride_x // ifm.element.bytes if is_nhwc[0] else ifm.depth,
        ofm_map_depth=ofm.stride_x // ofm.element.bytes if is_nhwc[1] else ofm.depth,
    )  # fmt: skip


def planned_costs(operation: KernelOperation, rate: str, variant: Variant) -> np.ndarray[Any, Any]:
    """(blocks, len(COSTS)): of every block, in the order of the stream, by the planner's description."""
    rows = np.zeros(1, OPERATION)
    fill_operation(rows, problem_of(operation, rate, variant), variant)
    block, ofm = operation.block, operation.ofm
    rows["block_height"], rows["block_width"], rows["block_depth"] = block.height, block.width, block.depth
    if isinstance(operation, WeightedOperation):
        rows["stream_bytes"] = sum(part.length_bytes for part in (*operation.weights, *operation.scales))
    places = [
        (y, x, z)
        for y in range(0, ofm.height, block.height)
        for x in range(0, ofm.width, block.width)
        for z in range(0, ofm.depth, block.depth)
    ]
    costs = np.zeros(len(places) + 1, BLOCK_COST)
    room = np.zeros(4096, FETCH)
    cost_blocks(rows, machine_rows(variant), port_rows(variant), np.array(places, np.int64), room, costs)
    return np.stack([costs[name][:-1] for name in COSTS], axis=1)


def timed_costs(operation: KernelOperation, variant: Variant) -> np.ndarray[Any, Any]:
    """The same by the plan of the timing engine, from the operation of the command stream."""
    plan = stream_rows([operation], variant, stream_words=0)
    timed = np.zeros(len(plan.fetches), TIMED_FETCH)
    cost_fetches(plan.operations, plan.fetches, port_rows(variant), engine_rows(variant), timed)
    first = np.flatnonzero(plan.fetches["is_first"])
    return np.stack([_sums(np.abs(timed[name]), first) for name in COSTS], axis=1)


def _sums(values: np.ndarray[Any, Any], first: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Sums of the parts that begin at `first`, added one after another as the planner does: Python 3.12's `sum` is exacter."""
    return np.array([np.add.accumulate(part)[-1] for part in np.split(values, first[1:])])


def compare(target: str, count: int) -> None:
    variant, rng = load_variant(target), np.random.default_rng([14, TARGETS.index(target)])
    blocks = 0
    for _ in range(count):
        operation, rate = random_operation(rng, variant)
        planned, timed = planned_costs(operation, rate, variant), timed_costs(operation, variant)
        wrong = [name for name, same in zip(COSTS, (planned == timed).all(0), strict=True) if not same]
        assert not wrong, (operation, wrong)
        blocks += len(timed)
    assert blocks > count


@pytest.mark.parametrize("target", TARGETS)
def test_each_block_of_random_operations_costs_the_same(target: str) -> None:
    compare(target, 60)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_each_block_of_a_thousand_random_operations_costs_the_same(target: str) -> None:
    compare(target, 1000)
