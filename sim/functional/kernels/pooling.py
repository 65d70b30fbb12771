"""Sums and maxima of windows over 8-bit maps where they are in memory, 16 channels at a time."""

# mypy: allow-untyped-calls

from __future__ import annotations

import numpy as np
from llvmlite import ir

from npu.native import types as ty
from npu.native.emit import BYTES, LANES, choice, function
from npu.native.kernel import kernel
from npu.native.memory import load_i32_at, small_buffer
from sim.functional.kernels.compute import AVERAGE, CUBE, MAX, POOL, divide_pixel, window_along
from sim.functional.kernels.feature_map import FEATURE_MAP_ROW


def _window(mode):  # type: ignore[no-untyped-def]
    """16 int32 to `target`: over a rectangle of pixels, of bytes made unsigned by `flip`."""

    def emit(e, args):  # type: ignore[no-untyped-def]
        address, row_step, rows, pixel_step, columns, flip, target = args
        mask = e.b.trunc(e.splat_word(flip), BYTES)

        def over_rows(y, carried):  # type: ignore[no-untyped-def]
            start = e.b.add(address, e.b.mul(y, row_step))

            def over_columns(x, totals):  # type: ignore[no-untyped-def]
                value = e.b.zext(e.b.xor(e.load(BYTES, e.b.add(start, e.b.mul(x, pixel_step))), mask), LANES)
                if mode == AVERAGE:
                    return [e.b.add(totals[0], value)]
                return [e.b.select(e.b.icmp_signed(">", value, totals[0]), value, totals[0])]

            return e.loop(columns, carried, over_columns)

        (total,) = e.loop(rows, [ir.Constant(LANES, None)], over_rows)
        e.store(total, target)

    return function(f"pool_window_{mode}", 7, emit)


_pool_window = choice({mode: _window(mode) for mode in (MAX, AVERAGE)})


@kernel(ty.void(FEATURE_MAP_ROW, ty.int64, CUBE, ty.record(POOL)))
def pool_bytes(fm, base, out, window):  # type: ignore[no-untyped-def]
    """`compute.pool` of a map of one tile and whole groups of 16 channels."""
    pooled, flip = small_buffer(), np.int64(128 if fm.is_signed != 0 else 0)
    for y in range(out.shape[0]):
        top, rows = window_along(y * window.stride_y, window.height, window.top, window.rows)
        for x in range(out.shape[1]):
            left, columns = window_along(x * window.stride_x, window.width, window.left, window.columns)
            count = rows * columns
            offset = (fm.zero_point + flip) * (min(count, np.int64(1)) if window.mode == MAX else count)
            at = base + fm.tiles[0] + (top - window.top) * fm.stride_y + (left - window.left) * fm.stride_x
            for b in range(fm.depth >> 4):
                _pool_window(window.mode, at + b * fm.stride_c, fm.stride_y, rows, fm.stride_x, columns, flip, pooled)
                for k in range(16):
                    out[y, x, 16 * b + k] = load_i32_at(pooled, k) - offset
            divide_pixel(out[y, x], count, window)
