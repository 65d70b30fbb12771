"""A small machine with round numbers and hand-made operations, so that tests can write out the cycles they expect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Memory, MemoryMode, OutputCycles, PipelineTiming, Port, System, TimingAdapter, Variant
from npu.isa.operations import (
    INT8,
    Activation,
    AddressRange,
    Block,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelWindow,
    Layout,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
)

FULL_RANGE = Activation(-128, 127)


def round_variant(**timing: Any) -> Variant:
    """Ethos-U55-128 with ideal memories, one cycle per beat, one output cycle per element and no overheads."""
    base = load_variant("ethos-u55-128")
    cycles = OutputCycles(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
    pipeline = PipelineTiming(
        ublock_mac_cycles=4,
        weights_per_cycle=8,
        weight_decode_bits_per_cycle=64000,
        bubble_cycles=0,
        bubble_cycles_40_bit=0,
        operation_overhead_cycles=0,
        command_cycles_per_word=0.0,
        dma_setup_cycles=0,
        pooling_16_bit_factor=2,
        output_cycles=cycles,
        weight_window_bytes=1 << 20,
    )
    ideal = Memory("sram", 1.0, 64, 0, 0, 0, 0, 0)
    system = System("round", 1_000_000, {Port.AXI0: ideal, Port.AXI1: replace(ideal, name="flash")}, {})
    mode = MemoryMode("shared", Port.AXI1, Port.AXI0, Port.AXI0, 1 << 20, False, True)
    return replace(base, timing=replace(pipeline, **timing), system=system, memory_mode=mode)


def with_adapter(variant: Variant, port: Port, **fields: int) -> Variant:
    """The variant with a timing adapter on a port; fields that are not given put no limit."""
    values = {
        "max_outstanding_reads": 0,
        "max_outstanding_writes": 0,
        "read_latency_cycles": 0,
        "write_latency_cycles": 0,
        "pulse_on_cycles": 1 << 30,
        "pulse_off_cycles": 0,
        "beats_per_window": 0,
    }
    adapters = dict(variant.system.adapters) | {port: TimingAdapter(**(values | fields))}
    return replace(variant, system=replace(variant.system, adapters=adapters))


def feature_map(height: int, width: int, depth: int, *, layout: Layout = Layout.NHCWB16, region: int = 1) -> FeatureMap:
    """A dense 8-bit map at address 0 of a region."""
    padded = -(-depth // 16) * 16
    strides = (width * padded, 16, width * 16) if layout is Layout.NHCWB16 else (width * depth, depth, 1)
    return FeatureMap(region, height, width, depth, INT8, layout, 0, (0, 0, 0, 0), height, height, width, *strides)


def convolution(
    height: int, width: int, depth: int, ifm_depth: int, block: Block, *, stream_bytes: int = 0, **fields: Any
) -> Convolution:
    """A 1x1 convolution, depth first, its weights in region 1 (AXI0)."""
    values: dict[str, Any] = {
        "ifm": feature_map(height, width, ifm_depth),
        "ofm": feature_map(height, width, depth),
        "block": block,
        "shram": ShramLayout(10, 14),
        "activation": FULL_RANGE,
        "scale": None,
        "kernel": KernelWindow(),
        "weights": (AddressRange(1, 0, stream_bytes),),
        "scales": (AddressRange(1, 0, 0),),
        "blockdep": 3,
    }
    return Convolution(**(values | fields))


def copy_operation(height: int, width: int, depth: int, block: Block, **fields: Any) -> Pooling:
    """A 1x1 average pooling."""
    values: dict[str, Any] = {
        "ifm": feature_map(height, width, depth),
        "ofm": feature_map(height, width, depth),
        "block": block,
        "shram": ShramLayout(10, 14),
        "activation": FULL_RANGE,
        "scale": Scale(),
        "kernel": KernelWindow(),
        "mode": PoolingMode.AVERAGE,
    }
    return Pooling(**(values | fields))


def addition(height: int, width: int, depth: int, block: Block, **fields: Any) -> Elementwise:
    """ADD of two maps of one shape."""
    values: dict[str, Any] = {
        "ifm": feature_map(height, width, depth),
        "ifm2": feature_map(height, width, depth),
        "ofm": feature_map(height, width, depth),
        "block": block,
        "shram": ShramLayout(16, 22, 9),
        "activation": FULL_RANGE,
        "scale": Scale(),
        "mode": ElementwiseMode.ADD,
    }
    return Elementwise(**(values | fields))


def transfer(length_bytes: int, *, source: int | None = 0, destination: int | None = 1) -> Dma:
    """A contiguous transfer between regions (None: SHRAM)."""
    return Dma(source=DmaSide(source, 0), destination=DmaSide(destination, 0), length_bytes=length_bytes)
