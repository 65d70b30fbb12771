"""Networks over time: audio, sensors, words."""

from __future__ import annotations

from npu.graph.dtype import DType

from tests.support.architectures.layers import RELU, RELU6, Layers


def quartznet_200() -> bytes:
    net = Layers(201)
    x = net.conv(net.input(1, 200, 64), 64, (1, 11), stride=(1, 2), act=RELU)
    for k in (13, 15, 17):
        y = x
        for last in (False, False, True):
            y = net.conv(net.dw(y, (1, k)), 64, 1, act=RELU if not last else RELU6)
        x = net.add(net.conv(x, 64, 1), y, RELU)
    return net.finish(net.softmax(net.conv(x, 29, 1)))


def temporal_convolutions_256() -> bytes:
    """Causal dilated convolutions with residuals."""
    net = Layers(202)
    x = net.conv(net.input(1, 256, 8), 24, 1)
    for dilation in (1, 2, 4, 8, 16):
        y = net.pad(x, (0, 0), (0, 0), (2 * dilation, 0), (0, 0))
        y = net.conv(y, 24, (1, 3), dilation=(1, dilation), act=RELU, same=False)
        x = net.add(net.conv(y, 24, 1), x)
    return net.finish(net.dense(net.gap(x), 6))


def wavenet_320() -> bytes:
    """Gated dilated convolutions, skips summed."""
    net = Layers(203)
    x = net.conv(net.input(1, 320, 1), 16, (1, 2))
    total = None
    for dilation in (1, 2, 4, 8, 16, 32):
        y = net.pad(x, (0, 0), (0, 0), (dilation, 0), (0, 0))
        wide = net.conv(y, 32, (1, 2), dilation=(1, dilation), same=False)
        one, two = net.split(wide, 2)
        y = net.mul(net.table("TANH", one), net.table("LOGISTIC", two))
        skip = net.conv(y, 16, 1)
        total = skip if total is None else net.add(total, skip)
        x = net.add(x, net.conv(y, 16, 1))
    assert total is not None
    return net.finish(net.softmax(net.conv(net.like("RELU", total), 32, 1)))


def speech_mask_i16() -> bytes:
    net = Layers(204, DType.INT16)
    x = net.conv(net.input(1, 64, 129), 64, (1, 3), act=RELU)
    for dilation in (1, 2, 4):
        y = net.dw(net.conv(x, 64, 1, act=RELU), (1, 3), dilation=(1, dilation), act=RELU)
        x = net.add(x, net.conv(y, 64, 1))
    return net.finish(net.table("LOGISTIC", net.conv(x, 129, 1)))


def audio_vgg_96x64() -> bytes:
    net = Layers(205)
    x = net.input(96, 64, 1)
    for depth, layers in ((16, 1), (32, 1), (64, 2), (96, 2)):
        for _ in range(layers):
            x = net.conv(x, depth, act=RELU)
        x = net.pool(x)
    return net.finish(net.dense(net.dense(net.reshape(x, 1, 6 * 4 * 96), 128, RELU), 128))


def broadcast_residual_40() -> bytes:
    """Keyword spotting with means over frequencies that are added to every row."""
    net = Layers(206)
    x = net.conv(net.input(40, 101, 1), 16, 5, stride=(2, 1), act=RELU)
    for depth, stride in ((8, 1), (12, 2), (16, 2)):
        y = net.dw(net.conv(x, depth, 1, act=RELU), (3, 1), stride=(stride, 1))
        band = net.mean(y, (1,))
        band = net.conv(net.dw(band, (1, 3), act=RELU), depth, 1)
        x = net.add(y, band, RELU)
    return net.finish(net.dense(net.gap(net.conv(net.dw(x, 5), 32, 1, act=RELU)), 12))


def residual_tc_kws() -> bytes:
    """Spectra as channels of a sequence."""
    net = Layers(207)
    x = net.conv(net.input(1, 98, 40), 16, (1, 3))
    for depth in (24, 32, 48):
        short = net.conv(x, depth, 1, stride=(1, 2), act=RELU)
        y = net.conv(net.conv(x, depth, (1, 9), stride=(1, 2), act=RELU), depth, (1, 9))
        x = net.add(y, short, RELU)
    return net.finish(net.softmax(net.dense(net.gap(x), 12)))


def speech_transformer_80() -> bytes:
    net = Layers(208)
    x = net.dense(net.input(80, 40), 64)
    x = net.add(x, net.const(1, 80, 64))
    for _ in range(2):
        x = net.norm(net.add(x, net.attention(x, 4)))
        x = net.norm(net.add(x, net.dense(net.dense(x, 128, RELU), 64)))
    return net.finish(net.softmax(net.dense(net.reshape(net.slice(x, (0, 0, 0), (1, 1, 64)), 1, 64), 12)))


