"""The driver payload: bytes that Vela writes, both layouts, and every rule."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product
from npu.isa.payload import (
    Configuration,
    PayloadFormat,
    build_payload,
    configuration_of,
    decode_config,
    find_target,
    is_compatible,
    parse_payload,
)

from tests.support.sample_models import image_classifier
from tests.support.streams import VARIANTS, jobs
from tests.support.vela import compile_with_vela

STOP = np.array([0xFFFF0000], np.uint32)
HEAD = struct.pack("<8I", 0x31504F43, 0x00100001, 0x00001807, 0x10066001, 5, 5, 5, 0x00010002)
"""What Vela 5.2 puts before a stream of one word for Ethos-U55-128."""
CONFIG_WORDS = {
    "ethos-u55-32": 0x00001005,
    "ethos-u55-64": 0x00001006,
    "ethos-u55-128": 0x00001807,
    "ethos-u55-256": 0x00003008,
    "ethos-u65-256": 0x10003008,
    "ethos-u65-512": 0x10006009,
}


def test_the_layout_is_that_of_vela() -> None:
    assert build_payload(STOP, load_variant("ethos-u55-128")) == HEAD + STOP.tobytes()


def test_parsing_gives_back_the_stream() -> None:
    words = np.arange(70000, dtype=np.uint32)
    payload = parse_payload(build_payload(words, load_variant("ethos-u65-256")))
    assert payload.format is PayloadFormat.COP1
    assert (payload.config_word, payload.id_word) == (0x10003008, 0x10066001)
    assert np.array_equal(payload.words, words)


@pytest.mark.parametrize("name", CONFIG_WORDS)
def test_configuration_words_are_those_of_vela(name: str) -> None:
    word = CONFIG_WORDS[name]
    assert configuration_of(load_variant(name)).word == word == decode_config(word).word
    assert find_target(decode_config(word), VARIANTS).name == name


def test_the_shram_size_does_not_decide_whether_a_target_that_is_named_runs_a_stream() -> None:
    assert is_compatible(decode_config(0x00002007), load_variant("ethos-u55-128").accelerator)


NO_TARGET = {"macs": 0x00001804, "shram": 0x00002007, "version": 0x00001817, "custom_dma": 0x08001807}


@pytest.mark.parametrize("case", NO_TARGET)
def test_a_stream_for_other_hardware_has_no_target(case: str) -> None:
    with pytest.raises(StreamError, match=r"no shipped target is ETHOS_U55 with \d+ MACs, \d+ KiB of SHRAM.*give the hardware"):
        find_target(decode_config(NO_TARGET[case]), VARIANTS)


def test_the_fields_of_a_configuration_are_named() -> None:
    assert decode_config(0x1C006009) == Configuration(512, 0, 96, Product.ETHOS_U65, True, True)


@pytest.mark.parametrize(
    ("word", "message"), [(0x30000008, r"product must be 0 .* got 3"), (0x00011807, r"reserved bits 25..16")]
)
def test_unknown_configurations_are_refused(word: int, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        decode_config(word)


def actions(*words: int) -> bytes:
    return struct.pack(f"<{len(words) + 1}I", 0x31504F43, *words)


CONFIG = (0x00100001, 0x00001807, 0x10066001)
MALFORMED = {
    "empty": (b"", "at least 4 bytes"),
    "magic": (b"COP3" + bytes(12), "must begin with COP1 or COP2, got b'COP3'"),
    "odd_length": (HEAD + b"\0", "multiple of 4 bytes, got 33"),
    "reserved_action": (actions(0), "action at byte 4: must be 1 to 5, got 0"),
    "truncated_config": (actions(*CONFIG[:2]), "action at byte 4: needs 2 more words, got 1"),
    "truncated_stream": (HEAD, "action at byte 28: needs 1 more words, got 0"),
    "two_configs": (actions(*CONFIG, *CONFIG), "only configuration"),
    "two_streams": (HEAD + struct.pack("<5I", 0, 5, 5, 0x00010002, 0), "only command stream"),
    "empty_stream": (actions(*CONFIG, 5, 5, 5, 2), "must have 1 to 4194304 words, got 0"),
    "unaligned_stream": (actions(*CONFIG, 0x00010002, 0), "must start at a multiple of 16 bytes"),
    "no_stream": (actions(*CONFIG), "must have a command stream action"),
    "no_config": (actions(5, 5, 0x00010002, 0), "must have a configuration action"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_payloads_are_refused(case: str) -> None:
    data, message = MALFORMED[case]
    with pytest.raises(StreamError, match=message):
        parse_payload(data)


@pytest.mark.parametrize("length", [0, (1 << 22) + 1])
def test_streams_that_the_queue_cannot_hold_are_refused(length: int) -> None:
    with pytest.raises(StreamError, match=rf"must have 1 to 4194304 words, got {length}"):
        build_payload(np.zeros(length, np.uint32), load_variant("ethos-u55-128"))


def second_format(**changes: int) -> bytes:
    """A COP2 payload of one word, with header fields replaced."""
    fields = {"major": 1, "total": 52, "kind": 1, "entry": 44, "metadata": 36, "data": 20} | changes
    header = struct.pack("<4sHHQ", b"COP2", fields["major"], 0, fields["total"])
    metadata = struct.pack(
        "<III4sHHIIIIQ", fields["kind"], fields["entry"], fields["metadata"], b"VEUM", 1, 0, fields["data"],
        0x00001807, 0x10066001, 2, 4096,
    )  # fmt: skip
    return header + metadata + b"\xff" * 4 + STOP.tobytes()


def test_the_second_format_is_read() -> None:
    payload = parse_payload(second_format())
    assert (payload.format, payload.config_word, payload.feature_flags) == (PayloadFormat.COP2, 0x00001807, 2)
    assert payload.words.tolist() == [0xFFFF0000]


SECOND_MALFORMED = {
    "major": ({"major": 2}, "major version must be 1, got 2"),
    "total": ({"total": 53}, "length must be 52, got 53"),
    "kind": ({"kind": 2}, "entry type must be 1, got 2"),
    "entry": ({"entry": 40}, "entry length must be 44, got 40"),
    "metadata": ({"metadata": 60}, "metadata length must fit the entry, got 60"),
    "unaligned": ({"metadata": 32}, "start at a multiple of 16"),
    "data": ({"data": 24}, "metadata data length must be 20, got 24"),
}


@pytest.mark.parametrize("case", SECOND_MALFORMED)
def test_malformed_second_formats_are_refused(case: str) -> None:
    changes, message = SECOND_MALFORMED[case]
    with pytest.raises(StreamError, match=message):
        parse_payload(second_format(**changes))


def test_a_cut_second_format_is_refused() -> None:
    with pytest.raises(StreamError, match=r"must have at least 60 bytes, got 30"):
        parse_payload(second_format()[:30])


def test_both_formats_of_vela_hold_the_same_stream() -> None:
    first, second = (
        jobs(compile_with_vela(image_classifier(), "ethos-u55-128", "--cop-format", name))[0] for name in ("COP1", "COP2")
    )
    assert (first.payload.format, second.payload.format) == (PayloadFormat.COP1, PayloadFormat.COP2)
    assert np.array_equal(first.payload.words, second.payload.words)
    assert (first.payload.config_word, first.payload.id_word) == (second.payload.config_word, second.payload.id_word)
    assert build_payload(first.payload.words, first.variant) == first.data
