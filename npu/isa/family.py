"""What the products of one NPU family share, and another family does differently.

A family is a module beside `npu.isa.ethos_u55_u65` that fills one `Family`, and an entry in `npu.isa.families`. Differences
between products of a family are fields of the hardware description (`npu.hardware.variant`), not of this record. How many
cycles things take follows from both through `npu.machine`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from npu.hardware.variant import Accelerator, Product, Variant
from npu.isa.command import Command
from npu.isa.operations import Block, Kernel, ShramLayout, Traversal
from npu.isa.shram import BufferProblem
from npu.isa.weight_stream.encode import Encoder
from npu.isa.weight_stream.order import Shape, WeightOrder
from npu.records import dataclass

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Buffers:
    """The memories inside the accelerator that hold what an operation works on."""

    fits: Callable[[BufferProblem, Ints, Ints, Ints, Variant], NDArray[np.bool_]]
    """Whether the buffers of blocks of these heights, widths and depths find room."""
    layout: Callable[[BufferProblem, Block, Variant], ShramLayout | None]
    """Where the buffers of a block lie; None if they find no room."""


class WeightOrderRule(Protocol):
    """The order of an operation's weights on one of `cores` cores; `block_depth` is that of all of them."""

    def __call__(
        self,
        accelerator: Accelerator,
        kernel: Kernel,
        *,
        block_depth: int,
        traversal: Traversal,
        is_depthwise: bool,
        ifm_bits: int,
        core: int,
        cores: int,
        has_4x4_sub_kernels: bool = False,
    ) -> WeightOrder: ...


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Compressed weights: their order, and the bytes of one core."""

    order: WeightOrderRule
    encode: Encoder
    stand_in: Encoder
    """As many bytes as `encode` is expected to give, made faster, where a stream is needed for its size alone."""
    decode: Callable[[NDArray[np.uint8], Shape, WeightOrder], NDArray[np.int16]]


@dataclass(frozen=True, slots=True)
class Family:
    """A family of NPUs."""

    products: Mapping[Product, str]
    """Its products, and their names in tables."""
    architecture_id: int
    """ID word of the payload of its command streams."""
    commands: tuple[Command, ...]
    """The command stream; a command names those of the products that have it."""
    buffers: Buffers
    weights: WeightFormat