def conformer_64() -> bytes:
    net = Layers(209)
    x = net.dense(net.input(64, 40), 48)
    for _ in range(2):
        x = net.add(x, net.dense(net.table("HARD_SWISH", net.dense(net.norm(x), 96)), 48))
        x = net.add(x, net.attention(net.norm(x), 4))
        y = net.dense(net.reshape(net.norm(x), 1, 1, 64, 48), 96)
        one, two = net.split(y, 2)
        y = net.conv(net.table("HARD_SWISH", net.dw(net.mul(one, net.table("LOGISTIC", two)), (1, 15))), 48, 1)
        x = net.add(x, net.reshape(y, 1, 64, 48))
    return net.finish(net.dense(net.norm(x), 32))


def pulse_resnet_512() -> bytes:
    net = Layers(210)
    x = net.conv(net.input(512, 1, 1), 16, (7, 1), stride=(2, 1), act=RELU)
    for depth, stride in ((16, 1), (32, 2), (32, 1), (64, 2)):
        short = net.pool(x, k=(stride, 1)) if stride > 1 else x
        short = net.conv(short, depth, 1) if net.shape(short)[3] != depth else short
        x = net.add(net.conv(net.conv(x, depth, (5, 1), stride=(stride, 1), act=RELU), depth, (5, 1)), short, RELU)
    return net.finish(net.dense(net.gap(x), 2))


def point_cloud_128() -> bytes:
    """The same layers for every point, then the largest of each channel."""
    net = Layers(211)
    x = net.input(128, 1, 3)
    for depth in (32, 64, 256):
        x = net.conv(x, depth, 1, act=RELU)
    x = net.reshape(net.pool(x, k=(128, 1)), 1, 256)
    return net.finish(net.dense(net.dense(x, 64, RELU), 10))


def raw_audio_4000() -> bytes:
    net = Layers(212)
    x = net.conv(net.input(4000, 1, 1), 32, (80, 1), stride=(8, 1), act=RELU)
    for depth in (32, 64):
        x = net.pool(net.conv(x, depth, (3, 1), act=RELU), k=(4, 1))
    return net.finish(net.softmax(net.dense(net.gap(x), 10)))


def sensor_autoencoder_i16() -> bytes:
    net = Layers(213, DType.INT16)
    x = net.input(1, 128, 6)
    for depth in (16, 24, 32):
        x = net.conv(x, depth, (1, 5), stride=(1, 2), act=RELU)
    x = net.dense(net.dense(net.reshape(x, 1, 16 * 32), 32, RELU), 512, RELU)
    x = net.reshape(x, 1, 1, 16, 32)
    for depth in (24, 16, 6):
        x = net.conv(net.up(x, 1), depth, (1, 5))
    return net.finish(x)


def gated_mlp_64() -> bytes:
    """Spatial gating instead of attention."""
    net = Layers(214)
    x = net.dense(net.input(64, 32), 48)
    for _ in range(3):
        y = net.table("GELU", net.dense(net.norm(x), 96))
        one, two = net.split(y, 2, axis=2)
        two = net.transpose(net.dense(net.transpose(net.norm(two), 0, 2, 1), 64), 0, 2, 1)
        x = net.add(x, net.dense(net.mul(one, two), 48))
    return net.finish(net.dense(net.mean(x, (1,), keep=False), 20))


def recurrent_steps_12() -> bytes:
    """A GRU whose steps were unrolled."""
    net = Layers(215)
    steps = net.split(net.input(12, 16), 12, axis=1)
    state = net.dense(net.reshape(steps[0], 1, 16), 32)
    for step in steps[1:]:
        x = net.cat(net.reshape(step, 1, 16), state, axis=1)
        gate = net.table("LOGISTIC", net.dense(x, 32))
        fresh = net.table("TANH", net.dense(net.mul(net.dense(x, 32), gate), 32))
        state = net.add(net.mul(gate, state), fresh)
    return net.finish(net.dense(state, 5))


def text_line_32() -> bytes:
    """Characters of a line of text: columns of a picture become steps."""
    net = Layers(216)
    x = net.input(32, 128, 1)
    for depth, k in ((16, (2, 2)), (32, (2, 2)), (48, (2, 1)), (64, (2, 1))):
        x = net.pool(net.conv(x, depth, act=RELU), k=k)
    x = net.conv(x, 64, (2, 1), act=RELU, same=False)
    return net.finish(net.softmax(net.dense(net.reshape(x, 1, 32, 64), 40)))
