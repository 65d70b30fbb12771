"""Where the cycles of one operation go, on the machine with round numbers, written out from the rules of the block model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port
from npu.isa.operations import Block, KernelWindow
from sim.timing.explain import PARTS, explain_operation

from tests.support.timing import addition, convolution, copy_operation, feature_map, round_variant, with_adapter

BLOCK = Block(4, 4, 16)
FREE_OUTPUT = round_variant(output_cycles=replace(round_variant().timing.output_cycles, other=0.0))

OPERATIONS = {
    "convolution": convolution(8, 8, 16, 32, BLOCK, stream_bytes=640),
    "odd_convolution": convolution(7, 5, 19, 17, Block(4, 4, 24), stream_bytes=700),
    "pooling": copy_operation(9, 9, 16, Block(4, 4, 16)),
    "large_pooling": copy_operation(9, 9, 16, Block(4, 4, 16), kernel=KernelWindow(7, 7)),
    "addition": addition(7, 7, 19, Block(4, 4, 32)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_ideal_and_parts_add_up_to_the_cycles(name: str) -> None:
    variant = with_adapter(round_variant(operation_overhead_cycles=42), Port.AXI0, read_latency_cycles=32)
    found = explain_operation(OPERATIONS[name], variant)
    assert set(found.parts) <= set(PARTS)
    assert found.ideal + sum(found.parts.values()) == pytest.approx(found.cycles)
    assert min(found.parts.values()) >= -1e-9


def test_a_full_array_loses_nothing_in_the_array() -> None:
    # 16 channels fill two micro-blocks of 8, 32 input channels fill the dot products, 4x4 pixels fill micro-blocks of 1x2.
    found = explain_operation(convolution(4, 4, 16, 32, BLOCK), FREE_OUTPUT)
    assert found.ideal == 4 * 4 * 16 * 32 / 128 == 64
    for name in ("channel padding", "block remainder", "kernel under-use", "weight decode", "output unit"):
        assert found.parts[name] == 0, name


def test_latency_is_what_goes_when_the_latency_goes() -> None:
    variant = with_adapter(round_variant(), Port.AXI0, read_latency_cycles=32, write_latency_cycles=20)
    assert explain_operation(convolution(4, 4, 16, 32, BLOCK), variant).parts["latency"] == 32 + 20


def test_channel_padding_is_the_share_of_channels_that_are_not_there() -> None:
    # 12 output channels work as 16, 16 input channels as 32: 64 cycles, of which 12/16 x 16/32 do useful work.
    found = explain_operation(convolution(4, 4, 12, 16, BLOCK), FREE_OUTPUT)
    assert found.ideal == 64 * 12 / 16 * 16 / 32 == 24
    assert found.parts["channel padding"] == 64 - 24


def test_a_block_remainder_is_the_share_of_pixels_that_are_not_there() -> None:
    # 5 columns are 3 micro-blocks of 2: one column in 6 is empty. 12 micro-blocks take 4 cycles each for 8 channels.
    found = explain_operation(convolution(4, 5, 16, 32, Block(4, 6, 16)), FREE_OUTPUT)
    assert found.ideal == 4 * 5 * 16 * 32 / 128
    assert found.parts["block remainder"] == 2 * 12 * 4 - found.ideal


def test_channels_that_cost_the_same_are_named() -> None:
    shapes = {shape.axis: shape for shape in explain_operation(convolution(4, 4, 17, 32, Block(4, 4, 24)), FREE_OUTPUT).shapes}
    channels = shapes["output channels"]
    assert (channels.extent, channels.free_up_to, channels.cheaper) == (17, 24, 16)
    assert (channels.cycles, channels.cheaper_cycles) == (3 * 32, 2 * 32)
    assert "input channels" not in shapes


def test_a_shape_is_called_cheaper_from_one_percent_on() -> None:
    # 98 rows in blocks of 6: one row less saves cycles between sets of weights, two rows less save one block of 17.
    operation = convolution(98, 1, 120, 40, Block(6, 2, 40))
    (rows,) = (
        shape for shape in explain_operation(operation, load_variant("ethos-u55-128")).shapes if shape.axis == "output height"
    )
    assert (rows.free_up_to, rows.cheaper) == (102, 96)
    assert rows.cheaper_cycles / rows.cycles == pytest.approx(16 / 17, abs=0.005)


def test_input_channels_are_free_up_to_a_full_dot_product() -> None:
    shapes = {shape.axis: shape for shape in explain_operation(convolution(4, 4, 16, 17, BLOCK), FREE_OUTPUT).shapes}
    assert shapes["input channels"].free_up_to == 32


def test_reading_a_map_again_for_each_depth_block_is_refetch() -> None:
    # Three slices of input channels do not stay in the two halves of the buffer: the second depth block reads them again.
    once = convolution(4, 4, 16, 96, BLOCK)
    twice = convolution(4, 4, 32, 96, BLOCK)
    slow = round_variant(output_cycles=FREE_OUTPUT.timing.output_cycles, port_beat_cycles=4.0)
    assert explain_operation(once, slow).parts["re-fetch"] == 0
    assert explain_operation(twice, slow).parts["re-fetch"] == pytest.approx(4 * 4 * 96 / 8 * 4.0, rel=0.05)


def test_elementwise_operations_are_measured_against_a_full_output_unit() -> None:
    found = explain_operation(addition(4, 4, 16, BLOCK, ifm2=feature_map(4, 4, 16)), round_variant())
    assert found.ideal == 4 * 4 * 16
    assert found.shapes == ()


def test_a_shape_grows_for_nothing_by_so_many_steps_at_most() -> None:
    # Nothing takes any time here: no number of channels would ever cost more.
    idle = replace(FREE_OUTPUT.timing, ublock_mac_cycles=0, port_beat_cycles=0.0, weights_per_cycle=1 << 20)
    shapes = explain_operation(convolution(4, 4, 1, 32, BLOCK), replace(FREE_OUTPUT, timing=idle)).shapes
    (channels,) = (shape for shape in shapes if shape.axis == "output channels")
    assert (channels.extent, channels.free_up_to, channels.cheaper) == (1, 1 + 64, 0)
