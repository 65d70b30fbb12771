"""SOFTMAX over two 8-bit values, as of two classes: each share is a function of their difference, which is looked up.

The shares are those of TFLite's reference kernel in gemmlowp's fixed point; `npu.compiler.lower.softmax` has it as steps.
"""

from __future__ import annotations

import numpy as np

from npu.compiler.ir import View
from npu.compiler.lower.activation import table_of_lines
from npu.compiler.lower.builder import Builder
from npu.compiler.lower.geometry import crop
from npu.isa.operations import INT16, ElementwiseMode
from npu.numerics.arrays import Ints
from npu.numerics.scaling import divide_away

SUM_BITS = 12
"""Integer bits of the sum of exps."""
GUESS_Q2, SLOPE_Q2 = 1515870810, -1010580540
"""48/17 and -32/17, with which Newton's division begins, as numbers with 2 integer bits."""
NEWTON_STEPS = 3
_FRACTION = 31
_ONE = (1 << _FRACTION) - 1
_LARGEST = 255
_LINE = 128
"""Numbers in a line of a table of 16 bits."""


def pair_shares(exps: Ints, bits: int) -> Ints:
    """The share in so many bits, from 0 on, of a value by how far it lies above the other one, from -255 to 255.

    `exps` are those of distances -255 to 0 to the larger value, in Q0.
    """
    differences = np.arange(-_LARGEST, _LARGEST + 1)
    own, other = exps[np.minimum(differences, 0) + _LARGEST], exps[np.minimum(-differences, 0) + _LARGEST]
    return _shares(own, divide_away(own, SUM_BITS) + divide_away(other, SUM_BITS), bits)


def _shares(exps: Ints, totals: Ints, share_bits: int) -> Ints:
    """exps / totals in so many bits; totals have 12 integer bits."""
    bits = np.frexp(totals.astype(np.float64))[1]  # exact: totals have 21 bits at most
    half = (totals << (_FRACTION - bits)).astype(np.int64)  # half of 1 + x, in Q0: from 1/2 on
    estimate = GUESS_Q2 + double_high(half, SLOPE_Q2)
    for _ in range(NEWTON_STEPS):
        error = (1 << 29) - double_high(half, estimate)
        estimate = estimate + (double_high(estimate, error) << 2)
    reciprocals = np.minimum(estimate << 1, _ONE)
    over = bits - (1 + _FRACTION - SUM_BITS)  # how far the total is above 1
    products, shifts = double_high(reciprocals, exps), over + _FRACTION - share_bits
    shares: Ints = np.minimum((products + (1 << shifts - 1)) >> shifts, (1 << share_bits) - 1)
    return shares


def double_high(a: Ints, b: Ints | int) -> Ints:
    """a * b of two fixed-point numbers: rounded high half of the doubled product."""
    return np.asarray((a * b + (1 << 30)) >> 31, np.int64)


def lower_pair(builder: Builder, x: View, y: View, results: Ints) -> None:
    """A difference for each of both values, with a table of 16 bits in which every line is a difference; of 8 bits then a copy.

    `results` are the stored ones for differences from -255 to 255.
    """
    height, width, _ = x.shape
    both = y if y.element is INT16 else builder.temporary("shares", x.shape, INT16)
    (first, second), shares = ([crop(view, (0, 0, channel), (height, width, 1)) for channel in (0, 1)] for view in (x, both))
    if y.element is not INT16:
        results = results.astype(np.int8 if y.element.is_signed else np.uint8).astype(np.int64)  # bytes of a table, too
    table = np.concatenate((results[:1], results))  # of 512 lines the first, which no difference comes to
    lut = table_of_lines(table, np.zeros_like(table))
    for share, one, other in ((shares[0], first, second), (shares[1], second, first)):
        builder.elementwise(ElementwiseMode.SUB, one, share, other, factors=(_LINE, _LINE), lut=lut)
    if both is not y:
        builder.copy(both, y)
