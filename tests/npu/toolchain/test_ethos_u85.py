"""Every verb that takes a compiled file takes Vela's for Ethos-U85, with whatever only this family has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from npu.cli.commands import FAILED
from npu.cli.main import main

from tests.support import operator_cases as base
from tests.support.operator_sketches import sketch
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import VELA_CASES, with_shapes

SIZES = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
MODELS = {
    "a resize": "RESIZE_BILINEAR-int8",
    "chains": "SOFTMAX-int8",
    "transposed maps": "TRANSPOSE-int8",
    "weights in IFM2": "BATCH_MATMUL-int8",
    "masks": "SELECT_V2-int8",
    "tables": "TANH-int16",
    "matrices in a network": 87,
    "sums that stay": 0,
}
# Vela writes the IFM padding before a resize, and the weight format before weights that come as IFM2; neither reads it.
UNREAD_WRITES = ("a resize", "weights in IFM2")
VERBS = {
    "run": ["run", "FILE", "--pmu"],
    "explain": ["explain", "FILE"],
    "report": ["report", "FILE", "-o", "OUT.html"],
    "diff": ["diff", "MODEL", "FILE"],
    "compare": ["compare", "FILE", "FILE"],
    "tensors": ["run", "FILE", "--dump-tensors", "OUT"],
    "trace": ["run", "FILE", "--trace", "OUT.json"],
    "expanded": ["export", "FILE", "--expanded", "OUT.tflite"],
    "sources": ["export", "FILE", "--c", "OUT"],
    "verify": ["verify", "FILE"],
    "disasm": ["disasm", "FILE"],
}


def model_of(what: str) -> bytes:
    known = MODELS[what]
    if isinstance(known, int):
        return sketch(known).content
    return with_shapes((base.CASES | VELA_CASES)[known](np.random.default_rng([2, 7])))


@pytest.mark.parametrize("what", MODELS)
def test_every_verb_takes_a_file(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_of(what)
    (tmp_path / "MODEL").write_bytes(model)
    (tmp_path / "FILE").write_bytes(compile_forked(model, SIZES[len(what) % len(SIZES)]))
    for verb, words in VERBS.items():
        arguments = [str(tmp_path / word) if word.isupper() or word.startswith("OUT") else word for word in words]
        expected = FAILED if verb == "verify" and what in UNREAD_WRITES else 0
        assert main(arguments) == expected, (verb, capsys.readouterr().err)


@pytest.mark.parametrize("what", UNREAD_WRITES)
def test_the_only_findings_are_writes_that_nothing_reads(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.tflite"
    path.write_bytes(compile_forked(model_of(what), SIZES[0]))
    assert main(["verify", str(path), "--format", "json"]) == FAILED
    assert {finding["rule"] for finding in json.loads(capsys.readouterr().out)} == {"UNREAD-WRITE"}


def test_a_resize_has_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file.tflite"
    path.write_bytes(compile_forked(model_of("a resize"), SIZES[0]))
    assert main(["run", str(path)]) == 0
    assert "RESIZE_BILINEAR" in capsys.readouterr().out
