"""Which register writes of a stream no operation ever sees: the only place that follows single writes.

A write counts as seen when an operation that reads its register starts before the register is written again. What each
operation reads says its family. That a register is set again to the value it holds is no matter as
long as an operation reads it: compilers may set all registers of an operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from npu.hardware.variant import Variant
from npu.isa.command import CommandKind
from npu.isa.decode import RawCommand, read_commands
from npu.isa.decoded import Decoded
from npu.isa.families import family_of
from npu.isa.operations import Dma, Elementwise, KernelOperation, Operation, Pooling, Stop
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class UnreadWrite:
    """A write that nothing sees, and the one that writes the register again, None at the stream's end."""

    write: RawCommand
    overwrite: RawCommand | None


def unread_writes(words: npt.NDArray[np.uint32], decoded: Sequence[Decoded], variant: Variant) -> Iterator[UnreadWrite]:
    """Writes that no operation sees, in the order in which that shows. `decoded` are the operations of `words`."""
    operations = {one.command_index: one.operation for one in decoded}
    pending: dict[str, RawCommand] = {}
    for command in read_commands(words, variant.accelerator.product):
        name = command.command.name
        if command.command.kind is CommandKind.OPERATION:
            for register in _read_by(operations[command.command_index], variant):
                pending.pop(register, None)
            continue
        earlier = pending.get(name)
        if earlier is not None:
            yield UnreadWrite(earlier, command)
        pending[name] = command
    for command in pending.values():
        yield UnreadWrite(command, None)


def _read_by(operation: Operation, variant: Variant) -> Iterator[str]:
    """Registers that an operation reads, and those that belong to its kind though a mode of it may not use them.

    Vela writes the upscaling for every kernel, both scales of ADD and SUB where one operand is scaled alone, an OFM scale for
    operations that do not scale, and for Ethos-U85 the rows of every transfer.
    """
    family = family_of(variant.accelerator.product)
    yield from (register.name for register in family.registers_read_by(operation, variant.accelerator))
    if isinstance(operation, KernelOperation):
        yield "NPU_SET_IFM_UPSCALE"
    if isinstance(operation, Pooling | Elementwise):
        yield "NPU_SET_OFM_SCALE"
    if isinstance(operation, Elementwise) and operation.mode.scales_operands:
        yield "NPU_SET_OPB_SCALE"
    if isinstance(operation, Dma):
        yield "NPU_SET_DMA0_SIZE0"
    if isinstance(operation, Stop):
        yield "NPU_SET_PARALLEL_MODE"  # a mode of the whole stream, which may hold transfers only
