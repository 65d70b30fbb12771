"""What a command is: fields in an operand, their ranges, and how the attributes of operations stand in them.

`commands.py` is the table of all commands. A command's *operand* is one integer: the 16-bit parameter of a one-word command, or
the 32-bit payload of a two-word command with the parameter above it (bits 32..47). Field positions count in the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum, IntEnum
from typing import Any, NoReturn

from npu.errors import StreamError
from npu.hardware.variant import Product
from npu.records import dataclass

WORD_BITS = 32
_WORD = (1 << WORD_BITS) - 1
_CLASS_SHIFT = 14
PARAMETER_SHIFT = 16
_PATTERNS = 1 << 16


class CommandKind(Enum):
    """What a command does and how many words it has."""

    OPERATION = "operation"
    """One word; kicks off an operation or controls the parser."""
    REGISTER = "register"
    """One word; sets a register to its 16-bit parameter."""
    WIDE_REGISTER = "wide register"
    """Two words; sets a register to payload and parameter."""


@dataclass(frozen=True, slots=True)
class FieldCode:
    """How the value of an attribute stands in a field: a bijection, said in both directions and in words."""

    text: str
    """The number in the field, with {} for the attribute."""
    to_field: Callable[[Any], int]
    to_attribute: Callable[[int], Any]
    offset: int | None = None
    """What the attribute is more than the number, if that is all."""


def signed_pattern(value: int) -> int:
    """The number that a 16-bit pattern is if it is a signed one."""
    return value - _PATTERNS if value >= _PATTERNS // 2 else value


AS_IT_IS = FieldCode("{}", int, int, 0)
MINUS_ONE = FieldCode("{} - 1", lambda value: value - 1, lambda number: number + 1, 1)
FLAG = FieldCode("{}", int, bool)
ELEMENT_BITS = FieldCode("log2({} / 8)", lambda bits: {8: 0, 16: 1, 32: 2, 64: 3}[bits], lambda number: 8 << number)
PATTERN = FieldCode("{} as a 16-bit pattern", lambda value: value + _PATTERNS if value < 0 else value, int, 0)
"""The sign of the pattern is that of a feature map's elements; who makes records of registers applies it."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value inside an operand.

    `bits` are the operand bits from least to most significant; they need not be adjacent. `widths` narrows the field on some
    products: the bits above that width must then be zero, or copies of the sign. `holds` is the path of the attribute that the
    field holds, from the operation or from the variant that runs it, in the form that `code` says.
    """

    name: str
    bits: tuple[int, ...]
    holds: str
    doc: str = ""
    code: FieldCode = AS_IT_IS
    enum: type[IntEnum] | None = None
    is_signed: bool = False
    maximum: int | None = None
    widths: Mapping[Product, int] = field(default_factory=dict)
    _is_contiguous: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_contiguous = self.bits == tuple(range(self.bits[0], self.bits[0] + len(self.bits)))
        object.__setattr__(self, "_is_contiguous", is_contiguous)

    def limits(self, product: Product) -> tuple[int, int]:
        """Smallest and largest value that the field holds on `product`."""
        width = self.widths.get(product, len(self.bits)) if self.widths else len(self.bits)
        if self.is_signed:
            return -(1 << (width - 1)), (1 << (width - 1)) - 1
        return 0, (1 << width) - 1 if self.maximum is None else self.maximum

    def check(self, value: int, product: Product, where: str) -> None:
        """Raise StreamError if the field cannot hold `value`; the message names field, range and value."""
        low, high = self.limits(product)
        if not low <= value <= high:
            if self.enum is not None and self.maximum is not None:
                self._refuse(value, where)
            raise StreamError(f"{where}: {self.name} must be in [{low}, {high}], got {value}")
        if self.enum is not None and value not in self.enum._value2member_map_:
            self._refuse(value, where)

    def members(self) -> list[IntEnum]:
        """What a field of an enumeration can say."""
        assert self.enum is not None
        return [member for member in self.enum if self.maximum is None or member <= self.maximum]

    def _refuse(self, value: int, where: str) -> NoReturn:
        names = ", ".join(f"{member.value} ({member.name})" for member in self.members())
        raise StreamError(f"{where}: {self.name} must be one of {names}, got {value}")

    def attribute(self, value: int) -> Any:
        """The value of the attribute that `value`, a number in the field, stands for."""
        if self.enum is not None and self.code is AS_IT_IS:
            return self.enum(value)
        return self.code.to_attribute(value)

    def insert(self, value: int, product: Product, where: str) -> int:
        """Operand bits of `value`."""
        self.check(value, product, where)
        if self._is_contiguous:
            return (value & ((1 << len(self.bits)) - 1)) << self.bits[0]
        return sum(((value >> position) & 1) << bit for position, bit in enumerate(self.bits))

    def extract(self, operand: int, product: Product, where: str) -> int:
        """The value in `operand`; StreamError if it is out of range."""
        if self._is_contiguous:
            value = (operand >> self.bits[0]) & ((1 << len(self.bits)) - 1)
        else:
            value = sum(((operand >> bit) & 1) << position for position, bit in enumerate(self.bits))
        width = self.widths.get(product, len(self.bits))
        low, above = value & ((1 << width) - 1), value >> width
        is_negative = self.is_signed and bool((low >> (width - 1)) & 1)
        if above and not (is_negative and above == (1 << (len(self.bits) - width)) - 1):
            raise StreamError(f"{where}: {self.name} must fit in {width} bits on {product.name}, got {value:#x}")
        result = low - (1 << width) if is_negative else low
        self.check(result, product, where)
        return result


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """One row of the table. A command that a product does not have may only be written with an operand of zero there."""

    name: str
    opcode: int
    kind: CommandKind
    fields: tuple[Field, ...]
    doc: str
    products: frozenset[Product]
    starts: type | None = None
    """The record of the operation that it kicks off."""
    sign_copies: int = 0
    """Mask of unused operand bits above a signed field that may all be set where the bit below them is."""
    used_bits: int = field(init=False, repr=False, compare=False)
    """Mask of the operand bits that belong to a field; the others must be zero."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "used_bits", sum(1 << bit for one in self.fields for bit in one.bits))

    @property
    def is_wide(self) -> bool:
        return self.kind is CommandKind.WIDE_REGISTER

    @property
    def word_count(self) -> int:
        return 2 if self.is_wide else 1

    def operand(self, values: Mapping[str, int], product: Product) -> int:
        """Operand that holds `values` (every field by name); StreamError names field, range and value."""
        if values.keys() != {one.name for one in self.fields}:
            expected = ", ".join(one.name for one in self.fields) or "none"
            raise StreamError(f"{self.name}: fields must be {expected}, got {', '.join(values) or 'none'}")
        return self._operand((int(values[one.name]) for one in self.fields), product)

    def operand_of(self, attributes: Iterable[Any], product: Product) -> int:
        """Operand that holds `attributes`, one of each field in order; StreamError as `operand`."""
        return self._operand([one.code.to_field(value) for one, value in zip(self.fields, attributes, strict=True)], product)

    def _operand(self, numbers: Iterable[int], product: Product) -> int:
        operand = 0
        for one, number in zip(self.fields, numbers, strict=True):
            operand |= one.insert(number, product, self.name)
        if operand and product not in self.products:
            raise StreamError(f"{self.name}: must be 0 on {product.name}, which does not have it, got {operand:#x}")
        return operand

    def operand_maker(self, product: Product) -> Callable[[Sequence[Any]], int]:
        """`operand_of` on a product, for many operands."""
        if product not in self.products or not all(one._is_contiguous for one in self.fields):
            return lambda attributes: self.operand_of(attributes, product)
        parts = [
            (one.code.to_field, *one.limits(product), one.enum and one.enum._value2member_map_, one.bits[0])
            for one in self.fields
        ]
        masks = [(1 << len(one.bits)) - 1 for one in self.fields]

        def make(attributes: Sequence[Any]) -> int:
            operand = 0
            for (to_field, low, high, members, shift), mask, value in zip(parts, masks, attributes, strict=True):
                number = to_field(value)
                if not low <= number <= high or (members is not None and number not in members):
                    return self.operand_of(attributes, product)  # which says what is wrong
                operand |= (number & mask) << shift
            return operand

        return make

    def number_maker(self, product: Product) -> Callable[[Any], int]:
        """Operand that holds an attribute, of a command with one field on a product, for many operands."""
        (one,) = self.fields
        if product not in self.products or not one._is_contiguous:
            return lambda attribute: self.operand_of((attribute,), product)
        to_field, (low, high), shift, mask = one.code.to_field, one.limits(product), one.bits[0], (1 << len(one.bits)) - 1
        members = one.enum and one.enum._value2member_map_

        def make(attribute: Any) -> int:
            number = to_field(attribute)
            if not low <= number <= high or (members is not None and number not in members):
                return self.operand_of((attribute,), product)
            return (number & mask) << shift

        return make

    def values(self, operand: int, product: Product) -> dict[str, int]:
        """Fields in `operand` by name; StreamError if reserved bits are set or a field is out of range."""
        if operand and product not in self.products:
            raise StreamError(f"{self.name}: must be 0 on {product.name}, which does not have it, got {operand:#x}")
        reserved = operand & ~self.used_bits
        if reserved and not (reserved == self.sign_copies and operand & ~self.sign_copies & (self.sign_copies >> 1)):
            raise StreamError(f"{self.name}: reserved bits must be zero, got {reserved:#x}")
        return {one.name: one.extract(operand, product, self.name) for one in self.fields}

    def attributes(self, operand: int, product: Product) -> dict[str, Any]:
        """What the fields in `operand` hold, by path; StreamError as `values`."""
        values = self.values(operand, product)
        return {one.holds: one.attribute(values[one.name]) for one in self.fields}

    def words(self, operand: int) -> tuple[int, ...]:
        """Command words of `operand`, which `operand()` has checked."""
        return self.words_maker()(operand)

    def words_maker(self) -> Callable[[int], tuple[int, ...]]:
        """`words`, for many operands."""
        opcode = self.opcode
        if not self.is_wide:
            return lambda operand: (opcode | operand << PARAMETER_SHIFT,)
        opcode |= 1 << _CLASS_SHIFT
        return lambda operand: (opcode | operand >> WORD_BITS << PARAMETER_SHIFT, operand & _WORD)
