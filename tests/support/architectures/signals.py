"""Networks over signals, words and tables of numbers: keywords, electrodes, sensors, radar, forecasts, text."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu.graph import attributes as at
from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType

from tests.support.architectures.layers import NONE, RELU, RELU6, Layers


class _Signals(Layers):
    """Layers that keep a state or look rows up, besides those of images; maps reach as far as is asked for."""

    def __init__(self, seed: int, dtype: DType = DType.INT8, *, reach: float = 4.0) -> None:
        super().__init__(seed, dtype)
        self.reach = reach

    def signed(self, act: FusedActivation) -> dict[str, Any]:
        return super().signed(act) | ({} if act is RELU6 else {"scale": self.reach / 129})

    def svdf(self, x: int, units: int, memory: int, rank: int = 1) -> int:
        """A filter over features, then one over the newest steps, which are the state."""
        filters, kept, moved = units * rank, 2.6e-4, 4.7e-4
        time = self.rng.normal(0, 2400 / math.sqrt(rank), (filters, memory)).clip(-8000, 8000)
        bias = self.rng.normal(0, 0.2, units) / (kept * moved)
        inputs = [
            x,
            self.matrix(filters, self.shape(x)[1]),
            self.b.constant(time.astype(np.int16), scale=moved, zero_point=0),
            self.b.constant(bias.astype(np.int32), scale=kept * moved, zero_point=0),
            self.b.variable((1, filters * memory), DType.INT16, scale=kept, zero_point=0),
        ]
        return self.make("SVDF", inputs, (1, units), at.SVDFOptions(rank, RELU), **self.signed(RELU))

    def gru(self, x: int, state: int) -> tuple[int, int]:
        """Unrolled steps along dimension 1 that share their weights; the states joined, and the last one."""
        _, times, places, _ = self.shape(x)
        units = self.shape(state)[2]
        weights, kept = self.weights(state, (3 * units, units), 0), self.steps(state)
        one = self.b.constant(np.full(1, 127, np.int8), scale=1 / 255, zero_point=-128)
        share, states = {"scale": 1 / 256, "zero_point": -128}, []
        for step in self.split(self.dense(x, 3 * units), times, axis=1):
            update, reset, fresh = self.split(self.reshape(step, 1, places, 3 * units), 3, axis=2)
            options = at.FullyConnectedOptions(NONE, keep_num_dims=True)
            wide = self.make("FULLY_CONNECTED", [state, *weights], (1, places, 3 * units), options, **self.signed(NONE))
            update_2, reset_2, fresh_2 = self.split(wide, 3, axis=2)
            update = self.table("LOGISTIC", self.add(update, update_2))
            reset = self.table("LOGISTIC", self.add(reset, reset_2))
            fresh = self.table("TANH", self.add(fresh, self.mul(reset, fresh_2)))
            rest = self.make("SUB", [one, update], self.shape(update), at.SubOptions(NONE), **share)
            terms = [self.mul(update, state), self.mul(rest, fresh)]
            state = self.make("ADD", terms, self.shape(state), at.AddOptions(NONE), **kept)
            states.append(self.reshape(state, 1, 1, places, units))
        return self.cat(*states, axis=1), state

    def look_up(self, count: int, rows: int, depth: int) -> int:
        """Embeddings of int32 ids, which are hashed so that every id has a row."""
        ids = self.b.input((1, count), DType.INT32)
        ids = self.b.op("FLOOR_MOD", [ids, self.ints(rows)], (1, count), DType.INT32, attributes=at.FloorModOptions())
        values = np.clip(np.round(self.rng.normal(0, 40, (rows, depth))), -127, 127).astype(np.int8)
        table = self.b.constant(values, scale=0.03, zero_point=0)
        return self.like("GATHER", table, (1, count, depth), at.GatherOptions(0), [ids])

    def scaled_attention(self, x: int, heads: int) -> int:
        """Self attention over (batches, positions, depth) with products scaled before the softmax."""
        batches, positions, depth = self.shape(x)
        size = depth // heads
        query, key, value = (
            self.transpose(self.reshape(self.dense(x, depth), batches, positions, heads, size), 0, 2, 1, 3) for _ in range(3)
        )
        options = at.BatchMatMulOptions(False, True)
        scores = self.make(
            "BATCH_MATMUL", [query, key], (batches, heads, positions, positions), options, scale=0.25, zero_point=3
        )
        factor = self.b.constant(np.full(1, 127, np.int8), scale=1 / (127 * math.sqrt(size)), zero_point=0)
        mixed = self.matmul(self.softmax(self.mul(scores, factor)), value)
        return self.dense(self.reshape(self.transpose(mixed, 0, 2, 1, 3), batches, positions, depth), depth)

    def norm(self, x: int) -> int:
        last = len(self.shape(x)) - 1
        mean = self.mean(x, (last,))
        square = self.make("SQUARED_DIFFERENCE", [x, mean], self.shape(x), at.SquaredDifferenceOptions(), scale=self.reach / 60)
        inverse = self.make("RSQRT", [self.mean(square, (last,))], (*self.shape(x)[:-1], 1), None, scale=0.012)
        return self.affine(self.mul(self.sub(x, mean), inverse), 0.01)

    def affine(self, x: int, scale: float = 0.005) -> int:
        """Factors and terms of a norm that no layer before it could take."""
        depth = self.shape(x)[-1]
        factors = self.b.constant(self.rng.integers(60, 127, depth).astype(np.int8), scale=scale, zero_point=0)
        terms = self.b.constant(self.rng.integers(-100, 100, depth).astype(np.int8), scale=0.003, zero_point=0)
        return self.add(self.mul(x, factors), terms)


def ds_cnn_49x10() -> bytes:
    net = Layers(601)
    x = net.conv(net.input(49, 10, 1), 64, (10, 4), stride=2, act=RELU)
    for _ in range(4):
        x = net.block(x, 64, act=RELU)
    x = net.pool(x, "AVERAGE", (25, 5))
    return net.finish(net.softmax(net.dense(net.reshape(x, 1, 64), 12)))


def matchboxnet_3x2x64() -> bytes:
    """Separable convolutions in time with a dilated one behind the residual blocks."""
    net = _Signals(602)
    x = net.reshape(net.input(128, 64), 1, 1, 128, 64)
    x = net.conv(net.dw(x, (1, 11), stride=(1, 2)), 128, 1, act=RELU)
    for k in (13, 15, 17):
        y = net.conv(net.dw(x, (1, k)), 64, 1, act=RELU)
        y = net.conv(net.dw(y, (1, k)), 64, 1)
        x = net.add(y, net.conv(x, 64, 1), RELU)
    x = net.conv(net.dw(x, (1, 29), dilation=(1, 2)), 128, 1, act=RELU)
    x = net.conv(net.conv(x, 128, 1, act=RELU), 30, 1)
    return net.finish(net.softmax(net.mean(x, (1, 2), keep=False)))


def tc_resnet14_98() -> bytes:
    """Time as the height of the map, identity and projected shortcuts by turns."""
    net = _Signals(603)
    x = net.conv(net.input(98, 1, 40), 16, (3, 1))
    for depth in (24, 24, 32, 32, 48, 48):
        grows, net.reach = depth != net.shape(x)[3], net.reach * 1.7
        short = net.conv(x, depth, 1, stride=(2, 1), act=RELU) if grows else x
        y = net.conv(x, depth, (9, 1), stride=(2 if grows else 1, 1), act=RELU)
        x = net.add(net.conv(y, depth, (9, 1)), short, RELU)
    x = net.conv(net.pool(x, "AVERAGE", (net.shape(x)[1], 1)), 12, 1)
    return net.finish(net.reshape(x, 1, 12))


def yamnet_96x64() -> bytes:
    """Sounds of many labels, and the embedding beside them."""
    net = Layers(604)
    x = net.conv(net.reshape(net.input(96, 64), 1, 96, 64, 1), 8, stride=2, act=RELU)
    for depth, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)):
        x = net.block(x, depth, stride=stride, act=RELU)
    x = net.gap(x)
    return net.finish(net.table("LOGISTIC", net.dense(x, 521)), x)


def lstm_kws_49x10() -> bytes:
    net = _Signals(605)
    x = net.lstm(net.transpose(net.input(49, 10), 1, 0, 2), 118, time_major=True)
    x = net.slice(net.transpose(x, 1, 0, 2), (0, 48, 0), (1, 49, 118))
    return net.finish(net.softmax(net.dense(net.reshape(x, 1, 118), 12)))


def svdf_kws_40() -> bytes:
    """One frame of a stream; what came before it is in the states."""
    net = _Signals(606, reach=5.0)
    x = net.input(40)
    for units, memory, narrow in ((64, 4, 40), (64, 10, 40), (64, 10, 40), (96, 10, 64), (96, 10, 64)):
        x = net.dense(net.svdf(x, units, memory, 2 if memory == 4 else 1), narrow)
    return net.finish(net.softmax(net.dense(net.svdf(x, 128, 10), 12)))


def grouped_recurrent_mask_64() -> bytes:
    """Speech enhancement by a complex mask: half of the channels refined, a GRU through the frames of each band."""
    net = _Signals(607, reach=6.0)
    first = net.conv(net.input(6, 64, 3), 16, (1, 5), stride=(1, 2), act=RELU)
    second = net.conv(first, 16, (1, 5), stride=(1, 2), act=RELU)
    left, right = net.split(second, 2)
    y = net.pad(net.prelu(net.conv(left, 16, 1)), (0, 0), (2, 0), (1, 1), (0, 0))
    y = net.conv(net.prelu(net.dw(y, same=False)), 8, 1)
    x = net.reshape(net.transpose(net.reshape(net.cat(y, right), 1, 6, 16, 2, 8), 0, 1, 2, 4, 3), 1, 6, 16, 16)
    made, state = net.gru(x, net.input(16, 16))
    x = net.add(net.dense(made, 16), x)
    x = net.prelu(net.tconv(net.add(x, second), 16, (1, 5), (1, 2)))
    return net.finish(net.table("TANH", net.affine(net.tconv(net.add(x, first), 2, (1, 5), (1, 2)))), state)


def eegnet_64x128() -> bytes:
    """Filters in time, then one depthwise kernel over all electrodes; RELU, as the networks of microcontrollers have it."""
    net = Layers(608)
    x = net.conv(net.input(64, 128, 1), 8, (1, 64))
    x = net.pool(net.dw(x, (64, 1), times=2, act=RELU, same=False), "AVERAGE", (1, 4))
    x = net.pool(net.conv(net.dw(x, (1, 16)), 16, 1, act=RELU), "AVERAGE", (1, 8))
    return net.finish(net.softmax(net.dense(net.reshape(x, 1, 4 * 16), 4)))


def deep_conv_lstm_24() -> bytes:
    """Activities from wearable sensors, which share the convolutions in time."""
    net = _Signals(609)
    x = net.reshape(net.input(24, 9), 1, 24, 9, 1)
    for _ in range(4):
        x = net.conv(x, 32, (5, 1), act=RELU, same=False)
    x = net.lstm(net.lstm(net.reshape(x, 1, 8, 9 * 32), 64), 64)
    x = net.reshape(net.slice(x, (0, 7, 0), (1, 8, 64)), 1, 64)
    return net.finish(net.softmax(net.dense(x, 18)))


def nbeats_96() -> bytes:
    """Every block takes what it explains from the window and adds to the forecast."""
    net = _Signals(610)
    x, total = net.input(96), None
    for block in range(4):
        y, net.reach = x, net.reach * 2.4
        for _ in range(4):
            y = net.dense(y, 96, RELU)
        forecast = net.dense(net.dense(y, 16), 24)
        total = forecast if total is None else net.add(total, forecast)
        if block < 3:
            x = net.sub(x, net.dense(net.dense(y, 16), 96))
    assert total is not None
    return net.finish(total)


def patch_forecaster_96() -> bytes:
    """Seven series, each by itself, in overlapping patches; mean and deviation are taken out and put back."""
    net = _Signals(611, reach=8.0)
    series = net.transpose(net.input(96, 7), 0, 2, 1)
    mean = net.mean(series, (2,))
    square = net.make("SQUARED_DIFFERENCE", [series, mean], (1, 7, 96), at.SquaredDifferenceOptions())
    variance = net.mean(square, (2,))
    inverse = net.make("RSQRT", [variance], (1, 7, 1), None)
    x = net.mul(net.sub(series, mean), inverse)
    places = net.b.constant((np.arange(11)[:, None] * 8 + np.arange(16)).astype(np.int32))
    x = net.reshape(net.like("GATHER", x, (1, 7, 11, 16), at.GatherOptions(2), [places]), 7, 11, 16)
    x = net.add(net.dense(x, 32), net.const(1, 11, 32))
    for _ in range(2):
        x = net.affine(net.add(x, net.scaled_attention(x, 4)))
        x = net.affine(net.add(x, net.dense(net.table("GELU", net.dense(x, 64)), 32)))
    x = net.reshape(net.dense(net.reshape(x, 7, 11 * 32), 24), 1, 7, 24)
    x = net.add(net.mul(x, net.mul(variance, inverse)), mean)
    return net.finish(net.transpose(x, 0, 2, 1))


def bert_tiny_32() -> bytes:
    """Words, segments and positions; where an answer starts and where it ends."""
    net = _Signals(612, reach=6.0)
    x = net.add(net.look_up(32, 500, 128), net.look_up(32, 2, 128))
    x = net.norm(net.add(x, net.const(1, 32, 128)))
    for _ in range(2):
        x = net.norm(net.add(x, net.scaled_attention(x, 2)))
        x = net.norm(net.add(x, net.dense(net.table("GELU", net.dense(x, 512)), 128)))
    return net.finish(*(net.reshape(part, 1, 32) for part in net.split(net.dense(x, 2), 2, axis=2)))


def conv_tasnet_i16() -> bytes:
    """Two voices out of one: a learnt basis, a mask for each voice, and the way back to samples."""
    net = Layers(613, DType.INT16)
    wave = net.conv(net.input(1, 512, 1), 64, (1, 16), stride=(1, 8), act=RELU)
    x, total = net.conv(wave, 32, 1), None
    for dilation in (1, 2, 4, 8, 1, 2, 4, 8):
        y = net.table("LEAKY_RELU", net.conv(x, 64, 1))
        y = net.table("LEAKY_RELU", net.dw(y, (1, 3), dilation=(1, dilation)))
        skip = net.conv(y, 32, 1)
        total = skip if total is None else net.add(total, skip)
        x = net.add(x, net.conv(y, 32, 1))
    assert total is not None
    masks = net.table("LOGISTIC", net.conv(net.table("LEAKY_RELU", total), 128, 1))
    masks = net.transpose(net.reshape(masks, 1, 64, 2, 64), 0, 2, 1, 3)
    return net.finish(net.tconv(net.mul(masks, wave), 1, (1, 16), (1, 8)))


def ecg_unet_512() -> bytes:
    """Waves of a heartbeat, sample by sample."""
    net = Layers(614)
    x, kept = net.input(1, 512, 1), []
    for depth in (8, 16, 32):
        x = net.conv(net.conv(x, depth, (1, 9), act=RELU), depth, (1, 9), act=RELU)
        kept.append(x)
        x = net.pool(x, k=(1, 2))
    x = net.conv(net.conv(x, 64, (1, 9), act=RELU), 64, (1, 9), act=RELU)
    for depth, short in zip((32, 16, 8), reversed(kept), strict=True):
        x = net.cat(net.tconv(x, depth, (1, 8), (1, 2)), short)
        x = net.conv(net.conv(x, depth, (1, 9), act=RELU), depth, (1, 9), act=RELU)
    return net.finish(net.softmax(net.conv(x, 4, 1)))


def radar_two_maps() -> bytes:
    """Speeds over time and distances over time, joined halfway."""
    net = _Signals(615, reach=8.0)
    speeds, distances = net.input(64, 96, 1), net.input(32, 96, 1)
    for depth, k in ((8, 5), (16, 3), (32, 3)):
        speeds = net.pool(net.conv(speeds, depth, k, act=RELU6))
    for depth, window in ((8, (2, 2)), (16, (2, 2)), (24, (1, 2))):
        distances = net.pool(net.conv(distances, depth, (3, 7), act=RELU), k=window)
    x = net.pool(net.conv(net.cat(speeds, distances), 48, act=RELU))
    return net.finish(net.dense(net.dense(net.reshape(x, 1, 4 * 6 * 48), 64, RELU), 7))


def averaged_words_64() -> bytes:
    net = _Signals(616)
    x = net.mean(net.look_up(64, 2000, 32), (1,), keep=False, scale=0.006)
    return net.finish(net.softmax(net.dense(net.dense(x, 32, RELU), 8)))
