"""Compressed weights of Ethos-U85: the order of each stream, and the fast format.

The order and the fast format are those of Vela 5.2's streams, whose networks give the results of the reference kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import StreamError
from npu.hardware.variant import Accelerator
from npu.isa.operations import Traversal, WeightDecoder
from npu.isa.weight_stream.decode import decode_symbols
from npu.isa.weight_stream.encode import encode_symbols, stand_in_symbols
from npu.isa.weight_stream.kernels.order_ethos_u85 import CHANNELS, COUNT, ORDER, TO_SYMBOLS, TO_WEIGHTS, move
from npu.isa.weight_stream.order import WeightShape, check_padding, pieces
from npu.isa.weight_stream.use import WeightUse
from npu.machine.rules import ceil_div, deep_set_depth, round_up, sub_kernel

_MOST_WEIGHTS = 1 << 31
_NOTHING = np.empty(1, np.int16)
_SMALL_ARRAY = 256
"""MACs per cycle up to which arrays have depthwise streams without zeros behind 8-bit weights, and shallow blocks."""
_MIDDLE_ARRAY = 512
_FAST_HEADER_BYTES = 32
_FAST_LUT_AT, _FAST_LUT_BITS, _FAST_LUT_ENTRIES = 112, 9, 16
_FAST_ADJUST_BYTE = 13


def decode(
    accelerator: Accelerator, use: WeightUse, shape: WeightShape, streams: Sequence[npt.NDArray[np.uint8]]
) -> npt.NDArray[np.int16]:
    """Weights (O, KH, KW, I), int16, I = 1 for depthwise, from the streams. Raises StreamError."""
    orders = [_order(accelerator, use, shape, stream) for stream in range(accelerator.weight_decoders)]
    counts = list(map(_count, orders))
    if use.decoder is WeightDecoder.FAST:
        symbols = _fast_symbols(streams[0], counts, use, orders)
    else:
        symbols = [decode_symbols(data, count) for data, count in zip(streams, counts, strict=True)]
    weights = np.zeros(shape[0] * shape[1] * shape[2] * shape[3], np.int16)
    for own, order in zip(symbols, orders, strict=True):
        _, stray = move(own, weights, order, TO_WEIGHTS)
        check_padding(stray, int(own[stray]))
    return weights.reshape(shape)


def encode(accelerator: Accelerator, use: WeightUse, values: npt.NDArray[np.int16], stream: int) -> bytes:
    """Compressed weight stream of this number, a multiple of 16 bytes, for the standard decoder.

    `values` are all weights minus their zero point, (O, KH, KW, I) with I = 1 for depthwise, -255..255. Raises StreamError.
    """
    return encode_symbols(_symbols(accelerator, use, values, stream))


def stand_in(accelerator: Accelerator, use: WeightUse, values: npt.NDArray[np.int16], stream: int) -> bytes:
    """As many bytes as `encode` is expected to give, which tell one stream from another but decode to nothing."""
    return stand_in_symbols(_symbols(accelerator, use, values, stream))


def _symbols(accelerator: Accelerator, use: WeightUse, values: npt.NDArray[np.int16], stream: int) -> npt.NDArray[np.int16]:
    """The weights of a stream in its order, with zeros that fill it up."""
    if use.decoder is not WeightDecoder.STANDARD or use.is_sparse:
        form = "sparse" if use.is_sparse else use.decoder.name
        raise StreamError(f"weights: must be those of the STANDARD decoder and not sparse to be written, got {form}")
    if values.ndim != 4:
        raise StreamError(f"weights: must have the axes (O, KH, KW, I), got shape {values.shape}")
    order = _order(accelerator, use, values.shape, stream)
    symbols = np.zeros(_count(order), np.int16)
    move(symbols, np.require(values, np.int16, ["C", "W"]).reshape(-1), order, TO_SYMBOLS)
    return symbols


def _count(order: npt.NDArray[np.void]) -> int:
    """Symbols of a stream. Raises StreamError."""
    count: int = move(_NOTHING, _NOTHING, order, COUNT)[0]
    if count >= _MOST_WEIGHTS:
        raise StreamError(f"weights: a stream must have less than 2**31 symbols, got {count}")
    return count


def _filling(accelerator: Accelerator, use: WeightUse) -> tuple[int, int, int, int]:
    """Input channels of an IFM block and of a micro-block, what the elements of a sub-kernel are rounded to, and zeros behind
    so many."""
    macs, is_wide, is_part = accelerator.macs_per_cycle, use.ifm_bits > 8, use.traversal is Traversal.PART_KERNEL_FIRST
    is_depth_first, ifm_block, extra = not (is_part or use.is_depthwise), deep_set_depth(is_part), 0
    assert use.ublock is not None
    if not is_part and macs <= _SMALL_ARRAY and use.ublock.depth == 16 and not use.is_sparse:
        ifm_block = 32
    elif is_depth_first and use.is_sparse and not is_wide:
        ifm_block = 128
    rounding = 1 if is_depth_first else 5
    if use.is_depthwise or (is_part and (is_wide or use.is_sparse)):
        rounding = 10
    if use.is_depthwise and (macs > _SMALL_ARRAY or is_wide):
        extra = 2 if macs <= _MIDDLE_ARRAY else 6
    return ifm_block, 8 if is_part and is_wide and not use.is_sparse else ifm_block, rounding, extra


def symbols(accelerator: Accelerator, use: WeightUse, shape: WeightShape) -> tuple[int, int]:
    """Output channels in all streams, and symbols of each, with the zeros that fill them up."""
    _, ifm_ublock, rounding, extra = _filling(accelerator, use)
    assert use.ublock is not None
    depth, height, width, inputs = shape
    groups = sum(
        ceil_div(rows * columns, rounding)
        for rows in pieces(height, sub_kernel(use.kernel.dilation_y))
        for columns in pieces(width, sub_kernel(use.kernel.dilation_x))
    )
    lanes = 1 if use.is_depthwise else round_up(inputs, ifm_ublock)
    return int(round_up(depth, use.ublock.depth)), int(lanes * groups * (rounding + extra))


def _order(accelerator: Accelerator, use: WeightUse, shape: WeightShape, stream: int) -> npt.NDArray[np.void]:
    """The `ORDER` of one stream. Raises StreamError."""
    assert use.ublock is not None
    if min(shape) < 1 or shape[0] * shape[1] * shape[2] * shape[3] >= _MOST_WEIGHTS:
        raise StreamError(f"weights: shape must be positive and below 2**31 elements, got {shape}")
    if use.is_depthwise and shape[3] != 1:
        raise StreamError(f"weights: a depthwise shape must have an IFM depth of 1, got {shape}")
    together = CHANNELS * accelerator.weight_decoders
    if use.ublock.depth < 1 or use.ublock.depth % together:
        raise StreamError(f"weights: micro-block depth must be a multiple of {together}, got {use.ublock.depth}")
    ifm_block, ifm_ublock, rounding, extra = _filling(accelerator, use)
    is_depth_first = not (use.is_depthwise or use.traversal is Traversal.PART_KERNEL_FIRST)
    step = 16 if use.is_sparse else 8
    kernel = use.kernel
    numbers = (
        *shape,
        use.is_depthwise,
        *(use.block_depth, ifm_block),
        *(use.ublock.depth, 1 if use.is_depthwise else ifm_ublock, 1 if use.is_depthwise else step),
        *(sub_kernel(kernel.dilation_y, is_small=False), sub_kernel(kernel.dilation_x, is_small=False)),
        *((1, 1) if is_depth_first else (kernel.stride_y, kernel.stride_x)),
        *(rounding, extra),
        *(stream, accelerator.weight_decoders),
    )
    return np.array([numbers], ORDER)


def _fast_symbols(
    data: npt.NDArray[np.uint8], counts: Sequence[int], use: WeightUse, orders: Sequence[npt.NDArray[np.void]]
) -> list[npt.NDArray[np.int16]]:
    """The symbols of all streams of the fast format: a header of 256 bits, then indices into a small table, or bytes."""
    if len(data) < _FAST_HEADER_BYTES:
        raise StreamError(f"fast weights: must have a header of {_FAST_HEADER_BYTES} bytes, got {len(data)}")
    head, body = data[:_FAST_HEADER_BYTES], data[_FAST_HEADER_BYTES:]
    is_raw, is_small = bool(head[0] & 1), bool(head[0] & 2)
    total = sum(counts)
    width = 8 if is_raw else (2 if is_small else 4)
    if len(body) * 8 < total * width:
        raise StreamError(f"fast weights: must have {total} symbols of {width} bits, got {len(body)} bytes")
    if is_raw:
        adjust = int(head[_FAST_ADJUST_BYTE].view(np.int8))
        values = body[:total].view(np.int8).astype(np.int16) - np.int16(adjust)
    else:
        per_byte = 8 // width
        places = np.arange(0, 8, width, dtype=np.uint8)
        indices = ((body[: -(-total // per_byte), None] >> places) & ((1 << width) - 1)).reshape(-1)[:total]
        values = _fast_table(head)[indices]
    if len(counts) == 1:
        return [values]
    order = orders[0][0]
    rounding = int(order["element_rounding"])
    chunk = int(order["ofm_ublock_depth"] * order["ifm_ublock_depth"]) * rounding // len(counts)
    if total % (chunk * len(counts)):
        raise StreamError(f"fast weights: must have whole groups of {chunk * len(counts)} symbols, got {total} symbols")
    shared = values.reshape(-1, len(counts), chunk)
    return [np.ascontiguousarray(shared[:, stream]).reshape(-1) for stream in range(len(counts))]


def _fast_table(head: npt.NDArray[np.uint8]) -> npt.NDArray[np.int16]:
    """The weights that indices stand for; bit 0 of an entry is the sign."""
    number = int.from_bytes(head.tobytes(), "little") >> _FAST_LUT_AT
    mask = (1 << _FAST_LUT_BITS) - 1
    entries = [number >> _FAST_LUT_BITS * k & mask for k in range(_FAST_LUT_ENTRIES)]
    return np.array([-(entry >> 1) if entry & 1 else entry >> 1 for entry in entries], np.int16)
