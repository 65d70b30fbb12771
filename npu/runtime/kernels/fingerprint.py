"""The 64-bit fingerprint of FarmHash over bytes, which TFLite's LSH_PROJECTION uses: a published, fixed function."""

from __future__ import annotations

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_MASK = (1 << 64) - 1

HashPair = tuple[int, int]


def _rotate(x: int, bits: int) -> int:
    x &= _MASK
    return ((x >> bits) | (x << (64 - bits))) & _MASK


def _word(data: bytes, offset: int, size: int = 8) -> int:
    return int.from_bytes(data[offset : offset + size], "little")


def _mix(x: int) -> int:
    x &= _MASK
    return x ^ (x >> 47)


def _fold(u: int, v: int, factor: int) -> int:
    a = _mix((u ^ v) * factor)
    b = _mix((v ^ a) * factor)
    return (b * factor) & _MASK


def _to_16(data: bytes) -> int:
    n = len(data)
    if n >= 8:
        factor = _K2 + n * 2
        a, b = (_word(data, 0) + _K2) & _MASK, _word(data, n - 8)
        c, d = (_rotate(b, 37) * factor + a) & _MASK, ((_rotate(a, 25) + b) * factor) & _MASK
        return _fold(c, d, factor)
    if n >= 4:
        return _fold((n + (_word(data, 0, 4) << 3)) & _MASK, _word(data, n - 4, 4), _K2 + n * 2)
    if n:
        y, z = data[0] + (data[n >> 1] << 8), n + (data[n - 1] << 2)
        return (_mix((y * _K2) ^ (z * _K0)) * _K2) & _MASK
    return _K2


def _quarters(data: bytes, first: int) -> tuple[int, int, int, int]:
    n = len(data)
    factor = _K2 + n * 2
    a, b = (_word(data, 0) * first) & _MASK, _word(data, 8)
    c, d = (_word(data, n - 8) * factor) & _MASK, (_word(data, n - 16) * _K2) & _MASK
    y = (_rotate(a + b, 43) + _rotate(c, 30) + d) & _MASK
    return y, _fold(y, (a + _rotate(b + _K2, 18) + c) & _MASK, factor), a, factor


def _to_64(data: bytes) -> int:
    n = len(data)
    y, z, a, factor = _quarters(data, _K2)
    e, f = (_word(data, 16) * factor) & _MASK, _word(data, 24)
    g, h = ((y + _word(data, n - 32)) * factor) & _MASK, ((z + _word(data, n - 24)) * factor) & _MASK
    left = (_rotate(e + f, 43) + _rotate(g, 30) + h) & _MASK
    return _fold(left, (e + _rotate(f + a, 18) + g) & _MASK, factor)


def _weak(data: bytes, offset: int, a: int, b: int) -> HashPair:
    w, x, y, z = (_word(data, offset + 8 * i) for i in range(4))
    a = (a + w) & _MASK
    b = _rotate(b + a + z, 21)
    c = a
    a = (a + x + y) & _MASK
    return (a + z) & _MASK, (b + _rotate(a, 44) + c) & _MASK


def _long(data: bytes) -> int:
    n = len(data)
    y = (81 * _K1 + 113) & _MASK
    z = (_mix(y * _K2 + 113) * _K2) & _MASK
    x = (81 * _K2 + _word(data, 0)) & _MASK
    v, w = (0, 0), (0, 0)
    for offset in range(0, (n - 1) // 64 * 64, 64):
        x, y, z, v, w = _block(data, offset, (x, y, z), (v, w), (_K1, 1))
    factor = (_K1 + ((z & 0xFF) << 1)) & _MASK
    w = ((w[0] + ((n - 1) & 63)) & _MASK, w[1])
    v = ((v[0] + w[0]) & _MASK, v[1])
    w = ((w[0] + v[0]) & _MASK, w[1])
    x, y, z, v, w = _block(data, n - 64, (x, y, z), (v, w), (factor, 9))
    left = (_fold(v[0], w[0], factor) + _mix(y) * _K0 + z) & _MASK
    return _fold(left, (_fold(v[1], w[1], factor) + x) & _MASK, factor)


def _block(
    data: bytes, offset: int, state: tuple[int, int, int], pairs: tuple[HashPair, HashPair], factors: tuple[int, int]
) -> tuple[int, int, int, HashPair, HashPair]:
    x, y, z = state
    v, w = pairs
    factor, extra = factors
    x = _rotate(x + y + v[0] + _word(data, offset + 8), 37) * factor & _MASK
    y = _rotate(y + v[1] + _word(data, offset + 48), 42) * factor & _MASK
    x ^= (w[1] * extra) & _MASK
    y = (y + v[0] * extra + _word(data, offset + 40)) & _MASK
    z = _rotate(z + w[0], 33) * factor & _MASK
    v = _weak(data, offset, (v[1] * factor) & _MASK, (x + w[0]) & _MASK)
    w = _weak(data, offset + 32, (z + w[1]) & _MASK, (y + _word(data, offset + 16)) & _MASK)
    return z, y, x, v, w


def fingerprint64(data: bytes) -> int:
    """The fingerprint as a signed 64-bit number."""
    n = len(data)
    if n <= 16:
        value = _to_16(data)
    elif n <= 32:
        value = _quarters(data, _K1)[1]
    else:
        value = _to_64(data) if n <= 64 else _long(data)
    return value - (1 << 64) if value >= 1 << 63 else value
