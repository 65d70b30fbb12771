"""The command stream of Ethos-U85: every command as Vela 5.2 lists it, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product
from npu.isa.command import Command
from npu.isa.decode import decode
from npu.isa.ethos_u85.family import ETHOS_U85
from npu.isa.payload import configuration_of, decode_config, find_target, parse_payload

from tests.support import operator_cases as base
from tests.support.vela import only_job
from tests.support.vela_fork import compile_forked, run_vela
from tests.support.vela_operators import VELA_CASES, with_shapes

SIZES = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
MODELS = (
    *("CONV_2D-int8", "DEPTHWISE_CONV_2D-int16", "SOFTMAX-int8", "RESIZE_BILINEAR-int8", "TRANSPOSE-int8", "LEAKY_RELU-int8"),
    *("ARG_MAX-int8", "AVERAGE_POOL_2D-int8", "UNIDIRECTIONAL_SEQUENCE_LSTM-int8", "SELECT_V2-int8", "SUM-int16"),
)
LISTED = re.compile(r"^0x[0-9a-f]+: ([0-9a-f]{8}| {8}) ([0-9a-f]{4}) ([0-9a-f]{4}) - (\S+) +-?\d+(?:, (.*))?$", re.MULTILINE)
OPCODES = {command.words(0)[0] & 0xFFFF: command for command in ETHOS_U85.commands}
CALLED = {
    "BITS_8": "B8", "BITS_16": "B16", "BITS_32": "B32", "TILES_2X2": "TILE2X2", "SUB_KERNEL_8X8": "D8X8", "STANDARD": "SWD",
    "FAST": "FWD", "INT32": "I32", "INT48": "I48", "CONTIGUOUS": "D1", "ROWS": "D2", "PLANES": "D3",
}  # fmt: skip
"""What Vela calls otherwise."""
NUMBERS = {"KERNEL_DILATION_NONE": 0, "KERNEL_DILATION_X2": 1, "DMA_IDX_MODE_DISABLED": 0, "DMA_IDX_MODE_ENABLED": 1}
UNLIKE = {"NPU_SET_OP_SCALAR": "Vela 5.2 prints c3c3c3c4 as 3284386755, which is c3c3c3c3"}
BROADCASTS = {"height": "H", "width": "W", "depth": "C"}


def listed_commands(name: str, target: str, folder: Path) -> Iterator[tuple[Command, int, str, dict[str, str]]]:
    """Command, operand, and what Vela calls it and its fields."""
    source = folder / "model.tflite"
    source.write_bytes(with_shapes((base.CASES | VELA_CASES)[name](np.random.default_rng([1, 7]))))
    run_vela(source, folder, target, "--verbose-register-command-stream")
    for payload, parameter, opcode, called, fields in LISTED.findall((folder / "log").read_text(errors="replace")):
        operand = int(parameter, 16) << 32 | int(payload, 16) if payload.strip() else int(parameter, 16)
        yield OPCODES[int(opcode, 16)], operand, called, dict(field.split(" = ") for field in fields.split(", ") if field)


@pytest.mark.parametrize("name", MODELS)
def test_every_command_is_as_vela_lists_it(name: str, tmp_path: Path) -> None:
    known = set()
    for command, operand, called, fields in listed_commands(name, SIZES[len(name) % 5], tmp_path):
        assert command.name == called
        values = command.values(operand, Product.ETHOS_U85)
        told = [NUMBERS.get(value, int(value, 0) if re.match(r"-?\d", value) else value) for value in fields.values()]
        known.add(called)
        if called in UNLIKE:
            continue
        if called.endswith("_BROADCAST"):
            mode = str(told[0]).removeprefix("BROADCAST_MODE_")
            assert values["scalar"] == (mode == "SCALAR")
            assert all(values[name] == (axis in mode and mode not in ("SCALAR", "NONE")) for name, axis in BROADCASTS.items())
            continue
        for field in command.fields:
            value = values[field.name]
            if field.enum is None:
                assert any(isinstance(one, int) and (one - value) % (1 << 32) == 0 for one in told), (called, field.name, told)
            else:
                word = field.enum(value).name
                assert any(str(one).endswith(CALLED.get(word, word)) for one in told), (called, word, told)
    assert len(known) > 20


@pytest.mark.parametrize("target", SIZES)
def test_a_file_of_vela_names_the_target_that_it_is_for(target: str) -> None:
    job = only_job(compile_forked(with_shapes(VELA_CASES["ADD-int8"](np.random.default_rng([1, 7]))), target))
    config, variant = decode_config(parse_payload(job.payload).config_word), load_variant(target)
    assert config == configuration_of(variant)
    assert find_target(config, map(load_variant, SIZES)) == variant


def words_of(name: str) -> list[int]:
    return list(
        parse_payload(
            only_job(compile_forked(with_shapes(VELA_CASES[name](np.random.default_rng([1, 7]))), SIZES[1])).payload
        ).words
    )


@pytest.mark.parametrize("name", ["CONV_2D-int8", "SOFTMAX-int8", "RESIZE_BILINEAR-int8"])
def test_damaged_streams_are_decoded_or_refused(name: str) -> None:
    """Every word of a stream with bits turned over: an operation or a sentence, nothing else."""
    words, variant, refused = words_of(name), load_variant(SIZES[1]), 0
    rng = np.random.default_rng(5)
    for place in range(len(words)):
        for bit in rng.choice(32, 3, replace=False):
            changed = [*words[:place], words[place] ^ (1 << int(bit)), *words[place + 1 :]]
            try:
                list(decode(np.array(changed, np.uint32), variant))
            except StreamError:
                refused += 1
    assert refused > len(words)
