"""Operations survive their command words; the encoder writes no register twice and refuses what the decoder would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode, read_commands
from npu.isa.encode import encode
from npu.isa.operations import Dma, DmaSide, DmaWait, Operation, Stop

from tests.support.operations import operations

VARIANTS = {name: load_variant(name) for name in ("ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512")}
COPY = Dma(source=DmaSide(0, 0x100), destination=DmaSide(1, 0x200), length_bytes=64)


@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_decoding_gives_back_the_operations(name: str, data: st.DataObject) -> None:
    variant = VARIANTS[name]
    program = data.draw(operations(variant))
    decoded = decode(encode(program, variant), variant)
    assert [one.operation for one in decoded] == program


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_no_write_leaves_a_register_as_it_is(data: st.DataObject) -> None:
    variant = VARIANTS["ethos-u65-512"]
    program = data.draw(operations(variant))
    registers: dict[str, dict[str, int]] = {}
    for raw in read_commands(encode([*program[:-1], *program], variant), variant.accelerator.product):
        if raw.command.name.startswith("NPU_SET_"):
            assert registers.get(raw.command.name) != raw.values
            registers[raw.command.name] = raw.values


def test_a_repeated_operation_writes_only_its_kick_off() -> None:
    variant = VARIANTS["ethos-u55-128"]
    once, twice = encode([COPY, Stop()], variant), encode([COPY, COPY, Stop()], variant)
    assert np.array_equal(twice, np.concatenate([once[:-1], [0x00000010], once[-1:]]))


def test_words_of_a_transfer_are_as_written_out() -> None:
    expected = [
        0x00000130,
        0x00004030,
        0x100,
        0x00010131,
        0x00004031,
        0x200,
        0x00004032,
        64,
        0x00000010,
        0x00000011,
        0xFFFF0000,
    ]
    words = encode([COPY, DmaWait(0), Stop()], VARIANTS["ethos-u55-128"])
    assert words.dtype == np.uint32
    assert words.tolist() == expected


PROGRAMS: dict[str, list[Operation]] = {
    "empty": [],
    "no_stop": [DmaWait(0)],
    "two_stops": [Stop(), Stop()],
    "stop_inside": [Stop(), DmaWait(0)],
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_only_the_last_operation_may_and_must_stop(case: str) -> None:
    with pytest.raises(StreamError, match=r"the last, and only the last, must be Stop"):
        encode(PROGRAMS[case], VARIANTS["ethos-u55-128"])


REFUSED: dict[str, tuple[Operation, str]] = {
    "too_many_outstanding": (
        DmaWait(16),
        r"operation 0 \(DmaWait\): NPU_OP_DMA_WAIT: outstanding must be in \[0, 15\], got 16",
    ),
    "length": (replace(COPY, length_bytes=17), r"operation 0 \(Dma\): length: must be a positive multiple of 16, got 17"),
    "region": (replace(COPY, source=DmaSide(8, 0)), r"NPU_SET_DMA0_SRC_REGION: region must be in \[0, 7\], got 8"),
    "address": (
        replace(COPY, source=DmaSide(0, 1 << 32)),
        r"source address: must be of at most 32 bits, got 4294967296",
    ),
    "rows_without_stride": (replace(COPY, rows=2), r"rows: must be 1 without row stride, got 2"),
    "planes_without_stride": (replace(COPY, planes=2), r"planes: must be 1 without plane stride, got 2"),
    "core_mask_outside_shram": (replace(COPY, source=DmaSide(0, 0, core_mask=1)), r"core mask: must be left at 3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case: str) -> None:
    operation, message = REFUSED[case]
    with pytest.raises(StreamError, match=message):
        encode([operation, Stop()], VARIANTS["ethos-u55-128"])
