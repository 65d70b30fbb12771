"""What the fast kernels take: each case must take them, and every tier must give the naive twin's bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    UINT8,
    Activation,
    ActivationFunction,
    Dma,
    DmaSide,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWindow,
    Layout,
    OperandScaling,
    Rounding,
    Scale,
)
from npu.isa.payload import parse_payload
from sim.functional import prepared
from sim.functional.fast import make_row
from sim.functional.kernels import rows
from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory, feature_map_ranges

from tests.naive.operations import run_operation
from tests.support.guard import guarded
from tests.support.machine import ARENA_BYTES, SHRAM, TIERS, Workbench
from tests.support.registers import members, modes
from tests.support.shared import shared_models
from tests.support.vela import compile_with_vela, only_job


def assert_exact(bench: Workbench, operation: KernelOperation | Dma, kind: int, memory: NpuMemory | None = None) -> None:
    """The operation has a row of this kind, and every tier gives the naive twin's bytes."""
    memory = bench.memory() if memory is None else memory
    start = {region: data.copy() for region, data in memory.regions.items()}
    expected = NpuMemory({region: data.copy() for region, data in start.items()}, bench.variant)
    expected.shram[:] = memory.shram
    run_operation(operation, expected)
    for tier in TIERS:
        for region, data in memory.regions.items():
            if data.flags.writeable:
                data[:] = start[region]
        machine = Machine(bench.variant, tier)
        machine.run([operation], memory)
        found = machine._prepared([operation], memory).rows[0]["kind"]
        assert found == (rows.GENERAL if tier is Tier.GENERAL else kind), f"{tier}: {operation}"
        for region, data in memory.regions.items():
            np.testing.assert_array_equal(data, expected.regions[region], f"{tier}: {operation}")
        np.testing.assert_array_equal(memory.shram, expected.shram)


def in_one_tile(operation: KernelOperation) -> KernelOperation:
    """The operation with maps that have no tile beside the first; rows may still be in two."""
    maps = {"ifm": operation.ifm, "ofm": operation.ofm}
    return replace(operation, **{name: replace(fm, tile_width_0=fm.width) for name, fm in maps.items()})  # type: ignore[arg-type]


WINDOWS: dict[str, tuple[KernelWindow, IfmPadding]] = {
    "1x1": (KernelWindow(1, 1), IfmPadding()),
    "3x3 padded": (KernelWindow(3, 3), IfmPadding(1, 1, 1, 1)),
    "5x5 padded": (KernelWindow(5, 5), IfmPadding(2, 2, 2, 2)),
    "5x5 in strides of 2": (KernelWindow(5, 5, 2, 2), IfmPadding(1, 2, 2, 1)),
    "5x5 in strides of 3": (KernelWindow(5, 5, 3, 3), IfmPadding(2, 2, 1, 1)),
    "9x1": (KernelWindow(9, 1, 2, 1), IfmPadding(4, 0, 4, 0)),
    "1x9": (KernelWindow(1, 9), IfmPadding(0, 4, 0, 4)),
    "10x4": (KernelWindow(10, 4, 2, 2), IfmPadding(4, 1, 5, 2)),
    "15x1": (KernelWindow(15, 1), IfmPadding()),
    "4x5 with strides that differ": (KernelWindow(4, 5, 1, 3), IfmPadding(0, 4, 3, 0)),
    "stride beyond the window": (KernelWindow(2, 1, 1, 3), IfmPadding()),
    "dilated": (KernelWindow(3, 3, 1, 1, 2, 2), IfmPadding(2, 2, 2, 2)),
    "dilated columns": (KernelWindow(2, 4, 1, 2, 1, 2), IfmPadding(1, 5, 0, 6)),
    "dilated in strides of 3": (KernelWindow(3, 4, 3, 3, 2, 2), IfmPadding(4, 3, 3, 2)),
    "padding on one side": (KernelWindow(4, 6), IfmPadding(3, 0, 0, 5)),
}


@pytest.mark.parametrize("window", WINDOWS)
def test_a_depthwise_window_of_any_size_is_exact_on_the_fast_kernels(window: str) -> None:
    kernel, padding = WINDOWS[window]
    for seed, (depth, element) in enumerate([(1, INT8), (16, INT8), (19, UINT8), (33, INT8)]):
        bench = Workbench(seed, plain=True)
        operation = bench.windowed(kernel, padding, (4, 5), depth, element=element)
        assert_exact(bench, in_one_tile(operation), rows.DEPTHWISE)


