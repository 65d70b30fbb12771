"""Networks whose output is a map: segmentation, depth, restoration, super resolution, heatmaps, detection."""

from __future__ import annotations

from npu.graph.attributes import ArgMaxOptions
from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers


def dncnn_64() -> bytes:
    net = Layers(101)
    noisy = net.input(64, 64, 1)
    x = net.conv(noisy, 32, act=RELU)
    for _ in range(8):
        x = net.conv(x, 32, act=RELU)
    return net.finish(net.sub(noisy, net.conv(x, 1)))


def unet_96() -> bytes:
    net = Layers(102)
    x, kept = net.input(96, 96, 3), []
    for depth in (16, 32, 64):
        x = net.conv(net.conv(x, depth, act=RELU), depth, act=RELU)
        kept.append(x)
        x = net.pool(x)
    x = net.conv(x, 96, act=RELU)
    for depth, short in zip((64, 32, 16), reversed(kept), strict=True):
        x = net.conv(net.cat(net.tconv(x, depth, 2), short), depth, act=RELU)
    return net.finish(net.table("LOGISTIC", net.conv(x, 1, 1)))


def unetpp_64() -> bytes:
    net = Layers(103)
    nodes: dict[tuple[int, int], int] = {}
    x = net.input(64, 64, 3)
    for level, depth in enumerate((16, 24, 32, 48)):
        x = net.conv(x if level == 0 else net.pool(x), depth, act=RELU)
        nodes[level, 0] = x
    for step in (1, 2, 3):
        for level in range(4 - step):
            joined = [nodes[level, before] for before in range(step)] + [net.up(nodes[level + 1, step - 1])]
            nodes[level, step] = net.conv(net.cat(*joined), (16, 24, 32)[level], act=RELU)
    return net.finish(net.conv(nodes[0, 3], 2, 1))


def monodepth_96() -> bytes:
    net = Layers(104)
    x, kept = net.input(96, 128, 3), []
    for depth in (16, 24, 40, 80):
        x = net.block(net.conv(x, depth, stride=2, act=RELU6), depth)
        kept.append(x)
    for depth, short in zip((40, 24, 16), (*reversed(kept[:-1]),), strict=True):
        x = net.conv(net.add(net.conv(net.up(x), depth, act=RELU), net.conv(short, depth, 1)), depth, act=RELU)
    return net.finish(net.table("LOGISTIC", net.conv(net.up(x), 1)))


def conv_autoencoder_64() -> bytes:
    net = Layers(105)
    x = net.input(64, 64, 3)
    for depth in (16, 32, 64):
        x = net.conv(x, depth, stride=2, act=RELU)
    for depth in (32, 16, 3):
        x = net.tconv(x, depth, 3)
    return net.finish(net.table("LOGISTIC", x))


def gan_generator_32() -> bytes:
    net = Layers(106)
    x = net.reshape(net.dense(net.input(100), 4 * 4 * 128, RELU), 1, 4, 4, 128)
    for depth in (64, 32):
        x = net.table("LEAKY_RELU", net.tconv(x, depth, 5))
    return net.finish(net.table("TANH", net.tconv(x, 3, 5)))


