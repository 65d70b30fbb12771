"""What the products of one NPU family share, and another family does differently.

A family is a module beside `npu.isa.ethos_u55_u65` that fills one `Family`, and an entry in `npu.isa.families`. What it does
not say is shared: the records of operations, and how values are rounded.
Differences between products of a family are fields of the hardware description (`npu.hardware.variant`), not of this record.
How many cycles things take follows from both through `npu.machine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npu.errors import StreamError
from npu.hardware.variant import Accelerator, Product, Variant
from npu.isa.command import Command
from npu.isa.operations import (
    Block,
    Convolution,
    Elementwise,
    ElementwiseMode,
    Operation,
    Pooling,
    PoolingMode,
    ShramLayout,
)
from npu.isa.scale_records import RecordPlace
from npu.isa.shram import BufferProblem
from npu.isa.weight_stream.encode import Encoder
from npu.isa.weight_stream.order import WeightOrder, WeightShape
from npu.isa.weight_stream.use import WeightUse
from npu.machine.buffers import BufferRule
from npu.numerics.arrays import Ints
from npu.records import dataclass

if TYPE_CHECKING:
    from npu.isa.weight_stream.decode import GroupedStream, GroupedStreams, GroupedWeights


AttributeValues = Mapping[str, Any]
"""Attributes by the path that the command table gives them."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """The memories inside the accelerator that hold what an operation works on."""

    rule: Callable[[BufferProblem, Block | None, Variant, int], BufferRule]
    """What decides whether the buffers of so many blocks find room, by the micro-block if operations choose one."""
    layout: Callable[[BufferProblem, Block, Variant], ShramLayout | None]
    """Where the buffers of a block lie in the memory that they share; None if they find no room."""
    deepest: Callable[[Variant], int]
    """Channels of the deepest micro-block."""
    halves: tuple[int, ...]
    """How many blocks there should be room for at the same time, and what does if there is not."""
    micro_blocks: Callable[[BufferProblem, Variant], Sequence[Block]] | None = None
    """Those that an operation may have, if it has a choice."""


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Compressed weights, and how they are decoded."""

    decode: Callable[[Accelerator, WeightUse, WeightShape, Sequence[npt.NDArray[np.uint8]]], npt.NDArray[np.int16]]
    """Weights (O, KH, KW, I) from all streams. StreamError if they do not fit."""
    known_cores: CoreConstants | None = None

    @property
    def of_cores(self) -> CoreConstants:
        """The constants of each core, for those who decode many at once. StreamError if no such code exists."""
        if self.known_cores is None:
            raise StreamError("weights: those of this NPU are decoded one operation at a time")
        return self.known_cores


@dataclass(frozen=True, slots=True)
class CoreConstants:
    """The weights and scale records of one core: their order, and how those of many operations are decoded together."""

    order: Callable[[Accelerator, WeightUse, int], WeightOrder]
    grouped: Callable[[WeightShape, WeightOrder, Ints, int], GroupedWeights]
    streams: Callable[[Sequence[GroupedWeights], Ints, Ints, Ints, Ints], GroupedStreams]
    """Of the `GroupedWeights` of these numbers: where and how long they are, and where their groups go."""
    decode_groups: Callable[[Sequence[GroupedStream] | GroupedStreams, int], npt.NDArray[np.bool_]]
    """Decode weights of at most 8 bits into groups of 16 channels, on so many threads; False for streams that have others."""
    decode_scales_at: Callable[[Sequence[RecordPlace] | Ints, int], tuple[Ints, Ints, Ints]]
    """Of records at machine addresses."""


@dataclass(frozen=True, slots=True)
class ConstantWriter:
    """How the constants of an operation are written: weight streams, and blocks of scale records.

    Block k of so many has the records of every so manyth channel from channel k on.
    """

    encode: Encoder
    stand_in: Encoder
    """As many bytes as `encode` is expected to give, made faster, where a stream is needed for its size alone."""
    encode_scales: Callable[[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, int], bytes]
    """Of biases, scales and shifts, by the bits of the IFM."""
    symbols: Callable[[Accelerator, WeightUse, WeightShape], tuple[int, int]]
    """Output channels in all streams of an operation, and weights of each, with the zeros that fill them up."""
    weight_streams: Callable[[Accelerator, int], int]
    """Streams of the weights of so many channels."""
    scale_blocks: Callable[[Accelerator, int], int]
    """Blocks of the records of so many channels."""


@dataclass(frozen=True, slots=True)
class RegisterSection:
    """Registers that the same operations read, in the order in which they are written."""

    reader: type
    """Of records of operations."""
    registers: tuple[Command, ...]
    is_needed: Callable[[Any], bool] | None = None
    """Whether one of these records reads them; None if all do."""
    cores: int = 1
    """An accelerator with fewer cores does not have them."""

    def is_read_by(self, operation: Operation) -> bool:
        """Whether a kick-off of the operation reads them."""
        return isinstance(operation, self.reader) and (self.is_needed is None or self.is_needed(operation))

    def is_in(self, accelerator: Accelerator) -> bool:
        """Whether an accelerator has the registers."""
        return accelerator.cores >= self.cores and all(accelerator.product in one.products for one in self.registers)