@pytest.mark.parametrize("is_depthwise", [False, True])
def test_random_convolutions_have_outputs_that_their_products_decide(is_depthwise: bool) -> None:
    inside = []
    for seed in range(20):
        bench = Workbench(seed, plain=True)
        operation = bench.windowed(*WINDOWS["3x3 padded"], (4, 5), 16, None if is_depthwise else 32)
        memory = bench.memory()
        run_operation(operation, memory)
        outputs = Machine(bench.variant).feature_map(operation.ofm, memory)
        inside.append(np.mean((outputs > operation.ofm.element.minimum) & (outputs < operation.ofm.element.maximum)))
    assert np.mean(inside) > 0.1  # with biases far beyond the sums it was 0.02, and wrong products went unseen


@pytest.mark.parametrize("size", [(1, 1), (2, 9), (5, 19), (4, 8)], ids=str)
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1), (1, 2), (3, 3)], ids=str)
def test_depthwise_windows_of_three_rows_are_exact_for_any_number_of_lines(
    strides: tuple[int, int], size: tuple[int, int]
) -> None:
    for seed, (width, depth) in enumerate([(3, 32), (4, 19), (2, 16)]):
        bench = Workbench(seed, plain=True)
        operation = bench.windowed(KernelWindow(3, width, *strides), IfmPadding(1, 1, 1, width - 2), size, depth, element=INT8)
        assert_exact(bench, in_one_tile(operation), rows.DEPTHWISE)


@pytest.mark.parametrize("window", ["3x3 padded", "5x5 in strides of 2", "10x4", "dilated", "stride beyond the window"])
def test_a_convolution_whose_maps_end_their_region_is_exact_on_the_fast_kernels(window: str) -> None:
    kernel, padding = WINDOWS[window]
    for seed, (depth, outputs, element) in enumerate([(1, 16, INT8), (5, 32, UINT8), (3, 16, INT8), (20, 16, INT8)]):
        for is_depthwise in (False, True):
            bench = Workbench(seed, plain=True)
            size = (3, 4) if kernel.stride_y == kernel.stride_x else (3, 3)
            operation = bench.windowed(kernel, padding, size, depth, None if is_depthwise else outputs, element)
            operation = in_one_tile(operation)
            memory = at_the_end(bench, operation)
            if is_depthwise and depth % 16:
                memory = NpuMemory({**memory.regions, 1: np.append(memory.regions[1], np.zeros(16, np.uint8))}, bench.variant)
            assert_exact(bench, operation, rows.DEPTHWISE if is_depthwise else rows.CONVOLUTION, memory)


def at_the_end(bench: Workbench, operation: KernelOperation, *, is_guarded: bool = False, at_end: bool = True) -> NpuMemory:
    """A memory whose region 1 ends where the last of the operation's maps does."""
    whole = bench.memory()
    maps = [fm for fm in (operation.ifm, operation.ofm, getattr(operation, "ifm2", None)) if fm is not None]
    end = max(end for fm in maps for _, end in feature_map_ranges(fm))
    regions = {0: whole.regions[0], 1: whole.regions[1][:end].copy()}
    if is_guarded:
        regions = {number: guarded(data, at_end=at_end) for number, data in regions.items()}
    memory = NpuMemory(regions, bench.variant)
    memory.shram[:] = whole.shram
    return memory


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_no_kernel_touches_bytes_outside_the_regions(plain: bool, at_end: bool) -> None:
    for seed in range(40):
        bench = Workbench(seed, plain=plain)
        assert_contained(bench, bench.operation(), at_end=at_end)


