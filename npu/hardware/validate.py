"""What values a hardware description may hold: field ranges, and the sums that must hold between fields.

The only place with these limits. `npu.hardware.build` applies the ranges, the loader calls `check_variant` once at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from npu.errors import ConfigError
from npu.hardware.variant import (
    MAX_CORES,
    Accelerator,
    Cpu,
    Memory,
    MemoryMode,
    OutputCycles,
    PipelineTiming,
    Port,
    Product,
    Shram,
    ShramGranules,
    Size,
    System,
    TimingAdapter,
    Variant,
)
from npu.layouts import BRICK_DEPTH

NumberRange = tuple[float, float]
Where = Callable[[str], str]
"""Gives a dotted key with its place, for the message."""

IFM_BLOCK_DEPTH = 16
"""IFM channels of the smallest block in which the MAC array takes weights; micro-blocks must fill it."""

LAST_BANK = 63
"""Of the end of the buffers: registers that hold a bank have 6 bits."""

LARGEST_BLOCK = {Product.ETHOS_U55: (32, 64, 128), Product.ETHOS_U65: (32, 64, 128), Product.ETHOS_U85: (128, 128, 1024)}
"""Height, width and depth of the largest OFM block that the registers of a command stream can hold."""

LARGEST_BLOCKDEP = {Product.ETHOS_U55: 3, Product.ETHOS_U65: 3, Product.ETHOS_U85: 7}
"""The same of BLOCKDEP."""

_WITH_APART_BUFFERS = {Product.ETHOS_U85}
"""Products whose buffers have memories of their own, instead of banks of one that they share."""

_ANY: NumberRange = (0, 2**48)
_POSITIVE: NumberRange = (1, 2**31)
_DELAY: NumberRange = (0, 1_000_000)
"""Cycles of a single wait: so long that nothing real is refused, so short that the time of a network fits 64 bits."""
_OUTPUT: NumberRange = (0, 10_000)
"""Cycles of the output unit per element."""
_SLOTS: NumberRange = (0, 65536)

RANGES: dict[tuple[type, str], NumberRange] = {
    (Size, "height"): (1, 65536),
    (Size, "width"): (1, 65536),
    (Size, "depth"): (1, 65536),
    (Accelerator, "macs_per_cycle"): (8, 65536),
    (Accelerator, "cores"): (1, 2),
    (Accelerator, "dot_product_width"): (8, 8),
    (Accelerator, "max_outstanding_dma"): (1, 15),
    (Accelerator, "max_outstanding_kernels"): (1, 3),
    (Accelerator, "max_blockdep"): (0, 7),
    (Accelerator, "address_bits"): (32, 40),
    (Accelerator, "axi_data_bytes"): (1, 64),
    (Accelerator, "max_kernel_stride"): (1, 4),
    (Accelerator, "max_dilation"): (1, 2),
    (Accelerator, "max_kernel_height"): (1, 65536),
    (Accelerator, "max_kernel_elements"): (1, 65536),
    (Accelerator, "weight_decoders"): (1, 4),
    (Accelerator, "sram_ports"): (1, 4),
    (Accelerator, "ext_ports"): (1, 2),
    (Accelerator, "accumulator_buffer_bytes"): (0, 2**24),
    (Accelerator, "output_buffer_bytes"): (0, 2**24),
    (Accelerator, "chaining_buffer_bytes"): (0, 2**24),
    (Memory, "ports"): (1, 4),
    (PipelineTiming, "ifm_buffer_bytes"): (0, 2**24),
    (PipelineTiming, "scale_window_bytes"): (0, 2**20),
    (PipelineTiming, "dma_window_bytes"): (0, 2**20),
    (Shram, "banks"): (1, 64),
    (Shram, "bank_bytes"): (1024, 1024),
    (Shram, "reserved_output_banks"): (0, 254),
    (Shram, "reserved_lut_banks"): (0, 254),
    (Shram, "lut_bytes"): (1024, 2048),
    (PipelineTiming, "ublock_mac_cycles"): (1, 64),
    (PipelineTiming, "weights_per_cycle"): (1, 4096),
    (PipelineTiming, "weight_decode_bits_per_cycle"): (1, 65536),
    (PipelineTiming, "pooling_16_bit_factor"): (1, 4),
    (PipelineTiming, "port_beat_cycles"): (0.01, 1000),
    (PipelineTiming, "nhwc_operand_factor"): (0.01, 1000),
    (PipelineTiming, "burst_hold_fraction"): (0, 1),
    (PipelineTiming, "max_burst_bytes"): (8, 256),
    (PipelineTiming, "weight_window_bytes"): (16, 2**20),
    (PipelineTiming, "bubble_cycles"): _DELAY,
    (PipelineTiming, "bubble_cycles_40_bit"): _DELAY,
    (PipelineTiming, "operation_overhead_cycles"): _DELAY,
    (PipelineTiming, "weight_switch_cycles"): _DELAY,
    (PipelineTiming, "core_input_bytes_per_cycle"): (0, 65536),
    (PipelineTiming, "command_cycles_per_word"): _DELAY,
    (PipelineTiming, "dma_setup_cycles"): _DELAY,
    (Memory, "clock_scale"): (1e-6, 64),
    (Memory, "burst_bytes"): (8, 4096),
    (Memory, "read_latency_cycles"): _DELAY,
    (Memory, "write_latency_cycles"): _DELAY,
    (Memory, "max_outstanding_reads"): _SLOTS,
    (Memory, "max_outstanding_writes"): _SLOTS,
    (TimingAdapter, "max_outstanding_reads"): _SLOTS,
    (TimingAdapter, "max_outstanding_writes"): _SLOTS,
    (TimingAdapter, "read_latency_cycles"): _DELAY,
    (TimingAdapter, "write_latency_cycles"): _DELAY,
    (TimingAdapter, "pulse_on_cycles"): (1, _DELAY[1]),
    (TimingAdapter, "pulse_off_cycles"): _DELAY,
    (TimingAdapter, "beats_per_window"): (0, 2**31),
    (System, "clock_hz"): (1_000_000, 10_000_000_000),
    (MemoryMode, "arena_cache_bytes"): (1024, 2**40),
    (Cpu, "clock_hz"): (1_000_000, 10_000_000_000),
    (Cpu, "cycles_per_mac"): _DELAY,
    (Cpu, "cycles_per_element"): _DELAY,
    (Cpu, "job_start_cycles"): (0, 10**9),
    (Cpu, "interrupt_cycles"): (0, 10**9),
    (Cpu, "copy_cycles_per_byte"): _DELAY,
    (Cpu, "cache_cycles_per_line"): _DELAY,
    (Cpu, "relative_error"): (0, 10),
    (Cpu, "cache_line_bytes"): (0, 1024),
}
"""Inclusive range of a numeric field; fields that are not here must be in [0, 2^48]."""


def field_range(owner: type, name: str) -> NumberRange:
    """Inclusive range of a numeric field of a hardware record."""
    if owner is ShramGranules:
        return _POSITIVE
    if owner is OutputCycles:
        return _OUTPUT
    return RANGES.get((owner, name), _ANY)


def check_variant(variant: Variant, where: Where) -> None:
    """ConfigError, naming the dotted key, if two fields of the description contradict each other."""
    _check_array(variant.accelerator, where)
    _check_shram(variant, where)
    _check_registers(variant.accelerator, where)
    _check_ports(variant, where)
    _check_bursts(variant, where)
    if variant.cpu.cache_line_bytes:
        _check_power_of_two(variant.cpu.cache_line_bytes, "cpu.cache_line_bytes", where)
    if "default" not in variant.cpu.cycles_per_mac or "default" not in variant.cpu.cycles_per_element:
        raise ConfigError(f"{where('cpu')}: cycles_per_mac and cycles_per_element must each hold an entry 'default'")


def _check_power_of_two(value: int, key: str, where: Where) -> None:
    if value & (value - 1):
        raise ConfigError(f"{where(key)}: must be a power of two, got {value}")


def _check_bursts(variant: Variant, where: Where) -> None:
    """A burst is a number of whole beats, and ends at a multiple of its length."""
    beat = variant.accelerator.axi_data_bytes
    bursts = {
        f"system.memories.{port.value}.burst_bytes": memory.burst_bytes for port, memory in variant.system.memories.items()
    }
    for key, value in {"timing.max_burst_bytes": variant.timing.max_burst_bytes, **bursts}.items():
        _check_power_of_two(value, key, where)
        if value < beat:
            raise ConfigError(f"{where(key)}: must be at least accelerator.axi_data_bytes ({beat}), got {value}")


def _check_array(accelerator: Accelerator, where: Where) -> None:
    macs = accelerator.macs_per_cycle
    product = accelerator.ofm_ublock.elements * accelerator.dot_product_width * accelerator.cores
    _check_power_of_two(macs, "accelerator.macs_per_cycle", where)
    if product != macs:
        raise ConfigError(
            f"{where('accelerator.macs_per_cycle')}: must be ofm_ublock elements ({accelerator.ofm_ublock.elements}) x "
            f"dot_product_width ({accelerator.dot_product_width}) x cores ({accelerator.cores}) = {product}, got {macs}"
        )
    _check_power_of_two(accelerator.axi_data_bytes, "accelerator.axi_data_bytes", where)
    for axis, largest in zip(("height", "width", "depth"), LARGEST_BLOCK[accelerator.product], strict=True):
        if getattr(accelerator.max_block, axis) > largest:
            raise ConfigError(
                f"{where(f'accelerator.max_block.{axis}')}: must be at most {largest}, which the block registers hold, "
                f"got {getattr(accelerator.max_block, axis)}"
            )
        block, ublock = getattr(accelerator.max_block, axis), getattr(accelerator.ofm_ublock, axis)
        if block % ublock:
            raise ConfigError(
                f"{where(f'accelerator.max_block.{axis}')}: must be a multiple of ofm_ublock.{axis} ({ublock}), got {block}"
            )
    if accelerator.max_block.depth < BRICK_DEPTH:
        raise ConfigError(
            f"{where('accelerator.max_block.depth')}: must be at least the {BRICK_DEPTH} channels of a brick, "
            f"got {accelerator.max_block.depth}"
        )
    for axis in ("height", "width"):
        inner, outer = getattr(accelerator.ifm_ublock, axis), getattr(accelerator.ofm_ublock, axis)
        if inner != outer:
            raise ConfigError(f"{where(f'accelerator.ifm_ublock.{axis}')}: must be that of ofm_ublock ({outer}), got {inner}")
    if IFM_BLOCK_DEPTH % accelerator.ifm_ublock.depth:
        raise ConfigError(
            f"{where('accelerator.ifm_ublock.depth')}: must divide the {IFM_BLOCK_DEPTH} channels of an IFM block, "
            f"got {accelerator.ifm_ublock.depth}"
        )


def _check_registers(accelerator: Accelerator, where: Where) -> None:
    product = accelerator.product
    if accelerator.max_blockdep > LARGEST_BLOCKDEP[product]:
        raise ConfigError(
            f"{where('accelerator.max_blockdep')}: must be in [0, {LARGEST_BLOCKDEP[product]}], which the register of "
            f"{product.name.lower()} holds, got {accelerator.max_blockdep}"
        )
    if accelerator.cores > MAX_CORES[product]:
        raise ConfigError(
            f"{where('accelerator.cores')}: must be at most the {MAX_CORES[product]} that commands of {product.name.lower()} "
            f"address, got {accelerator.cores}"
        )


def _check_shram(variant: Variant, where: Where) -> None:
    shram = variant.shram
    if shram.lut_bytes % shram.bank_bytes:
        raise ConfigError(
            f"{where('shram.lut_bytes')}: must be a multiple of bank_bytes ({shram.bank_bytes}), got {shram.lut_bytes}"
        )
    most = LAST_BANK + shram.reserved_lut_banks
    if shram.banks > most:
        raise ConfigError(
            f"{where('shram.banks')}: must be at most {most}, because the end of the buffers before reserved_lut_banks "
            f"has a register of 6 bits, got {shram.banks}"
        )
    product, granules = variant.accelerator.product, shram.granules
    is_apart = product in _WITH_APART_BUFFERS
    if is_apart is not (granules is None) or is_apart is not (variant.timing.ifm_buffer_bytes > 0):
        raise ConfigError(
            f"{where('shram.granules')}: must be {'left out' if is_apart else 'given'} and timing.ifm_buffer_bytes "
            f"{'above 0' if is_apart else '0'}, because buffers of {product.name.lower()} "
            f"{'have memories of their own' if is_apart else 'share the banks'}, got "
            f"{'none' if granules is None else 'some'} and {variant.timing.ifm_buffer_bytes}"
        )
    if granules is None:
        return
    fixed = shram.reserved_output_banks + max(shram.reserved_lut_banks, shram.lut_bytes // shram.bank_bytes)
    least = fixed + max(granules.ifm_8_bit, granules.ifm_16_bit) + max(granules.accumulator_32_bit, granules.accumulator_40_bit)
    if least > shram.banks:
        raise ConfigError(
            f"{where('shram.banks')}: must hold the output banks, the look-up tables and one granule each of input and "
            f"accumulators ({least} banks), got {shram.banks}"
        )
    for name in ("ifm_8_bit_elementwise", "ifm_16_bit_elementwise", "ifm_32_bit"):
        if getattr(granules, name) > shram.banks - fixed:
            raise ConfigError(
                f"{where(f'shram.granules.{name}')}: must fit the {shram.banks - fixed} banks beside the output banks and the "
                f"look-up tables, got {getattr(granules, name)}"
            )


def _check_ports(variant: Variant, where: Where) -> None:
    mode = variant.memory_mode
    memories = variant.system.memories
    for role in ("constants", "arena", "cache"):
        port: Port = getattr(mode, role)
        if port not in memories:
            raise ConfigError(
                f"{where(f'memory_mode.{role}')}: must be a port that system.memories describes "
                f"({', '.join(sorted(known.value for known in memories))}), got {port.value}"
            )
    for role in ("arena", "cache"):
        port = getattr(mode, role)
        if memories[port].name == "flash":
            raise ConfigError(
                f"{where(f'memory_mode.{role}')}: must be a port whose memory can be written, got {port.value}, which is flash "
                f"in system {variant.system.name}; Shared_Sram and Sram_Only need no other memory than the SRAM"
            )
    for port in variant.system.adapters:
        if port not in memories:
            raise ConfigError(f"{where(f'system.adapters.{port.value}')}: needs a memory on that port, got none")
    if mode.has_separate_cache and mode.cache is mode.arena:
        raise ConfigError(
            f"{where('memory_mode.has_separate_cache')}: must be false when cache and arena are on one port, got true"
        )
    memory = memories[mode.cache]
    if memory.size_bytes and mode.arena_cache_bytes > memory.size_bytes:
        raise ConfigError(
            f"{where('memory_mode.arena_cache_bytes')}: must be at most the {memory.size_bytes} bytes of memory "
            f"'{memory.name}', got {mode.arena_cache_bytes}"
        )
