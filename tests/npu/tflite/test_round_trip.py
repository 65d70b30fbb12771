"""What is read and written again runs as before, and holds what it held; files of the published library read the same."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ai_edge_litert.schema_py_generated as litert
import flatbuffers
import numpy as np
import pytest

from npu.graph.graph import Model
from npu.graph.wire import NumberArray, SubTable, SubTables, Table, UnionMember, wire_fields
from npu.tflite.flatbuffer import TableReader
from npu.tflite.reader import read_model
from npu.tflite.schema import IDENTIFIER, ModelTable
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, run_reference
from tests.support.sample_models import SAMPLES
from tests.support.shared import ROOT, shared_models

NEVER_RUN = {"keyword_scrambled_8bit": "LiteRT corrupts its memory on 8-bit SVDF state"}
UNREADABLE = {"invalid_makefile"}
READABLE = sorted(set(shared_models()) - UNREADABLE)


def repacked(content: bytes) -> bytes:
    """The same model as the flatbuffers library lays it out: back to front, other gaps, other order."""
    model = litert.ModelT.InitFromPackedBuf(bytearray(content))
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def plain(value: Any) -> Any:
    """A value of the graph as nested tuples that can be compared."""
    if isinstance(value, Model):
        value = (value.graphs, value.signatures, dict(value.metadata), value.description, value.version, dict(value.extra))
    if isinstance(value, Table):
        return type(value).__name__, tuple(plain(getattr(value, field.name)) for field in wire_fields(type(value)))
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return tuple((key, plain(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if hasattr(value, "__dataclass_fields__"):
        return type(value).__name__, tuple(plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return value


def assert_same_results(first: bytes, second: bytes) -> None:
    inputs = random_inputs(first, 1)
    for ours, theirs in zip(run_reference(second, inputs), run_reference(first, inputs), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("name", list(SAMPLES))
def test_a_model_that_was_read_and_written_runs_identically(name: str) -> None:
    original = repacked(SAMPLES[name]())
    assert_same_results(original, write_model(read_model(original)))


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_layout_of_the_file_does_not_matter(name: str) -> None:
    content = SAMPLES[name]()
    assert plain(read_model(repacked(content))) == plain(read_model(content))


@pytest.mark.parametrize("name", [*SAMPLES, *READABLE])
def test_reading_what_was_written_gives_the_same_model(name: str) -> None:
    model = read_model(SAMPLES[name]() if name in SAMPLES else shared_models()[name])
    content = write_model(model)
    assert plain(read_model(content)) == plain(model)
    assert write_model(read_model(content)) == content


@pytest.mark.parametrize("name", READABLE)
def test_the_published_module_finds_the_same_tables_in_a_real_model(name: str) -> None:
    content = shared_models()[name].read_bytes()
    ours = TableReader(content, name).root(ModelTable, IDENTIFIER)
    assert_same_tables(ours, litert.ModelT.InitFromPackedBuf(content))


def assert_same_tables(ours: Table, theirs: Any) -> None:
    for field in wire_fields(type(ours)):
        camel = "".join(part[:1].upper() + part[1:] for part in field.name.split("_"))
        found, expected = getattr(ours, field.name), getattr(theirs, camel[0].lower() + camel[1:])
        if isinstance(found, Table) and isinstance(field.wire, SubTable | UnionMember):
            assert_same_tables(found, expected)
        elif isinstance(field.wire, SubTables):
            for item, expected_item in zip(found or (), expected if expected is not None else (), strict=True):
                assert_same_tables(item, expected_item)
        elif isinstance(field.wire, NumberArray) and found is not None:
            np.testing.assert_array_equal(found, expected)
        elif isinstance(found, str):
            assert found.encode() == (expected or b"")
        elif isinstance(found, bytes):
            assert found == bytes(expected if expected is not None else b"")
        elif isinstance(found, tuple):
            assert found == tuple(expected if expected is not None else ())
        else:
            assert getattr(found, "value", found) == expected, field.name


RUN_BOTH = """
import sys
from tests.npu.tflite.test_round_trip import assert_same_results
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from tests.support.litert import repaired
from pathlib import Path
content = Path(sys.argv[1]).read_bytes()
try:
    assert_same_results(content, write_model(read_model(content)))
except (RuntimeError, ValueError) as error:
    print("refused:", str(error)[:200])
"""

REFUSED = {
    "custom_op_unknown",
    "edsr_f32b5_int8",
    "kws_micronet_m_vela_H256",
    "person_detect_int8",
    "person_detect_vela",
    "rnnoise_vela_H256",
    "seanet_transpose_conv0_16x8",
}
"""Real models that LiteRT's reference kernels do not run on random inputs."""


def run_both(name: str) -> None:
    """In a process of its own: some models crash LiteRT."""
    command = [sys.executable, "-c", RUN_BOTH, str(shared_models()[name])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    assert ("refused:" in done.stdout) == (name in REFUSED), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in READABLE if name not in NEVER_RUN])
def test_a_real_model_that_was_read_and_written_runs_identically(name: str) -> None:
    run_both(name)


def test_the_lists_of_exceptions_name_models_that_are_there() -> None:
    if shared_models():
        assert REFUSED | set(NEVER_RUN) | UNREADABLE <= set(shared_models())
