"""The command table: against the register definitions that ship with Vela, and every word of every field."""

from __future__ import annotations

import pytest
from ethosu.vela.ethos_u55_regs.ethos_u55_regs import cmd0, cmd1
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.hardware.variant import Product
from npu.isa.command import AS_IT_IS, ELEMENT_BITS, FLAG, MINUS_ONE, PATTERN, Command, signed_pattern
from npu.isa.commands import COMMANDS
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.family import Family

EVERY = [*COMMANDS, *ETHOS_U85.commands]
PAIRS = [(command, product) for command in EVERY for product in Product if product in command.products]
NAMES = [f"{command.name}-{product.name}" for command, product in PAIRS]
OF_EVERY = pytest.mark.parametrize(
    "command", EVERY, ids=lambda command: f"{command.name}-{max(product.name for product in command.products)}"
)


def test_names_and_opcodes_are_those_of_vela() -> None:
    """Vela's table is of architecture 1.0.6, which is Ethos-U55 and Ethos-U65."""
    expected = {(entry.name, entry.value, False) for entry in cmd0} | {(entry.name, entry.value, True) for entry in cmd1}
    assert {(command.name, command.opcode, command.is_wide) for command in COMMANDS} == expected


@OF_EVERY
def test_no_two_fields_of_a_command_overlap(command: Command) -> None:
    bits = [bit for field in command.fields for bit in field.bits]
    assert len(bits) == len(set(bits))
    assert all(0 <= bit < (48 if command.is_wide else 16) for bit in bits)


@pytest.mark.parametrize("family", [ETHOS_U55_U65, ETHOS_U85], ids=["u55-u65", "u85"])
def test_no_two_commands_share_an_opcode(family: Family) -> None:
    opcodes = {(command.opcode, command.is_wide) for command in family.commands}
    assert len(opcodes) == len(family.commands) == len(family.by_name)


