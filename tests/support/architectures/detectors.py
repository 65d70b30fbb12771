"""Networks that find things in an image and say where: boxes, landmarks, poses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation, Padding
from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers

_SILU = {"scale": 0.026, "zero_point": -104}
_COARSE = {"scale": 0.18, "zero_point": -45}
"""Corners of boxes in cells of a grid."""
_ANCHORS = (3, 6, 6, 6, 6)
"""Boxes at each place of the five maps of an SSD."""


class _Detector(Layers):
    """Layers with what detectors have: rows of boxes, channel shuffles, weighted sums.

    `gain` below one makes weights smaller, so that sums of many residuals do not saturate.
    """

    def __init__(self, seed: int, dtype: DType = DType.INT8, gain: float = 1) -> None:
        super().__init__(seed, dtype)
        self.gain = gain

    def weights(self, x: int, shape: tuple[int, ...], axis: int) -> list[int]:
        constants = super().weights(x, shape, axis)
        for constant in constants:
            tensor = self.b.tensors[constant]
            assert tensor.quantization is not None
            scales = tensor.quantization.scales * np.float32(self.gain)
            self.b.tensors[constant] = replace(tensor, quantization=replace(tensor.quantization, scales=scales))
        return constants

    def rows(self, x: int, depth: int) -> int:
        """A map as rows of that many values."""
        return self.reshape(x, 1, int(np.prod(self.shape(x))) // depth, depth)

    def leaky(self, x: int, depth: int, k: int = 3, stride: int = 1) -> int:
        return self.table("LEAKY_RELU", self.conv(x, depth, k, stride=stride))

    def hard_swish(self, x: int, depth: int, k: int = 3, stride: int = 1) -> int:
        return self.table("HARD_SWISH", self.conv(x, depth, k, stride=stride))

    def silu(self, x: int, depth: int, k: int = 3, stride: int = 1) -> int:
        x = self.conv(x, depth, k, stride=stride)
        return self.make("MUL", [x, self.table("LOGISTIC", x)], self.shape(x), at.MulOptions(NONE), **_SILU)

    def parted(self, x: int, depth: int, *, residual: bool) -> int:
        """The C2f block of YOLOv8: every part that is made on the way is kept."""
        left, right = self.split(self.silu(x, depth, 1), 2)
        y = self.silu(self.silu(right, depth // 2), depth // 2)
        if residual:
            y = self.make("ADD", [right, y], self.shape(y), at.AddOptions(NONE), **_SILU)
        return self.silu(self.cat(left, right, y), depth, 1)

    def inverted(self, x: int, depth: int, k: int = 3, stride: int = 1, times: int = 6) -> int:
        """Inverted residual block of MobileNetV2."""
        y = self.conv(x, self.shape(x)[3] * times, 1, act=RELU6) if times > 1 else x
        y = self.conv(self.dw(y, k, stride=stride, act=RELU6), depth, 1)
        return self.add(x, y) if self.shape(x) == self.shape(y) else y

    def shuffle(self, x: int) -> int:
        """The channels of two halves, in turn."""
        _, height, width, depth = self.shape(x)
        x = self.transpose(self.reshape(x, 1, height, width, 2, depth // 2), 0, 1, 2, 4, 3)
        return self.reshape(x, 1, height, width, depth)

    def weighted(self, *inputs: int) -> int:
        """A sum with weights that are positive and sum to one."""
        shares = self.rng.uniform(0.3, 1, len(inputs))
        total = None
        for x, share in zip(inputs, shares / shares.sum(), strict=True):
            part = self.mul(x, self.scalar(float(share)))
            total = part if total is None else self.add(total, part)
        assert total is not None
        return total

    def scalar(self, value: float) -> int:
        return self.b.constant(np.array(127, np.int8), scale=value / 255, zero_point=-128)

    def shared(self, inputs: list[int], depth: int, act: FusedActivation = NONE) -> list[int]:
        """Convolutions of several maps with the same weights and biases."""
        assert len({self.scale(x) for x in inputs}) == 1
        constants = self.weights(inputs[0], (depth, 3, 3, self.shape(inputs[0])[3]), 0)
        options = at.Conv2DOptions(Padding.SAME, 1, 1, act, 1, 1)
        return [self.make("CONV_2D", [x, *constants], (*self.shape(x)[:3], depth), options, **self.signed(act)) for x in inputs]

    def expected(self, x: int, bins: int) -> int:
        """What a distribution over bins amounts to: a convolution whose weights are 0, 1, 2, ..."""
        step, (_, height, width, _) = (bins - 1) / 127, self.shape(x)
        values = np.round(np.arange(bins) / step).astype(np.int8).reshape(1, 1, 1, bins)
        weights = self.b.constant(values, scale=step, zero_point=0)
        bias = self.b.constant(np.zeros(1, np.int32), scale=step * self.scale(x), zero_point=0)
        options = at.Conv2DOptions(Padding.VALID, 1, 1, NONE, 1, 1)
        return self.make("CONV_2D", [x, weights, bias], (1, height, width, 1), options, scale=(bins - 1) / 255)


def palm_detector_128() -> bytes:
    """Residuals are pooled maps with channels of zeros; transposed convolutions go up."""
    net = _Detector(401, gain=0.5)
    kept, x = [], net.conv(net.input(128, 128, 3), 16, stride=2, act=RELU)
    for stage, (depth, blocks) in enumerate(((16, 2), (32, 3), (64, 3), (96, 3), (96, 3))):
        for block in range(blocks):
            shrinks = stage > 0 and block == 0
            y = net.conv(net.dw(x, 5, stride=2 if shrinks else 1), depth, 1)
            x = net.pool(x) if shrinks else x
            if depth > net.shape(x)[3]:
                x = net.pad(x, (0, 0), (0, 0), (0, 0), (0, depth - net.shape(x)[3]))
            x = net.add(x, y, RELU)
        kept.append(x)
    boxes, scores = [], []
    for short, anchors in ((kept[3], 6), (kept[2], 2)):
        depth = net.shape(short)[3]
        x = net.add(net.like("RELU", net.tconv(x, depth, 2)), net.conv(short, depth, 1, act=RELU))
        x = net.add(x, net.conv(net.dw(x, 5), depth, 1), RELU)
        boxes.append(net.rows(net.conv(x, anchors * 18, 1), 18))
        scores.append(net.rows(net.conv(x, anchors, 1), 1))
    return net.finish(net.cat(*reversed(boxes), axis=1), net.cat(*reversed(scores), axis=1))


def hand_landmarks_96() -> bytes:
    """Landmarks in the image and in the world, whether there is a hand, and which."""
    net = _Detector(402, gain=0.8)
    x = net.conv(net.input(96, 96, 3), 16, stride=2, act=RELU6)
    x = net.inverted(x, 16, times=1)
    for depth, k, stride in ((16, 3, 2), (16, 3, 1), (24, 5, 2), (24, 5, 1), (40, 3, 2), (40, 3, 1), (56, 5, 1), (80, 5, 2)):
        x = net.inverted(x, depth, k, stride)
    x = net.gap(net.conv(net.inverted(x, 80, 5), 288, 1, act=RELU6))
    flag, side = net.table("LOGISTIC", net.dense(x, 1)), net.table("LOGISTIC", net.dense(x, 1))
    return net.finish(net.dense(x, 63), flag, side, net.dense(x, 63))


def ssdlite_mobilenetv2_160() -> bytes:
    net = _Detector(403)
    x = net.inverted(net.conv(net.input(160, 160, 3), 16, stride=2, act=RELU6), 8, times=1)
    for depth, stride in ((8, 2), (8, 1), (16, 2), (16, 1), (24, 2), (24, 1), (32, 1), (32, 1)):
        x = net.inverted(x, depth, stride=stride)
    wide = net.conv(x, 192, 1, act=RELU6)
    x = net.conv(net.dw(wide, stride=2, act=RELU6), 56, 1)
    x = net.conv(net.inverted(x, 56), 256, 1, act=RELU6)
    levels = [wide, x]
    for depth in (96, 64, 48):
        x = net.conv(net.dw(net.conv(x, depth // 2, 1, act=RELU6), stride=2, act=RELU6), depth, 1, act=RELU6)
        levels.append(x)
    boxes, scores = [], []
    for x, anchors in zip(levels, _ANCHORS, strict=True):
        boxes.append(net.rows(net.conv(net.dw(x, act=RELU6), anchors * 4, 1), 4))
        scores.append(net.rows(net.conv(net.dw(x, act=RELU6), anchors * 6, 1), 6))
    return net.finish(net.cat(*boxes, axis=1), net.table("LOGISTIC", net.cat(*scores, axis=1)))


def yolov8_128() -> bytes:
    """Distances to the sides of a box as distributions over 16 bins, decoded on a grid of points."""
    net = _Detector(404)
    x = net.silu(net.silu(net.input(128, 128, 3), 8, stride=2), 16, stride=2)
    x = net.silu(net.parted(x, 16, residual=True), 32, stride=2)
    fine = net.parted(x, 32, residual=True)
    x = net.silu(net.parted(net.silu(fine, 64, stride=2), 64, residual=True), 32, 1)
    pooled = [x]
    for _ in range(3):
        pooled.append(net.pool(pooled[-1], k=5, stride=1, same=True))
    coarse = net.silu(net.cat(*pooled), 64, 1)
    fine = net.parted(net.cat(net.up(coarse, nearest=True), fine), 32, residual=False)
    coarse = net.parted(net.cat(net.silu(fine, 32, stride=2), coarse), 64, residual=False)
    sides, scores = [], []
    for x in (fine, coarse):
        sides.append(net.rows(net.conv(net.silu(net.silu(x, 24), 24), 64, 1), 64))
        scores.append(net.rows(net.conv(net.silu(net.silu(x, 16), 16), 5, 1), 5))
    x = net.cat(*sides, axis=1)
    count = net.shape(x)[1]
    x = net.expected(net.softmax(net.reshape(x, 1, count, 4, 16)), 16)
    x = net.reshape(x, 1, count, 4)
    cells = [np.stack(np.meshgrid(*2 * [np.arange(size) + 0.5]), -1).reshape(-1, 2) for size in (16, 8)]
    points = net.b.constant(np.round(np.concatenate(cells) * 15 - 128).astype(np.int8)[None], scale=1 / 15, zero_point=-128)
    steps = np.repeat(np.array([63, 127], np.int8), [len(cell) for cell in cells]).reshape(1, count, 1)
    first, second = net.slice(x, (0, 0, 0), (1, count, 2)), net.slice(x, (0, 0, 2), (1, count, 4))
    first = net.make("SUB", [points, first], (1, count, 2), at.SubOptions(NONE), **_COARSE)
    second = net.make("ADD", [points, second], (1, count, 2), at.AddOptions(NONE), **_COARSE)
    corners, strides = net.cat(first, second, axis=2), net.b.constant(steps, scale=16 / 127, zero_point=0)
    boxes = net.make("MUL", [corners, strides], (1, count, 4), at.MulOptions(NONE), scale=2.2, zero_point=-45)
    return net.finish(boxes, net.table("LOGISTIC", net.cat(*scores, axis=1)))


def yolov3_tiny_128() -> bytes:
    net = _Detector(405)
    x, route = net.input(128, 128, 3), 0
    for depth in (8, 16, 32, 64, 80):
        route = net.leaky(x, depth)
        x = net.pool(route)
    x = net.pool(net.leaky(x, 128), k=2, stride=1, same=True)
    x = net.leaky(net.leaky(x, 160), 48, 1)
    coarse = net.conv(net.leaky(x, 96), 3 * 9, 1)
    fine = net.leaky(net.cat(net.up(net.leaky(x, 24, 1), nearest=True), route), 56)
    return net.finish(coarse, net.conv(fine, 3 * 9, 1))


def nanodet_160() -> bytes:
    """Maps are added to their neighbours, resized both up and down."""
    net = _Detector(406)

    def separable(x: int, depth: int, k: int = 3) -> int:
        return net.leaky(net.table("LEAKY_RELU", net.dw(x, k)), depth, 1)

    x, levels = net.pool(net.leaky(net.input(160, 160, 3), 24, stride=2), k=3, stride=2, same=True), []
    for depth, units in ((48, 1), (96, 2), (192, 1)):
        left = net.leaky(net.dw(x, stride=2), depth // 2, 1)
        right = net.leaky(net.dw(net.leaky(x, depth // 2, 1), stride=2), depth // 2, 1)
        x = net.shuffle(net.cat(left, right))
        for _ in range(units):
            left, right = net.split(x, 2)
            right = net.leaky(net.dw(net.leaky(right, depth // 2, 1)), depth // 2, 1)
            x = net.shuffle(net.cat(left, right))
        levels.append(net.conv(x, 48, 1))
    for level in (1, 0):
        levels[level] = net.add(levels[level], net.up(levels[level + 1], half=True))
    for level in (1, 2):
        _, height, width, _ = net.shape(levels[level])
        levels[level] = net.add(levels[level], net.resize(levels[level - 1], height, width, half=True))
    outputs = [net.rows(net.conv(separable(separable(x, 48), 48), 4 + 32, 1), 36) for x in levels]
    joined = net.cat(*outputs, axis=1)
    count = net.shape(joined)[1]
    scores = net.table("LOGISTIC", net.slice(joined, (0, 0, 0), (1, count, 4)))
    return net.finish(scores, net.slice(joined, (0, 0, 4), (1, count, 36)))


def retinaface_128() -> bytes:
    """Context modules: windows of 3, 5 and 7 from the same chain of 3x3 kernels."""
    net = _Detector(407)

    def context(x: int, depth: int) -> int:
        five = net.leaky(x, depth // 4)
        seven = net.conv(net.leaky(five, depth // 4), depth // 4)
        return net.like("RELU", net.cat(net.conv(x, depth // 2), net.conv(five, depth // 4), seven))

    x, kept = net.leaky(net.input(128, 128, 3), 8, stride=2), []
    for stage in (
        ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1)),
        ((128, 2), (128, 1), (128, 1)),
        ((192, 2), (192, 1)),
    ):
        for depth, stride in stage:
            x = net.leaky(net.table("LEAKY_RELU", net.dw(x, stride=stride)), depth, 1)
        kept.append(x)
    levels = [net.leaky(x, 32, 1) for x in kept]
    for level in (1, 0):
        levels[level] = net.leaky(net.add(levels[level], net.up(levels[level + 1], nearest=True)), 32)
    levels = [context(x, 32) for x in levels]
    boxes, faces, points = (
        net.cat(*(net.rows(net.conv(x, 2 * depth, 1), depth) for x in levels), axis=1) for depth in (4, 2, 10)
    )
    return net.finish(boxes, net.softmax(faces), points)


def mtcnn_output_net_64() -> bytes:
    net = _Detector(408, gain=0.8)
    x = net.input(64, 64, 3)
    for depth, k, window in ((32, 3, 3), (64, 3, 3), (64, 3, 2)):
        x = net.pool(net.prelu(net.conv(x, depth, k, same=False)), k=window, stride=2)
    x = net.prelu(net.conv(x, 128, 2, same=False))
    x = net.reshape(net.dense(net.rows(x, 4 * 4 * 128), 128), 1, 1, 1, 128)
    x = net.reshape(net.prelu(x), 1, 128)
    return net.finish(net.softmax(net.dense(x, 2)), net.dense(x, 4), net.dense(x, 10))


def efficientdet_128() -> bytes:
    """Two rounds of a pyramid that goes down and up again by weighted sums."""
    net = _Detector(409)
    x, kept = net.hard_swish(net.input(128, 128, 3), 16, stride=2), []
    for depth, k, stride in ((16, 3, 2), (24, 5, 2), (24, 5, 1), (40, 3, 2), (64, 5, 2)):
        y = net.hard_swish(x, net.shape(x)[3] * 4, 1)
        y = net.conv(net.table("HARD_SWISH", net.dw(y, k, stride=stride)), depth, 1)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
        kept.append(x)

    def node(*inputs: int) -> int:
        return net.conv(net.dw(net.table("HARD_SWISH", net.weighted(*inputs))), 32, 1)

    three, four, five = (net.conv(x, 32, 1) for x in kept[2:])
    for _ in range(2):
        middle = node(four, net.up(five, nearest=True))
        three = node(three, net.up(middle, nearest=True))
        four = node(four, middle, net.pool(three, k=3, stride=2, same=True))
        five = node(five, net.pool(four, k=3, stride=2, same=True))
    levels = (three, four, five)
    boxes, scores = (
        net.cat(*(net.rows(net.conv(net.dw(net.hard_swish(net.dw(x), 32, 1)), 9 * depth, 1), depth) for x in levels), axis=1)
        for depth in (4, 6)
    )
    return net.finish(boxes, net.table("LOGISTIC", scores))


def fcos_128() -> bytes:
    """The same heads, with the same weights, on three levels."""
    net = _Detector(410, gain=0.75)
    x, kept = net.pool(net.conv(net.input(128, 128, 3), 8, 7, stride=2, act=RELU), k=3, stride=2, same=True), []
    for depth, stride in ((32, 1), (64, 2), (96, 2), (128, 2)):
        y = net.conv(net.conv(x, depth // 4, 1, act=RELU), depth // 4, stride=stride, act=RELU)
        x = net.add(net.conv(y, depth, 1), net.conv(x, depth, 1, stride=stride), RELU)
        y = net.conv(net.conv(x, depth // 4, 1, act=RELU), depth // 4, act=RELU)
        x = net.add(net.conv(y, depth, 1), x, RELU)
        kept.append(x)
    levels = [net.conv(x, 24, 1) for x in kept[1:]]
    for level in (1, 0):
        levels[level] = net.add(levels[level], net.up(levels[level + 1], nearest=True))
    levels = [net.conv(x, 24) for x in levels]
    classes = net.shared(net.shared(levels, 24, RELU), 24, RELU)
    sides = net.shared(net.shared(levels, 24, RELU), 24, RELU)
    outputs = []
    for kind, (maps, depth) in enumerate(((classes, 8), (sides, 4), (sides, 1))):
        found = net.shared(maps, depth)
        if kind == 1:
            found = [net.like("RELU", net.mul(x, net.scalar(0.7 + 0.15 * level))) for level, x in enumerate(found)]
        joined = net.cat(*(net.rows(x, depth) for x in found), axis=1)
        outputs.append(joined if kind == 1 else net.table("LOGISTIC", joined))
    return net.finish(*outputs)


def posenet_129() -> bytes:
    """Dilated kernels in place of the last stride; offsets of key points and of their neighbours."""
    net = _Detector(411)
    x = net.conv(net.input(129, 129, 3), 16, stride=2, act=RELU6)
    for depth, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 2), *5 * ((96, 1),)):
        x = net.block(x, depth, stride=stride)
    for _ in range(2):
        x = net.conv(net.dw(x, dilation=2, act=RELU6), 160, 1, act=RELU6)
    return net.finish(net.table("LOGISTIC", net.conv(x, 17, 1)), *(net.conv(x, depth, 1) for depth in (34, 32, 32)))


def lite_hrnet_128() -> bytes:
    """Channels weighted by what all resolutions see, in place of 1x1 kernels."""
    net = _Detector(412, gain=0.8)

    def weighting(branches: list[int]) -> list[int]:
        halves = [net.split(x, 2) for x in branches]
        _, height, width, _ = net.shape(branches[-1])
        pooled = [
            net.pool(half, "AVERAGE", net.shape(half)[1] // height) if net.shape(half)[1] > height else half
            for _, half in halves
        ]
        x = net.cat(*pooled)
        x = net.table("LOGISTIC", net.conv(net.conv(x, net.shape(x)[3] // 4, 1, act=RELU), net.shape(x)[3], 1))
        made, begin = [], 0
        for kept, half in halves:
            _, size, _, depth = net.shape(half)
            share = net.slice(x, (0, 0, 0, begin), (1, height, width, begin + depth))
            share = net.resize(share, size, size, nearest=True) if size > height else share
            made.append(net.shuffle(net.cat(net.excite(net.dw(net.mul(half, share))), kept)))
            begin += depth
        return made

    x = net.conv(net.input(128, 128, 3), 32, stride=2, act=RELU)
    left, right = net.split(x, 2)
    left = net.conv(net.dw(left, stride=2), 16, 1, act=RELU)
    right = net.conv(net.dw(net.conv(right, 32, 1, act=RELU), stride=2), 16, 1, act=RELU)
    x = net.shuffle(net.cat(left, right))
    one, two = weighting([net.conv(net.dw(x), 32, 1, act=RELU), net.conv(net.dw(x, stride=2), 64, 1, act=RELU)])
    fused = net.add(one, net.up(net.conv(two, 32, 1), nearest=True), RELU)
    two = net.add(net.conv(net.dw(one, stride=2), 64, 1), two, RELU)
    one, two, three = weighting([fused, two, net.conv(net.dw(two, stride=2), 128, 1, act=RELU)])
    x = net.conv(net.dw(three), 64, 1, act=RELU)
    x = net.conv(net.dw(net.add(two, net.up(x))), 32, 1, act=RELU)
    return net.finish(net.conv(net.conv(net.dw(net.add(one, net.up(x))), 32, 1, act=RELU), 17, 1))


def ssd_mobilenetv1_u8_160() -> bytes:
    net = _Detector(413, DType.UINT8)
    x = net.conv(net.input(160, 160, 3), 8, stride=2, act=RELU6)
    for depth, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (96, 2), *4 * ((96, 1),)):
        x = net.block(x, depth, stride=stride)
    levels = [x]
    x = net.block(net.block(x, 160, stride=2), 160)
    levels.append(x)
    for depth in (96, 64, 48):
        x = net.conv(net.conv(x, depth // 2, 1, act=RELU6), depth, stride=2, act=RELU6)
        levels.append(x)
    boxes, scores = [], []
    for x, anchors in zip(levels, _ANCHORS, strict=True):
        y = net.conv(x, anchors * 4, 1)
        boxes.append(net.reshape(y, 1, net.shape(y)[1] * net.shape(y)[2] * anchors, 1, 4))
        scores.append(net.rows(net.conv(x, anchors * 8, 1), 8))
    return net.finish(net.rows(net.cat(*boxes, axis=1), 4), net.table("LOGISTIC", net.cat(*scores, axis=1)))
