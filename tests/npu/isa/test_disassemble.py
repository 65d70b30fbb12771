"""Listings: the same words after assembling, the commands that Vela lists, and errors with line numbers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.isa.disassemble import assemble, disassemble
from npu.isa.encode import encode

from tests.support.operations import operations
from tests.support.sample_models import image_classifier
from tests.support.shared import shared_models
from tests.support.streams import jobs
from tests.support.vela import compile_with_vela

VARIANTS = {name: load_variant(name) for name in ("ethos-u55-128", "ethos-u65-512")}
_VELA_LINE = re.compile(r"^0x[0-9a-f]+: ([0-9a-f]{8}|\s{8}) ([0-9a-f]{4}) ([0-9a-f]{4}) - (NPU_\w+)", re.MULTILINE)


@pytest.mark.parametrize("name", VARIANTS)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_assembling_a_listing_gives_the_same_words(name: str, data: st.DataObject) -> None:
    words = encode(data.draw(operations(VARIANTS[name])), VARIANTS[name])
    assert np.array_equal(assemble(str(disassemble(words, VARIANTS[name]))), words)


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-512"])
def test_streams_of_vela_survive_the_listing(accelerator: str) -> None:
    for job in jobs(compile_with_vela(image_classifier(), accelerator)):
        text = str(disassemble(job.payload.words, job.variant))
        assert ".word" not in text
        assert np.array_equal(assemble(text), job.payload.words)


@pytest.mark.parametrize("name", [name for name in shared_models() if "vela" in name])
def test_real_streams_survive_the_listing(name: str) -> None:
    for job in jobs(shared_models()[name].read_bytes()):
        assert np.array_equal(assemble(str(disassemble(job.payload.words, job.variant))), job.payload.words)


def test_commands_are_those_that_vela_lists(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(image_classifier())
    vela = str(Path(sys.executable).with_name("vela"))
    options = ["--accelerator-config", "ethos-u55-128", "--verbose-register-command-stream", "--output-dir", str(tmp_path)]
    listed = _VELA_LINE.findall(subprocess.run([vela, str(model), *options], capture_output=True, text=True, check=True).stdout)
    job = jobs((tmp_path / "model_vela.tflite").read_bytes())[0]
    listing = disassemble(job.payload.words, job.variant)
    assert [line.text.split()[0] for line in listing.lines] == [name for _, _, _, name in listed]
    theirs = [word for payload, parameter, code, _ in listed for word in (f"{parameter}{code}", payload.strip()) if word]
    assert assemble(str(listing)).tolist() == [int(word, 16) for word in theirs]


def test_a_listing_is_as_written_out() -> None:
    words = np.array([0x01030131, 0x000F4031, 0x5800, 0x00004032, 256, 0x10, 0x11, 0xFFFF0000], np.uint32)
    lines = str(disassemble(words, VARIANTS["ethos-u65-512"])).splitlines()
    assert [re.sub(r" +", " ", line) for line in lines] == [
        ".product ETHOS_U65",
        "NPU_SET_DMA0_DST_REGION region=3 target=INTERNAL stride_mode=CONTIGUOUS ; 000000",
        "NPU_SET_DMA0_DST value=0xf00005800 ; 000001",
        "NPU_SET_DMA0_LEN value=0x100 ; 000003",
        "NPU_OP_DMA_START ; 000005 Dma region 0 + 0x0 to SHRAM of cores 0x3 + 0xf00005800, 256 bytes",
        "NPU_OP_DMA_WAIT outstanding=0 ; 000006 wait until at most 0 transfer(s) are unfinished",
        "NPU_OP_STOP mask=65535 ; 000007 stop, mask 0xffff",
    ]


def test_a_stride_without_sign_copies_is_listed_as_words() -> None:
    words = np.array([0x00004015, 0xFFFFFE00, 0xFFFF0000], np.uint32)
    text = str(disassemble(words, VARIANTS["ethos-u55-128"]))
    assert ".word 0x00004015 0xfffffe00" in text
    assert np.array_equal(assemble(text), words)


def test_comments_empty_lines_and_numbers_of_any_base_are_read() -> None:
    text = "; head\n\n.product ETHOS_U55\nNPU_SET_IFM_REGION value=0x3 ; three\n  NPU_OP_POOL mode=AVERAGE\n.word 0xffff0000\n"
    assert assemble(text).tolist() == [0x0003010F, 0x00010005, 0xFFFF0000]


MALFORMED = {
    "no_product": ("NPU_OP_CONV", r"listing line 1: must begin with .product, got NPU_OP_CONV"),
    "unknown_product": (".product X", r"listing line 1: .product: must be one of ETHOS_U55, .* got X"),
    "unknown_command": (".product ETHOS_U55\nNPU_OP_FLY", r"listing line 2: must be a known command, got NPU_OP_FLY"),
    "typing_slip": (
        ".product ETHOS_U55\nnpu_set_ifm_regon value=1",
        r"got npu_set_ifm_regon \(did you mean 'NPU_SET_IFM_REGION'\?\)",
    ),
    "unknown_name": (
        ".product ETHOS_U55\nNPU_SET_DMA0_SRC_REGION region=0 target=INTRENAL stride_mode=CONTIGUOUS",
        r"target: must be one of EXTERNAL, INTERNAL, or a number, got 'INTRENAL'",
    ),
    "unknown_field": (
        ".product ETHOS_U55\nNPU_OP_STOP flag=1",
        r"line 2: NPU_OP_STOP: fields must be mask, each once, got flag=1",
    ),
    "twice": (".product ETHOS_U55\nNPU_OP_STOP mask=1 mask=1", r"fields must be mask, each once, got mask=1"),
    "missing": (".product ETHOS_U55\nNPU_OP_STOP", r"NPU_OP_STOP: fields must be mask, got none"),
    "huge_number": (
        f".product ETHOS_U55\nNPU_OP_STOP mask=0x{'f' * 6000}",
        r"NPU_OP_STOP: mask: must be a number of at most 64 bits, got one of 24000",
    ),
    "not_a_number": (".product ETHOS_U55\nNPU_OP_STOP mask=x", r"NPU_OP_STOP: mask: must be a number, got 'x'"),
    "range": (".product ETHOS_U55\nNPU_OP_STOP mask=65536", r"mask must be in \[0, 65535\], got 65536"),
    "word": (".product ETHOS_U55\n.word 0x100000000", r".word: must fit in 32 bits, got 0x100000000"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_mistakes_are_named_with_their_line(case: str) -> None:
    text, message = MALFORMED[case]
    with pytest.raises(StreamError, match=message):
        assemble(text)