@pytest.mark.parametrize(("command", "product"), PAIRS, ids=NAMES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_field_value_survives_the_words(command: Command, product: Product, data: st.DataObject) -> None:
    values = {}
    for field in command.fields:
        low, high = field.limits(product)
        choices = st.integers(low, high) if field.enum is None else st.sampled_from([int(member) for member in field.members()])
        values[field.name] = data.draw(choices, label=field.name)
    words = command.words(command.operand(values, product))
    opcode, zeros, further_words, parameter = words[0] & 0x3FF, words[0] >> 10 & 0xF, words[0] >> 14 & 3, words[0] >> 16
    assert (opcode, zeros, further_words) == (command.opcode, 0, len(words) - 1)
    operand = parameter << 32 | words[1] if command.is_wide else parameter
    assert command.values(operand, product) == values


@pytest.mark.parametrize(("command", "product"), PAIRS, ids=NAMES)
def test_values_beside_the_range_are_refused_with_field_range_and_value(command: Command, product: Product) -> None:
    low_values = {field.name: field.limits(product)[0] for field in command.fields}
    for field in command.fields:
        for value in (field.limits(product)[0] - 1, field.limits(product)[1] + 1):
            with pytest.raises(StreamError, match=rf"{command.name}: {field.name} must be (in \[.*\]|one of .*), got {value}$"):
                command.operand(low_values | {field.name: value}, product)


@OF_EVERY
def test_every_reserved_bit_is_refused(command: Command) -> None:
    for bit in range(48 if command.is_wide else 16):
        if not command.used_bits >> bit & 1:
            with pytest.raises(StreamError, match=r"reserved bits must be zero"):
                command.values(1 << bit, max(command.products, key=lambda product: product.value))


WRITTEN_OUT = {
    "pad_bottom": ("NPU_SET_IFM_PAD_BOTTOM", {"value": 5}, (0x00050103,)),
    "scattered_stride_3_part_kernel": (
        "NPU_SET_KERNEL_STRIDE",
        {"stride_x_m1": 2, "stride_y_m1": 2, "traversal": 1, "dilation_x_m1": 0, "dilation_y_m1": 0, "decomposition": 0},
        (0x02440122,),
    ),
    "address_40_bits": ("NPU_SET_OFM_BASE1", {"value": 0xAB_1234_5678}, (0x00AB4011, 0x12345678)),
    "negative_stride": ("NPU_SET_OFM_STRIDE_Y", {"value": -512}, (0x00FF4015, 0xFFFFFE00)),
    "scale_and_shift": ("NPU_SET_OFM_SCALE", {"scale": 0x51EB854C, "shift": 38}, (0x00264024, 0x51EB854C)),
    "lut_3_forced_int8": ("NPU_SET_ACTIVATION", {"function": 19, "clip_range": 3}, (0x30130125,)),
    "dma_to_shram": ("NPU_SET_DMA0_DST_REGION", {"region": 3, "target": 1, "stride_mode": 0}, (0x01030131,)),
}


@pytest.mark.parametrize("case", WRITTEN_OUT)
def test_words_are_as_written_out(case: str) -> None:
    name, values, words = WRITTEN_OUT[case]
    command = ETHOS_U55_U65.by_name[name]
    assert command.words(command.operand(values, Product.ETHOS_U65)) == words


def test_unknown_enum_value_is_refused_by_name() -> None:
    with pytest.raises(
        StreamError, match=r"NPU_OP_POOL: mode must be one of 0 \(MAX\), 1 \(AVERAGE\), 2 \(REDUCE_SUM\), got 3"
    ):
        ETHOS_U55_U65.by_name["NPU_OP_POOL"].values(3, Product.ETHOS_U55)


def test_missing_and_surplus_fields_are_refused() -> None:
    with pytest.raises(StreamError, match=r"NPU_SET_OFM_SCALE: fields must be scale, shift, got scale"):
        ETHOS_U55_U65.by_name["NPU_SET_OFM_SCALE"].operand({"scale": 1}, Product.ETHOS_U55)


def test_u65_registers_may_only_be_zero_on_u55() -> None:
    command = ETHOS_U55_U65.by_name["NPU_SET_WEIGHT1_LENGTH"]
    assert command.values(0, Product.ETHOS_U55) == {"value": 0}
    with pytest.raises(StreamError, match=r"must be 0 on ETHOS_U55, which does not have it, got 0x10"):
        command.values(16, Product.ETHOS_U55)
    with pytest.raises(StreamError, match=r"must be 0 on ETHOS_U55, which does not have it, got 0x10"):
        command.operand({"value": 16}, Product.ETHOS_U55)


def test_addresses_above_32_bits_are_refused_on_u55() -> None:
    command = ETHOS_U55_U65.by_name["NPU_SET_IFM_BASE0"]
    with pytest.raises(StreamError, match=r"value must fit in 32 bits on ETHOS_U55, got 0x100000000"):
        command.values(1 << 32, Product.ETHOS_U55)
    assert command.values(1 << 32, Product.ETHOS_U65) == {"value": 1 << 32}


def test_a_32_bit_stride_is_negative_on_u55_with_and_without_sign_copies() -> None:
    command = ETHOS_U55_U65.by_name["NPU_SET_OFM_STRIDE_Y"]
    assert command.values(0xFFFFFE00, Product.ETHOS_U55) == command.values(0xFF_FFFF_FE00, Product.ETHOS_U55) == {"value": -512}
    with pytest.raises(StreamError, match=r"must fit in 32 bits"):
        command.values(0x7F_FFFF_FE00, Product.ETHOS_U55)


@pytest.mark.parametrize("product", list(ETHOS_U55_U65.products))
def test_a_sign_may_fill_the_whole_parameter_of_a_stride(product: Product) -> None:
    """As in the mirrored maps of Vela 3 and 4, whose Python writes `(stride >> 32) & 0xFFFF`."""
    command = ETHOS_U55_U65.by_name["NPU_SET_OFM_STRIDE_Y"]
    assert command.values(0xFFFF_FFFF_FE00, product) == {"value": -512}
    for operand in (0xFF7F_FFFF_FE00, 0xFE00_0000_0000, 0x80FF_FFFF_FE00, 0xFF00_FFFF_FE00):
        with pytest.raises(StreamError, match="reserved bits must be zero"):
            command.values(operand, product)
    with pytest.raises(StreamError, match="reserved bits must be zero"):
        ETHOS_U55_U65.by_name["NPU_SET_OFM_BASE0"].values(0xFFFF_FFFF_FE00, product)


CODES = {
    "as_it_is": (AS_IT_IS, range(0, 300)),
    "minus_one": (MINUS_ONE, range(1, 300)),
    "flag": (FLAG, (False, True)),
    "element_bits": (ELEMENT_BITS, (8, 16, 32)),
}


@pytest.mark.parametrize("case", CODES)
def test_a_code_gives_back_the_attribute(case: str) -> None:
    code, attributes = CODES[case]
    for attribute in attributes:
        assert code.to_attribute(code.to_field(attribute)) == attribute
        assert code.offset is None or attribute == code.to_field(attribute) + code.offset


def test_a_pattern_is_signed_by_its_reader() -> None:
    assert [signed_pattern(PATTERN.to_field(value)) for value in (-32768, -1, 0, 32767)] == [-32768, -1, 0, 32767]
    assert PATTERN.to_field(65535) == 65535
