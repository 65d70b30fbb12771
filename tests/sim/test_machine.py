"""Running, stepping, inspecting; and the errors of streams that ask for the impossible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.errors import SimulationError, StreamError
from npu.isa.encode import encode
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    ClipRange,
    Convolution,
    Dma,
    DmaSide,
    DmaStride,
    DmaWait,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWindow,
    Layout,
    Operation,
    Pooling,
    PoolingMode,
    Rounding,
    Scale,
    ShramLayout,
    Stop,
)
from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.support.machine import TIERS, Workbench


def make_map(address: int, height: int, width: int, depth: int, **changes: object) -> FeatureMap:
    fm = FeatureMap(
        1, height, width, depth, INT8, Layout.NHWC, 0, (address, 0, 0, 0), height, height, width, width * depth, depth, 1
    )
    return replace(fm, **changes)  # type: ignore[arg-type]


def copy_operation(source: int, target: int, **changes: object) -> Pooling:
    """A 1x1 pooling that copies 2x2x4."""
    operation = Pooling(
        mode=PoolingMode.AVERAGE,
        ifm=make_map(source, 2, 2, 4),
        ofm=make_map(target, 2, 2, 4),
        block=Block(2, 2, 8),
        shram=ShramLayout(2, 16),
        activation=Activation(-128, 127),
        scale=Scale(1, 0),
        rounding=Rounding.NATURAL,
        kernel=KernelWindow(),
    )
    return replace(operation, **changes)  # type: ignore[arg-type]


def make_memory(size: int = 256) -> tuple[Workbench, NpuMemory]:
    bench = Workbench(0)
    return bench, NpuMemory({1: np.arange(size, dtype=np.uint8)}, bench.variant)


def test_operations_run_in_order_and_the_hook_sees_each() -> None:
    bench, memory = make_memory()
    seen = []
    stream = [copy_operation(0, 32), DmaWait(0), copy_operation(32, 64), Stop()]
    Machine(bench.variant).run(stream, memory, hook=lambda index, operation, _: seen.append((index, type(operation))))
    assert seen == [(0, Pooling), (1, DmaWait), (2, Pooling), (3, Stop)]
    assert memory.regions[1][64:80].tolist() == list(range(16))


def test_stepping_stops_where_it_is_told() -> None:
    bench, memory = make_memory()
    machine = Machine(bench.variant)
    machine.load([copy_operation(0, 32), copy_operation(32, 64), Stop()], memory)
    following = machine.run_until(1)
    assert following is not None
    assert following.command_index == 1
    assert memory.regions[1][32:48].tolist() == list(range(16))
    assert memory.regions[1][64:80].tolist() == list(range(64, 80))
    machine.step()
    machine.step()
    assert machine.next_operation is None
    with pytest.raises(SimulationError, match="must have operations left"):
        machine.step()


def test_registers_can_be_read_where_a_stream_stands() -> None:
    bench, memory = make_memory()
    machine = Machine(bench.variant)
    machine.load(encode([copy_operation(0, 32), copy_operation(32, 64), Stop()], bench.variant), memory)
    assert machine.registers()["NPU_SET_IFM_BASE0"] == {"value": 0}
    assert machine.registers()["NPU_SET_OFM_BASE0"] == {"value": 32}
    machine.step()
    assert machine.registers()["NPU_SET_IFM_BASE0"] == {"value": 32}
    assert machine.registers()["NPU_SET_OFM_BASE0"] == {"value": 64}
    assert machine.registers()["NPU_SET_OFM_HEIGHT_M1"] == {"value": 1}
    machine.load([Stop()], memory)
    with pytest.raises(SimulationError, match="must be loaded"):
        machine.registers()


def test_a_feature_map_can_be_looked_at() -> None:
    bench, memory = make_memory()
    machine = Machine(bench.variant)
    machine.load([Stop()], memory)
    values = machine.feature_map(make_map(0, 2, 2, 2, element=INT16, stride_y=8, stride_x=4))
    assert values.dtype == np.int16
    assert values.tolist() == [[[0x0100, 0x0302], [0x0504, 0x0706]], [[0x0908, 0x0B0A], [0x0D0C, 0x0F0E]]]
    with pytest.raises(SimulationError, match="a stream must be loaded or a memory given"):
        Machine(bench.variant).feature_map(make_map(0, 1, 1, 1))


def test_a_second_run_on_another_memory_uses_that_memory() -> None:
    bench, first = make_memory()
    second = NpuMemory({1: np.full(256, 7, np.uint8)}, bench.variant)
    machine = Machine(bench.variant)
    for memory in (first, second):
        machine.run([copy_operation(0, 32)], memory)
    assert first.regions[1][32:48].tolist() == list(range(16))
    assert second.regions[1][32:48].tolist() == [7] * 16


def test_a_memory_of_another_variant_is_refused() -> None:
    _, memory = make_memory()
    other = Workbench(0, target="ethos-u65-512").variant
    with pytest.raises(SimulationError, match="memory must be of ethos-u65-512, got ethos-u55-128"):
        Machine(other).run([Stop()], memory)


DMA = Dma(source=DmaSide(1, 0), destination=DmaSide(1, 32), length_bytes=16)
ADD = Elementwise(
    mode=ElementwiseMode.ADD,
    ifm=make_map(0, 2, 2, 4),
    ofm=make_map(64, 2, 2, 4),
    ifm2=make_map(32, 2, 2, 4),
    block=Block(2, 2, 8),
    shram=ShramLayout(2, 16, 8),
    activation=Activation(-128, 127),
    scale=Scale(1, 0),
)
LUT = Activation(-128, 127, ActivationFunction.LUT_0)
REFUSED: dict[str, tuple[Operation, str]] = {
    "an OFM outside": (copy_operation(0, 250), r"region 1: bytes must lie within its 256 bytes, got \[0xfa, 0x10a\)"),
    "an IFM that does not fit the kernel": (copy_operation(0, 32, kernel=KernelWindow(height=2)), "IFM height: must be 3"),
    "padding that does not fit": (copy_operation(0, 32, padding=IfmPadding(left=1)), "IFM width: must be 1"),
    "depths that differ": (copy_operation(0, 32, ofm=make_map(32, 2, 2, 3)), "OFM depth: must equal the IFM's 4, got 3"),
    "a table outside": (
        copy_operation(
            0,
            32,
            ofm=make_map(32, 2, 2, 4, element=INT32, stride_y=32, stride_x=16),
            activation=Activation(-128, 127, ActivationFunction.LUT_7, ClipRange.FORCE_INT8),
        ),
        "LUT 7: 1024 bytes must fit the table area of 2048",
    ),
    "a table with wild limits": (
        copy_operation(0, 32, activation=replace(LUT, maximum=200)),
        r"LUT 0: clamped values must lie in \[-128, 127\], got \[-128, 200\]",
    ),
    "a table without clamp": (
        copy_operation(0, 32, ofm=make_map(32, 2, 2, 4, element=INT32, stride_y=32, stride_x=16), activation=LUT),
        "a table needs a clamped output",
    ),
    "an elementwise IFM of another size": (replace(ADD, ifm=make_map(0, 2, 2, 2)), r"IFM must have the OFM's extent"),
    "a second IFM of another size": (replace(ADD, ifm2=make_map(32, 2, 2, 2)), r"must have the OFM's extent .* or 1"),
    "no second operand": (replace(ADD, ifm2=None), "must have exactly one of a second IFM and a scalar"),
    "an empty transfer": (replace(DMA, length_bytes=0), "length, rows and planes must be positive, got 0, 1, 1"),
    "a transfer from outside": (replace(DMA, source=DmaSide(1, 250)), r"read of region 1: .* got \[0xfa, 0x10a\)"),
    "a transfer to outside SHRAM": (replace(DMA, destination=DmaSide(None, 0x6000)), "SHRAM: bytes must lie in"),
    "a strided transfer to outside": (
        replace(DMA, destination=DmaSide(1, 0, DmaStride.ROWS), rows=3, row_skip_bytes=200),
        r"write of region 1: .* got \[0x0, 0x1c0\)",
    ),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_leaves_memory_or_contradicts_itself_is_refused_before_anything_runs(name: str, tier: Tier) -> None:
    operation, text = REFUSED[name]
    bench, memory = make_memory()
    before = memory.regions[1].copy()
    with pytest.raises(SimulationError, match=rf"command 1 at 000001 \({type(operation).__name__}\): .*{text}"):
        Machine(bench.variant, tier).run([copy_operation(0, 32), operation], memory)
    np.testing.assert_array_equal(memory.regions[1], before)


def plain_convolution() -> tuple[Workbench, Convolution]:
    for seed in range(100):
        bench = Workbench(seed, plain=True)
        operation = bench.convolution()
        if isinstance(operation, Convolution):
            return bench, operation
    raise AssertionError("no convolution")


STREAMS = {
    "reserved divisor": (b"\x05" + b"\xff" * 15, "zero-run divisor must be"),
    "no palette": (b"\x06\x00\x00\x00" + b"\x00" * 12, "first slice must carry a palette"),
    "only end markers": (b"\xff" * 16, r"must have \d+ symbols, got only 0"),
    "nothing": (b"", "must not end inside a slice or without an end marker"),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", STREAMS)
def test_a_damaged_weight_stream_is_an_error_that_names_the_command(name: str, tier: Tier) -> None:
    bench, operation = plain_convolution()
    content, text = STREAMS[name]
    operation = replace(operation, weights=(bench.store(content),))
    with pytest.raises(SimulationError, match=rf"command 0 at 000000 \(Convolution\): weight stream: {text}"):
        Machine(bench.variant, tier).run([operation], bench.memory())


def test_random_weight_streams_end_with_weights_or_an_error() -> None:
    bench, operation = plain_convolution()
    rng = np.random.default_rng(0)
    machine = Machine(bench.variant, Tier.GENERAL)
    for _ in range(300):
        broken = replace(
            operation, weights=(bench.store(rng.integers(0, 256, 16 * int(rng.integers(1, 30)), np.uint8).tobytes()),)
        )
        with pytest.raises(SimulationError, match="weight stream"):
            machine.run([broken], bench.memory())


def test_short_scale_records_and_wrong_cores_are_refused() -> None:
    bench, operation = plain_convolution()
    machine = Machine(bench.variant)
    short = replace(operation, scales=(AddressRange(0, operation.scales[0].address, 1),))
    with pytest.raises(SimulationError, match="scale records: length must be at least"):
        machine.run([short], bench.memory())
    twice = replace(operation, weights=operation.weights * 2, scales=operation.scales * 2)
    with pytest.raises(SimulationError, match=r"number of weight streams must be in \[1, 1\], got 2"):
        machine.run([twice], bench.memory())


def test_words_that_are_no_stream_are_refused() -> None:
    bench, memory = make_memory()
    with pytest.raises(StreamError):
        Machine(bench.variant).run(np.array([0x12345678], np.uint32), memory)


DMAS = {
    "in a line": DMA,
    "overlapping": replace(DMA, destination=DmaSide(1, 8)),
    "rows": replace(DMA, destination=DmaSide(1, 64, DmaStride.ROWS), rows=3, row_skip_bytes=5, length_bytes=7),
    "planes": replace(
        DMA,
        source=DmaSide(1, 0, DmaStride.ROWS),
        destination=DmaSide(1, 64, DmaStride.PLANES),
        rows=2,
        planes=3,
        row_skip_bytes=4,
        plane_skip_bytes=9,
        length_bytes=5,
    ),
    "to a table": replace(DMA, destination=DmaSide(None, 0x5800)),
    "from a table": replace(DMA, source=DmaSide(None, 0x5800)),
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", DMAS)
def test_a_transfer_equals_its_naive_twin(name: str, tier: Tier) -> None:
    bench, found = make_memory()
    _, expected = make_memory()
    for memory in (found, expected):
        memory.shram[:] = np.arange(memory.shram.shape[1]).astype(np.uint8)
    Machine(bench.variant, tier).run([DMAS[name]], found)
    run_operation(DMAS[name], expected)
    np.testing.assert_array_equal(found.regions[1], expected.regions[1])
    np.testing.assert_array_equal(found.shram, expected.shram)


def test_a_table_goes_to_the_cores_of_the_mask() -> None:
    bench = Workbench(0, target="ethos-u65-512")
    memory = NpuMemory({1: np.arange(256, dtype=np.uint8)}, bench.variant)
    for mask, cores in ((3, (0, 1)), (2, (1,))):
        memory.shram[:] = 0
        Machine(bench.variant).run([replace(DMA, destination=DmaSide(None, 0xB800, core_mask=mask))], memory)
        assert [core for core in (0, 1) if memory.shram[core, 0xB801] == 1] == list(cores)


@pytest.mark.parametrize("tier", TIERS)
def test_an_addition_in_place_equals_its_naive_twin(tier: Tier) -> None:
    operation: KernelOperation = replace(
        ADD, ofm=ADD.ifm, opa_scale=Scale(1 << 15, 0), opb_scale=1 << 15, scale=Scale(1 << 30, 46)
    )
    bench, found = make_memory()
    _, expected = make_memory()
    Machine(bench.variant, tier).run([operation], found)
    run_operation(operation, expected)
    np.testing.assert_array_equal(found.regions[1], expected.regions[1])


@pytest.mark.parametrize("tier", TIERS)
def test_regions_may_be_one_array(tier: Tier) -> None:
    """As in shared-SRAM modes: an operation between overlapping maps of two regions still reads its input first."""
    bench, _ = make_memory()
    rng = np.random.default_rng(1)
    arena = rng.integers(0, 256, 512, np.uint8)
    operation = replace(
        ADD,
        ofm=replace(ADD.ofm, region=2, addresses=(4, 0, 0, 0)),
        opa_scale=Scale(1 << 15, 0),
        opb_scale=1 << 15,
        scale=Scale(1 << 30, 46),
    )
    expected = NpuMemory({1: arena.copy(), 2: np.zeros(512, np.uint8)}, bench.variant)
    run_operation(operation, expected)
    memory = NpuMemory({1: arena, 2: arena}, bench.variant)
    Machine(bench.variant, tier).run([operation], memory)
    np.testing.assert_array_equal(memory.regions[2][4:20], expected.regions[2][4:20])