def style_transfer_64() -> bytes:
    """Mirrored borders, norms over each map, nearest upsampling."""
    net = Layers(107)

    def layer(x: int, depth: int, k: int = 3, stride: int = 1, *, act: bool = True) -> int:
        border = (k // 2, k // 2)
        x = net.conv(net.pad(x, (0, 0), border, border, (0, 0), mirror=True), depth, k, stride=stride, same=False)
        x = net.add(net.mul(net.sub(x, net.gap(x, keep=True)), net.const(1, 1, depth)), net.const(1, 1, depth))
        return net.like("RELU", x) if act else x

    x = layer(layer(layer(net.input(64, 64, 3), 16, 9), 32, 3, 2), 48, 3, 2)
    for _ in range(3):
        x = net.add(x, layer(layer(x, 48), 48, act=False))
    x = layer(net.up(x, nearest=True), 32)
    return net.finish(net.table("TANH", layer(net.up(x, nearest=True), 3, 9, act=False)))


def espcn_x3_60() -> bytes:
    net = Layers(108)
    x = net.conv(net.conv(net.input(60, 80, 1), 32, 5, act=RELU), 24, act=RELU)
    return net.finish(net.depth_to_space(net.conv(x, 9), 3))


def fsrcnn_x2_48() -> bytes:
    net = Layers(109)
    x = net.prelu(net.conv(net.input(48, 48, 1), 32, 5))
    x = net.prelu(net.conv(x, 8, 1))
    for _ in range(3):
        x = net.prelu(net.conv(x, 8))
    return net.finish(net.tconv(net.prelu(net.conv(x, 32, 1)), 1, 9))


def distillation_sr_48() -> bytes:
    """Blocks that keep a part of the channels and refine the rest."""
    net = Layers(110)
    first = x = net.conv(net.input(48, 48, 3), 32)
    for _ in range(3):
        kept, y = [], x
        for _ in range(3):
            y = net.table("LEAKY_RELU", net.conv(y, 32))
            part, rest = net.slice(y, (0, 0, 0, 0), (1, 48, 48, 8)), net.slice(y, (0, 0, 0, 8), (1, 48, 48, 32))
            kept, y = [*kept, part], rest
        x = net.add(x, net.conv(net.excite(net.cat(*kept, net.conv(y, 8))), 32, 1))
    return net.finish(net.depth_to_space(net.conv(net.add(x, first), 12), 2))


def curve_enhancement_64() -> bytes:
    """Curves applied to the image four times."""
    net = Layers(111)
    image = net.input(64, 96, 3)
    one = net.conv(image, 16, act=RELU)
    two = net.conv(one, 16, act=RELU)
    three = net.conv(two, 16, act=RELU)
    four = net.conv(net.cat(two, three), 16, act=RELU)
    curves = net.table("TANH", net.conv(net.cat(one, four), 12))
    x = image
    for part in net.split(curves, 4):
        x = net.add(x, net.mul(part, net.sub(net.mul(x, x), x)))
    return net.finish(x)


def aspp_segmentation_65() -> bytes:
    net = Layers(112)
    x = net.conv(net.input(65, 65, 3), 16, stride=2, act=RELU6)
    for depth, stride in ((24, 2), (32, 2), (64, 1)):
        x = net.block(x, depth, stride=stride)
    rates = [net.conv(net.dw(x, dilation=rate, act=RELU), 32, 1, act=RELU) for rate in (2, 4, 6)]
    _, height, width, _ = net.shape(x)
    pooled = net.resize(net.conv(net.gap(x, keep=True), 32, 1, act=RELU), height, width)
    x = net.conv(net.cat(net.conv(x, 32, 1, act=RELU), *rates, pooled), 32, 1, act=RELU)
    logits = net.resize(net.conv(x, 8, 1), 65, 65, align=True)
    classes = net.b.op("ARG_MAX", [logits, net.ints(3)], (1, 65, 65), DType.INT32, attributes=ArgMaxOptions(DType.INT32))
    return net.finish(classes)


def enet_64() -> bytes:
    net = Layers(113)
    image = net.input(64, 64, 3)
    x = net.cat(net.conv(image, 13, stride=2), net.pool(image))
    for depth, dilation in ((32, 1), (32, 2), (32, 4)):
        y = net.conv(x, depth // 4, 1, act=RELU)
        y = net.conv(net.conv(y, depth // 4, (1, 5)), depth // 4, (5, 1), act=RELU)
        y = net.conv(net.conv(y, depth // 4, dilation=dilation, act=RELU), depth, 1)
        x = net.add(y, x, RELU) if net.shape(x) == net.shape(y) else net.like("RELU", y)
    return net.finish(net.tconv(net.tconv(x, 16), 4))


def high_resolution_64() -> bytes:
    """Three resolutions side by side that are mixed again and again."""
    net = Layers(114)
    x = net.conv(net.conv(net.input(64, 64, 3), 16, stride=2, act=RELU), 16, act=RELU)
    branches = [x, net.conv(x, 32, stride=2, act=RELU)]
    branches.append(net.conv(branches[1], 64, stride=2, act=RELU))
    for _ in range(2):
        branches = [net.conv(branch, net.shape(branch)[3], act=RELU) for branch in branches]
        mixed = []
        for to, target in enumerate(branches):
            total = target
            for at, source in enumerate(branches):
                if at > to:
                    total = net.add(
                        total, net.up(net.conv(source, net.shape(target)[3], 1), 2 ** (at - to), nearest=True), RELU
                    )
                elif at < to:
                    for step in range(to - at):
                        last = step == to - at - 1
                        source = net.conv(source, net.shape(target)[3] if last else net.shape(source)[3], stride=2)
                    total = net.add(total, source, RELU)
            mixed.append(total)
        branches = mixed
    return net.finish(net.conv(branches[0], 17, 1))


def hourglass_64() -> bytes:
    net = Layers(115)

    def glass(x: int, level: int) -> int:
        short = net.conv(x, 32, act=RELU)
        low = net.conv(net.pool(x), 32, act=RELU)
        low = glass(low, level - 1) if level else net.conv(low, 32, act=RELU)
        return net.add(short, net.up(low, nearest=True))

    x = net.conv(net.input(64, 64, 3), 32, stride=2, act=RELU)
    return net.finish(net.conv(glass(x, 2), 16, 1))


def pyramid_detector_128() -> bytes:
    """A detector with a feature pyramid and shared heads; two scales."""
    net = Layers(116)
    x, kept = net.conv(net.input(128, 128, 3), 16, stride=2, act=RELU6), []
    for depth, stride in ((24, 2), (48, 2), (64, 2), (96, 2)):
        x = net.block(net.block(x, depth, stride=stride), depth)
        kept.append(x)
    top = net.conv(kept[3], 48, 1)
    middle = net.add(net.conv(kept[2], 48, 1), net.up(top, nearest=True))
    outputs = []
    for level in (middle, top):
        y = net.conv(net.conv(level, 48, act=RELU), 48, act=RELU)
        count = net.shape(y)[1] * net.shape(y)[2]
        outputs.append(net.cat(net.table("LOGISTIC", net.conv(y, 1, 1)), net.conv(y, 4, 1)))
        outputs[-1] = net.reshape(outputs[-1], 1, count, 5)
    return net.finish(net.cat(*outputs, axis=1))


def centre_points_96() -> bytes:
    """Heatmaps with their local maxima kept, as anchor-free detectors do."""
    net = Layers(117)
    x = net.conv(net.input(96, 96, 3), 16, stride=2, act=RELU)
    for depth in (32, 64):
        x = net.conv(net.conv(x, depth, stride=2, act=RELU), depth, act=RELU)
    x = net.tconv(x, 32, 4)
    heat = net.table("LOGISTIC", net.conv(net.conv(x, 32, act=RELU), 3, 1))
    peaks = net.pool(heat, k=3, stride=1, same=True)
    return net.finish(net.sub(heat, peaks), net.conv(net.conv(x, 32, act=RELU), 2, 1))


def two_branch_segmentation_128() -> bytes:
    """A branch of details and one of context at 1/16, joined at 1/8, with pyramid pooling."""
    net = Layers(118)
    image = net.input(128, 128, 3)
    detail = net.conv(net.conv(net.conv(image, 16, stride=2, act=RELU), 24, stride=2, act=RELU), 32, stride=2, act=RELU)
    context = net.block(net.block(detail, 48, stride=2), 64)
    context = net.block(context, 64)
    _, height, width, _ = net.shape(context)
    levels = [context]
    for size in (height, height // 2):
        pooled = net.conv(net.pool(context, "AVERAGE", size), 16, 1, act=RELU)
        levels.append(net.resize(pooled, height, width))
    context = net.conv(net.cat(*levels), 32, 1, act=RELU)
    x = net.add(net.conv(detail, 32, 1), net.conv(net.up(context), 32, 1), RELU)
    return net.finish(net.up(net.conv(net.block(x, 32), 6, 1), 8))


def cost_volume_32() -> bytes:
    """Correlation of two images at several displacements, then refinement."""
    net = Layers(119)
    features = []
    for _ in range(2):
        features.append(net.conv(net.conv(net.input(64, 96, 1), 16, stride=2, act=RELU), 16, act=RELU))
    left, right = features
    padded = net.pad(right, (0, 0), (0, 0), (4, 0), (0, 0))
    _, height, width, depth = net.shape(left)
    costs = []
    for shift in range(0, 5):
        moved = net.slice(padded, (0, 0, 4 - shift, 0), (1, height, 4 - shift + width, depth))
        costs.append(net.mean(net.mul(left, moved), (3,)))
    x = net.conv(net.cat(*costs), 16, act=RELU)
    return net.finish(net.up(net.conv(net.conv(x, 16, act=RELU), 1)))


def attention_sr_40() -> bytes:
    """Residual blocks with channel attention."""
    net = Layers(120)
    first = x = net.conv(net.input(40, 40, 3), 32)
    for _ in range(4):
        x = net.add(x, net.excite(net.conv(net.conv(x, 32, act=RELU), 32)))
    x = net.depth_to_space(net.conv(net.add(x, first), 128), 2)
    return net.finish(net.conv(x, 3))


def matting_guided_64() -> bytes:
    """Box filters over large windows."""
    net = Layers(121)
    image = net.input(64, 64, 3)
    x = net.conv(net.conv(image, 16, act=RELU), 8, act=RELU)
    box = net.pool(x, "AVERAGE", 9, 1, same=True)
    variance = net.sub(net.pool(net.mul(x, x), "AVERAGE", 9, 1, same=True), net.mul(box, box))
    return net.finish(net.table("LOGISTIC", net.conv(net.cat(net.sub(x, box), variance), 1, 1)))


def text_fields_96() -> bytes:
    net = Layers(122)
    x, kept = net.input(96, 128, 3), []
    for depth in (16, 32, 64, 96):
        x = net.conv(net.conv(x, depth, stride=2, act=RELU), depth, act=RELU)
        kept.append(x)
    for depth, short in zip((64, 32, 16), reversed(kept[:-1]), strict=True):
        x = net.conv(net.conv(net.cat(net.up(x), short), depth, 1, act=RELU), depth, act=RELU)
    return net.finish(net.table("LOGISTIC", net.conv(x, 1, 1)), net.conv(x, 4, 1, act=NONE))
