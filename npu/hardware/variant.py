"""What a hardware variant is: frozen records with units, filled from YAML by `npu.hardware.loader`.

The compiler, the checker and the simulator read the same record, so a changed field changes all three. There is no
"is it a U65?" anywhere: a difference between products is a field here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from npu.errors import ConfigError
from npu.records import dataclass


class Product(Enum):
    """One NPU of a family, of any size: value is the `product` field of the configuration word."""

    ETHOS_U55 = 0
    ETHOS_U65 = 1
    ETHOS_U85 = 2

    __hash__ = object.__hash__  # members are compared by identity; the hash of enumerations takes five times as long


MAX_CORES = {Product.ETHOS_U55: 1, Product.ETHOS_U65: 2, Product.ETHOS_U85: 1}
"""The cores that the commands of a product address."""


class Port(Enum):
    """AXI master port."""

    AXI0 = "axi0"
    AXI1 = "axi1"

    __hash__ = object.__hash__  # every member is one object; that of Enum is Python code


@dataclass(frozen=True, slots=True)
class Size:
    """Height, width and depth in elements."""

    height: int
    width: int
    depth: int

    @property
    def elements(self) -> int:
        return self.height * self.width * self.depth


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The compute part: MAC array, cores and limits of the register fields."""

    product: Product
    """Which commands and fields exist, and what the configuration word says."""
    macs_per_cycle: int
    """8x8-bit multiply-accumulates per cycle, all cores together."""
    cores: int
    """Cores that share the output channels of an operation."""
    ofm_ublock: Size
    """OFM micro-block of one core."""
    ifm_ublock: Size
    """IFM micro-block of one core."""
    dot_product_width: int
    """IFM channels multiplied per MAC lane and cycle (8): ublock elements x this = MACs per cycle and core."""
    max_block: Size
    """Largest OFM block."""
    max_outstanding_dma: int
    """Transfers that may be unfinished before the next one waits."""
    max_outstanding_kernels: int
    """Kernel operations that may be unfinished before the next one waits."""
    max_blockdep: int
    """Largest BLOCKDEP."""
    address_bits: int
    """Width of an address in a command stream; addresses beyond it are refused."""
    has_aligned_dma: bool
    """Whether transfers must begin at, and be as long as, multiples of 16 bytes also outside SHRAM."""
    axi_data_bytes: int
    """Bytes per beat of each AXI port."""
    max_kernel_stride: int
    """Largest stride of a kernel, in each direction."""
    max_dilation: int
    """Largest dilation of a kernel, in each direction."""
    max_kernel_height: int
    """Rows of the highest kernel of a convolution, with its dilation."""
    max_kernel_elements: int
    """Most rows times columns of such a kernel, with their dilations."""
    weight_decoders: int = 1
    """Weight streams of an operation that one core decodes side by side."""
    sram_ports: int = 1
    """AXI ports for `axi0`."""
    ext_ports: int = 1
    """AXI ports for `axi1`."""
    accumulator_buffer_bytes: int = 0
    """Memory of its own for accumulators; 0: they share `shram`."""
    output_buffer_bytes: int = 0
    """Memory of its own for what leaves the output unit: a row of a block of an elementwise operation fits; 0: no limit."""
    chaining_buffer_bytes: int = 0
    """Memory of the maps that operations hand on, and of operands that are repeated along an axis."""


@dataclass(frozen=True, slots=True)
class ShramGranules:
    """Banks that an allocation of each buffer kind is rounded up to."""

    ifm_8_bit: int
    ifm_16_bit: int
    ifm_8_bit_elementwise: int
    ifm_16_bit_elementwise: int
    ifm_32_bit: int
    accumulator_32_bit: int
    accumulator_40_bit: int


@dataclass(frozen=True, slots=True)
class Shram:
    """Memory of one core that transfers reach: the buffers of operations, and the look-up tables behind them."""

    banks: int
    bank_bytes: int
    reserved_output_banks: int
    """Banks at the start that no buffer gets."""
    reserved_lut_banks: int
    """Banks at the end that are kept for look-up tables also where an operation uses none."""
    lut_bytes: int
    """Size of the look-up-table area at the end of the memory."""
    granules: ShramGranules | None = None
    """None: buffers have memories of their own, and tables are all there is here."""

    @property
    def shared_granules(self) -> ShramGranules:
        """`granules`, where buffers share the memory. ConfigError if they do not."""
        if self.granules is None:
            raise ConfigError(
                "shram.granules: must be given where streams are made, got none, as of an NPU whose buffers are apart"
            )
        return self.granules

    @property
    def total_bytes(self) -> int:
        return self.banks * self.bank_bytes

    @property
    def lut_address(self) -> int:
        """SHRAM byte address of look-up table 0."""
        return self.total_bytes - self.lut_bytes


@dataclass(frozen=True, slots=True)
class OutputCycles:
    """Output-unit cycles per OFM element, all cores together."""

    elementwise_32_bit_unary: float
    elementwise_32_bit_binary: float
    mul_32_bit_ofm: float
    mul_or_40_bit_accumulator: float
    add_sub_simple: float
    add_sub: float
    max_pool: float
    other: float
    activation_lut: float
    activation_clamp: float


