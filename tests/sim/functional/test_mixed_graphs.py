"""Random graphs of several operators and types, compiled by Vela 5.2 and by this compiler, against LiteRT's reference kernels.

Vela computes the extent of a slice wrongly in some of its consumers, and reads the wrong map where a mirrored one is reshaped
(docs/exactness.md). Such a graph must be exact once Vela leaves these operators to the CPU, and its stream must do what
the naive twin says.
"""

from __future__ import annotations

from collections import Counter

import pytest

import npu
from npu.api import disassemble, verify
from npu.errors import ModelError, StreamError
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_compiled
from npu.hardware.choice import Hardware
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from npu.toolchain.listing import assemble
from npu.toolchain.session import Session

from tests.support.compatibility import TARGETS, Array, difference, reference, simulate
from tests.support.litert import random_inputs
from tests.support.mixed_graphs import mixed_graph
from tests.support.random_graphs import chains
from tests.support.vela_fork import compile_forked

TYPES = (DType.INT8, DType.UINT8, DType.INT16)
SLICES = ("SLICE", "STRIDED_SLICE", "SPLIT", "SPLIT_V")
LEFT_OUT = {"slices": SLICES, "reshapes": ("RESHAPE",), "both": (*SLICES, "RESHAPE"), "pads": ("PAD",)}
"""Operators that `--ignore-ops` leaves to the CPU, by the name of what Vela gets wrong there."""


def outcome(content: bytes, inputs: list[Array], expected: list[Array]) -> str:
    """Empty if the file gives the expected values and has no findings, else what is wrong with it."""
    model = read_model(content)
    if not is_compiled(model):
        return ""
    assert assemble(disassemble(content), content) == content
    wrong = difference(simulate(content, inputs), expected)
    findings = [f"{finding.rule} {finding.message}" for _, finding in verify(content)]
    return "; ".join([*([wrong] if wrong else []), *findings])


def judge(model: bytes, inputs: list[Array], expected: list[Array], target: str) -> str:
    """ "exact", or which of Vela's faults the graph has: without these operators on the NPU it is exact.

    "blockdep": exact, but a kernel may start before the blocks that it reads are written (docs/exactness.md).
    """
    try:
        wrong = outcome(compile_forked(model, target), inputs, expected)
    except (StreamError, ModelError) as error:
        wrong = str(error)
    if not wrong:
        return "exact"
    if all(part.startswith("HAZARD-BLOCKDEP ") for part in wrong.split("; ")):
        return "blockdep"
    for name, kinds in LEFT_OUT.items():
        if not outcome(compile_forked(model, target, "--ignore-ops", ",".join(kinds)), inputs, expected):
            return name
    pytest.fail(f"{target}: {wrong}")


def drawn(seed: int, dtype: DType) -> tuple[bytes, list[Array], list[Array]]:
    model = mixed_graph(seed, dtype)
    inputs = random_inputs(model, seed)
    return model, inputs, reference(model, inputs)


def assert_own_exact(model: bytes, inputs: list[Array], expected: list[Array], target: str) -> None:
    assert outcome(npu.compile(model, target=target).content, inputs, expected) == "", target


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 24), marks=pytest.mark.slow)], ids=["few", "many"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_mixed_graphs_are_exact(dtype: DType, seeds: range) -> None:
    for seed in seeds:
        model, inputs, expected = drawn(seed, dtype)
        assert judge(model, inputs, expected, TARGETS[seed % 6]) in ("exact", "blockdep", *LEFT_OUT)
        assert_own_exact(model, inputs, expected, TARGETS[(seed + 1) % 6])


FAULTS = {
    "TRANSPOSE_CONV of a slice": (18, DType.UINT8, "ethos-u55-32", "slices"),
    "AVERAGE_POOL_2D of a shared slice": (5, DType.UINT8, "ethos-u65-512", "slices"),
    "DEPTHWISE_CONV_2D of a pixel": (43, DType.INT8, "ethos-u55-64", "slices"),
    "ADD of a slice and its sum": (94, DType.INT8, "ethos-u65-256", "slices"),
    "SOFTMAX of a slice": (98, DType.INT8, "ethos-u55-128", "slices"),
    "RESHAPE of a mirrored map": (4, DType.INT16, "ethos-u65-256", "reshapes"),
    "MINIMUM of two halves": (69, DType.UINT8, "ethos-u55-256", "blockdep"),
    "stride above the kernel's size": (84, DType.INT16, "ethos-u55-32", "blockdep"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_vela_gets_wrong_is_known(name: str) -> None:
    seed, dtype, target, fault = FAULTS[name]
    assert judge(*drawn(seed, dtype), target) == fault


def test_an_output_that_no_operator_of_velas_file_writes_is_refused() -> None:
    """PAD is part of the convolution behind it, and its result is an output all the same."""
    model = write_model(chains(32, seed=9)[31].model)
    with pytest.raises(ModelError, match="output tensor 6 must be written by an operator"):
        read_model(compile_forked(model, "ethos-u65-256"))


def test_a_sum_over_channels_of_32_bits_is_fetched_in_pieces_of_16() -> None:
    """The softmax of this graph has 17 channels: the sum's first fetch does not need the block that holds the last one."""
    assert_own_exact(*drawn(109, DType.INT8), "ethos-u55-128")


def test_a_cascade_ends_in_the_rolling_buffer_of_another() -> None:
    """Only the last rows of the map between them are read: the buffer's first row comes behind its last one."""
    model, inputs, expected = drawn(910005270, DType.INT8)
    session = Session(Hardware("ethos-u55-64", arena_cache_bytes=1536), goal="size")
    assert outcome(npu.compile(model, session=session).content, inputs, expected) == ""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_many_mixed_graphs_are_exact(dtype: DType, target: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(120):
        model, inputs, expected = drawn(seed, dtype)
        found[judge(model, inputs, expected, target)] += 1
        if dtype is DType.INT8 or seed % 6 == 0:
            assert_own_exact(model, inputs, expected, target)
    assert found["exact"] >= 110
    assert found["blockdep"] <= 4
