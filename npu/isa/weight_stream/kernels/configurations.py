"""Which configuration codes each group of symbols: a search over all, for the fewest bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npu.isa.weight_stream.kernels.emit import RAW, SYMBOLS, TRUNCATED
from npu.isa.weight_stream.kernels.format import MAX_QUOTIENT, MAX_WDIV
from npu.native import types as ty
from npu.native.kernel import IrValue, intrinsic, keep, kernel
from npu.native.memory import load_u16_at, small_buffer, store_16_at

CODES = 512
SLICE_BITS = 34
"""Header of a slice and the padding of its last chunk."""
GROUP = 16
"""Symbols over which a slice keeps its configuration at least."""
LANES = 16
"""Configurations and those that there are not; each has a lane of 16 bits."""
NEVER = 2047
"""Bits of a group that is not coded: more than it takes otherwise with a new slice, and 16 times as much fits 16 bits."""
NO_SYMBOL = CODES
"""A row of the costs: of what fills up the last group."""
COSTS = ty.uint16[:, ::1]


def make_costs() -> NDArray[np.uint16]:
    """Bits of every symbol in every configuration but RAW, NEVER where it cannot be coded."""
    costs = np.full((CODES + 1, LANES), NEVER, np.uint16)
    divisor = np.arange(MAX_WDIV + 1)
    quotient = np.arange(CODES)[:, None] >> divisor
    costs[:CODES, divisor] = np.where(quotient <= MAX_QUOTIENT, quotient + 1 + divisor, NEVER)
    costs[:CODES, TRUNCATED + divisor] = np.where(quotient <= 2, np.minimum(quotient, 1) + 1 + divisor, NEVER)
    costs[:, RAW], costs[NO_SYMBOL] = 0, 0
    return costs


@intrinsic(ty.void(ty.int64, ty.int64, ty.uint64, ty.int64, ty.int64))
def _add_group(
    builder: IrValue, symbols: IrValue, costs: IrValue, raw_bits: IrValue, totals: IrValue, came_from: IrValue
) -> None:
    """Add the costs of GROUP symbols, `raw_bits` in RAW, to the totals of the lanes, all by their addresses.

    A total is 16 times the bits beyond those of the cheapest lane, and the number of the lane. A lane that is dearer than the
    cheapest with a new slice follows that one. `came_from` (uint8) takes which lane is followed.
    """
    from llvmlite import ir

    word, lane, kind = ir.IntType(64), ir.IntType(16), ir.VectorType(ir.IntType(16), LANES)

    def load(address: IrValue, of: IrValue) -> IrValue:
        value = builder.load(builder.inttoptr(address, of.as_pointer()))
        value.align = 2
        return value

    def splat(value: IrValue) -> IrValue:
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), lanes)

    def all_lanes(value: int) -> IrValue:
        return ir.Constant(kind, [value] * LANES)

    bits = builder.insert_element(all_lanes(0), builder.trunc(raw_bits, lane), ir.IntType(32)(RAW))
    for k in range(GROUP):
        symbol = builder.zext(load(builder.add(symbols, word(2 * k)), lane), word)
        bits = builder.add(bits, load(builder.add(costs, builder.mul(symbol, word(2 * LANES))), kind))
    bits = builder.select(builder.icmp_unsigned("<", bits, all_lanes(NEVER)), bits, all_lanes(NEVER))
    total = load(totals, kind)
    name = f"llvm.vector.reduce.umin.v{LANES}i16"
    reduce = builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(lane, [kind]), name)
    least = builder.call(reduce, [total])
    own = builder.sub(total, splat(builder.and_(least, lane(0xFFF0))))
    is_kept = builder.icmp_unsigned("<", own, all_lanes((SLICE_BITS + 1) << 4))
    lanes = ir.Constant(kind, list(range(LANES)))
    followed = builder.select(is_kept, lanes, splat(builder.and_(least, lane(15))))
    narrow = builder.trunc(followed, ir.VectorType(ir.IntType(8), LANES))
    builder.store(narrow, builder.inttoptr(came_from, narrow.type.as_pointer())).align = 1
    before = builder.select(is_kept, own, builder.add(lanes, all_lanes(SLICE_BITS << 4)))
    after = builder.add(before, builder.shl(bits, all_lanes(4)))
    builder.store(after, builder.inttoptr(totals, kind.as_pointer())).align = 2


@kernel(ty.void(SYMBOLS, ty.int64, COSTS, ty.int64, ty.uint8[::1]))
def choose_configurations(symbols, number, costs, raw_bits, choices):  # type: ignore[no-untyped-def]
    """Viterbi search over groups of symbols: choices[group] is the configuration. `raw_bits` 0 forbids RAW.

    `symbols` has room for a group more, of which what the last group lacks is filled with NO_SYMBOL.
    """
    groups = (number + GROUP - 1) // GROUP
    came_from, totals = np.empty((groups, LANES), np.uint8), small_buffer()
    symbols_at, costs_at, came_at = (
        np.int64(symbols.ctypes.data),
        np.int64(costs.ctypes.data),
        np.int64(came_from.ctypes.data),
    )
    for k in range(number, groups * GROUP):
        symbols[k] = NO_SYMBOL
    for c in range(LANES):
        store_16_at(totals, c, c)
    for group in range(groups):
        raw = min(GROUP, number - group * GROUP) * raw_bits if raw_bits > 0 else NEVER
        _add_group(symbols_at + 2 * GROUP * group, costs_at, np.uint64(raw), totals, came_at + LANES * group)
    least = load_u16_at(totals, 0)
    for c in range(LANES):
        least = min(least, load_u16_at(totals, c))
    chosen = least & 15
    for group in range(groups - 1, -1, -1):
        choices[group] = chosen
        chosen = np.int64(came_from[group, chosen])
    keep(symbols, costs, came_from)