@pytest.mark.parametrize("at_end", [False, True])
def test_tiles_larger_than_their_map_are_read_and_written_up_to_its_end(at_end: bool) -> None:
    for seed in range(40):
        bench = Workbench(seed, plain=seed % 2 == 0)
        operation, maps = bench.operation(), {}
        for name in ("ifm", "ofm", "ifm2"):
            fm = getattr(operation, name, None)
            if fm is not None:
                row = fm.width * fm.depth * fm.element.bytes
                dense = {"layout": Layout.NHWC, "stride_x": row // fm.width, "stride_y": row, "stride_c": fm.element.bytes}
                dense["addresses"] = (min(fm.addresses), 0, 0, 0)
                maps[name] = replace(fm, tile_width_0=65536, tile_height_0=65536, tile_height_1=65536, **dense)
        assert_contained(bench, replace(operation, **maps), at_end=at_end)


def assert_contained(bench: Workbench, operation: KernelOperation, *, at_end: bool) -> None:
    """The naive twin's bytes, in regions whose neighbours cannot be touched."""
    memory = at_the_end(bench, operation, is_guarded=True, at_end=at_end)
    expected = NpuMemory({number: data.copy() for number, data in memory.regions.items()}, bench.variant)
    expected.shram[:] = memory.shram
    before = memory.regions[1].copy()
    run_operation(operation, expected)
    for tier in TIERS:
        memory.regions[1][:] = before
        Machine(bench.variant, tier).run([operation], memory)
        np.testing.assert_array_equal(memory.regions[1], expected.regions[1], f"{tier}: {operation}")


PLAIN_SCALES = Scale(1 << 30, 40)


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize("weight", [-255, -129, 128, 254, 255])
def test_weights_beyond_8_bits_are_exact_on_the_fast_kernels(weight: int, is_depthwise: bool) -> None:
    bench = Workbench(1, plain=True)
    kernel, depth, outputs = KernelWindow(3, 5), 7, 19
    channels, inputs = (depth, 1) if is_depthwise else (outputs, depth)
    weights = bench.rng.integers(-255, 256, (channels, kernel.height, kernel.width, inputs))
    weights[0], weights[-1, 0, 0, 0] = weight, weight
    constants = (weights, [5 - o for o in range(channels)], [PLAIN_SCALES] * channels)
    operation = bench.windowed(
        kernel, IfmPadding(1, 2, 1, 2), (3, 6), depth, None if is_depthwise else outputs, UINT8, constants
    )
    assert_exact(bench, in_one_tile(operation), rows.DEPTHWISE if is_depthwise else rows.CONVOLUTION)


@pytest.mark.parametrize("is_depthwise", [False, True])
def test_channels_that_are_constant_for_their_huge_shifts_are_exact_on_the_fast_kernels(
    is_depthwise: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As converters make them of channels whose weights are all but zero: a bias and a shift beyond all others."""
    monkeypatch.setattr(prepared, "pack_constants", lambda *_: pytest.fail("they are packed with those of all operations"))
    bench = Workbench(2, plain=True)
    depth, outputs = 20, 20
    shape = (depth, 3, 3, 1) if is_depthwise else (outputs, 3, 3, depth)
    records = [(1 << 30, 63), (-(1 << 30), 61), (1 << 30, 55), ((1 << 31) - (1 << 25), 60), (1 << 20, 40), (-7, 33)]
    weights = bench.rng.integers(-128, 128, shape)
    weights[3] = 0
    biases = [records[o % len(records)][0] for o in range(20)]
    scales = [Scale((1 << 31) - 1 - o, records[o % len(records)][1]) for o in range(20)]
    operation = bench.windowed(
        KernelWindow(3, 3),
        IfmPadding(1, 1, 1, 1),
        (3, 4),
        depth,
        None if is_depthwise else outputs,
        INT8,
        (weights, biases, scales),
    )
    assert_exact(bench, in_one_tile(operation), rows.DEPTHWISE if is_depthwise else rows.CONVOLUTION)


def test_a_channel_that_is_not_constant_keeps_a_sum_beyond_the_kernels_exact() -> None:
    bench = Workbench(3, plain=True)
    constants = (np.full((4, 1, 1, 3), 127), [3 << 29] * 4, [Scale(1 << 30, 60)] * 4)
    operation = in_one_tile(bench.windowed(KernelWindow(1, 1), IfmPadding(), (3, 4), 3, 4, INT8, constants))
    assert make_row(operation, bench.memory()).kind == rows.CONVOLUTION
    assert_exact(bench, operation, rows.GENERAL)


EDGES = (
    0,
    1,
    -1,
    2,
    3,
    -3,
    7,
    127,
    -128,
    1 << 14,
    -(1 << 15),
    (1 << 30) - 1,
    1 << 30,
    (1 << 31) - 1,
    -(1 << 31),
    -(1 << 31) + 1,
)


def vectors(bench: Workbench, element: ElementType, second_depth: int = 32) -> tuple[Elementwise, NpuMemory]:
    """An addition of two maps of values at the edges of their type, with every pair of neighbours."""
    ifm, ofm = (bench.feature_map(1, 8, 32, element, reversible=False) for _ in range(2))
    ifm2 = bench.feature_map(1, 8, second_depth, element)
    maps = {"ifm": replace(ifm, zero_point=0), "ofm": replace(ofm, zero_point=0), "ifm2": replace(ifm2, zero_point=0)}
    operation = Elementwise(
        mode=ElementwiseMode.ADD,
        block=bench.operation().block,
        shram=SHRAM,
        activation=Activation(-(1 << 15), (1 << 15) - 1) if element.bits > 8 else Activation(-128, 127),
        scale=Scale(1, 0),
        **maps,  # type: ignore[arg-type]
    )
    memory = bench.memory()
    allowed = [value for value in EDGES if element.minimum <= value <= element.maximum]
    kind = {8: np.int8, 16: np.int16, 32: np.int32}[element.bits]
    for fm in (operation.ifm, operation.ifm2):
        assert fm is not None
        for start, end in feature_map_ranges(fm):
            area = memory.regions[1][start : end - (end - start) % element.bytes].view(kind)
            area[:] = bench.rng.choice(allowed, area.size)
    return operation, memory


@pytest.mark.parametrize("mode", modes("NPU_OP_ELEMENTWISE"))
@pytest.mark.parametrize("element", [INT8, INT16, INT32], ids=str)
def test_elementwise_operations_of_edge_values_are_exact_in_the_compiled_loop(
    element: ElementType, mode: ElementwiseMode
) -> None:
    if mode in (ElementwiseMode.SHL, ElementwiseMode.SHR, ElementwiseMode.CLZ) and element is not INT32:
        return
    for seed, rounding in enumerate(members("rounding") * 2):
        bench = Workbench(seed, plain=True)
        operation, memory = vectors(bench, element, second_depth=1 if seed >= 3 else 32)
        shift = bench.choose(0, 1, 30, 31, 32, 40, 62)
        operation = replace(operation, mode=mode, rounding=rounding, is_reversed=seed % 2 == 1, scale=Scale(3, shift))
        if mode.is_unary:
            operation = replace(operation, ifm2=None, is_reversed=False)
        elif seed == 5:
            operation = replace(operation, ifm2=None, scalar=bench.choose(0, 3, 31))
        row = make_row(operation, memory)
        assert row.kind in (rows.VALUES, rows.ELEMENTWISE)
        assert_exact(bench, operation, row.kind, memory)


def dense(fm: FeatureMap, layout: Layout, address: int) -> FeatureMap:
    """5x7x32 in one tile without gaps."""
    steps = (7 * 32, 32, 1) if layout is Layout.NHWC else (7 * 32, 16, 7 * 16)
    stride_y, stride_x, stride_c = steps
    return replace(
        fm,
        **{"height": 5, "width": 7, "depth": 32, "tile_height_0": 5, "tile_height_1": 5, "tile_width_0": 7},
        layout=layout,
        addresses=(address, 0, 0, 0),
        stride_y=stride_y,
        stride_x=stride_x,
        stride_c=stride_c,
    )


@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("scaling", OperandScaling)
@pytest.mark.parametrize("mode", [ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MUL])
def test_maps_without_gaps_are_combined_as_one_line(mode: ElementwiseMode, scaling: OperandScaling, layout: Layout) -> None:
    lines = 0
    for seed in range(8):
        bench = Workbench(seed, plain=True)
        operation, memory = vectors(bench, INT8)
        assert operation.ifm2 is not None
        maps = {name: dense(getattr(operation, name), layout, 2048 * k) for k, name in enumerate(("ifm", "ifm2", "ofm"))}
        maps = {name: replace(fm, zero_point=bench.number(-128, 127)) for name, fm in maps.items()}
        is_short = scaling is OperandScaling.BOTH_16
        scale = (1 << 14, (1 << 15) - 1, 0) if is_short else (1 << 30, (1 << 31) - 1, 11 + seed)
        memory.regions[1][:] = bench.rng.integers(0, 256, memory.regions[1].size, np.uint8)
        operation = replace(
            operation,
            mode=mode,
            operand_scaling=scaling,
            opa_scale=Scale(bench.number(*scale[:2]), scale[2]),
            opb_scale=bench.number(1 << 14, (1 << 15) - 1),
            is_reversed=seed % 2 == 1,
            scale=Scale(bench.number(1 << 30, (1 << 31) - 1), 46 if mode is not ElementwiseMode.MUL else 38),
            **maps,
        )
        row = make_row(operation, memory)
        assert row.kind in (rows.VALUES, rows.ELEMENTWISE)  # sums beyond what the fast kernels hold
        lines += int(row.kind == rows.ELEMENTWISE and row.fields.get("is_flat", 0))
        assert_exact(bench, operation, row.kind, memory)
    assert lines >= 4


def test_poolings_and_other_elementwise_operations_run_in_the_compiled_loop() -> None:
    for seed in range(60):
        bench = Workbench(seed)
        for operation in (bench.pooling(), bench.elementwise()):
            assert make_row(operation, bench.memory()).kind in (rows.VALUES, rows.ELEMENTWISE)


TABLES = [("ethos-u55-128", 3, rows.COPY), ("ethos-u65-512", 1, rows.COPY), ("ethos-u65-512", 3, rows.GENERAL)]


@pytest.mark.parametrize(("target", "mask", "kind"), TABLES)
def test_a_table_for_one_core_is_copied_by_the_fast_kernels(target: str, mask: int, kind: int) -> None:
    bench = Workbench(0, target=target)
    table = DmaSide(None, bench.variant.shram.lut_address + 256, core_mask=mask)
    assert_exact(bench, Dma(source=DmaSide(1, 3), destination=table, length_bytes=256), kind)


@pytest.mark.parametrize("is_depthwise", [False, True])
def test_a_window_beyond_the_hardware_is_not_prepared(is_depthwise: bool) -> None:
    """As damaged streams have it; its tables would take minutes, its weights cannot be there."""
    bench = Workbench(6, plain=True)
    operation = bench.windowed(KernelWindow(1, 1), IfmPadding(), (1, 1), 1, None if is_depthwise else 1)
    for kernel, kind in (
        (KernelWindow(64, 64), None),
        (KernelWindow(64, 65), rows.GENERAL),
        (KernelWindow(65536, 65536), rows.GENERAL),
    ):
        ifm = replace(operation.ifm, height=kernel.height, width=kernel.width, stride_x=0, stride_y=0, tile_width_0=65536)
        found = make_row(replace(operation, ifm=ifm, kernel=kernel), bench.memory()).kind
        assert found == (kind if kind is not None else rows.DEPTHWISE if is_depthwise else rows.CONVOLUTION)


COMPILED = (
    "mlperf_kws_int8",
    "mlperf_vww_int8",
    "mlperf_strww_int8",
    "micro_speech_int8",
    "yolo-fastest_192_face_v4",
    "rnnoise_INT8",
)


@pytest.mark.parametrize("name", [name for name in COMPILED if name in shared_models()])
def test_no_operation_of_a_real_network_is_left_to_the_general_kernels(name: str) -> None:
    variant = load_variant("ethos-u55-128")
    job = only_job(compile_with_vela(shared_models()[name].read_bytes(), variant.name))
    memory = NpuMemory(
        {0: job.read_only, 1: np.zeros(job.scratch_bytes, np.uint8), 2: np.zeros(job.fast_bytes, np.uint8)}, variant
    )
    words, machine = parse_payload(job.payload).words, Machine(variant)
    machine.run(words, memory)
    left = machine._prepared(words, memory).rows["kind"] == rows.GENERAL
    assert [item.operation for item, is_left in zip(decode(words, variant), left, strict=True) if is_left] == []


STAGES: dict[str, dict[str, object]] = {
    "truncated": {"rounding": Rounding.TRUNCATE},
    "rounded naturally": {"rounding": Rounding.NATURAL},
    "with a table": {"activation": Activation(-100, 120, ActivationFunction.LUT_3)},
    "to 16 bits": {"ofm": INT16, "activation": Activation(-(1 << 15), (1 << 15) - 1)},
    "to a sigmoid": {"ofm": INT16, "activation": Activation(-(1 << 15), (1 << 15) - 1, ActivationFunction.SIGMOID)},
    "to 32 bits": {"ofm": INT32, "activation": Activation(-(1 << 15), (1 << 15) - 1)},
}


@pytest.mark.parametrize("is_depthwise", [False, True])
@pytest.mark.parametrize("stage", STAGES)
def test_a_convolution_with_another_output_stage_is_exact_on_the_fast_kernels(stage: str, is_depthwise: bool) -> None:
    for seed, depth in enumerate((1, 16, 35)):
        bench = Workbench(seed, plain=True)
        outputs = None if is_depthwise else 21
        operation = bench.windowed(KernelWindow(5, 3, 1, 2), IfmPadding(2, 1, 1, 1), (4, 5), depth, outputs)
        changes = dict(STAGES[stage])
        if "ofm" in changes:
            ofm = bench.feature_map(4, 5, operation.ofm.depth, changes["ofm"])  # type: ignore[arg-type]
            changes["ofm"] = replace(ofm, zero_point=0)
        operation = replace(operation, ifm=replace(operation.ifm, tile_width_0=operation.ifm.width), **changes)
        assert_exact(bench, operation, rows.DEPTHWISE if is_depthwise else rows.CONVOLUTION)


def test_an_output_in_four_tiles_is_exact_on_the_fast_kernels() -> None:
    bench = Workbench(4, plain=True)
    operation = in_one_tile(bench.windowed(KernelWindow(3, 3), IfmPadding(1, 1, 1, 1), (4, 5), 20, 30))
    tiles = {"tile_width_0": 2, "tile_height_0": 1, "tile_height_1": 3}
    assert_exact(bench, replace(operation, ofm=replace(operation.ofm, **tiles)), rows.CONVOLUTION)


@pytest.mark.parametrize("step", [-1, -2, -16])
def test_rows_before_the_first_one_are_no_padding(step: int) -> None:
    for seed in range(8):  # of which most leave all outputs at a bound
        bench = Workbench(seed, plain=True)
        operation = in_one_tile(bench.windowed(KernelWindow(3, 1), IfmPadding(1, 0, 1, 0), (5, 1), 16, element=INT8))
        end = ARENA_BYTES - 1024  # far from the output, so that it is read where it is
        ifm = replace(operation.ifm, layout=Layout.NHWC, stride_y=step, tile_height_0=5, addresses=(end, 0, 0, 0))
        assert_exact(bench, replace(operation, ifm=ifm), rows.DEPTHWISE)
        lower = replace(ifm, stride_y=16, tile_height_0=2, addresses=(end, 0, end + step, 0))
        assert_exact(bench, replace(operation, ifm=lower), rows.DEPTHWISE)


def test_an_input_that_the_output_overwrites_is_read_first() -> None:
    bench = Workbench(5, plain=True)
    for outputs, kind in ((None, rows.DEPTHWISE), (20, rows.CONVOLUTION)):
        operation = in_one_tile(bench.windowed(KernelWindow(3, 3), IfmPadding(1, 1, 1, 1), (4, 5), 20, outputs))
        assert_exact(bench, replace(operation, ofm=replace(operation.ifm, zero_point=operation.ofm.zero_point)), kind)


@pytest.mark.parametrize("bounds", [(-400, 127), (-128, 300), (200, 400), (50, -50)])
@pytest.mark.parametrize("element", [INT8, UINT8])
def test_activation_bounds_beyond_the_type_wrap_on_every_tier(element: ElementType, bounds: tuple[int, int]) -> None:
    for seed in range(4):
        bench = Workbench(seed, plain=True)
        kernel, padding = WINDOWS["3x3 padded"]
        operation = in_one_tile(bench.windowed(kernel, padding, (4, 5), 19, element=element))
        low, high = bounds
        operation = replace(operation, activation=replace(operation.activation, minimum=low, maximum=high))
        assert_exact(bench, operation, rows.DEPTHWISE)
