"""LLVM vector code of products of bytes as pairs of 16-bit numbers, for CPUs without instructions for four products of bytes.

Nearly every CPU multiplies such pairs and adds up neighbours in one instruction (pmaddwd), which LLVM finds. Of 4 consecutive
inputs or weights the first pair is 0 and 2, the second 1 and 3: that takes a mask and a shift, where neighbours would take a
permutation. Inputs are made ready first, for some pixels and all channels; weights for all those pixels.

Products of bytes (pmaddubsw) would not pay: their 16-bit sums are widened by a multiplication too, so that sums of two pairs
have to be added first. These must not leave 16 bits, but do for 8 to 35 % of the weights of MobileNetV2 in all but its first
layers.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

from llvmlite import ir

from npu.native.emit import BYTE, INT, LANES, SHORTS

_SHORT = ir.IntType(16)


def collect(e, target, count, segments, dwords, pixel_of, address_of, flip_of, *, is_signed):  # type: ignore[no-untyped-def]
    """Store the inputs of `count` pixels one after the other, as pairs.

    Segment k of a pixel, `dwords` words, lies at `address_of(pixel_of(pixel), k)`. Its bytes are exclusive-ored with
    `flip_of(type)`, which makes them unsigned, or signed.
    """

    def some_dwords(size):  # type: ignore[no-untyped-def]
        """What makes `size` words ready."""
        narrow = ir.VectorType(BYTE, 4 * size)
        flip = flip_of(narrow)
        order = [k + n for k in range(0, 4 * size, 4) for n in (0, 2, 1, 3)]
        turn = ir.Constant(ir.VectorType(INT, 4 * size), order)
        with_zeros = ir.Constant(ir.VectorType(INT, 8 * size), [place for n in order for place in (n, 4 * size)])

        def ready(_index, carried):  # type: ignore[no-untyped-def]
            source, to = carried
            inputs = e.b.xor(e.load(narrow, source), flip)
            if is_signed:
                turned = e.b.shuffle_vector(inputs, inputs, turn)
                e.store(e.b.sext(turned, ir.VectorType(_SHORT, 4 * size)), to)
            else:  # one shuffle, where widening would be a second
                e.store(e.b.shuffle_vector(inputs, ir.Constant(narrow, None), with_zeros), to)
            return [e.offset(source, 4 * size), e.offset(to, 8 * size)]

        return ready

    steps = [(e.b.lshr(dwords, e.word(2)), some_dwords(4))]
    steps += [(e.b.and_(e.b.lshr(dwords, e.word(k)), e.word(1)), some_dwords(1 << k)) for k in (1, 0)]

    def over_pixels(index, targets):  # type: ignore[no-untyped-def]
        pixel = pixel_of(index)

        def over_segments(segment, carried):  # type: ignore[no-untyped-def]
            values = [address_of(pixel, segment), *carried]
            for times, ready in steps:
                values = e.loop(times, values, ready)
            return values[1:]

        return e.loop(segments, targets, over_segments)

    e.loop(count, [target], over_pixels)


def widen(e, args):  # type: ignore[no-untyped-def]
    """Store the pairs of `dwords` times the 4 weights of 16 channels at a target."""
    weights, dwords, target = args

    def over_dwords(_index, carried):  # type: ignore[no-untyped-def]
        source, to = carried
        for half in range(2):
            e.store(e.byte_pairs(e.load(LANES, source), half), e.offset(to, 64 * half))
        return [e.offset(source, 64), e.offset(to, 128)]

    e.loop(dwords, [weights, target], over_dwords)


def _first_channels(e, at, count):  # type: ignore[no-untyped-def]
    """Pairs of weights of so many of 16 channels, zeros for the others."""
    some = ir.VectorType(_SHORT, 2 * count)
    order = ir.Constant(ir.VectorType(INT, 32), [min(k, 2 * count) for k in range(32)])
    return e.b.shuffle_vector(e.load(some, at), ir.Constant(some, None), order)


def multiply(e, height, width, panel, weights, dwords, count, start, finish, *, wide_channels=0):  # type: ignore[no-untyped-def]
    """Sums of `count` collected pixels for `width` groups of 16 channels, `height` pixels at a time; at the end some are
    computed twice.

    `start(pixel)` gives the sums of `height` pixels, group by group of each, to which products are added, and
    `finish(pixel, sums)` stores them. wide_channels: how many of one group have sums, if the weights are those of `widen`.
    """
    pitch, weight_step = e.b.shl(dwords, e.word(3)), e.b.shl(dwords, e.word(6))
    steps = [e.b.mul(weight_step, e.word(n)) for n in range(width)]

    def halves(at):  # type: ignore[no-untyped-def]
        """Of the weights of four inputs, for each group."""
        if wide_channels:
            return [[_first_channels(e, e.offset(at, 64 * half), wide_channels) for half in range(2)]]
        lanes = [e.load(LANES, e.b.add(at, step)) for step in steps]
        return [[e.byte_pairs(of_group, half) for half in range(2)] for of_group in lanes]

    def over_tiles(index, carried):  # type: ignore[no-untyped-def]
        pixel, end = e.b.mul(index, e.word(height)), e.offset(count, -height)
        pixel = e.b.select(e.b.icmp_signed("<", pixel, end), pixel, end)
        first = e.b.add(panel, e.b.mul(pixel, pitch))
        rows = [e.b.add(first, e.b.mul(pitch, e.word(k))) for k in range(height)]

        def over_dwords(index, values):  # type: ignore[no-untyped-def]
            at, vectors, totals = e.b.shl(index, e.word(3)), halves(values[0]), values[1:]
            for half in range(2):
                for k in range(height):
                    pair = e.load(INT, e.offset(e.b.add(rows[k], at), 4 * half))
                    value = e.b.bitcast(e.splat(pair), SHORTS)
                    for n in range(width):
                        totals[k * width + n] = e.add_pairs(totals[k * width + n], value, vectors[n][half])
            return [e.offset(values[0], 128 if wide_channels else 64), *totals]

        finish(pixel, e.loop(dwords, [weights, *start(pixel)], over_dwords)[1:])
        return carried

    e.loop(e.b.sdiv(e.offset(count, height - 1), e.word(height)), [], over_tiles)
