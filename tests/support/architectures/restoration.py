"""Networks of images to images, of segmentation by several paths, and of attention between patches."""

from __future__ import annotations

import math

import numpy as np

from npu.graph import attributes as at
from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers


class _Restored(Layers):
    """Layers that these networks have more than others: attention within patches, windows, limits."""

    def sum(self, x: int, y: int) -> int:
        """Sum of two maps that are never negative."""
        return self.make("ADD", [x, y], self.shape(x), at.AddOptions())

    def swish(self, x: int) -> int:
        return self.mul(x, self.table("LOGISTIC", x))

    def token(self, x: int) -> int:
        """A constant position with the scale of a sequence."""
        values = self.rng.integers(-100, 100, (1, 1, self.shape(x)[2]))
        return self.b.constant(values.astype(np.int8), **self.steps(x))

    def limit(self, x: int, value: float) -> int:
        """A constant with the scale of a map."""
        steps = self.steps(x)
        stored = round(value / steps["scale"]) + steps["zero_point"]
        return self.b.constant(np.array(stored, np.int8), **steps)

    def rows_attention(self, x: int, heads: int, *more: int) -> int:
        """Self attention within each row of (rows, positions, depth), with more to add to what the softmax sees."""
        rows, positions, depth = self.shape(x)
        size = depth // heads
        query, key, value = (
            self.transpose(self.reshape(part, rows, positions, heads, size), 0, 2, 1, 3)
            for part in self.split(self.dense(x, 3 * depth), 3, axis=2)
        )
        factor = self.b.constant(np.array(127, np.int8), scale=1 / math.sqrt(size) / 127, zero_point=0)
        steps = {"scale": self.scale(query) / math.sqrt(size), "zero_point": -7}
        query = self.make("MUL", [query, factor], self.shape(query), at.MulOptions(), **steps)
        seen = self.matmul(query, key, transposed=True)
        for term in more:
            seen = self.make("ADD", [seen, term], self.shape(seen), at.AddOptions(), scale=0.08, zero_point=60)
        mixed = self.transpose(self.matmul(self.softmax(seen), value), 0, 2, 1, 3)
        return self.dense(self.reshape(mixed, rows, positions, depth), depth)

    def partition(self, x: int, size: int) -> int:
        """A map as (windows, positions, depth)."""
        _, height, width, depth = self.shape(x)
        x = self.transpose(self.reshape(x, 1, height // size, size, width // size, size, depth), 0, 1, 3, 2, 4, 5)
        return self.reshape(x, height * width // size**2, size**2, depth)

    def join(self, x: int, size: int, height: int, width: int) -> int:
        """The map of its windows."""
        depth = self.shape(x)[2]
        x = self.transpose(self.reshape(x, 1, height // size, width // size, size, size, depth), 0, 1, 3, 2, 4, 5)
        return self.reshape(x, 1, height, width, depth)

    def roll(self, x: int, amount: int) -> int:
        """A map moved up and left, with what falls out put in at the other end."""
        for axis in (1, 2):
            begin, middle, end = [0] * 4, [*self.shape(x)], [*self.shape(x)]
            middle[axis] = amount % end[axis]
            first = self.slice(x, begin, middle)
            begin[axis] = amount % end[axis]
            x = self.cat(self.slice(x, begin, end), first, axis=axis)
        return x

    def seams(self, height: int, width: int, size: int, shift: int) -> int:
        """What keeps apart positions of a window that were no neighbours before a map was rolled."""
        rows, columns = (np.digitize(np.arange(end), (end - size, end - shift)) for end in (height, width))
        regions = (rows[:, None] * 3 + columns).reshape(height // size, size, width // size, size)
        windows = regions.transpose(0, 2, 1, 3).reshape(-1, 1, size**2)
        apart = windows[..., None, :] != windows[..., None]
        return self.b.constant(np.where(apart, -127, 0).astype(np.int8), scale=0.1, zero_point=0)


def rfdn_sr_32() -> bytes:
    """Pointwise distillation beside shallow residuals, attention from a strided and pooled map."""
    net = Layers(501)

    def attend(x: int) -> int:
        _, height, width, depth = net.shape(x)
        narrow = net.conv(x, depth // 2, 1)
        y = net.pool(net.conv(narrow, depth // 2, stride=2, same=False), k=7, stride=3)
        y = net.conv(net.conv(net.conv(y, depth // 2, act=RELU), depth // 2, act=RELU), depth // 2)
        y = net.add(net.resize(y, height, width), net.conv(narrow, depth // 2, 1))
        return net.mul(x, net.table("LOGISTIC", net.conv(y, depth, 1)))

    first = x = net.conv(net.input(32, 32, 3), 16)
    blocks = []
    for _ in range(2):
        kept = []
        for _ in range(3):
            kept.append(net.table("LEAKY_RELU", net.conv(x, 8, 1)))
            x = net.table("LEAKY_RELU", net.add(net.conv(x, 16), x))
        kept.append(net.table("LEAKY_RELU", net.conv(x, 8)))
        x = attend(net.conv(net.cat(*kept), 16, 1))
        blocks.append(x)
    x = net.conv(net.table("LEAKY_RELU", net.conv(net.cat(*blocks), 16, 1)), 16)
    return net.finish(net.depth_to_space(net.conv(net.add(x, first), 12), 2))


def carn_sr_32() -> bytes:
    """Residual blocks cascaded within blocks that are cascaded too."""
    net = Layers(502)

    def residual(x: int) -> int:
        return net.add(net.conv(net.conv(x, 12, act=RELU), 12), x, RELU)

    def cascade(x: int) -> int:
        joined = x
        for _ in range(2):
            joined = net.cat(joined, residual(x))
            x = net.conv(joined, 12, 1, act=RELU)
        return x

    joined = x = net.conv(net.input(32, 32, 3), 12, act=RELU)
    for _ in range(3):
        joined = net.cat(joined, cascade(x))
        x = net.conv(joined, 12, 1, act=RELU)
    return net.finish(net.conv(net.depth_to_space(net.conv(x, 48, act=RELU), 2), 3))


def nafnet_64() -> bytes:
    """No activations: halves of the channels multiply each other."""
    net = _Restored(503)

    def halves(x: int) -> int:
        return net.mul(*net.split(x, 2))

    def block(x: int) -> int:
        depth = net.shape(x)[3]
        y = halves(net.dw(net.conv(net.norm(x), 2 * depth, 1)))
        y = net.mul(y, net.conv(net.gap(y, keep=True), depth, 1))
        x = net.add(x, net.conv(y, depth, 1))
        return net.add(x, net.conv(halves(net.conv(net.norm(x), 2 * depth, 1)), depth, 1))

    image = net.input(64, 64, 3)
    short = block(net.conv(image, 12))
    x = block(net.conv(short, 24, 2, stride=2))
    x = block(net.add(net.depth_to_space(net.conv(x, 48, 1), 2), short))
    return net.finish(net.add(net.conv(x, 3), image))


def plain_anchor_sr_48() -> bytes:
    """A chain to which the repeated image is added; the result is clipped."""
    net = _Restored(504)
    image = net.input(48, 64, 3)
    x = image
    for _ in range(5):
        x = net.conv(x, 12, act=RELU)
    x = net.add(net.conv(x, 12), net.cat(image, image, image, image))
    x = net.maximum(net.depth_to_space(x, 2), net.limit(x, 0))
    return net.finish(net.like("MINIMUM", x, None, at.MaximumMinimumOptions(), [net.limit(x, 3.5)]))


def bisenet_96() -> bytes:
    net = Layers(505)

    def residual(x: int, depth: int) -> int:
        y = net.conv(net.conv(x, depth, stride=2, act=RELU), depth)
        return net.add(y, net.conv(x, depth, 1, stride=2), RELU)

    def refine(x: int) -> int:
        x = net.conv(x, 32, act=RELU)
        return net.mul(x, net.table("LOGISTIC", net.conv(net.gap(x, keep=True), 32, 1)))

    image = net.input(96, 96, 3)
    spatial = net.conv(image, 8, 7, stride=2, act=RELU)
    spatial = net.conv(net.conv(net.conv(spatial, 16, stride=2, act=RELU), 32, stride=2, act=RELU), 32, 1, act=RELU)
    x = net.pool(net.conv(image, 8, 7, stride=2, act=RELU), k=3, stride=2, same=True)
    x = residual(residual(x, 32), 64)
    last = residual(x, 96)
    _, height, width, _ = net.shape(last)
    top = net.resize(net.conv(net.gap(last, keep=True), 32, 1, act=RELU), height, width, nearest=True)
    top = net.conv(net.up(net.add(refine(last), top), nearest=True), 32, act=RELU)
    context = net.conv(net.up(net.add(refine(x), top), nearest=True), 32, act=RELU)
    x = net.conv(net.cat(spatial, context), 64, 1, act=RELU)
    share = net.conv(net.conv(net.gap(x, keep=True), 16, 1, act=RELU), 64, 1)
    x = net.add(net.mul(x, net.table("LOGISTIC", share)), x)
    return net.finish(net.resize(net.conv(net.conv(x, 32, act=RELU), 8, 1), 96, 96, align=True))


def ddrnet_96() -> bytes:
    """Two resolutions that are added to each other twice; average pools of growing windows at the lower one."""
    net = Layers(506)

    def basic(x: int, depth: int, stride: int = 1) -> int:
        grows = stride > 1 or depth != net.shape(x)[3]
        short = net.conv(x, depth, 1, stride=stride) if grows else x
        return net.add(net.conv(net.conv(x, depth, stride=stride, act=RELU), depth), short, RELU)

    def bottleneck(x: int, depth: int) -> int:
        y = net.conv(net.conv(net.conv(x, depth // 2, 1, act=RELU), depth // 2, act=RELU), depth, 1)
        return net.add(y, net.conv(x, depth, 1), RELU)

    def lift(x: int, to: int) -> int:
        _, height, width, depth = net.shape(to)
        return net.resize(net.conv(x, depth, 1) if depth != net.shape(x)[3] else x, height, width)

    x = net.conv(net.conv(net.input(96, 128, 3), 16, stride=2, act=RELU), 16, stride=2, act=RELU)
    high = basic(basic(x, 16), 24, 2)
    low = basic(high, 48, 2)
    high = basic(high, 24)
    high, low = net.add(high, lift(low, high), RELU), net.add(low, net.conv(high, 48, stride=2), RELU)
    low, high = basic(low, 96, 2), basic(high, 24)
    down = net.conv(net.conv(high, 48, stride=2, act=RELU), 96, stride=2)
    high, low = net.add(high, lift(low, high), RELU), net.add(low, down, RELU)
    high, low = bottleneck(high, 48), bottleneck(low, 96)
    scales = [net.conv(low, 24, 1, act=RELU)]
    pooled = [net.pool(low, "AVERAGE", k, stride, same=True) for k, stride in ((5, 2), (9, 4))]
    for level in (*pooled, net.gap(low, keep=True)):
        wide = lift(net.conv(level, 24, 1, act=RELU), scales[0])
        scales.append(net.conv(net.add(wide, scales[-1]), 24, act=RELU))
    context = net.add(net.conv(net.cat(*scales), 48, 1), net.conv(low, 48, 1), RELU)
    x = net.conv(net.add(high, lift(context, high)), 24, act=RELU)
    return net.finish(net.resize(net.conv(x, 6, 1), 96, 128, half=True))


def lraspp_128() -> bytes:
    """MobileNetV3, dilated at its end, and a gate from averages of large windows."""
    net = Layers(507)

    def inverted(x: int, expand: int, depth: int, k: int, *, stride: int = 1, far: int = 1, hard: bool = True) -> int:
        act = NONE if hard else RELU
        y = net.conv(x, expand, 1, act=act)
        y = net.dw(net.table("HARD_SWISH", y) if hard else y, k, stride=stride, dilation=far, act=act)
        y = net.table("HARD_SWISH", y) if hard else y
        y = net.conv(net.excite(y, hard=True) if k == 5 else y, depth, 1)
        return net.add(x, y) if net.shape(x) == net.shape(y) else y

    x = net.table("HARD_SWISH", net.conv(net.input(128, 128, 3), 16, stride=2))
    x = net.add(x, net.conv(net.dw(x, act=RELU), 16, 1))
    x = inverted(x, 48, 24, 3, stride=2, hard=False)
    low = inverted(inverted(x, 72, 40, 5, stride=2, hard=False), 120, 40, 5, hard=False)
    x = inverted(inverted(low, 160, 64, 3, stride=2), 192, 64, 5, far=2)
    x = net.table("HARD_SWISH", net.conv(x, 160, 1))
    _, height, width, _ = net.shape(x)
    gate = net.table("LOGISTIC", net.conv(net.pool(x, "AVERAGE", 7, 1), 48, 1))
    x = net.mul(net.conv(x, 48, 1, act=RELU), net.resize(gate, height, width))
    return net.finish(net.up(net.add(net.conv(net.up(x), 5, 1), net.conv(low, 5, 1)), 8))


def fast_scnn_96() -> bytes:
    net = Layers(508)

    def bottleneck(x: int, depth: int, stride: int = 1) -> int:
        y = net.conv(x, 4 * net.shape(x)[3], 1, act=RELU)
        y = net.conv(net.dw(y, stride=stride, act=RELU), depth, 1)
        return net.add(x, y) if net.shape(x) == net.shape(y) else y

    x = net.conv(net.input(96, 96, 3), 16, stride=2, act=RELU)
    for depth in (24, 32):
        x = net.conv(net.dw(x, stride=2), depth, 1, act=RELU)
    high = x
    for depth, stride in ((32, 2), (32, 1), (48, 1), (48, 1), (64, 1), (64, 1)):
        x = bottleneck(x, depth, stride)
    _, height, width, _ = net.shape(x)
    levels = [x, net.conv(x, 16, 1, act=RELU)]
    for k in (2, 3, 6):
        pooled = net.conv(net.pool(x, "AVERAGE", k), 16, 1, act=RELU)
        levels.append(net.resize(pooled, height, width, align=True))
    x = net.conv(net.cat(*levels), 64, 1, act=RELU)
    x = net.conv(net.dw(net.up(x), dilation=4, act=RELU), 64, 1)
    x = net.add(net.conv(high, 64, 1), x, RELU)
    for _ in range(2):
        x = net.conv(net.dw(x, act=RELU), 64, 1, act=RELU)
    return net.finish(net.softmax(net.up(net.conv(x, 7, 1), 8)))


def u2net_48() -> bytes:
    """A U whose every stage is a U itself; a map of each scale and one of all."""
    net = _Restored(509)

    def inner(x: int, middle: int, depth: int) -> int:
        whole = net.conv(x, depth, act=RELU)
        kept = [net.conv(whole, middle, act=RELU)]
        for _ in range(2):
            kept.append(net.conv(net.pool(kept[-1]), middle, act=RELU))
        x = net.conv(kept[-1], middle, dilation=2, act=RELU)
        for short in reversed(kept[1:]):
            x = net.up(net.conv(net.cat(x, short), middle, act=RELU))
        return net.sum(net.conv(net.cat(x, kept[0]), depth, act=RELU), whole)

    def dilated(x: int, middle: int, depth: int) -> int:
        whole = net.conv(x, depth, act=RELU)
        kept = [net.conv(whole, middle, act=RELU)]
        for far in (2, 4):
            kept.append(net.conv(kept[-1], middle, dilation=far, act=RELU))
        x = net.conv(kept[-1], middle, dilation=8, act=RELU)
        for short, far in zip(reversed(kept[1:]), (4, 2), strict=True):
            x = net.conv(net.cat(x, short), middle, dilation=far, act=RELU)
        return net.sum(net.conv(net.cat(x, kept[0]), depth, act=RELU), whole)

    one = inner(net.input(48, 64, 3), 4, 8)
    two = inner(net.pool(one), 8, 16)
    three = dilated(net.pool(two), 8, 16)
    two = inner(net.cat(net.up(three), two), 8, 16)
    one = inner(net.cat(net.up(two), one), 4, 8)
    sides = [net.conv(one, 1), net.up(net.conv(two, 1)), net.up(net.conv(three, 1), 4)]
    fused = net.conv(net.cat(*sides), 1, 1)
    return net.finish(*(net.table("LOGISTIC", x) for x in (fused, *sides)))


def espnet_96() -> bytes:
    """Dilated branches of a narrow map, each added to those before, so that no grid shows."""
    net = Layers(510)

    def pyramid(x: int, depth: int, stride: int = 1) -> int:
        part = depth // 4
        narrow = net.conv(x, part, 3, stride=2) if stride > 1 else net.conv(x, part, 1)
        branches = [net.conv(narrow, part, dilation=far) for far in (1, 2, 4, 8)]
        total, sums = branches[1], [branches[1]]
        for branch in branches[2:]:
            total = net.add(total, branch)
            sums.append(total)
        y = net.cat(branches[0], *sums)
        return net.prelu(net.add(x, y) if stride == 1 else y)

    image = net.input(96, 96, 3)
    half = net.pool(image, "AVERAGE", 3, 2, same=True)
    x = first = net.prelu(net.cat(net.conv(image, 13, stride=2), half))
    short = down = pyramid(x, 32, 2)
    for _ in range(2):
        short = pyramid(short, 32)
    second = net.prelu(net.cat(short, down, net.pool(half, "AVERAGE", 3, 2, same=True)))
    x = down = pyramid(second, 48, 2)
    for _ in range(2):
        x = pyramid(x, 48)
    x = net.tconv(net.conv(net.prelu(net.cat(x, down)), 6, 1), 6, 2)
    x = net.prelu(net.conv(net.cat(x, net.conv(second, 6, 1)), 6, 1))
    x = net.prelu(net.tconv(x, 6, 2))
    return net.finish(net.tconv(net.conv(net.cat(x, first), 6), 6, 2))


def mobilevit_64() -> bytes:
    """Attention between the pixels at the same place of every patch of 2x2."""
    net = _Restored(511)

    def inverted(x: int, depth: int, stride: int = 1) -> int:
        y = net.swish(net.conv(x, 2 * net.shape(x)[3], 1))
        y = net.conv(net.swish(net.dw(y, stride=stride)), depth, 1)
        return net.add(x, y) if net.shape(x) == net.shape(y) else y

    def mixed(x: int, depth: int) -> int:
        _, height, width, channels = net.shape(x)
        rows, columns = height // 2, width // 2
        y = net.transpose(net.conv(net.swish(net.conv(x, channels)), depth, 1), 0, 3, 1, 2)
        y = net.transpose(net.reshape(y, depth * rows, 2, columns, 2), 0, 2, 1, 3)
        y = net.transpose(net.reshape(y, 1, depth, rows * columns, 4), 0, 3, 2, 1)
        y = net.reshape(y, 4, rows * columns, depth)
        y = net.add(y, net.rows_attention(net.norm(y), 2))
        y = net.norm(net.add(y, net.dense(net.swish(net.dense(net.norm(y), 2 * depth)), depth)))
        y = net.transpose(net.reshape(y, 1, 4, rows * columns, depth), 0, 3, 2, 1)
        y = net.transpose(net.reshape(y, depth * rows, columns, 2, 2), 0, 2, 1, 3)
        y = net.transpose(net.reshape(y, 1, depth, height, width), 0, 2, 3, 1)
        y = net.swish(net.conv(y, channels, 1))
        return net.swish(net.conv(net.cat(x, y), channels))

    x = net.swish(net.conv(net.input(64, 64, 3), 16, stride=2))
    x = inverted(inverted(x, 24, 2), 24)
    x = mixed(inverted(x, 32, 2), 48)
    x = net.swish(net.conv(inverted(x, 48, 2), 96, 1))
    return net.finish(net.dense(net.mean(x, (1, 2), keep=False), 20))


def swin_sr_32() -> bytes:
    """Attention within windows, which are shifted in the second layer."""
    net = _Restored(512)

    def layer(x: int, shift: int) -> int:
        _, height, width, depth = net.shape(x)
        y = net.norm(x)
        y = net.partition(net.roll(y, shift) if shift else y, 8)
        terms = [net.const(1, 2, 64, 64), *([net.seams(height, width, 8, shift)] if shift else [])]
        y = net.join(net.rows_attention(y, 2, *terms), 8, height, width)
        x = net.add(x, net.roll(y, -shift) if shift else y)
        return net.add(x, net.dense(net.table("GELU", net.dense(net.norm(x), 2 * depth)), depth))

    first = x = net.conv(net.input(32, 32, 3), 20)
    x = net.conv(layer(layer(x, 0), 4), 20)
    x = net.conv(net.add(x, first), 20)
    return net.finish(net.depth_to_space(net.conv(net.add(x, first), 12), 2))


def vision_transformer_64() -> bytes:
    """A class token before the patches, the only position that is looked at in the end."""
    net = _Restored(513)
    x = net.reshape(net.conv(net.input(64, 64, 3), 48, 8, stride=8, same=False), 1, 64, 48)
    x = net.add(net.cat(net.token(x), x, axis=1), net.const(1, 65, 48))
    for _ in range(3):
        x = net.add(x, net.rows_attention(net.norm(x), 3))
        x = net.add(x, net.dense(net.table("GELU", net.dense(net.norm(x), 192)), 48))
    return net.finish(net.dense(net.reshape(net.slice(net.norm(x), (0, 0, 0), (1, 1, 48)), 1, 48), 10))


def linknet_u8_64() -> bytes:
    """Decoders that narrow, grow and widen a map, added to the map of the same size before."""
    net = Layers(514, DType.UINT8)

    def residual(x: int, depth: int, stride: int) -> int:
        short = net.conv(x, depth, 1, stride=stride) if stride > 1 else x
        return net.add(net.conv(net.conv(x, depth, stride=stride, act=RELU), depth), short, RELU)

    x = net.pool(net.conv(net.input(64, 64, 3), 16, 7, stride=2, act=RELU6), k=3, stride=2, same=True)
    kept = []
    for depth, stride in ((16, 1), (32, 2), (64, 2)):
        x = residual(residual(x, depth, stride), depth, 1)
        kept.append(x)
    for depth, short in zip((32, 16), reversed(kept[:-1]), strict=True):
        x = net.like("RELU", net.tconv(net.conv(x, net.shape(x)[3] // 4, 1, act=RELU), net.shape(x)[3] // 4))
        x = net.add(net.conv(x, depth, 1, act=RELU), short)
    x = net.like("RELU", net.tconv(x, 16))
    return net.finish(net.tconv(net.conv(x, 16, act=RELU), 4, 2))
