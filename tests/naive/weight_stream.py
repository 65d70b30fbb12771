"""Weight streams, slowly: the loop nest of the format one weight at a time, and a decoder that reads a list of bits."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray


class MalformedError(Exception):
    """The stream breaks a rule of the format."""


def sequence(
    weights: NDArray[Any], *, mode: str, ifm_bits: int, block_depth: int, dilation: tuple[int, int], ublock: int
) -> list[int]:
    """Weights (O, KH, KW, I) of one core in stream order with padding. `mode`: depth_first, part_kernel, depthwise."""
    depth, height, width, ifm_depth = weights.shape
    ifm_block = 16 if mode == "part_kernel" or ifm_bits == 16 else 32
    multiple = {"depth_first": 1, "depthwise": 4, "part_kernel": 4 if ifm_bits == 8 else 2}[mode]
    sub_height, sub_width = 8 // dilation[0], 8 // dilation[1]
    out = []
    for ob in range(0, depth, block_depth):
        obd = min(block_depth, depth - ob)
        for ib in range(0, 1 if mode == "depthwise" else ifm_depth, ifm_block):
            ibd = {"depthwise": 8, "part_kernel": min(ifm_block, ifm_depth - ib), "depth_first": ifm_block}[mode]
            for sy in range(0, height, sub_height):
                for sx in range(0, width, sub_width):
                    sh, sw = min(sub_height, height - sy), min(sub_width, width - sx)
                    elements = -(-sh * sw // multiple) * multiple
                    outer, inner = (ibd, 1) if mode == "part_kernel" else (1, ibd)
                    for uo in range(0, outer, 8):
                        for oo in range(0, obd, ublock):
                            for e in range(elements):
                                ky, kx = divmod(e, sw)
                                for ui in range(0, inner, 8):
                                    for oz in range(ublock):
                                        for iz in range(1 if mode == "depthwise" else 8):
                                            o, i = ob + oo + oz, ib + uo + ui + iz
                                            inside = o < depth and i < ifm_depth and ky < sh
                                            out.append(int(weights[o, sy + ky, sx + kx, i]) if inside else 0)
    return out


class _Bits:
    def __init__(self, data: bytes) -> None:
        self.bits = [byte >> k & 1 for byte in data for k in range(8)]
        self.at = 0

    def read(self, count: int) -> int:
        if self.at + count > len(self.bits):
            raise MalformedError("truncated")
        taken = self.bits[self.at : self.at + count]
        self.at += count
        return sum(bit << k for k, bit in enumerate(taken))

    @property
    def left(self) -> int:
        return len(self.bits) - self.at


def decode(data: bytes) -> list[int]:
    """Every weight of a stream, whatever their number."""
    bits, out = _Bits(data), []
    palette: list[int] | None = None
    offset = width = 0
    had_runs = ended = False
    while bits.left >= 3:
        zdiv = bits.read(3)
        if zdiv == 7:
            bits.at = min(-(-bits.at // 8) * 8, len(bits.bits))
            palette, ended = None, True
            continue
        if zdiv == 5:
            raise MalformedError("zdiv")
        ended = False
        count, wdiv, truncated, new = bits.read(15) + 1, bits.read(3), bits.read(1), bits.read(1)
        has_runs = zdiv != 6
        if wdiv == 6 or (not new and (palette is None or had_runs != has_runs)):
            raise MalformedError("header")
        if new:
            offset, size, width = bits.read(5), bits.read(5), bits.read(3) + 2
            palette = [bits.read(width) for _ in range(size + 1)] if size else []
        assert palette is not None
        had_runs = has_runs
        symbols, runs = _chunks(bits, count, count + new if has_runs else 0, wdiv, truncated, zdiv, _raw_bits(palette, width))
        if has_runs and new:
            out += [0] * runs.pop(0)
        for k, symbol in enumerate(symbols):
            code = palette[symbol] if symbol < len(palette) else symbol - len(palette) + offset
            if symbol > 511 or code > 511:
                raise MalformedError("symbol")
            out.append(-(code >> 1) if code & 1 else code >> 1)
            out += [0] * (runs[k] if has_runs else 0)
    if not ended:
        raise MalformedError("no end")
    return out


def _raw_bits(palette: list[int], width: int) -> int:
    return (len(palette) - 1).bit_length() if palette else width


def _chunks(bits: _Bits, nw: int, nz: int, wdiv: int, truncated: int, zdiv: int, raw_bits: int) -> tuple[list[int], list[int]]:
    """Symbols and zero runs of one slice."""
    raw = wdiv == 7
    wbits = raw_bits if raw else wdiv
    zlen, wmax = 12 if zdiv < 3 else 8, 8 if raw and wbits > 5 else 12
    symbols: list[int] = []
    runs: list[int] = []
    wp = zp = w_left = z_left = 0
    before: tuple[list[int], list[int]] = ([], [])
    while True:
        balance = wp - zp if nz else 0
        has_w, has_z = balance < 8 and wp < nw, nz > 0 and balance >= 0 and zp < nz
        w_now: list[int] = []
        z_now: list[int] = []
        first = [bits.read(1) for _ in range(12)] if has_w and not raw else []
        for _ in range(zlen if has_z else 0):
            if bits.read(1):
                z_left += 1
            else:
                z_now.append(z_left)
                z_left = 0
        second = [bits.read(1) if bit else 0 for bit in first]
        for one, two in zip(first, second, strict=True):
            w_left += one + two
            if not two or truncated:
                w_now.append(w_left)
                w_left = 0
            if w_left > 31:
                raise MalformedError("quotient")
        if has_w and raw:
            w_now = [0] * wmax
        if any(quotient > 31 for quotient in w_now):
            raise MalformedError("quotient")
        wp, zp = wp + len(w_now), zp + len(z_now)
        symbols += [(quotient << wbits) + bits.read(wbits) for quotient in before[0][: nw - len(symbols)]]
        runs += [(quotient << zdiv) + bits.read(zdiv) for quotient in before[1][: nz - len(runs)]]
        before = (w_now, z_now)
        if not has_w and not has_z:
            return symbols, runs
