"""Which registers an operation reads: all of them are in the table once, and each field holds an attribute of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from npu.hardware.catalogue import load_variant
from npu.isa import command_maker, commands
from npu.isa.command import Command, CommandKind
from npu.isa.commands import COMMANDS
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.ethos_u85 import commands as commands_of_ethos_u85
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.family import Family
from npu.isa.operations import Dma, DmaSide, DmaStride, Operation, Resizing

TABLES = (commands, commands_of_ethos_u85)
REGISTERS = [command for command in COMMANDS if command.kind is not CommandKind.OPERATION]


@pytest.mark.parametrize("family", [ETHOS_U55_U65, ETHOS_U85], ids=["u55-u65", "u85"])
def test_every_register_is_in_one_section(family: Family) -> None:
    registers = (command.name for command in family.commands if command.kind is not CommandKind.OPERATION)
    assert Counter(register.name for section in family.sections for register in section.registers) == Counter(registers)


def test_no_two_fields_hold_the_same_attribute() -> None:
    held = Counter(field.holds for command in REGISTERS for field in command.fields)
    assert [path for path, count in held.items() if count > 1] == []


@pytest.mark.parametrize(("table", "lacks"), [(commands, {Resizing}), (commands_of_ethos_u85, set())], ids=["u55-u65", "u85"])
def test_every_operation_has_one_kick_off(table: ModuleType, lacks: set[type]) -> None:
    started = [command.starts for command in table.OPERATIONS if command.starts]
    assert len(started) == len(set(started))
    assert set(started) == set(get_args(Operation)) - lacks


@pytest.mark.parametrize(
    ("table", "command"),
    [pytest.param(table, command, id=f"{table.__name__}-{command.name}") for table in TABLES for command in table.COMMANDS],
)
def test_a_search_for_a_name_finds_its_declaration(table: ModuleType, command: Command) -> None:
    declarations = [Path(str(module.__file__)).read_text().count(f'"{command.name}"') for module in (table, command_maker)]
    assert sum(declarations) == 1


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
