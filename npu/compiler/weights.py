"""The read-only region: compressed weights, scale records, look-up tables and other constants, each content stored once."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from npu.compiler.allocate import ALIGNMENT
from npu.compiler.block_config import BlockChoice
from npu.compiler.block_estimate import filled_bytes
from npu.compiler.ir import StepWeights, WindowStep
from npu.digests import blake2b
from npu.hardware.variant import Accelerator, Variant
from npu.isa.families import family_of
from npu.isa.weight_stream.encode import Encoder, expected_bytes
from npu.isa.weight_stream.use import WeightUse
from npu.machine.rules import SCALE_RECORD_BYTES
from npu.records import dataclass

_DENSITY_STEP = 1 / 8
"""Densities are rounded to this, so that layers of the same shape need one choice of a block."""


@dataclass(frozen=True, slots=True)
class WeightSlice:
    """Constants of some output channels: blocks of scale records, then weight streams, as (offset within the slice, bytes).

    The slice lies in the read-only region in one piece, or in two where its weights are those of another slice that has other
    scale records: `pieces` are (read-only offset, bytes), in the order in which the slice holds them.
    """

    pieces: tuple[tuple[int, int], ...]
    scales: tuple[tuple[int, int], ...]
    weights: tuple[tuple[int, int], ...]

    @property
    def offset(self) -> int:
        """Where it begins in the read-only region."""
        return self.pieces[0][0]

    @property
    def bytes(self) -> int:
        """Of all pieces: the size of a copy."""
        return self.pieces[0][1] if len(self.pieces) == 1 else sum(size for _, size in self.pieces)

    def read_only(self, position: int) -> int:
        """Read-only offset of what lies at `position` in the slice."""
        for offset, size in self.pieces:
            if position < size:
                return offset + position
            position -= size
        raise AssertionError(position)


class Constants:
    """Collects the read-only region of one model for one variant."""

    def __init__(self, variant: Variant, encoder: Encoder | None = None) -> None:
        self.variant = variant
        self._writer = family_of(variant.accelerator.product).constants
        self.encoder = encoder or self._writer.encode
        self._pieces: list[bytes] = []
        self._size = 0
        self._offsets: dict[bytes, int] = {}
        self._slices: dict[tuple[object, ...], WeightSlice] = {}
        self._streams: dict[tuple[object, ...], tuple[int, tuple[int, ...]]] = {}
        self._digests: dict[int, tuple[StepWeights, tuple[bytes, bytes]]] = {}
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
        """Expected bytes of the compressed stream per weight; rounded, so that like ones are equal."""
        return max(round(self.density(weights) / _DENSITY_STEP), 1) * _DENSITY_STEP

    def density(self, weights: StepWeights) -> float:
        """The same, not rounded."""
        key = id(weights)
        if key not in self._densities:
            self._densities[key] = weights, expected_bytes(weights.values) / weights.values.size
        return self._densities[key][1]

    def add_weights(
        self, weights: StepWeights, channels: slice, choice: BlockChoice, step: WindowStep, *, is_depthwise: bool
    ) -> WeightSlice:
        """The encoded constants of output `channels` for the block and traversal of `choice`."""
        values, others = self.digests_of(weights)
        key = (values, *_stream_key(channels, choice, step), is_depthwise)
        if (others, key) not in self._slices:
            self._slices[others, key] = self._slice(weights, channels, choice, step, is_depthwise, key)
        return self._slices[others, key]

    def digests_of(self, weights: StepWeights) -> tuple[bytes, bytes]:
        """Of the weights' shape and values, and of what the scale records hold: equal for equal contents."""
        known = self._digests.get(id(weights))
        if known is None:
            values = blake2b(str(weights.values.shape).encode(), digest_size=16)
            values.update(np.ascontiguousarray(weights.values).data)
            others = blake2b(digest_size=16)
            for array in (weights.biases, weights.scales, weights.shifts):
                others.update(np.ascontiguousarray(array).data)
            known = self._digests[id(weights)] = (weights, (values.digest(), others.digest()))
        return known[1]

    def _slice(
        self,
        weights: StepWeights,
        channels: slice,
        choice: BlockChoice,
        step: WindowStep,
        is_depthwise: bool,
        key: tuple[object, ...],
    ) -> WeightSlice:
        """All scale records, then all weight streams: those of a slice with the same weights, or new ones."""
        blocks = self._writer.scale_blocks(self.variant.accelerator, channels.stop - channels.start)
        own = [slice(channels.start + block, channels.stop, blocks) for block in range(blocks)]
        records = [
            self._writer.encode_scales(weights.biases[part], weights.scales[part], weights.shifts[part], step.ifm.element.bits)
            for part in own
        ]
        padded = b"".join(one + bytes(-len(one) % ALIGNMENT) for one in records)
        if key in self._streams:
            offset, lengths = self._streams[key]
            pieces: tuple[tuple[int, int], ...] = ((self.add(padded), len(padded)), (offset, sum(lengths)))
        else:
            streams = self._encode(weights, channels, choice, step, is_depthwise)
            lengths = tuple(map(len, streams))
            offset = self.add(b"".join((padded, *streams)))
            pieces = ((offset, len(padded) + sum(lengths)),)
            self._streams[key] = offset + len(padded), lengths
        sizes = [len(one) + -len(one) % ALIGNMENT for one in records]
        bounds = list(itertools.accumulate((*sizes, *lengths), initial=0))
        return WeightSlice(
            pieces, tuple(zip(bounds, sizes, strict=False)), tuple(zip(bounds[len(own) :], lengths, strict=False))
        )

    def _encode(
        self, weights: StepWeights, channels: slice, choice: BlockChoice, step: WindowStep, is_depthwise: bool
    ) -> list[bytes]:
        """The weight streams."""
        accelerator, use = self.variant.accelerator, _use(self.variant.accelerator, choice, step, is_depthwise)
        values = np.ascontiguousarray(weights.values[channels])
        streams = self._writer.weight_streams(accelerator, len(values))
        return [self.encoder(accelerator, use, values, stream) for stream in range(streams)]