@dataclass(frozen=True, slots=True)
class ScaleFormat:
    """Bias, scale and shift of output channels in memory."""

    record_bytes: int
    decode: Callable[[npt.NDArray[np.uint8], int, int], tuple[Ints, Ints, Ints]]
    """Of so many channels, by the bits of the IFM."""


@dataclass(frozen=True, slots=True)
class FamilyArithmetic:
    """Numbers of what operations compute. How they round is said by the kernels of `sim.functional` and `npu.numerics`."""

    operand_shifts: Mapping[int, int]
    """By bits of the inputs: how far ADD and SUB shift an operand left before its scale."""
    unscaled_bits: int
    """Width of inputs that have no zero point and are never multiplied by a scale."""
    table_slot_bytes: int
    """From one table of the LUT to the next."""
    scale_bits: int
    """Those of a scale of the OFM, and of a channel whose IFM has 8 bits."""
    wide_scale_bits: int
    """Those of the scale of a channel whose IFM has 16 bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A family of NPUs."""

    products: Mapping[Product, str]
    """Its products, and their names in tables."""
    architecture_id: int
    """ID word of the payload of its command streams."""
    stream_version: int
    """Of the command stream, in the configuration word."""
    commands: tuple[Command, ...]
    """The command stream; a command names those of the products that have it."""
    sections: tuple[RegisterSection, ...]
    """All registers, each once, in the order in which they are written before a kick-off."""
    start: Callable[[Command, AttributeValues, AttributeValues, Variant], Operation]
    """The operation that a command kicks off, from what its own fields and the registers hold; StreamError if there is none."""
    check: Callable[[Operation, Variant], None]
    """StreamError if an operation cannot be written."""
    buffers: Buffers
    weights: WeightFormat
    scales: ScaleFormat
    constants: ConstantWriter
    arithmetic: FamilyArithmetic
    chosen: Callable[[Operation, Block | None], Operation] | None = None
    """The operation, with this micro-block if it has one, that computes what one of Ethos-U55 does; None where it is that."""
    hold: Callable[[Operation], AttributeValues] | None = None
    """What registers and the fields of kick-offs hold for an operation; None where that is its own attributes."""
    has_fixed_places: bool = True
    """Whether each register says the place of one map or constant of an operation, so that streams can be read in columns."""
    by_name: Mapping[str, Command] = field(init=False, repr=False)
    kick_offs: Mapping[type, Command] = field(init=False, repr=False)
    """The command that starts a record of an operation."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {command.name: command for command in self.commands})
        starts = {command.starts: command for command in self.commands if command.starts is not None}
        object.__setattr__(self, "kick_offs", starts)

    def has(self, kind: type) -> bool:
        """Whether a command starts records of such operations."""
        return kind in self.kick_offs

    @property
    def transposes(self) -> bool:
        """Whether the axes of an OFM can be stored in another order."""
        return any(one.holds == "options.transpose" for command in self.commands for one in command.fields)

    @property
    def scales_each_operand(self) -> bool:
        """Whether both operands of an elementwise operation have a scale, or what is negative and what is not."""
        return "NPU_SET_IFM2_SCALE" in self.by_name

    @property
    def repeats_both_operands(self) -> bool:
        """Whether an elementwise operation can repeat its IFM along an axis, too."""
        return "NPU_SET_IFM_BROADCAST" in self.by_name

    @property
    def multiplies_maps(self) -> bool:
        """Whether a convolution can have its weights in IFM2."""
        return any(one.holds == "has_ifm2_weights" for one in self.kick_offs[Convolution].fields)

    @property
    def compares(self) -> bool:
        """Whether an elementwise operation can compare numbers of any width."""
        (mode,) = (one for one in self.kick_offs[Elementwise].fields if one.enum is ElementwiseMode)
        return ElementwiseMode.CMP_EQ in mode.members()

    @property
    def gathers(self) -> bool:
        """Whether other data can number the rows of a transfer."""
        return any(one.holds == "indices.address" for command in self.commands for one in command.fields)

    @property
    def finds_places(self) -> bool:
        """Whether a pooling can say where the largest element of its window is."""
        (mode,) = (one for one in self.kick_offs[Pooling].fields if one.enum is PoolingMode)
        return PoolingMode.ARGMAX_X in mode.members()

    def registers_read_by(self, operation: Operation, accelerator: Accelerator) -> Iterator[Command]:
        """Commands of all registers that `operation` reads on an accelerator."""
        read = (one for one in self.sections if one.is_in(accelerator) and one.is_read_by(operation))
        return (register for section in read for register in section.registers)

    def largest(self, name: str, product: Product) -> int:
        """The largest number that a register of one field can say."""
        (only,) = self.by_name[name].fields
        return only.limits(product)[1]
