"""Convolution sums over maps; no rounding happens here. Layout is NHWC, filters are (height, width, in, out).

Integer sums use double-precision matrix products, which are exact below 2**53. Float sums add in the order of the reference
kernels (filter row, filter column, input channel), so that float results do not depend on the platform's matrix library.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npu.layouts import HeightWidth
from npu.native import types as ty
from npu.native.kernel import kernel
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.kernels.product import multiply_in_order

_PATCH_ELEMENTS = 1 << 22


_MAP = ty.constant(ty.float32, 4)


@kernel(ty.void(_MAP, _MAP, ty.int64, ty.int64, ty.int64, ty.int64, ty.float32[:, :, :, ::1]))
def transposed_in_order(ifm, taps, stride_h, stride_w, pad_h, pad_w, out):  # type: ignore[no-untyped-def]
    """Float transposed convolution with taps (kh, kw, in, out): adds in the order input row, input column, input channel."""
    for b in range(ifm.shape[0]):
        for iy in range(ifm.shape[1]):
            for ix in range(ifm.shape[2]):
                for c in range(ifm.shape[3]):
                    value = ifm[b, iy, ix, c]
                    for y in range(taps.shape[0]):
                        oy = iy * stride_h - pad_h + y
                        if oy < 0 or oy >= out.shape[1]:
                            continue
                        for x in range(taps.shape[1]):
                            ox = ix * stride_w - pad_w + x
                            if ox < 0 or ox >= out.shape[2]:
                                continue
                            for n in range(out.shape[3]):
                                out[b, oy, ox, n] += value * taps[y, x, c, n]


Tap = tuple[HeightWidth, tuple[slice, slice], tuple[slice, slice]]


@dataclass(frozen=True, slots=True)
class Window:
    """A filter that moves over a map; pairs are (height, width), `before` is the padding above and to the left.

    Nothing is padded: a tap touches the part of the map that it reaches, because a file may ask for dilations and paddings that
    are millions of times as large as its map.
    """

    kernel: HeightWidth
    stride: HeightWidth
    dilation: HeightWidth
    before: HeightWidth
    out: HeightWidth

    def taps(self, sizes: HeightWidth, rows: tuple[int, int], columns: tuple[int, int]) -> Iterator[Tap]:
        """Each tap (y, x) with the outputs that it reaches, from the first of `rows` and `columns`, and the inputs there."""
        across = [(x, *self._reach(1, x, sizes, columns)) for x in range(self.kernel[1])]
        for y in range(self.kernel[0]):
            out_y, in_y = self._reach(0, y, sizes, rows)
            for x, out_x, in_x in across:
                yield (y, x), (out_y, out_x), (in_y, in_x)

    def _reach(self, axis: int, tap: int, sizes: HeightWidth, outputs: tuple[int, int]) -> tuple[slice, slice]:
        step, offset = self.stride[axis], tap * self.dilation[axis] - self.before[axis]
        low = max(outputs[0], -(offset // step))
        high = max(low, min(outputs[1], -((offset - sizes[axis]) // step)))
        start = low * step + offset
        stop = start + (high - low) * step  # a slice ends before the map does
        return slice(low - outputs[0], high - outputs[0]), slice(start, stop, step)

    def patches(self, ifm: Array, rows: tuple[int, int], columns: tuple[int, int]) -> Array:
        """Patches (rows * columns, kh * kw * channels) of some outputs of one map (height, width, channels), 0 outside it."""
        if self.kernel == self.stride == (1, 1) and self.before == (0, 0):
            return np.ascontiguousarray(ifm[slice(*rows), slice(*columns)]).reshape(-1, ifm.shape[2])
        shape = (rows[1] - rows[0], columns[1] - columns[0], *self.kernel, ifm.shape[2])
        patches = np.zeros(shape, ifm.dtype)
        for (y, x), outputs, inputs in self.taps((ifm.shape[0], ifm.shape[1]), rows, columns):
            patches[(*outputs, y, x)] = ifm[inputs]
        return patches.reshape(shape[0] * shape[1], -1)

    def parts(self, channels: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Rows and columns of outputs whose patches are few enough to be held at once."""
        pixels = max(1, _PATCH_ELEMENTS // max(1, self.kernel[0] * self.kernel[1] * channels))
        width = min(pixels, max(1, self.out[1]))
        height = max(1, pixels // width)
        for y in range(0, self.out[0], height):
            for x in range(0, self.out[1], width):
                yield (y, min(y + height, self.out[0])), (x, min(x + width, self.out[1]))


def convolve(ifm: Array, window: Window, weights: Array) -> Array:
    """Sums (pixels, out channels) of a map (batch, height, width, in) with weights (kh * kw * in, out).

    float32 weights: float32 sums in order. Otherwise both must hold integers as float64, and the result is int64.
    """
    is_float, n = weights.dtype == np.float32, weights.shape[1]
    out = np.empty((ifm.shape[0], *window.out, n), np.float32 if is_float else np.int64)
    for batch, target in zip(ifm, out, strict=True):
        for rows, columns in window.parts(ifm.shape[3]):
            patches = window.patches(batch, rows, columns)
            if is_float:
                sums = np.empty((len(patches), n), np.float32)
                multiply_in_order(patches, weights, sums)
            else:
                sums = patches @ weights
            target[slice(*rows), slice(*columns)] = sums.reshape(rows[1] - rows[0], -1, n)
    return out.reshape(-1, n)


def convolve_depthwise(ifm: Array, window: Window, weights: Array) -> Array:
    """Sums (pixels, channels * multiplier) of a map (batch, height, width, in) with weights (kh, kw, in, multiplier).

    The result has the type of the operands (float32 or int64), summed in the order filter row, filter column.
    """
    c, multiplier = weights.shape[2:]
    acc = np.zeros((ifm.shape[0], *window.out, c, multiplier), weights.dtype)
    for tap, outputs, inputs in window.taps((ifm.shape[1], ifm.shape[2]), (0, window.out[0]), (0, window.out[1])):
        acc[(slice(None), *outputs)] += ifm[(slice(None), *inputs)][..., None] * weights[tap]
    return acc.reshape(-1, c * multiplier)


def convolve_transposed(ifm: Array, window: Window, weights: Array, out: Array) -> None:
    """Adds a map (batch, height, width, in) to `out` (batch, height, width, out) through weights (kh, kw, in, out).

    `window` is that of the convolution from `out` to the map. What falls outside is dropped. All hold integers as float64.
    """
    for tap, inputs, outputs in window.taps((out.shape[1], out.shape[2]), (0, ifm.shape[1]), (0, ifm.shape[2])):
        part = ifm[(slice(None), *inputs)]
        out[(slice(None), *outputs)] += (part.reshape(-1, part.shape[3]) @ weights[tap]).reshape(*part.shape[:3], out.shape[3])


def convolve_transposed_scaled(ifm: Array, window: Window, weights: Array, scales: tuple[Array, Array], out: Array) -> None:
    """The same of integers as float32, every product times the scale of its output channel and then that of its image.

    They are added up in the order of LiteRT's hybrid kernel: pixel by pixel of the map, channel by channel. `scales` are those
    of the images (batch,) and of the channels (out,).
    """
    images, channels = scales[0].reshape(-1, 1, 1, 1), scales[1]
    taps = window.taps((out.shape[1], out.shape[2]), (0, ifm.shape[1]), (0, ifm.shape[2]))
    for tap, inputs, outputs in reversed(list(taps)):  # what the last tap reads comes first
        part = ifm[(slice(None), *inputs)]
        for channel, filters in enumerate(weights[tap]):
            out[(slice(None), *outputs)] += part[..., channel, None] * filters * channels * images
