"""Listings of compiled files give the same bytes again, and the files have no findings: every compiler, target and format.

The slow cases take the models beside the project, where they are there, and every Vela of `VELA_ENVIRONMENTS`: a folder with
one environment per version, named `vela-VERSION`, as the compatibility benchmark leaves it. Without it, the installed one.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.api import disassemble, verify
from npu.errors import SimulationError, StreamError, UserError
from npu.graph.ethos_u import is_compiled
from npu.isa.disassemble import assemble as assemble_words
from npu.isa.disassemble import disassemble as disassemble_words
from npu.isa.payload import PayloadFormat
from npu.toolchain.listing import assemble
from npu.toolchain.session import Session
from npu.toolchain.sources import load_compiled
from sim.container import jobs_of

from tests.support.compatibility import INSTALLED, TARGETS, VERSIONS, compile_with, environment
from tests.support.litert import repaired
from tests.support.sample_models import SAMPLES
from tests.support.shared import shared_models

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
FOLDER = os.environ.get("VELA_ENVIRONMENTS")
FOUND = [version for version in VERSIONS if version == INSTALLED or (FOLDER and (Path(FOLDER) / f"vela-{version}").is_dir())]
LARGEST_BYTES = 1 << 19
"""Larger models say nothing new here and take long."""
COP2 = ("--cop-format", "COP2")
NOT_MODELS = {name for name in shared_models() if "vela" in name or "invalid" in name}
FORMATS = {"COP1": (), "COP2": COP2, "COP2-separate": (*COP2, "--separate-io-regions")}


@cache
def models() -> dict[str, bytes]:
    """Our own models, and the small ones beside the project."""
    own = {"digits": DIGITS.read_bytes()}
    paths = {name: path for name, path in shared_models().items() if path.stat().st_size <= LARGEST_BYTES}
    return own | {name: repaired(path.read_bytes()) for name, path in paths.items() if name not in NOT_MODELS}


def check(content: bytes) -> int:
    """The number of streams in a file that survives the listing; 0 for one that holds none."""
    model = npu.load(content)
    if not is_compiled(model):
        return 0
    assert assemble(disassemble(content), content) == content
    assert verify(content) == []
    return len(list(jobs_of(model)))


def check_raw(path: Path) -> int:
    """The same for a raw archive, whose streams are listed and assembled one by one."""
    model = load_compiled(path)
    variant = Session().variant_of(model, path.name)
    found = [job.payload.words for job in jobs_of(model)]
    for words in found:
        assert np.array_equal(assemble_words(str(disassemble_words(words, variant))), words)
    return len(found)


def test_a_stream_that_breaks_a_rule_is_listed_and_judged_but_not_run() -> None:
    compiled = npu.compile(DIGITS, target="ethos-u55-128").content
    text = re.sub(r"(NPU_SET_SCALE_BASE value=0x[0-9a-f]*)0 ", r"\g<1>1 ", disassemble(compiled), count=1)
    broken = assemble(text, compiled)
    listing = disassemble(broken)
    assert "REFUSED" in listing
    assert assemble(listing, broken) == broken
    findings = [finding for _, finding in verify(broken) if finding.rule == "REFUSED"]
    assert [finding.operation for finding in findings] == ["NPU_OP_CONV"]
    assert "16" in findings[0].message
    with pytest.raises(StreamError, match=r"command \d+ at [0-9a-f]{6}: NPU_OP_CONV"):
        npu.run(broken)


def test_a_write_into_the_constants_is_found_and_told_where_the_listing_has_it() -> None:
    compiled = npu.compile(DIGITS, target="ethos-u55-128").content
    broken = assemble(re.sub(r"NPU_SET_OFM_REGION value=1", "NPU_SET_OFM_REGION value=0", disassemble(compiled)), compiled)
    finding = next(finding for _, finding in verify(broken) if finding.rule == "BOUNDS")
    assert (finding.operation, finding.region) == ("Convolution", 0)
    assert "OFM must lie in a region that may be written" in finding.message
    assert re.search(rf"^NPU_OP_CONV +; {finding.word_index:06x} Convolution", disassemble(broken), re.MULTILINE)
    with pytest.raises(SimulationError, match=f"command {finding.command_index} at {finding.word_index:06x} .*read-only"):
        npu.run(broken)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_our_files_of_sample_models_survive_the_listing(name: str) -> None:
    try:
        content = npu.compile(SAMPLES[name](), target="ethos-u55-128").content
    except UserError:
        return  # a model that is not for the NPU
    check(content)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("version", [*FOUND, "ours"])
def test_files_of_every_compiler_survive_the_listing(version: str, target: str) -> None:
    streams = 0
    for model in models().values():
        try:
            if version == "ours":
                content = npu.compile(model, target=target).content
            else:
                content = compile_with(environment(version, Path(FOLDER or ".")), model, target)
        except (RuntimeError, UserError):
            continue  # that compiler refuses it
        streams += check(content)
    assert streams


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("target", TARGETS)
def test_every_payload_format_survives_the_listing(target: str, form: str) -> None:
    content = compile_with(environment(INSTALLED, Path()), DIGITS.read_bytes(), target, *FORMATS[form])
    assert check(content) == 1
    (job,) = jobs_of(npu.load(content))
    assert job.payload.format is (PayloadFormat.COP1 if form == "COP1" else PayloadFormat.COP2)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("form", FORMATS)
def test_raw_archives_survive_the_listing(form: str, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        vela, output = environment(INSTALLED, Path()), Path(folder)
        command = [str(vela), str(DIGITS), "--accelerator-config", target, "--output-dir", folder, "--output-format", "raw"]
        subprocess.run([*command, *FORMATS[form]], capture_output=True, check=True)
        assert check_raw(output / "digits_vela.npz") == 1


@pytest.mark.parametrize("name", sorted(name for name in shared_models() if "vela" in name))
def test_published_files_survive_the_listing(name: str) -> None:
    assert check(shared_models()[name].read_bytes())
