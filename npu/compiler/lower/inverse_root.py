"""1 / sqrt(n) in fixed point for the table of RSQRT, as TFLite's GetInvSqrtQuantizedMultiplierExp computes it."""

from __future__ import annotations

_MOST = (1 << 31) - 1
_THREE_HALVES = (1 << 28) + (1 << 27)
_ROOT_OF_HALF = 1518500250
_NEWTON_STEPS = 5


def inverse_root(value: int) -> tuple[int, int]:
    """(multiplier, exponent) with 1 / sqrt(value) ~ multiplier / 2**31 * 2**exponent; 1 for the value 1."""
    if value <= 1:
        return _MOST, 0
    shift = 11
    while value << 2 < 1 << 29:
        value <<= 2
        shift -= 1
    half, x = ((value >> 1) + 1) >> 1, 1 << 28
    for _ in range(_NEWTON_STEPS):
        cube = _high(_high(x, x), x) << 6  # TFLite saturates both products, which no value needs
        x = (_high(_THREE_HALVES, x) - _high(half, cube)) << 3
    x = _high(x, _ROOT_OF_HALF)
    return (x << -shift, 0) if shift < 0 else (x, -shift)


def _high(a: int, b: int) -> int:
    """a * b / 2**31 of numbers that are not negative, to nearest."""
    return (a * b + (1 << 30)) >> 31