@dataclass(frozen=True, slots=True)
class PipelineTiming:
    """Constants of the block pipeline. Units in the names; calibrated ones say so in the YAML."""

    ublock_mac_cycles: int
    """MAC-array cycles of one micro-block step (4)."""
    weights_per_cycle: int
    """Weights that the decoder hands to the MAC array per cycle and core (8)."""
    weight_decode_bits_per_cycle: int
    """Compressed bits that the decoder parses per cycle and core."""
    bubble_cycles: int
    """MAC bubble per kernel step when a block is one micro-block wide and high."""
    bubble_cycles_40_bit: int
    """The same with 40-bit accumulators."""
    operation_overhead_cycles: int
    """From when nothing holds a kernel operation up any more to its first input fetch: reconfiguration and pipeline fill."""
    command_cycles_per_word: float
    """Cycles of the parser per command word, beyond the time that the word takes on its port."""
    dma_setup_cycles: int
    """From the hand-over of a transfer to its first read."""
    pooling_16_bit_factor: int
    """MAC-array cycles of a pooling of 16-bit elements, relative to 8-bit ones."""
    output_cycles: OutputCycles
    port_beat_cycles: float = 1.0
    """Cycles per data beat that a port sustains with ideal memory; a little above 1."""
    max_burst_bytes: int = 64
    """Longest AXI burst (the AXI_LIMIT registers as the driver sets them); a memory's own limit applies too."""
    burst_hold_fraction: float = 1.0
    """Part of a burst's data beats for which the burst still occupies one of the outstanding slots."""
    weight_window_bytes: int = 1024
    """Compressed weights that the decoder of one core asks for ahead of their use."""
    dma_window_bytes: int = 0
    """Bytes of a transfer that may be on their way; 0 = as many as its ports take."""
    scale_window_bytes: int = 0
    """Scale records that the output unit asks for ahead of their use; 0 = they never hold it up."""
    weight_switch_cycles: int = 0
    """MAC bubble from one set of weights to the next in blocks larger than one micro-block."""
    core_input_bytes_per_cycle: int = 0
    """Input and weights together that one core takes in per cycle; 0 = as much as the port brings."""
    ifm_buffer_bytes: int = 0
    """Memory that holds IFM blocks, as many as fit; 0: two halves of the shared buffer memory."""
    nhwc_operand_factor: float = 1.0
    """Output cycles of ADD and SUB with an operand in NHWC, relative to operands in NHCWB16."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory behind a port."""

    name: str
    """Role shown in reports: sram, dram or flash."""
    clock_scale: float
    """Words per core clock cycle: bandwidth = axi_data_bytes x clock_scale."""
    burst_bytes: int
    """Longest burst that the memory takes."""
    read_latency_cycles: int
    write_latency_cycles: int
    max_outstanding_reads: int
    """0 = unlimited."""
    max_outstanding_writes: int
    size_bytes: int
    """What the board offers; 0 = not limited."""
    ports: int = 1
    """AXI ports behind which it is; the figures are those of one."""


@dataclass(frozen=True, slots=True)
class TimingAdapter:
    """A latency and bandwidth limiter on one port, as on Corstone-300; replaces the memory's own figures."""

    max_outstanding_reads: int
    max_outstanding_writes: int
    read_latency_cycles: int
    write_latency_cycles: int
    pulse_on_cycles: int
    """First part of a window, in which addresses pass."""
    pulse_off_cycles: int
    """The rest of a window, in which addresses wait."""
    beats_per_window: int
    """Beats admitted per pulse_on + pulse_off window; 0 = no cap."""


@dataclass(frozen=True, slots=True)
class System:
    """Clock and memories: one memory per AXI port, and the adapter in front of it (None = ideal)."""

    name: str
    clock_hz: int
    memories: Mapping[Port, Memory]
    """The memory behind each port."""
    adapters: Mapping[Port, TimingAdapter]
    """The adapter in front of a port; a port without one has the memory's own figures."""


@dataclass(frozen=True, slots=True)
class MemoryMode:
    """Which port holds constants, the arena and the fast cache."""

    name: str
    constants: Port
    arena: Port
    cache: Port
    arena_cache_bytes: int
    """Budget of the fast region (region 2) where it is a memory of its own, else of the arena."""
    has_separate_cache: bool
    """Whether region 2 is a memory of its own."""
    stages_weights: bool
    """Whether weights are copied by DMA ahead of their use."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """Host processor for operators that the NPU does not take."""

    name: str
    clock_hz: int
    cycles_per_mac: Mapping[str, float]
    """Cost of a multiply-accumulate by operator; `default` stands for all others."""
    cycles_per_element: Mapping[str, float]
    """Cost of an element by operator, besides that of multiply-accumulates; `default` stands for all others. Elements are
    those of the output, of the input where whole axes are reduced."""
    job_start_cycles: int
    """CPU cycles from the call of the driver to the first cycle of the NPU job."""
    relative_error: float
    """Stated uncertainty of these figures, 0.5 = 50 %."""
    interrupt_cycles: int = 0
    """CPU cycles from the end of the NPU job to the return of the driver."""
    copy_cycles_per_byte: float = 0.0
    """Cost of copying the model's inputs into the arena and its outputs out of it."""
    cache_line_bytes: int = 0
    """Line of the data cache; 0 = the core has none, so that nothing needs maintenance."""
    cache_cycles_per_line: float = 0.0
    """Cost of cleaning one line before a job (its inputs), or of invalidating one after it (its outputs)."""

    @property
    def cycles_around_job(self) -> int:
        """What the driver takes before and after an NPU job, whatever the job is."""
        return self.job_start_cycles + self.interrupt_cycles


@dataclass(frozen=True, slots=True)
class Variant:
    """Everything that the tools need to know of one target."""

    name: str
    accelerator: Accelerator
    shram: Shram
    timing: PipelineTiming
    system: System
    memory_mode: MemoryMode
    cpu: Cpu
