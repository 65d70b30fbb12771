"""Operands: what the operator table declares of an operator's inputs and outputs, and what rules see of one that has them.

A signature reads "ifm weights bias? -> ofm": the names of the inputs, then those of the outputs. `name?` may be absent, `name*`
stands any number of times, `name?*` both; `name:i32|i64` has one of these types. The end of a name says the role: `ifm`, `ifm2`
and `ofm` are feature maps, `condition` is one of truth values, `weights` and `bias` what a product has beside them, `state` is
a variable, all else (axes, sizes, shapes, indices) is a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from npu.errors import ModelError
from npu.graph.dtype import DType
from npu.graph.graph import Quantization
from npu.records import dataclass

Shape = tuple[int, ...]


class Role(Enum):
    """What an operand is to its operator."""

    FEATURE_MAP = "feature map"
    CONDITION = "condition"
    WEIGHTS = "weights"
    BIAS = "bias"
    STATE = "state"
    PARAMETER = "parameter"


_ROLES = {"ifm": Role.FEATURE_MAP, "ofm": Role.FEATURE_MAP} | {role.value: role for role in Role}


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand that an operator may have."""

    name: str
    is_optional: bool = False
    is_repeated: bool = False
    types: tuple[DType, ...] = ()
    """Those that kernels take, of a parameter that says it."""

    @property
    def role(self) -> Role:
        return _ROLES.get(self.name.rsplit("_", 1)[-1].rstrip("0123456789"), Role.PARAMETER)


@dataclass(frozen=True, slots=True)
class OperandSchema:
    """The operands of an operator."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    def input(self, position: int) -> Operand | None:
        """The operand at a position, None behind the last."""
        if self.inputs and position >= len(self.inputs):
            return self.inputs[-1] if self.inputs[-1].is_repeated else None
        return self.inputs[position] if self.inputs else None


_TYPES = {"i8": DType.INT8, "i16": DType.INT16, "i32": DType.INT32, "i64": DType.INT64}


@cache
def parse(text: str) -> OperandSchema:
    """The signature that a row of the operator table writes."""
    given, made = text.split("->")
    inputs, outputs = (tuple(_operand(word) for word in side.split()) for side in (given, made))
    return OperandSchema(inputs, outputs)


def _operand(word: str) -> Operand:
    """`name:types?*`, of which all but the name may be missing."""
    text = word.removesuffix("*")
    name, _, types = text.removesuffix("?").partition(":")
    return Operand(name, text.endswith("?"), word.endswith("*"), tuple(_TYPES[code] for code in types.split("|") if code))


@lru_cache(maxsize=256)
def positions(text: str, role: Role, count: int) -> tuple[int, ...]:
    """Those of `count` inputs that have a role in a signature."""
    positions = ((position, parse(text).input(position)) for position in range(count))
    return tuple(position for position, operand in positions if operand is not None and operand.role is role)


@lru_cache(maxsize=256)
def _typed(text: str) -> tuple[tuple[int, Operand], ...]:
    """The inputs of a signature that say their types, by position."""
    return tuple((position, operand) for position, operand in enumerate(parse(text).inputs) if operand.types)


def count_defect(operands: Sequence[Operand], is_given: Sequence[bool], what: str) -> str | None:
    """What is wrong with the number of inputs or outputs, or with an absent one; None if nothing is."""
    needed = [not operand.is_optional and not operand.is_repeated for operand in operands]
    repeats = any(operand.is_repeated for operand in operands)
    least, most = max((i + 1 for i, is_needed in enumerate(needed) if is_needed), default=0), len(operands) - repeats
    if len(is_given) < least or (len(is_given) > most and not repeats):
        wanted = f"{least} or more" if repeats else f"{least} to {most}" if most > least else str(most)
        return f"must have {wanted} {what}s, got {len(is_given)}"
    for position, is_there in enumerate(is_given):
        operand = operands[min(position, len(operands) - 1)]
        if not is_there and not operand.is_optional:
            return f"{what} {position} ({operand.name}) must be given, it is absent"
    return None


class Mismatch(ModelError):
    """Operands or options that do not belong together: what must hold, and what was found. No kernel runs such an operator."""


class OperandValue(Protocol):
    """A tensor as rules see it: of a graph, or of an interpreter at its current shape."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def quantization(self) -> Quantization | None: ...


@dataclass(frozen=True, slots=True)
class Operands:
    """An operator's options and operands; `inputs` has None where one is absent.

    `options` are never None but for operators that have none: the schema's defaults stand for a table that the file leaves out.
    `contents` are the elements of the inputs that are known, None of the others.
    """

    options: Any
    inputs: Sequence[OperandValue | None]
    outputs: Sequence[OperandValue]
    contents: Sequence[npt.NDArray[Any] | None]

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def tensor(self, position: int) -> OperandValue:
        """An input that must be there."""
        result = self.inputs[position] if position < len(self.inputs) else None
        if result is None:
            raise Mismatch(f"input {position} must be given, it is absent")
        return result

    def shape(self, position: int) -> Shape:
        """Shape of an input that must be there."""
        return self.tensor(position).shape

    @property
    def shapes(self) -> list[Shape]:
        """Shapes of all inputs, which must be there."""
        return [self.shape(position) for position in range(len(self.inputs))]

    def numbers(self, position: int) -> list[int] | None:
        """The integers that an input holds; None if they are computed."""
        values = self.contents[position] if position < len(self.contents) else None
        if values is None:
            return None
        if not np.issubdtype(values.dtype, np.integer):
            tensor = self.tensor(position)
            raise Mismatch(f"tensor '{tensor.name}' must hold integers, got {tensor.dtype}")
        return [int(value) for value in values.reshape(-1)]

    def number(self, position: int) -> int | None:
        """The only integer that an input holds; None if it is computed."""
        numbers = self.numbers(position)
        if numbers is not None and len(numbers) != 1:
            tensor = self.tensor(position)
            raise Mismatch(f"tensor '{tensor.name}' must have one element, got shape {list(tensor.shape)}")
        return None if numbers is None else numbers[0]


def have_types(text: str, operands: Operands) -> None:
    """Mismatch for an input that has none of the types that the signature says."""
    for position, operand in _typed(text):
        if operands.has(position) and operands.tensor(position).dtype not in operand.types:
            wanted = " or ".join(map(str, operand.types))
            raise Mismatch(f"input {position} ({operand.name}) must be {wanted}, got {operands.tensor(position).dtype}")
