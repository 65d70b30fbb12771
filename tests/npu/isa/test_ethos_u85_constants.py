"""Weight streams and scale records of Ethos-U85: what is written is read again, and is no longer than Vela's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from npu.errors import StreamError
from npu.graph.attributes import Conv2DOptions, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode as decode_commands
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.ethos_u85.scale_records import decode_scales, encode_scales
from npu.isa.ethos_u85.weights import decode, encode, stand_in, symbols
from npu.isa.operations import Block, Convolution, DepthwiseConvolution, KernelWindow, Traversal, WeightDecoder
from npu.isa.payload import parse_payload
from npu.isa.weight_stream.decode import decode_symbols
from npu.isa.weight_stream.use import WeightUse, weight_shape

from tests.support import operator_cases as base
from tests.support.builder import ModelBuilder
from tests.support.vela import Job, only_job
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import VELA_CASES, with_shapes

UBLOCKS = {
    128: ((1, 2, 8), (1, 1, 16)),
    256: ((1, 2, 16), (1, 4, 8), (2, 2, 8)),
    512: ((2, 2, 16), (1, 4, 16)),
    1024: ((2, 2, 32), (1, 4, 32), (2, 4, 16)),
    2048: ((2, 2, 64), (1, 4, 64), (4, 4, 16)),
}
SIZES = tuple(f"ethos-u85-{macs}" for macs in UBLOCKS)
ORDERS = {
    "depth first": (Traversal.DEPTH_FIRST, False),
    "part kernel first": (Traversal.PART_KERNEL_FIRST, False),
    "depthwise": (Traversal.DEPTH_FIRST, True),
}


def use_of(macs: int, number: int = 0, **fields: Any) -> WeightUse:
    """A use of weights, by default of a 1x1 kernel beside an IFM of 8 bits."""
    block = Block(*UBLOCKS[macs][number])
    defaults = {
        "kernel": KernelWindow(), "block_depth": 2 * block.depth, "traversal": Traversal.DEPTH_FIRST, "is_depthwise": False,
        "ifm_bits": 8, "cores": 1, "ublock": block,
    }  # fmt: skip
    return WeightUse(**defaults | fields)


def random_uses(macs: int, order: str, count: int) -> Iterator[tuple[WeightUse, np.ndarray]]:
    """Uses of all kinds, and weights for each."""
    rng, (traversal, is_depthwise) = np.random.default_rng([macs, len(order)]), ORDERS[order]
    for number in range(count):
        sizes, strides, dilations = rng.integers(1, 10, 2), rng.integers(1, 4, 2), rng.integers(1, 3, 2)
        kernel = KernelWindow(*(int(one) for one in (*sizes, *strides, *dilations)))
        ublock = number % len(UBLOCKS[macs])
        use = use_of(
            macs, ublock, kernel=kernel, traversal=traversal, is_depthwise=is_depthwise, ifm_bits=8 << number // 3 % 2,
            block_depth=int(rng.integers(1, 5)) * UBLOCKS[macs][ublock][2],
        )  # fmt: skip
        depths = int(rng.integers(1, 90)), 1 if is_depthwise else int(rng.integers(1, 150 if sizes.prod() < 20 else 40))
        yield use, rng.integers(-255, 256, (depths[0], kernel.height, kernel.width, depths[1])).astype(np.int16)


def written(macs: int, use: WeightUse, values: np.ndarray) -> list[np.ndarray]:
    accelerator = load_variant(f"ethos-u85-{macs}").accelerator
    return [np.frombuffer(encode(accelerator, use, values, k), np.uint8) for k in range(accelerator.weight_decoders)]


@pytest.mark.parametrize("macs", UBLOCKS)
@pytest.mark.parametrize("order", ORDERS)
def test_weights_come_back_from_their_streams(order: str, macs: int) -> None:
    for use, values in random_uses(macs, order, 12):
        again = decode(load_variant(f"ethos-u85-{macs}").accelerator, use, values.shape, written(macs, use, values))
        np.testing.assert_array_equal(again, values, str(use))


@pytest.mark.parametrize("macs", UBLOCKS)
@pytest.mark.parametrize("order", ORDERS)
def test_the_symbols_of_streams_are_known_before_they_are_written(order: str, macs: int) -> None:
    accelerator = load_variant(f"ethos-u85-{macs}").accelerator
    for use, values in random_uses(macs, order, 40):
        channels, of_each = symbols(accelerator, use, values.shape)
        streams = accelerator.weight_decoders
        for stream in written(macs, use, values):
            assert len(decode_symbols(stream, channels * of_each // streams)) * streams == channels * of_each


def test_the_channels_of_a_stream_lie_four_by_four() -> None:
    """A 1x1 kernel on two decoders: stream 1 has the channels from 4 on of every 8, their inputs side by side."""
    values = (np.arange(16)[:, None] * 10 + np.arange(3)).astype(np.int16).reshape(16, 1, 1, 3)
    _, second = written(512, use_of(512, ifm_bits=8), values)
    symbols = decode_symbols(second, 16 // 2 * 64).reshape(-1, 4, 8)  # sets of 64 input channels, 8 at a time
    np.testing.assert_array_equal(symbols[:2, :, :3], values[[4, 5, 6, 7, 12, 13, 14, 15], 0, 0].reshape(2, 4, 3))
    assert not symbols[2:].any()
    assert not symbols[:, :, 3:].any()


def test_a_stand_in_is_about_as_long_and_tells_streams_apart() -> None:
    for macs in UBLOCKS:
        accelerator = load_variant(f"ethos-u85-{macs}").accelerator
        for use, values in random_uses(macs, "depth first", 3):
            for stream in range(accelerator.weight_decoders):
                made = stand_in(accelerator, use, values, stream)
                assert len(made) == pytest.approx(len(encode(accelerator, use, values, stream)), rel=0.1, abs=32)
            assert stand_in(accelerator, use, values, 0) != stand_in(accelerator, use, -values, 0)


REFUSED_WEIGHTS: dict[str, tuple[dict[str, Any], tuple[int, ...], str]] = {
    "fast": ({"decoder": WeightDecoder.FAST}, (4, 1, 1, 4), r"those of the STANDARD decoder and not sparse.*got FAST"),
    "sparse": ({"is_sparse": True}, (4, 1, 1, 4), r"those of the STANDARD decoder and not sparse to be written, got sparse"),
    "axes": ({}, (4, 4), r"must have the axes \(O, KH, KW, I\), got shape \(4, 4\)"),
    "nothing": ({}, (0, 1, 1, 4), r"shape must be positive and below 2\*\*31 elements"),
    "depthwise": ({"is_depthwise": True}, (4, 1, 1, 2), r"a depthwise shape must have an IFM depth of 1"),
    "micro-block": ({"ublock": Block(4, 4, 4)}, (4, 1, 1, 4), r"micro-block depth must be a multiple of 8, got 4"),
}


@pytest.mark.parametrize("case", REFUSED_WEIGHTS)
def test_weights_that_cannot_be_written_are_refused(case: str) -> None:
    fields, shape, message = REFUSED_WEIGHTS[case]
    with pytest.raises(StreamError, match=message):
        encode(load_variant("ethos-u85-512").accelerator, use_of(512, **fields), np.zeros(shape, np.int16), 0)


def test_a_weight_of_more_than_nine_bits_is_refused() -> None:
    with pytest.raises(StreamError, match=r"must be in \[-255, 255\], got 0 to 256"):
        encode(load_variant("ethos-u85-128").accelerator, use_of(128), np.full((1, 1, 1, 1), 256, np.int16), 0)


def convolution(spread: float) -> bytes:
    builder, rng = ModelBuilder(), np.random.default_rng(9)
    x = builder.input((1, 9, 8, 40), DType.INT8, scale=0.05)
    weights = np.clip(np.round(rng.normal(0, spread, (72, 3, 3, 40))), -127, 127).astype(np.int8)
    held, bias = builder.constant(weights, DType.INT8, scale=0.02), builder.constant(np.arange(72), DType.INT32, scale=0.001)
    options = Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
    builder.output(builder.op("CONV_2D", [x, held, bias], (1, 9, 8, 72), DType.INT8, attributes=options, scale=0.2))
    return builder.build()


MODELS = ("CONV_2D-int8", "CONV_2D-int16", "DEPTHWISE_CONV_2D-int8", "DEPTHWISE_CONV_2D-int16", "FULLY_CONNECTED-int8")


def jobs(target: str) -> Iterator[Job]:
    for name in MODELS:
        for seed in (1, 2):
            model = with_shapes((base.CASES | VELA_CASES)[name](np.random.default_rng([seed, 7])))
            yield only_job(compile_forked(model, target))
    for spread in (1.5, 8):
        yield only_job(compile_forked(convolution(spread), target))


def weighted(job: Job, target: str) -> Iterator[Convolution | DepthwiseConvolution]:
    """Those whose constants are in the read-only region."""
    for one in decode_commands(parse_payload(job.payload).words, load_variant(target)):
        operation = one.operation
        if isinstance(operation, Convolution | DepthwiseConvolution) and operation.weights and operation.weights[0].region == 0:
            yield operation


@pytest.mark.parametrize("target", SIZES)
def test_streams_are_at_most_as_long_as_those_of_vela(target: str) -> None:
    accelerator, ours, theirs = load_variant(target).accelerator, 0, 0
    for job in jobs(target):
        for operation in weighted(job, target):
            use, shape = WeightUse.of(operation), weight_shape(operation)
            streams = [job.read_only[one.address : one.address + one.length_bytes] for one in operation.weights]
            values = decode(accelerator, use, shape, streams)
            if use.decoder is not WeightDecoder.STANDARD or use.is_sparse:
                continue
            made = [np.frombuffer(encode(accelerator, use, values, k), np.uint8) for k in range(len(streams))]
            np.testing.assert_array_equal(decode(accelerator, use, shape, made), values)
            for one, other in zip(made, streams, strict=True):
                assert one.size <= 1.02 * other.size
            ours, theirs = ours + sum(map(len, made)), theirs + sum(map(len, streams))
    assert 0 < ours <= theirs


@pytest.mark.parametrize("target", SIZES[::2])
def test_scale_records_of_vela_are_written_again(target: str) -> None:
    count = 0
    for job in jobs(target):
        for operation in weighted(job, target):
            (place,), bits = operation.scales, operation.ifm.element.bits
            data = job.read_only[place.address : place.address + place.length_bytes]
            again = encode_scales(*decode_scales(data, operation.ofm.depth, bits), bits)
            assert again == data[: len(again)].tobytes()
            count += len(again)
    assert count > 1000


RECORDS = {
    8: ([-(1 << 31), -2, 0, (1 << 31) - 1], [0, 0x12345678, 1, (1 << 31) - 1], [0, 38, 1, 63]),
    16: ([-(1 << 47), -2, 0, (1 << 47) - 1], [0, 0x1234, 1, (1 << 15) - 1], [0, 38, 1, 63]),
}


@pytest.mark.parametrize("bits", RECORDS)
def test_records_at_the_edges_come_back(bits: int) -> None:
    columns = RECORDS[bits]
    decoded = decode_scales(np.frombuffer(encode_scales(*columns, bits), np.uint8), 4, bits)
    assert tuple(one.tolist() for one in decoded) == columns


def test_records_are_as_written_out() -> None:
    assert encode_scales([-2], [0x12345678], [38], 8) == bytes.fromhex("feffffff 78563412 26 00")
    assert encode_scales([-2], [0x1234], [38], 16) == bytes.fromhex("feffffffffff 3412 26 00")


REFUSED_RECORDS = {
    "bias of 8 bits": (
        8,
        ([0, 1 << 31], [1, 1], [1, 1]),
        r"bias of channel 1 must be in \[-2147483648, 2147483647\], got 2147",
    ),
    "bias of 16 bits": (
        16,
        ([-(1 << 47) - 1], [1], [1]),
        r"bias of channel 0 must be in \[-140737488355328, 140737488355327\]",
    ),
    "scale of 8 bits": (8, ([0], [1 << 31], [1]), r"scale of channel 0 must be in \[0, 2147483647\], got 2147483648"),
    "scale of 16 bits": (16, ([0], [1 << 15], [1]), r"scale of channel 0 must be in \[0, 32767\], got 32768"),
    "shift": (16, ([0], [1], [64]), r"shift of channel 0 must be in \[0, 63\], got 64"),
    "lengths": (8, ([0], [1, 2], [3]), r"arrays must be equally long"),
}


@pytest.mark.parametrize("case", REFUSED_RECORDS)
def test_a_record_that_does_not_fit_is_named(case: str) -> None:
    bits, columns, message = REFUSED_RECORDS[case]
    with pytest.raises(StreamError, match=message):
        encode_scales(*columns, bits)


def test_every_decoder_has_a_stream_and_all_channels_one_block_of_records() -> None:
    writer, accelerator = ETHOS_U85.constants, load_variant("ethos-u85-1024").accelerator
    assert (writer.weight_streams(accelerator, 1), writer.weight_streams(accelerator, 500)) == (4, 4)
    assert (writer.scale_blocks(accelerator, 1), writer.scale_blocks(accelerator, 500)) == (1, 1)
