"""Waits and BLOCKDEP: every hazard is covered, by the simulator's own checker, and nothing is waited for in vain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.compiler.dependencies import KernelAccesses, blockdep, insert_waits
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Variant
from npu.isa.decoded import Decoded
from npu.isa.operations import (
    INT8,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    Convolution,
    Dma,
    DmaSide,
    DmaWait,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelOperation,
    KernelWait,
    KernelWindow,
    Layout,
    Operation,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    Stop,
    Traversal,
)
from sim.verify.verifier import verify

VARIANTS = ("ethos-u55-32", "ethos-u55-128", "ethos-u65-256")
ARENA = 8192
SMALL = Block(2, 2, 16)


def feature_map(address: int, shape: tuple[int, int, int], layout: Layout = Layout.NHWC) -> FeatureMap:
    height, width, depth = shape
    bricks = -(-depth // 16)
    stride_y = width * depth if layout is Layout.NHWC else width * bricks * 16
    stride_x, stride_c = (depth, 1) if layout is Layout.NHWC else (16, 16 * width)
    return FeatureMap(
        1, height, width, depth, INT8, layout, 0, (address, 0, 0, 0), height, height, width, stride_y, stride_x, stride_c
    )


def pooling(
    source: int, target: int, shape: tuple[int, int, int] = (4, 4, 16), *, window: int = 1, table: int | None = None,
    block: Block = SMALL,
) -> Pooling:  # fmt: skip
    function = ActivationFunction.NONE if table is None else ActivationFunction(ActivationFunction.LUT_0 + table)
    pad = (window - 1) // 2
    return Pooling(
        ifm=feature_map(source, shape), ofm=feature_map(target, shape), block=block, shram=ShramLayout(6, 14),
        activation=Activation(-128, 127, function), scale=Scale(), mode=PoolingMode.MAX, kernel=KernelWindow(window, window),
        padding=IfmPadding(pad, pad, pad, pad),
    )  # fmt: skip


def transfer(target: int | None, length: int = 256, address: int = 0) -> Dma:
    return Dma(
        source=DmaSide(0, 0),
        destination=DmaSide(1, target) if target is not None else DmaSide(None, address),
        length_bytes=length,
    )


def with_waits(operations: list[Operation], variant_name: str = "ethos-u55-128") -> list[Operation]:
    return insert_waits(operations, [0] * len(operations), load_variant(variant_name))[0]


def kinds(operations: list[Operation]) -> list[str]:
    """Operations by short names, waits with their numbers."""
    return [
        f"dma_wait {o.outstanding}" if isinstance(o, DmaWait)
        else f"kernel_wait {o.outstanding}" if isinstance(o, KernelWait)
        else type(o).__name__.lower()
        for o in operations
    ]  # fmt: skip


def test_a_kernel_waits_for_the_transfer_that_it_reads() -> None:
    assert kinds(with_waits([transfer(0), pooling(0, 1024)])) == ["dma", "dma_wait 0", "pooling"]


def test_a_kernel_does_not_wait_for_another_transfer() -> None:
    assert kinds(with_waits([transfer(4096), pooling(0, 1024)])) == ["dma", "pooling"]


def test_a_transfer_waits_for_the_kernel_whose_input_it_overwrites_and_not_for_a_later_one() -> None:
    stream = with_waits([pooling(0, 1024), pooling(2048, 3072), transfer(0)])
    assert kinds(stream) == ["pooling", "pooling", "kernel_wait 1", "dma"]


def test_two_transfers_in_flight_let_a_kernel_wait_for_the_older_only() -> None:
    stream = with_waits([transfer(0), transfer(4096), pooling(0, 1024)], "ethos-u65-256")
    assert kinds(stream) == ["dma", "dma", "dma_wait 1", "pooling"]


def test_one_transfer_in_flight_means_the_older_one_is_done() -> None:
    assert kinds(with_waits([transfer(0), transfer(4096), pooling(0, 1024)])) == ["dma", "dma", "pooling"]


def test_a_table_is_loaded_only_after_the_kernel_that_uses_its_slot() -> None:
    lut = load_variant("ethos-u55-128").shram.lut_address
    same = with_waits([pooling(0, 1024, table=0), transfer(None, 256, lut)])
    other = with_waits([pooling(0, 1024, table=0), transfer(None, 256, lut + 256)])
    assert kinds(same) == ["pooling", "kernel_wait 0", "dma"]
    assert kinds(other) == ["pooling", "dma"]


def test_a_table_load_waits_for_every_kernel_where_no_bank_is_reserved() -> None:
    lut = load_variant("ethos-u55-64").shram.lut_address
    assert kinds(with_waits([pooling(0, 1024), transfer(None, 256, lut)], "ethos-u55-64")) == [
        "pooling",
        "kernel_wait 0",
        "dma",
    ]


BLOCKDEP_CASES = {
    "independent": (pooling(0, 1024), pooling(2048, 3072), 3),
    "reads_all_in_one_block": (pooling(0, 1024), pooling(1024, 2048, block=Block(4, 4, 16)), 0),
    "reads_block_by_block": (pooling(0, 1024), pooling(1024, 2048), 3),
    "window_needs_neighbours": (pooling(0, 1024), pooling(1024, 2048, window=3), 0),
    "tall_map_with_window": (pooling(0, 4096, (16, 2, 16)), pooling(4096, 1024, (16, 2, 16), window=3), 3),
}


def convolution(source: int, target: int, depth: int, traversal: Traversal, block: Block = SMALL) -> Convolution:
    shape = (4, 4, depth)
    return Convolution(
        ifm=feature_map(source, shape), ofm=feature_map(target, shape), block=block, shram=ShramLayout(6, 14),
        activation=Activation(-128, 127), kernel=KernelWindow(), padding=IfmPadding(), weights=(AddressRange(0, 0, 16),),
        scales=(AddressRange(0, 16, 16),), traversal=traversal, scale=None,
    )  # fmt: skip


def distance(earlier: list[KernelOperation], current: KernelOperation, variant: Variant) -> int:
    """The BLOCKDEP of a kernel behind earlier ones."""
    history = [KernelAccesses.of(kernel, variant.shram) for kernel in earlier]
    return blockdep(history, KernelAccesses.of(current, variant.shram), variant)


FETCH_CASES = {
    "the_first_32_channels": (Traversal.DEPTH_FIRST, 128, 3),
    "the_first_16_channels": (Traversal.PART_KERNEL_FIRST, 128, 3),
    "all_channels_at_once": (Traversal.DEPTH_FIRST, 32, 0),
    "two_fetches_of_16": (Traversal.PART_KERNEL_FIRST, 32, 1),
}


@pytest.mark.parametrize("case", FETCH_CASES)
def test_a_convolution_fetches_its_channels_in_pieces(case: str) -> None:
    traversal, depth, expected = FETCH_CASES[case]
    whole = Block(4, 4, 16)
    writer = pooling(0, 2048, (4, 4, depth), block=whole)
    reader = convolution(2048, 0, depth, traversal, whole)
    assert distance([writer], reader, load_variant("ethos-u55-128")) == expected


@pytest.mark.parametrize("case", BLOCKDEP_CASES)
def test_blockdep_is_the_distance_between_what_is_written_last_and_read_first(case: str) -> None:
    first, second, expected = BLOCKDEP_CASES[case]
    assert distance([first], second, load_variant("ethos-u55-128")) == expected


def test_the_first_kernel_and_one_that_loses_the_tables_start_after_a_drain() -> None:
    assert distance([], pooling(0, 1024), load_variant("ethos-u55-128")) == 0
    assert distance([pooling(0, 1024, table=0)], pooling(2048, 3072), load_variant("ethos-u55-64")) == 0


def test_a_block_of_the_operation_before_the_last_counts_when_the_last_one_has_few() -> None:
    writer, small = pooling(0, 1024), pooling(2048, 3072, block=Block(4, 4, 16))
    reader = pooling(1024, 4096, block=Block(4, 4, 16))
    assert distance([writer, small], reader, load_variant("ethos-u55-128")) == 1


PLACES = st.integers(0, 40).map(lambda place: place * 128)
POOLINGS = st.builds(
    pooling,
    PLACES,
    PLACES,
    st.sampled_from([(4, 4, 16), (8, 3, 16), (5, 5, 24), (1, 1, 64)]),
    window=st.sampled_from([1, 3]),
    table=st.sampled_from([None, None, 0, 1]),
    block=st.sampled_from([SMALL, Block(4, 8, 16), Block(8, 8, 32)]),
)


def with_tiles(fm: FeatureMap, heights: tuple[int, int], width: int, places: tuple[int, int, int]) -> FeatureMap:
    """The map in up to four tiles at these places."""
    low, high, left = min(heights[0], fm.height), min(heights[1], fm.height), min(width, fm.width)
    return replace(fm, tile_height_0=low, tile_height_1=high, tile_width_0=left, addresses=(fm.addresses[0], *places))


TILES = st.tuples(st.tuples(st.integers(1, 8), st.integers(1, 8)), st.integers(1, 8), st.tuples(PLACES, PLACES, PLACES))
TILED = st.builds(
    lambda one, tiles, operands: replace(one, **{name: with_tiles(getattr(one, name), *tiles) for name in operands}),
    POOLINGS,
    TILES,
    st.sampled_from([("ifm",), ("ofm",), ("ifm", "ofm")]),
)
TRANSFERS = st.builds(transfer, PLACES, st.integers(1, 30).map(lambda units: units * 16))
TABLE_LOADS = st.tuples(st.just("table"), st.integers(0, 2))
OPERATIONS = st.one_of(POOLINGS, TILED, TRANSFERS, TABLE_LOADS)


@pytest.mark.parametrize("variant_name", VARIANTS)
@settings(max_examples=40)
@given(items=st.lists(OPERATIONS, min_size=1, max_size=12))
def test_no_hazard_is_left_in_random_streams(variant_name: str, items: list[object]) -> None:
    variant = load_variant(variant_name)
    operations: list[Operation] = []
    for item in items:
        if isinstance(item, tuple):
            operations.append(transfer(None, 256, variant.shram.lut_address + 256 * item[1]))
        else:
            assert isinstance(item, (Pooling, Dma))
            operations.append(item)
    stream, sources = insert_waits([*operations, Stop()], list(range(len(operations) + 1)), variant)
    assert [o for o in stream if not isinstance(o, (DmaWait, KernelWait))] == [
        replace(o, blockdep=kept.blockdep) if isinstance(o, KernelOperation) else o
        for o, kept in zip([*operations, Stop()], (o for o in stream if not isinstance(o, (DmaWait, KernelWait))), strict=True)
    ]
    assert sources == sorted(sources)
    decoded = [Decoded(operation, index, index) for index, operation in enumerate(stream)]
    findings = verify(decoded, variant, {0: 4096, 1: ARENA, 2: 0}, [(0, 0, 4096), (1, 0, ARENA)])
    # Tables may never have been loaded; a wait for all kernels may follow one for the older of two; buffers are made up, and
    # so are tiles, which may have bytes in common.
    allowed = {"UNINITIALISED", "NO-EFFECT", "SHRAM", "UNDEFINED"}
    assert [finding for finding in findings if finding.rule not in allowed] == []
    assert np.isin([o.blockdep for o in stream if isinstance(o, KernelOperation)], [0, 1, 2, 3]).all()


def test_the_kernel_before_the_last_one_is_remembered_in_a_stream() -> None:
    writer, small = pooling(0, 1024), pooling(2048, 3072, block=Block(4, 4, 16))
    reader = pooling(1024, 4096, block=Block(4, 4, 16))
    kernels = [wait for wait in with_waits([writer, small, reader]) if isinstance(wait, Pooling)]
    assert [kernel.blockdep for kernel in kernels] == [0, 3, 1]


def test_a_kernel_that_reads_both_inputs_from_the_one_before_it_waits_for_all_of_it() -> None:
    writer, kept = pooling(0, 1024, (8, 4, 16)), feature_map(8192, (2, 4, 16))
    made = [feature_map(1024 + 128 * rows, (2, 4, 16)) for rows in (0, 1)]
    together = Elementwise(
        ifm=made[0], ifm2=made[1], ofm=feature_map(4096, (2, 4, 16)), block=SMALL, shram=ShramLayout(6, 14, 3),
        activation=Activation(-128, 127), mode=ElementwiseMode.MAX, scale=Scale(),
    )  # fmt: skip
    alone = {"first": replace(together, ifm2=kept), "second": replace(together, ifm=kept)}
    variant = load_variant("ethos-u55-128")
    assert distance([writer], together, variant) == 0
    assert all(distance([writer], item, variant) > 0 for item in alone.values())


@pytest.mark.parametrize("shape", [(1, 4, 16), (8, 4, 1), (8, 1, 16)], ids=str)
def test_a_kernel_waits_for_all_of_an_operand_that_it_repeats(shape: tuple[int, int, int]) -> None:
    """Whichever of the two: Ethos-U85 repeats its IFM, too."""
    full, kept = feature_map(8192, (8, 4, 16)), feature_map(4096, (8, 4, 16))
    writer, repeated = pooling(0, 1024, shape), feature_map(1024, shape)
    first = Elementwise(
        ifm=repeated, ifm2=kept, ofm=full, block=SMALL, shram=ShramLayout(6, 14, 3), activation=Activation(-128, 127),
        mode=ElementwiseMode.MAX, scale=Scale(),
    )  # fmt: skip
    variant = load_variant("ethos-u85-256")
    assert distance([writer], first, variant) == 0
    assert distance([writer], replace(first, ifm=kept, ifm2=repeated), variant) == 0


def rolling(fm: FeatureMap, rows: int, place: int) -> FeatureMap:
    """The map with all but its first rows at another place."""
    return with_tiles(fm, (rows, rows), fm.width, (0, place, 0))


def test_the_tiles_of_a_rolling_buffer_at_address_0_are_all_looked_at() -> None:
    """The second tile begins where the kernel before has written first, or last."""
    variant, block = load_variant("ethos-u55-128"), Block(2, 4, 16)
    for writer, place, expected in ((0, 0, 2), (0, 128, 1), (0, 256, 0), (2048, 0, 3)):
        tiled = rolling(feature_map(512, (4, 4, 16)), 1, place)
        reader = replace(pooling(512, 4096, block=block), ifm=tiled)
        assert distance([pooling(8192, writer, (6, 4, 16), block=block)], reader, variant) == expected


def test_rows_that_are_written_behind_the_end_of_a_rolling_buffer_are_where_its_next_tile_begins() -> None:
    block = Block(2, 4, 16)
    writer = pooling(8192, 512, (6, 4, 16), block=block)
    writer = replace(writer, ofm=rolling(writer.ofm, 2, 0))
    assert distance([writer], pooling(0, 4096, (2, 4, 16), block=block), load_variant("ethos-u55-128")) == 1


def test_the_height_of_a_tile_beside_the_map_means_nothing() -> None:
    """All columns are in tiles 0 and 2, and all rows in tile 0: nothing is read at address 0, where the kernel before wrote."""
    whole = replace(feature_map(512, (4, 4, 16)), tile_height_1=1)
    reader = replace(pooling(512, 4096), ifm=whole)
    assert distance([pooling(8192, 0)], reader, load_variant("ethos-u55-128")) == 3
