"""Streams that Vela writes under options, by its older core or in an older version: equal to LiteRT, with named features."""

from __future__ import annotations

import numpy as np
import pytest

from npu.api import disassemble, verify
from npu.graph.attributes import ReducerOptions
from npu.graph.dtype import DType
from npu.toolchain.listing import assemble

from tests.support.builder import ModelBuilder
from tests.support.compatibility import difference, reference, simulate
from tests.support.litert import random_inputs
from tests.support.vela_features import features_of_file
from tests.support.vela_fork import compile_forked
from tests.support.vela_streams import OLD, PYTHON_CORE, STORED, STREAMS, padded_average, tiled


def check(model: bytes, compiled: bytes, seed: int, findings: frozenset[str] = frozenset()) -> None:
    """Equal to LiteRT, without other findings, and the same file from its listing."""
    inputs = random_inputs(model, seed)
    assert difference(simulate(compiled, inputs), reference(model, inputs)) == ""
    assert {finding.rule for _, finding in verify(compiled)} <= findings
    assert assemble(disassemble(compiled), compiled) == compiled


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_with_rare_features_equals_litert(name: str) -> None:
    stream = STREAMS[name]
    found: set[str] = set()
    for seed in (0, 2):
        model = stream.build(seed)
        compiled = compile_forked(model, stream.target, *stream.options)
        check(model, compiled, seed, stream.findings)
        found |= features_of_file(compiled, stream.target)
    assert set(stream.features) <= found


@pytest.mark.parametrize("name", STORED)
def test_a_strided_transfer_of_vela_5_0_equals_litert(name: str) -> None:
    multiples, features = STORED[name]
    compiled = (OLD / f"{name}.tflite").read_bytes()
    check(tiled(multiples, 0), compiled, 3)
    assert set(features) <= features_of_file(compiled, "ethos-u65-256")


def test_a_padded_average_of_vela_5_0_divides_by_its_own_count() -> None:
    """It states the scale of the whole window, 1/9, which the values at the edges do not have."""
    check(padded_average(), (OLD / "padded_average.tflite").read_bytes(), 1)


def test_velas_older_core_leaves_out_a_mean_of_one_element() -> None:
    """With its rescaling: the stream has no operation, and the output is the input."""
    b = ModelBuilder()
    x = b.input((1, 1, 1, 8), DType.INT8, scale=0.5, zero_point=3)
    axes = b.constant(np.array([1, 2], np.int32))
    b.output(b.op("MEAN", [x, axes], (1, 1, 1, 8), DType.INT8, 0.25, -9, attributes=ReducerOptions(True)))
    inputs = random_inputs(b.build(), 0)
    newer, older = (compile_forked(b.build(), "ethos-u55-128", *options) for options in ((), (PYTHON_CORE,)))
    assert difference(simulate(newer, inputs), reference(b.build(), inputs)) == ""
    assert difference(simulate(older, inputs), inputs) == ""
    assert features_of_file(older, "ethos-u55-128") == set()