class ExpectedConstants:
    """Constants as far as a plan needs them that may yet be dropped: their expected sizes, nothing encoded."""

    def __init__(self, constants: Constants, *, is_rounded: bool = True) -> None:
        self.bytes_per_weight = constants.bytes_per_weight if is_rounded else constants.density
        self.digests_of = constants.digests_of
        self._accelerator = constants.variant.accelerator
        self._slices: dict[tuple[object, ...], WeightSlice] = {}

    def add_weights(
        self, weights: StepWeights, channels: slice, choice: BlockChoice, step: WindowStep, *, is_depthwise: bool
    ) -> WeightSlice:
        """The expected bytes of output `channels`, at an offset that tells them from others."""
        key = (self.digests_of(weights), *_stream_key(channels, choice, step))
        known = self._slices.get(key)
        if known is None:
            own = weights.values[channels]
            filled = filled_bytes(_use(self._accelerator, choice, step, is_depthwise), own.shape, self._accelerator)
            size = int(own.size * self.bytes_per_weight(weights) + filled) + len(own) * SCALE_RECORD_BYTES
            known = self._slices[key] = WeightSlice(((len(self._slices), size),), (), ())
        return known

    @property
    def bytes(self) -> int:
        """Those of all that was added."""
        return sum(size for known in self._slices.values() for _, size in known.pieces)


def _use(accelerator: Accelerator, choice: BlockChoice, step: WindowStep, is_depthwise: bool) -> WeightUse:
    return WeightUse(
        kernel=step.kernel,
        block_depth=choice.block.depth,
        traversal=choice.traversal,
        is_depthwise=is_depthwise,
        ifm_bits=step.ifm.element.bits,
        cores=accelerator.cores,
        ublock=choice.ublock,
    )


def _stream_key(channels: slice, choice: BlockChoice, step: WindowStep) -> tuple[object, ...]:
    """What a weight stream depends on besides the weights. Strides order those of operations that choose a micro-block."""
    kernel, bits = step.kernel, step.ifm.element.bits
    block = choice.block.depth, choice.ublock, *(() if choice.ublock is None else (kernel.stride_y, kernel.stride_x))
    return channels.start, channels.stop, choice.traversal, block, bits, kernel.dilation_y, kernel.dilation_x
