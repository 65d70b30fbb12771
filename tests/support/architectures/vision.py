"""Networks that look at an image as a whole: classifiers, embeddings, landmarks."""

from __future__ import annotations

from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers


def squeezenet_96() -> bytes:
    net = Layers(1)
    x = net.pool(net.conv(net.input(96, 96, 3), 48, stride=2, act=RELU), k=3, stride=2)
    for squeeze, expand in ((16, 64), (16, 64), (32, 128), (48, 192)):
        narrow = net.conv(x, squeeze, 1, act=RELU)
        x = net.cat(net.conv(narrow, expand, 1, act=RELU), net.conv(narrow, expand, 3, act=RELU))
        if squeeze == 16 and expand == 64 and net.shape(x)[1] > 12:
            x = net.pool(x, k=3, stride=2)
    return net.finish(net.softmax(net.gap(net.conv(x, 20, 1, act=RELU))))


def densenet_64() -> bytes:
    net = Layers(2)
    x = net.conv(net.input(64, 64, 3), 24, stride=2, act=RELU)
    for layers in (4, 6, 4):
        for _ in range(layers):
            x = net.cat(x, net.conv(net.conv(x, 48, 1, act=RELU), 12, 3, act=RELU))
        x = net.pool(net.conv(x, net.shape(x)[3] // 2, 1, act=RELU), "AVERAGE")
    return net.finish(net.dense(net.gap(x), 10))


def inception_79() -> bytes:
    net = Layers(3)
    x = net.conv(net.conv(net.input(79, 79, 3), 16, stride=2, act=RELU, same=False), 32, act=RELU)
    x = net.pool(x, k=3, stride=2)
    for depth in (16, 24, 32):
        one = net.conv(x, depth, 1, act=RELU)
        five = net.conv(net.conv(x, depth, 1, act=RELU), depth, 5, act=RELU)
        tall = net.conv(net.conv(net.conv(x, depth, 1, act=RELU), depth, (1, 7), act=RELU), depth, (7, 1), act=RELU)
        pooled = net.conv(net.pool(x, "AVERAGE", 3, 1, same=True), depth, 1, act=RELU)
        x = net.cat(one, five, tall, pooled)
    return net.finish(net.dense(net.gap(x), 100))


def resnet18_56() -> bytes:
    net = Layers(4)
    x = net.pool(net.conv(net.input(112, 112, 3), 32, 7, stride=2, act=RELU), k=3, stride=2, same=True)
    for depth, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        short = net.conv(x, depth, 1, stride=stride) if stride > 1 else x
        x = net.add(net.conv(net.conv(x, depth, stride=stride, act=RELU), depth), short, RELU)
    return net.finish(net.dense(net.gap(x), 50))


def repvgg_96() -> bytes:
    net = Layers(5)
    x = net.input(96, 96, 3)
    for depth, layers in ((24, 1), (48, 2), (96, 4), (192, 3)):
        for layer in range(layers):
            x = net.conv(x, depth, stride=1 if layer else 2, act=RELU)
    return net.finish(net.dense(net.gap(x), 30))


def efficientnet_lite_96() -> bytes:
    net = Layers(6)
    x = net.conv(net.input(96, 96, 3), 24, stride=2, act=RELU6)
    for depth, stride, k in ((16, 1, 3), (24, 2, 3), (24, 1, 3), (40, 2, 5), (40, 1, 5), (80, 2, 3), (80, 1, 3), (112, 1, 5)):
        y = net.conv(net.dw(net.conv(x, net.shape(x)[3] * 6, 1, act=RELU6), k, stride=stride, act=RELU6), depth, 1)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
    return net.finish(net.dense(net.gap(net.conv(x, 320, 1, act=RELU6)), 40))


def mobilenetv3_small_64() -> bytes:
    net = Layers(7)
    x = net.table("HARD_SWISH", net.conv(net.input(64, 64, 3), 16, stride=2))
    for expand, depth, stride, k in ((16, 16, 2, 3), (72, 24, 2, 3), (88, 24, 1, 3), (96, 40, 2, 5), (240, 40, 1, 5)):
        y = net.table("HARD_SWISH", net.dw(net.table("HARD_SWISH", net.conv(x, expand, 1)), k, stride=stride))
        y = net.conv(net.excite(y, hard=True), depth, 1)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
    return net.finish(net.dense(net.table("HARD_SWISH", net.dense(net.gap(x), 256)), 20))


def ghostnet_64() -> bytes:
    net = Layers(8)

    def ghost(x: int, depth: int, *, act: bool) -> int:
        primary = net.conv(x, depth // 2, 1, act=RELU if act else NONE)
        return net.cat(primary, net.dw(primary, act=RELU if act else NONE))

    x = net.conv(net.input(64, 64, 3), 16, stride=2, act=RELU)
    for expand, depth, stride in ((16, 16, 1), (48, 24, 2), (72, 24, 1), (72, 40, 2), (120, 40, 1), (240, 80, 2)):
        y = ghost(x, expand, act=True)
        y = net.dw(y, stride=stride) if stride > 1 else y
        y = ghost(net.excite(y) if depth == 40 else y, depth, act=False)
        x = net.add(x, y) if net.shape(x) == net.shape(y) else y
    return net.finish(net.dense(net.gap(net.conv(x, 160, 1, act=RELU)), 100))


def shufflenet_v1_64() -> bytes:
    net = Layers(9)
    x = net.conv(net.input(64, 64, 3), 24, stride=2, act=RELU)
    for depth, stride in ((48, 2), (48, 1), (96, 2), (96, 1)):
        groups = [net.conv(part, depth // 8, 1, act=RELU) for part in net.split(x, 2)]
        y = net.cat(*groups)
        _, height, width, channels = net.shape(y)
        y = net.transpose(net.reshape(y, 1, height, width, 2, channels // 2), 0, 1, 2, 4, 3)
        y = net.dw(net.reshape(y, 1, height, width, channels), stride=stride)
        if stride > 1:
            y = net.conv(y, depth - net.shape(x)[3], 1)
            x = net.cat(net.pool(x, "AVERAGE", 3, 2, same=True), y)
        else:
            x = net.add(net.conv(y, depth, 1), x, RELU)
    return net.finish(net.dense(net.gap(x), 10))


def convmixer_32() -> bytes:
    net = Layers(10)
    x = net.table("GELU", net.conv(net.input(64, 64, 3), 96, 4, stride=4))
    for _ in range(5):
        x = net.add(x, net.table("GELU", net.dw(x, 7)))
        x = net.table("GELU", net.conv(x, 96, 1))
    return net.finish(net.dense(net.gap(x), 10))


def convnext_64() -> bytes:
    net = Layers(11)
    x = net.norm(net.conv(net.input(64, 64, 3), 32, 4, stride=4))
    for depth in (32, 64):
        if depth != net.shape(x)[3]:
            x = net.conv(x, depth, 2, stride=2)
        for _ in range(2):
            y = net.norm(net.dw(x, 7))
            x = net.add(x, net.conv(net.table("GELU", net.conv(y, 4 * depth, 1)), depth, 1))
    return net.finish(net.dense(net.gap(x), 10))


def mlp_mixer_64() -> bytes:
    net = Layers(12)
    x = net.reshape(net.conv(net.input(64, 64, 3), 64, 8, stride=8), 1, 64, 64)
    for _ in range(3):
        y = net.transpose(net.norm(x), 0, 2, 1)
        y = net.dense(net.table("GELU", net.dense(y, 96)), 64)
        x = net.add(x, net.transpose(y, 0, 2, 1))
        x = net.add(x, net.dense(net.table("GELU", net.dense(net.norm(x), 128)), 64))
    return net.finish(net.dense(net.mean(x, (1,), keep=False), 10))


def compact_transformer_32() -> bytes:
    net = Layers(13)
    x = net.pool(net.conv(net.input(32, 32, 3), 64, act=RELU), k=3, stride=2, same=True)
    x = net.reshape(net.pool(x, k=3, stride=2, same=True), 1, 64, 64)
    for _ in range(2):
        x = net.add(x, net.attention(net.norm(x), 2))
        x = net.add(x, net.dense(net.table("GELU", net.dense(net.norm(x), 128)), 64))
    share = net.softmax(net.transpose(net.dense(x, 1), 0, 2, 1))
    return net.finish(net.dense(net.reshape(net.matmul(share, x), 1, 64), 10))


def first_layers_u8() -> bytes:
    net = Layers(14, DType.UINT8)
    x = net.conv(net.input(160, 120, 3), 16, 5, stride=2, act=RELU6)
    x = net.block(net.pool(x), 32)
    y = net.conv(net.pool(x, "AVERAGE"), 32, act=RELU)
    return net.finish(net.softmax(net.dense(net.gap(net.cat(y, net.conv(y, 32, 1, act=RELU6))), 12)))


def face_mesh_96() -> bytes:
    net = Layers(15)
    x = net.prelu(net.conv(net.input(96, 96, 3), 16, stride=2))
    for depth in (16, 16, 32, 32, 64, 64, 128):
        grows = depth != net.shape(x)[3]
        y = net.conv(net.dw(net.pad(x, (0, 0), (0, 1), (0, 1), (0, 0)), stride=2, same=False) if grows else net.dw(x), depth, 1)
        short = x
        if grows:
            short = net.pad(net.pool(x), (0, 0), (0, 0), (0, 0), (0, depth - net.shape(x)[3]))
        x = net.prelu(net.add(y, short))
    points = net.conv(x, 1404 // 6, net.shape(x)[1], same=False)
    return net.finish(points, net.table("LOGISTIC", net.conv(x, 1, net.shape(x)[1], same=False)))


def deep_thin_128() -> bytes:
    net = Layers(16)
    x = net.conv(net.input(128, 128, 1), 8, act=RELU)
    for stage in range(4):
        for _ in range(6):
            x = net.conv(x, 8 + 4 * stage, act=RELU)
        x = net.pool(x)
    return net.finish(net.dense(net.gap(x), 4))


def csp_darknet_96() -> bytes:
    net = Layers(17)
    x = net.table("LEAKY_RELU", net.conv(net.input(96, 96, 3), 16, stride=2))
    for depth in (32, 64, 128):
        x = net.table("LEAKY_RELU", net.conv(x, depth, stride=2))
        left, right = net.split(x, 2)
        y = net.table("LEAKY_RELU", net.conv(right, depth // 2, 1))
        for _ in range(2):
            y = net.add(y, net.table("LEAKY_RELU", net.conv(net.table("LEAKY_RELU", net.conv(y, depth // 4, 1)), depth // 2)))
        x = net.cat(left, y)
    return net.finish(net.dense(net.gap(x), 20))


def large_kernels_64() -> bytes:
    """Attention by depthwise kernels, dilated too."""
    net = Layers(18)
    x = net.conv(net.input(64, 64, 3), 32, 7, stride=4, act=RELU)
    for depth in (32, 64):
        if depth != net.shape(x)[3]:
            x = net.conv(x, depth, stride=2)
        for _ in range(2):
            gate = net.conv(net.dw(net.dw(net.table("GELU", net.conv(x, depth, 1)), 5), 7, dilation=3), depth, 1)
            x = net.add(x, net.mul(x, gate))
            x = net.add(x, net.conv(net.table("GELU", net.dw(net.conv(x, depth * 4, 1))), depth, 1))
    return net.finish(net.dense(net.gap(x), 10))


def harmonic_dense_64() -> bytes:
    """Layers joined to those 1, 2 and 4 before."""
    net = Layers(19)
    x = net.conv(net.input(64, 64, 3), 24, stride=2, act=RELU)
    made = [x]
    for layer in range(1, 9):
        links = [made[layer - step] for step in (1, 2, 4, 8) if layer % step == 0]
        made.append(net.conv(net.cat(*links) if len(links) > 1 else links[0], 16 + 4 * (layer % 2), act=RELU))
    return net.finish(net.dense(net.gap(net.cat(*made[1::2])), 10))


def siamese_difference_48() -> bytes:
    """Two images through the same layers, compared by the absolute difference."""
    net = Layers(20)
    kept: list[int] = []
    for _ in range(2):
        x = net.input(48, 48, 1)
        for depth in (16, 32, 64):
            x = net.pool(net.conv(x, depth, act=RELU))
        kept.append(net.dense(net.reshape(x, 1, 6 * 6 * 64), 64))
    difference = net.make("ABS", [net.sub(*kept)], (1, 64), scale=0.031, zero_point=-7)
    return net.finish(net.table("LOGISTIC", net.dense(difference, 1)))
