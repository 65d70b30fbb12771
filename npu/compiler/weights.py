"""The read-only region: compressed weights, scale records, look-up tables and other constants, each content stored once."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from npu.compiler.allocate import ALIGNMENT
from npu.compiler.block_config import BlockChoice
from npu.compiler.ir import StepWeights, WindowStep
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.family import WeightUse
from npu.isa.weight_stream.encode import Encoder
from npu.records import dataclass

_CODE_OVERHEAD = 1.03
"""Bytes of a compressed stream relative to the entropy of its weights."""

_DENSITY_STEP = 1 / 8
"""Densities are rounded to this, so that layers of the same shape need one choice of a block."""

_LARGEST_WEIGHT = 256
"""Weights are 8-bit values less a zero point: from -255 to 255."""


@dataclass(frozen=True, slots=True)
class WeightSlice:
    """Constants of some output channels: `bytes` bytes at read-only offset `offset`.

    `scales[core]` and `weights[core]` are (offset within the slice, bytes).
    """

    offset: int
    bytes: int
    scales: tuple[tuple[int, int], ...]
    weights: tuple[tuple[int, int], ...]


class Constants:
    """Collects the read-only region of one model for one variant."""

    def __init__(self, variant: Variant, encoder: Encoder | None = None) -> None:
        self.variant = variant
        family = family_of(variant.accelerator.product)
        self._format, self._scales = family.weights, family.scales
        self.encoder = encoder or self._format.encode
        self._pieces: list[bytes] = []
        self._size = 0
        self._offsets: dict[bytes, int] = {}
        self._slices: dict[tuple[object, ...], WeightSlice] = {}
        self._digests: dict[int, tuple[StepWeights, bytes]] = {}
        self._densities: dict[int, tuple[StepWeights, float]] = {}

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    def data(self) -> npt.NDArray[np.uint8]:
        """The region's contents as uint8."""
        return np.frombuffer(b"".join(self._pieces), np.uint8)

    def add(self, data: bytes) -> int:
        """The 16-byte aligned offset of `data`, which is stored if it is not there yet."""
        known = self._offsets.get(data)
        if known is not None:
            return known
        offset = self._size
        padded = data + bytes(-len(data) % ALIGNMENT)
        self._pieces.append(padded)
        self._size += len(padded)
        self._offsets[data] = offset
        return offset

    def bytes_per_weight(self, weights: StepWeights) -> float:
        """Expected bytes of the compressed stream per weight, from their entropy; rounded, so that like ones are equal."""
        key = id(weights)
        if key not in self._densities:
            counts = np.bincount(weights.values.ravel() + _LARGEST_WEIGHT)
            shares = counts[counts > 0] / weights.values.size
            density = float(-(shares * np.log2(shares)).sum()) / 8 * _CODE_OVERHEAD
            self._densities[key] = (weights, max(round(density / _DENSITY_STEP), 1) * _DENSITY_STEP)
        return self._densities[key][1]

    def add_weights(
        self, weights: StepWeights, channels: slice, choice: BlockChoice, step: WindowStep, *, is_depthwise: bool
    ) -> WeightSlice:
        """The encoded constants of output `channels` for the block and traversal of `choice`."""
        bits = step.ifm.element.bits
        key = (
            self._digest(weights), channels.start, channels.stop, choice.traversal, choice.block.depth, bits,
            step.kernel.dilation_y, step.kernel.dilation_x, is_depthwise,
        )  # fmt: skip
        if key not in self._slices:
            self._slices[key] = self._encode(weights, channels, choice, step, is_depthwise)
        return self._slices[key]

    def _digest(self, weights: StepWeights) -> bytes:
        known = self._digests.get(id(weights))
        if known is None:
            digest = hashlib.blake2b(str(weights.values.shape).encode(), digest_size=16)
            for array in (weights.values, weights.biases, weights.scales, weights.shifts):
                digest.update(np.ascontiguousarray(array).data)
            known = self._digests[id(weights)] = (weights, digest.digest())
        return known[1]

    def _encode(
        self, weights: StepWeights, channels: slice, choice: BlockChoice, step: WindowStep, is_depthwise: bool
    ) -> WeightSlice:
        accelerator = self.variant.accelerator
        cores = min(accelerator.cores, channels.stop - channels.start)
        values = np.ascontiguousarray(weights.values[channels])
        parts: list[bytes] = []
        scales: list[tuple[int, int]] = []
        streams: list[tuple[int, int]] = []
        position = 0
        use = WeightUse(
            kernel=step.kernel,
            block_depth=choice.block.depth,
            traversal=choice.traversal,
            is_depthwise=is_depthwise,
            ifm_bits=step.ifm.element.bits,
            cores=accelerator.cores,
        )
        for core in range(cores):
            own = slice(channels.start + core, channels.stop, accelerator.cores)
            records = self._scales.encode(weights.biases[own], weights.scales[own], weights.shifts[own])
            records += bytes(-len(records) % ALIGNMENT)
            stream = self.encoder(values, self._format.order(accelerator, use, core))
            scales.append((position, len(records)))
            streams.append((position + len(records), len(stream)))
            position += len(records) + len(stream)
            parts += (records, stream)
        return WeightSlice(self.add(b"".join(parts)), position, tuple(scales), tuple(streams))
