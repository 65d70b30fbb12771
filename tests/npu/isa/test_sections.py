"""Which registers an operation reads: all of them are in the table once, and each field holds an attribute of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import get_args

import pytest

from npu.hardware.catalogue import load_variant
from npu.isa import commands
from npu.isa.command import Command, CommandKind
from npu.isa.commands import COMMANDS, OPERATIONS
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.operations import Dma, DmaSide, DmaStride, Operation
from npu.isa.sections import SECTIONS

REGISTERS = [command for command in COMMANDS if command.kind is not CommandKind.OPERATION]


def test_every_register_is_in_one_section() -> None:
    assert Counter(register.name for section in SECTIONS for register in section.registers) == Counter(
        command.name for command in REGISTERS
    )


def test_no_two_fields_hold_the_same_attribute() -> None:
    held = Counter(field.holds for command in REGISTERS for field in command.fields)
    assert [path for path, count in held.items() if count > 1] == []


def test_every_operation_has_one_kick_off() -> None:
    assert sorted(command.starts.__name__ for command in OPERATIONS if command.starts) == sorted(
        kind.__name__ for kind in get_args(Operation)
    )


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_search_for_a_name_finds_its_declaration(command: Command) -> None:
    assert Path(str(commands.__file__)).read_text().count(f'"{command.name}"') == 1


TRANSFERS = {
    "bytes": (DmaStride.CONTIGUOUS, set()),
    "rows": (DmaStride.ROWS, {"NPU_SET_DMA0_SIZE0", "NPU_SET_DMA0_SKIP0"}),
    "planes": (
        DmaStride.PLANES,
        {"NPU_SET_DMA0_SIZE0", "NPU_SET_DMA0_SKIP0", "NPU_SET_DMA0_SIZE1", "NPU_SET_DMA0_SKIP1"},
    ),
}


@pytest.mark.parametrize("case", TRANSFERS)
def test_a_transfer_reads_sizes_of_the_dimensions_that_it_strides_over(case: str) -> None:
    stride, sizes = TRANSFERS[case]
    transfer = Dma(source=DmaSide(0, 0), destination=DmaSide(1, 0, stride), length_bytes=16)
    read = {register.name for register in ETHOS_U55_U65.registers_read_by(transfer, load_variant("ethos-u65-256").accelerator)}
    assert read == sizes | {
        "NPU_SET_DMA0_SRC_REGION",
        "NPU_SET_DMA0_SRC",
        "NPU_SET_DMA0_DST_REGION",
        "NPU_SET_DMA0_DST",
        "NPU_SET_DMA0_LEN",
    }
