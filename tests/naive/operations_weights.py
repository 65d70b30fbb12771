"""Slow, obvious weight streams: the consumption order as nested loops, a bit-by-bit decoder, and the plainest encoder."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npu.hardware.variant import Variant
from npu.isa.operations import Convolution, DepthwiseConvolution, Traversal
from sim.memory import NpuMemory


def order(
    operation: Convolution | DepthwiseConvolution, core: int, variant: Variant
) -> Iterator[tuple[int, int, int, int] | None]:
    """Index (o, ky, kx, i) of every weight of a core's stream in order; None where the stream holds padding."""
    cores = len(operation.weights)
    is_depthwise = isinstance(operation, DepthwiseConvolution)
    is_part_kernel = isinstance(operation, Convolution) and operation.traversal is Traversal.PART_KERNEL_FIRST
    wide = operation.ifm.element.bits == 16
    channels = list(range(core, operation.ofm.depth, cores))
    depth = 1 if is_depthwise else operation.ifm.depth
    ob_depth = (operation.block.depth + cores - 1 - core) // cores
    ib_depth = 16 if is_part_kernel or wide else 32
    ou, iu = variant.accelerator.ofm_ublock.depth, variant.accelerator.ifm_ublock.depth
    limit = 4 if operation.has_4x4_sub_kernels else 8
    limit_h, limit_w = limit // operation.kernel.dilation_y, limit // operation.kernel.dilation_x
    multiple = 4 if is_depthwise else (1 if not is_part_kernel else (2 if wide else 4))
    for ob in range(0, len(channels), ob_depth):
        obd = min(ob_depth, len(channels) - ob)
        for ib in range(0, 1 if is_depthwise else depth, ib_depth):
            ibd = iu if is_depthwise else (min(ib_depth, depth - ib) if is_part_kernel else ib_depth)
            for sy in range(0, operation.kernel.height, limit_h):
                sh = min(limit_h, operation.kernel.height - sy)
                for sx in range(0, operation.kernel.width, limit_w):
                    sw = min(limit_w, operation.kernel.width - sx)
                    for uo in range(0, ibd if is_part_kernel else 1, iu):
                        for oo in range(0, obd, ou):
                            for e in range(-(-sh * sw // multiple) * multiple):
                                ky, kx = divmod(e, sw)
                                for ui in range(0, 1 if is_part_kernel else ibd, iu):
                                    for oz in range(ou):
                                        for iz in range(1 if is_depthwise else iu):
                                            o, i = ob + oo + oz, ib + uo + ui + iz
                                            inside = o < len(channels) and i < depth and ky < sh
                                            yield (channels[o], sy + ky, sx + kx, i) if inside else None


_SYMBOLS = {weight: f"{-2 * weight + 1 if weight < 0 else 2 * weight:09b}"[::-1] for weight in range(-255, 256)}
"""The bits of every weight, lowest first."""


def encode_plain(values: list[int]) -> bytes:
    """A valid stream without palette or compression: 9-bit sign-magnitude symbols in slices of at most 32768."""
    bits: list[str] = []

    def put(value: int, count: int) -> None:
        bits.append(f"{value:0{count}b}"[::-1])

    for start in range(0, len(values), 32768):
        part = values[start : start + 32768]
        for value, count in ((6, 3), (len(part) - 1, 15), (7, 3), (0, 1), (1, 1), (0, 5), (0, 5), (7, 3)):
            put(value, count)
        bits.extend(_SYMBOLS[weight] for weight in part)
    put(7, 3)
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    data = np.packbits(np.frombuffer(text.encode(), np.uint8) - ord("0"), bitorder="little").tobytes()
    return data + b"\xff" * (-len(data) % 16)


def encode_records(biases: list[int], scales: list[int], shifts: list[int]) -> bytes:
    """10-byte scale records, padded to 16 bytes."""
    data = b"".join(
        (bias & (1 << 40) - 1).to_bytes(5, "little") + scale.to_bytes(4, "little") + bytes([shift])
        for bias, scale, shift in zip(biases, scales, shifts, strict=True)
    )
    return data + bytes(-len(data) % 16)


def decode_constants(
    operation: Convolution | DepthwiseConvolution, memory: NpuMemory
) -> tuple[np.ndarray, list[int], list[int], list[int]]:
    """Weights (O, KH, KW, I) and per-channel biases, scales and shifts, from memory."""
    cores, depth = len(operation.weights), operation.ofm.depth
    inputs = 1 if isinstance(operation, DepthwiseConvolution) else operation.ifm.depth
    weights = np.zeros((depth, operation.kernel.height, operation.kernel.width, inputs), np.int64)
    biases, scales, shifts = [0] * depth, [0] * depth, [0] * depth
    for core in range(min(cores, depth)):
        part = operation.weights[core]
        stream = bytes(memory.regions[part.region][part.address : part.address + part.length_bytes])
        for index, value in zip(order(operation, core, memory.variant), decode(stream), strict=True):
            if index is not None:
                weights[index] = value
        part = operation.scales[core]
        records = bytes(memory.regions[part.region][part.address : part.address + part.length_bytes])
        for j, channel in enumerate(range(core, depth, cores)):
            record = records[10 * j : 10 * j + 10]
            biases[channel] = int.from_bytes(record[:5], "little", signed=True)
            scales[channel] = int.from_bytes(record[5:9], "little")
            shifts[channel] = record[9] & 63
    return weights, biases, scales, shifts


class _Bits:
    def __init__(self, data: bytes) -> None:
        self.bits = (np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little") + ord("0")).tobytes().decode()
        self.position = 0

    def read(self, count: int) -> int:
        taken = self.bits[self.position : self.position + count]
        self.position += count
        return int(taken[::-1] or "0", 2)


def decode(data: bytes) -> list[int]:
    """All weights of a stream."""
    bits, weights = _Bits(data), []
    palette: list[int] = []
    offset = width = 0
    while bits.position < len(bits.bits):
        zdiv = bits.read(3)
        if zdiv == 7:
            bits.position = -(-bits.position // 8) * 8
            continue
        count, wdiv, truncated, fresh = bits.read(15) + 1, bits.read(3), bits.read(1), bits.read(1)
        if fresh:
            offset, size, width = bits.read(5), bits.read(5), bits.read(3) + 2
            palette = [bits.read(width) for _ in range(size + 1)] if size else []
        index_bits = (max(len(palette) - 1, 0)).bit_length() if palette else width
        symbols, runs = _symbols(bits, count, count + fresh if zdiv != 6 else 0, wdiv, index_bits, zdiv, bool(truncated))
        if zdiv != 6 and fresh:
            weights += [0] * runs.pop(0)
        for k, symbol in enumerate(symbols):
            value = palette[symbol] if symbol < len(palette) else symbol - len(palette) + offset
            weights.append(-(value >> 1) if value & 1 else value >> 1)
            weights += [0] * (runs[k] if runs else 0)
    return weights


def _symbols(
    bits: _Bits, nw: int, nz: int, wdiv: int, index_bits: int, zdiv: int, truncated: bool
) -> tuple[list[int], list[int]]:
    raw = wdiv == 7
    wbits = index_bits if raw else wdiv
    zlen, wmax = (12 if zdiv < 3 else 8), (8 if raw and wbits > 5 else 12)
    symbols: list[int] = []
    runs: list[int] = []
    previous: tuple[list[int], list[int]] = ([], [])
    wp = zp = wcount = zcount = 0
    while True:
        balance = wp - zp if nz else 0
        has_w, has_z = balance < 8 and wp < nw, nz > 0 and balance >= 0 and zp < nz
        current: tuple[list[int], list[int]] = ([], [])
        first = [bits.read(1) for _ in range(12)] if has_w and not raw else [0] * 12
        for _ in range(zlen if has_z else 0):
            if bits.read(1):
                zcount += 1
            else:
                current[1].append(zcount)
                zcount = 0
        second = [bits.read(1) for _ in range(sum(first))]
        for k in range(wmax if has_w else 0):
            code = 1 + second.pop(0) if first[k] else 0
            wcount += code
            if code < 2 or truncated:
                current[0].append(wcount)
                wcount = 0
        wp, zp = wp + len(current[0]), zp + len(current[1])
        symbols += [(q << wbits) + bits.read(wbits) for q in previous[0][: nw - len(symbols)]]
        runs += [(q << zdiv) + bits.read(zdiv) for q in previous[1][: nz - len(runs)]]
        previous = current
        if not has_w and not has_z:
            return symbols, runs
