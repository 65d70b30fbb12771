"""What becomes of payloads, command words, scale records and weight streams that are changed at every place, and how much SHRAM
buffers of all kinds take, as golden files.

Whether an answer is right, the other tests say. `make golden TESTS=tests/npu/isa/test_every_byte.py` takes a change over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from npu.errors import StreamError, UserError
from npu.hardware.catalogue import load_variant
from npu.isa.commands import COMMANDS
from npu.isa.decode import decode
from npu.isa.disassemble import disassemble
from npu.isa.encode import encode
from npu.isa.operations import Block, KernelWindow, Stop, Traversal, Upscale
from npu.isa.payload import (
    Configuration,
    build_payload,
    configuration_of,
    decode_config,
    find_target,
    is_compatible,
    parse_payload,
    replace_words,
)
from npu.isa.scale_records import decode_scales, encode_scales
from npu.isa.shram import BufferProblem, Work, buffer_banks, buffer_rule, lut_start, shram_layout
from npu.isa.weight_stream.decode import decode_symbols, decode_weights
from npu.isa.weight_stream.encode import encode_naively, encode_symbols, encode_weights, stand_in
from npu.isa.weight_stream.order import WeightOrder

from tests.npu.isa.test_payload import HEAD, STOP, second_format
from tests.npu.isa.weight_stream.test_decode import SEQUENCES
from tests.support.registers import members
from tests.support.streams import VARIANTS, random_weights
from tests.support.timing import addition

TARGETS = ("ethos-u55-128", "ethos-u65-512")
BYTES = (0, 1, 2, 3, 4, 5, 6, 0x10, 0x18, 0x40, 0x7F, 0x80, 0xFF)
OPERANDS = (0, 1, 2, 3, 7, 8, 15, 31, 32, 63, 64, 255, 256, 0x7FFF, 0x8000, 0xFFFF)
SECOND_WORDS = (0, 1, 0xFFFF, 0x80000000, 0xFFFFFFFF)


def outcome(make: Callable[..., Any], *arguments: Any) -> str:
    """What a call gives, or the sentence with which it refuses."""
    try:
        found = make(*arguments)
        return found.hex() if isinstance(found, bytes) else str(found)
    except UserError as error:
        return str(error)


def digest(outcomes: list[str]) -> str:
    """How many different ones there are, and a few letters that stand for all."""
    return f"{len(set(outcomes))} outcomes, {blake2b(chr(10).join(outcomes).encode(), digest_size=5).hexdigest()}"


def parsed(data: bytes) -> str:
    found = parse_payload(data)
    return f"{found.format} {found.config_word:#x} {found.id_word:#x} {found.feature_flags} {found.words.tolist()}"


def payload_lines() -> Iterator[str]:
    for name, data in {"COP1": HEAD + STOP.tobytes(), "COP2": second_format()}.items():
        for place in range(len(data)):
            changed = [data[:place] + bytes([value]) + data[place + 1 :] for value in BYTES]
            yield f"{name} byte {place}: {digest([outcome(parsed, one) for one in changed])}"
        cut = [*(data[:length] for length in range(len(data))), *(data + bytes(more) for more in range(1, 20))]
        yield f"{name} of other lengths: {digest([outcome(parsed, one) for one in cut])}"
        for count in (0, 1, 2, 0xFFFF, 0x10000, 0x12345):
            words = np.arange(count, dtype=np.uint32)
            yield f"{name} with {count} words: {digest([outcome(replace_words, data, words)])}"
    for variant in VARIANTS:
        for count in (0, 1, 0xFFFF, 0x10000, 0x12345, (1 << 22) + 1):
            made = outcome(build_payload, np.arange(count, dtype=np.uint32), variant)
            yield f"{variant.name} with {count} words: {digest([made])}"


def target_of(config: Configuration) -> str:
    return find_target(config, VARIANTS).name


def configured(word: int) -> str:
    """The fields of a configuration word, what it is made of again, and what runs its streams."""
    config = decode_config(word)
    fitting = [variant.name for variant in VARIANTS if is_compatible(config, variant.accelerator)]
    return f"{config} {config.word:#x} {fitting} {outcome(target_of, config)}"


def configuration_lines() -> Iterator[str]:
    for variant in VARIANTS:
        word = configuration_of(variant).word
        for bit in range(0, 32, 4):
            changed = [word & ~(15 << bit) | value << bit for value in range(16)]
            yield f"{variant.name} bits from {bit}: {digest([outcome(configured, one) for one in changed])}"


def command_lines() -> Iterator[str]:
    for target in TARGETS:
        variant = load_variant(target)
        known = encode([addition(8, 9, 24, Block(4, 4, 16)), Stop()], variant)
        for command in COMMANDS:
            code, outcomes = command.words(0)[0], []
            for operand in OPERANDS:
                for second in SECOND_WORDS if command.is_wide else (None,):
                    words = np.array([code | operand << 16, *([] if second is None else [second])], np.uint32)
                    outcomes.append("\n".join(map(str, disassemble(words, variant).lines)))
                    outcomes.append(outcome(decode, np.concatenate([known[:-1], words, known[-1:]]), variant))
            yield f"{target}, {command.name}: {digest(outcomes)}"
        others = [outcome(decode, np.array([code], np.uint32), variant) for code in range(0, 0x8000, 7)]
        yield f"{target}, other words: {digest(others)}"


def scales_again(*columns: list[int]) -> list[list[int]]:
    return [column.tolist() for column in decode_scales(encode_scales(*columns), len(columns[0]))]


def scale_lines() -> Iterator[str]:
    edges = {
        "bias": (-(1 << 39) - 1, -(1 << 39), -1, 0, 255, 256, (1 << 39) - 1, 1 << 39),
        "scale": (-1, 0, 1, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 32),
        "shift": (-1, 0, 1, 62, 63, 64),
    }
    for place, (name, values) in enumerate(edges.items()):
        for value in values:
            columns = [[-5, 7], [1 << 30, 3], [38, 2]]
            columns[place][1] = value
            made = outcome(encode_scales, *columns)
            yield f"{name} {value}: {made}, {outcome(scales_again, *columns)}"
    data = encode_scales([1, -2, 3], [4, 5, 6], [7, 8, 9])
    for count in (-1, 0, 1, 3, 4):
        yield f"{count} records: {outcome(decode_scales, data, count)}"
    for value in BYTES:
        yield f"shift byte {value}: {outcome(decode_scales, data[:-1] + bytes([value]), 3)}"


def orders(rng: np.random.Generator, count: int) -> Iterator[tuple[tuple[int, int, int, int], WeightOrder]]:
    """Shapes with orders of every kind."""
    for _ in range(count):
        is_depthwise, cores = bool(rng.random() < 0.3), int(rng.choice([1, 1, 2]))
        height, width, depth, channels = (int(size) for size in rng.integers(1, (12, 12, 70, 40)))
        yield (channels, height, width, 1 if is_depthwise else depth), WeightOrder(
            block_depth=int(rng.choice([8, 16, 24, 32])), traversal=Traversal(int(rng.integers(2))), is_depthwise=is_depthwise,
            ifm_bits=int(rng.choice([8, 16])), dilation_y=int(rng.integers(1, 3)), dilation_x=int(rng.integers(1, 3)),
            ofm_ublock_depth=int(rng.choice([4, 8])), core=int(rng.integers(cores)), cores=cores,
            has_4x4_sub_kernels=bool(rng.random() < 0.2),
        )  # fmt: skip


def order_lines() -> Iterator[str]:
    rng = np.random.default_rng(8)
    for number, (shape, order) in enumerate(orders(rng, 60)):
        weights = rng.integers(-90, 91, shape).astype(np.int16)
        stream = encode_weights(weights, order)
        yield f"{number} {shape} {order.mode}: {digest([stream.hex(), stand_in(weights, order).hex()])}"
        if weights[order.core :: order.cores].size:
            assert (decode_weights(stream, shape, order) == weights[order.core :: order.cores]).all()


def sequences() -> Iterator[tuple[str, list[int]]]:
    """Weights in stream order, of one kind or of several that follow one another."""
    yield from SEQUENCES.items()
    for first, zeros, last in ((0, 5, 1), (0, 40, 9), (1, 300, 1), (0, 3000, 2), (3, 1, 3), (0, 1, 0)):
        yield f"{zeros} zeros between {first} and {last}", [*[7] * first, *[0] * zeros, *[-3] * last]
    rng = np.random.default_rng(9)
    for number in range(60):
        parts = []
        for _ in range(int(rng.integers(1, 5))):
            limit, size = int(rng.choice([1, 3, 9, 40, 255])), int(rng.integers(1, 6000))
            part = random_weights((size,), int(rng.integers(1 << 30)), limit=limit)
            part[rng.random(part.size) < rng.choice([0, 0, 0.3, 0.7, 0.95])] = 0
            if rng.random() < 0.3:
                part = rng.choice(rng.integers(-255, 256, int(rng.choice([1, 2, 3, 8, 20, 33]))), part.size)
            parts.append(part)
        yield f"parts {number}", np.concatenate(parts).tolist()


def stream_lines() -> Iterator[str]:
    rng = np.random.default_rng(10)
    for name, sequence in sequences():
        symbols = np.array(sequence, np.int16)
        stream = encode_symbols(symbols)
        assert decode_symbols(stream, symbols.size).tolist() == sequence
        yield f"{name}, {symbols.size} weights: {len(stream)} bytes, {digest([stream.hex(), encode_naively(symbols).hex()])}"
        others = (0, 1, 2, symbols.size // 2, symbols.size - 1, symbols.size + 1, symbols.size + 40)
        yield f"{name} as of other sizes: {digest([outcome(decode_symbols, stream, count) for count in others])}"
        if symbols.size < 10_000:
            yield f"{name} damaged: {digest([damaged(stream, symbols.size, rng) for _ in range(25)])}"


def damaged(stream: bytes, count: int, rng: np.random.Generator) -> str:
    """What a stream is read as after a bit of it, most often near its beginning, has changed."""
    changed, place = bytearray(stream), int(rng.integers(min(len(stream), int(rng.choice([8, 40, len(stream)])))))
    changed[place] ^= 1 << int(rng.integers(8))
    try:
        return blake2b(decode_symbols(bytes(changed), count).tobytes(), digest_size=5).hexdigest()
    except StreamError as error:
        return str(error)


SHARED_WORK = list(Work)[:6]
"""That of Ethos-U55 and Ethos-U65."""


def buffer_lines() -> Iterator[str]:
    """Blocks of many sizes; a kind of work with everything that its buffers depend on."""
    rng = np.random.default_rng(11)
    height, width, depth = (axis.reshape(-1) for axis in np.meshgrid((1, 2, 4, 7, 16, 32), (1, 2, 6, 16, 64), (8, 16, 40, 128)))
    for number in range(150):
        work, variant = SHARED_WORK[number % len(SHARED_WORK)], VARIANTS[int(rng.integers(len(VARIANTS)))]
        window = KernelWindow(*(int(rng.choice([1, 1, 3, 8])) for _ in range(2)), *(int(rng.integers(1, 4)) for _ in range(2)))
        problem = BufferProblem(
            work=work, ofm=(int(rng.choice([1, 9])), 17, 33), ifm_depth=int(rng.choice([1, 8, 20, 33, 70])),
            ifm_bits=int(rng.choice([8, 16, 32])), kernel=window, upscale=list(Upscale)[int(rng.integers(len(Upscale)))],
            has_lut=bool(rng.integers(2)), reads_ifm2=work is Work.ELEMENTWISE and bool(rng.integers(2)),
            accumulator=members("accumulator")[int(rng.integers(len(members("accumulator"))))],
            traversal=Traversal(int(rng.integers(2))),
        )  # fmt: skip
        blocks = [Block(*map(int, sizes)) for sizes in zip(height[::7], width[::7], depth[::7], strict=True)]
        found = [str([banks.tolist() for banks in buffer_banks(buffer_rule(problem, variant), height, width, depth)])]
        sizes = zip(*(axis.tolist() for axis in (height, width, depth)), strict=True)
        found += [
            str([shram_layout(problem, Block(*one), variant) is not None for one in sizes]),
            str(lut_start(problem, variant)),
        ]
        found += [str(shram_layout(problem, block, variant)) for block in blocks]
        yield f"{number} {variant.name} {work.value} of {problem.ifm_bits} bits: {digest(found)}"


def recorded(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def test_weight_streams(golden: Callable[[str, str], None]) -> None:
    golden("isa/weights.txt", recorded(stream_lines()))


def test_orders_of_weights(golden: Callable[[str, str], None]) -> None:
    golden("isa/orders.txt", recorded(order_lines()))


def test_payloads(golden: Callable[[str, str], None]) -> None:
    golden("isa/payloads.txt", recorded(payload_lines()))


def test_configuration_words(golden: Callable[[str, str], None]) -> None:
    golden("isa/configurations.txt", recorded(configuration_lines()))


def test_command_words(golden: Callable[[str, str], None]) -> None:
    golden("isa/commands.txt", recorded(command_lines()))


def test_buffers(golden: Callable[[str, str], None]) -> None:
    golden("isa/buffers.txt", recorded(buffer_lines()))


def test_scale_records(golden: Callable[[str, str], None]) -> None:
    golden("isa/scales.txt", recorded(scale_lines()))
