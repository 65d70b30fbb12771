"""What the records of operations say of themselves."""

from __future__ import annotations

import pytest

from npu.isa.operations import ElementType

LIMITS = {
    "uint8": (ElementType(8, False), (0, 255), (0, 65535)),
    "int8": (ElementType(8, True), (-128, 127), (-32768, 32767)),
    "uint16": (ElementType(16, False), (0, 65535), (0, 65535)),
    "int16": (ElementType(16, True), (-32768, 32767), (-32768, 32767)),
    "int32": (ElementType(32, True), (-(1 << 31), (1 << 31) - 1), (-32768, 32767)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_type_knows_its_values_and_what_its_registers_hold(name: str) -> None:
    element, values, registers = LIMITS[name]
    assert (element.minimum, element.maximum) == values
    assert element.register_limits == registers
    assert str(element) == name
