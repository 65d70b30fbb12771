"""Operators read out of a bare command stream are those that the compiler says it was made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.compiler.targets import compiler_targets
from npu.graph.attributes import Conv2DOptions, Padding
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.decoded import Decoded
from npu.isa.operations import KernelOperation, WeightedOperation
from npu.reports.operator_map import METADATA_NAME, map_of_file, stored_map
from npu.tflite.reader import read_model
from sim.container import CompiledFile, jobs_of

from tests.support.builder import ModelBuilder

EXAMPLES = Path(__file__).parents[3] / "examples"
TARGETS = [*compiler_targets(), "examples/small-sram"]


def parts(owners: tuple[int, ...], operations: tuple[Decoded, ...]) -> list[list[int]]:
    """Positions of the weighted operations of each operator, in order."""
    found: dict[int, list[int]] = {}
    for index, (owner, item) in enumerate(zip(owners, operations, strict=True)):
        if isinstance(item.operation, WeightedOperation):
            found.setdefault(owner, []).append(index)
    return sorted(found.values())


def convolutions(size: int, channels: int) -> bytes:
    """Three 3x3 convolutions of maps of size x size pixels."""
    rng = np.random.default_rng(3)
    b = ModelBuilder()
    x = b.input((1, size, size, channels), DType.INT8, scale=0.05, zero_point=0)
    for _ in range(3):
        weights = b.constant(rng.integers(-127, 128, (channels, 3, 3, channels), np.int8), scale=[0.01] * channels)
        bias = b.constant(rng.integers(-99, 99, channels, np.int32), scale=[0.0005] * channels)
        options = Conv2DOptions(Padding.SAME, 1, 1)
        x = b.op("CONV_2D", [x, weights, bias], (1, size, size, channels), DType.INT8, 0.3, 0, attributes=options)
    b.output(x)
    return b.build()


CASES = [
    *(
        (lambda: EXAMPLES.joinpath("digits.tflite").read_bytes(), target, 0, "8x8x1" if target == "ethos-u55-32" else "8x8x16")
        for target in TARGETS  # where it is worth a copy of the image with its border
    ),
    *((lambda: convolutions(16, 256), target, 16, "16x16x256") for target in ("ethos-u65-256", "ethos-u65-512")),
    *((lambda: convolutions(160, 16), target, 9, "56x160x16 (3 stripes)") for target in ("ethos-u65-256", "ethos-u65-512")),
]
"""A model, a target, how many weighted operations it takes at least, and the shape of its first map."""


@pytest.mark.parametrize(("source", "target", "cut_into", "shape"), CASES)
def test_stripes_and_slices_are_put_together_as_they_were_cut(
    source: Callable[[], bytes], target: str, cut_into: int, shape: str
) -> None:
    variant = load_variant(target)
    model = read_model(npu.compile(source(), target=target).content)
    told = stored_map(model, "model")
    del model.metadata[METADATA_NAME]
    read = map_of_file(CompiledFile(model, variant), "model")
    assert read.operators[0].name == shape
    weighted = 0
    assert told is not None
    assert [operator.index for operator in read.operators] == list(range(len(read.operators)))
    assert read.profile == "compiled"
    for job in jobs_of(model):
        operations = decode(job.payload.words, variant)
        weighted += sum(isinstance(operation.operation, WeightedOperation) for operation in operations)
        assert parts(read.sources[job.index], operations) == parts(told.sources[job.index], operations)
    assert weighted >= cut_into


def test_a_file_without_a_map_has_a_row_for_every_operator_of_its_stream() -> None:
    variant = load_variant("ethos-u55-128")
    model = read_model(npu.compile(EXAMPLES / "digits.tflite").content)
    del model.metadata[METADATA_NAME]
    found = map_of_file(CompiledFile(model, variant), "digits.tflite")
    assert [(operator.type, operator.name, operator.macs) for operator in found.operators][:5] == [
        ("CONV 3x3", "8x8x16", 9216),
        ("DEPTHWISE 3x3", "8x8x16", 9216),
        ("CONV 1x1", "8x8x16", 16384),
        ("ADD", "8x8x16", 0),
        ("MAX_POOL 2x2/2", "4x4x16", 0),
    ]
    job = next(jobs_of(model))
    kernels = [isinstance(item.operation, KernelOperation) for item in decode(job.payload.words, variant)]
    assert all(owner >= 0 for owner, is_kernel in zip(found.sources[job.index], kernels, strict=True) if is_kernel)
    assert found.sources[job.index][-1] == -1
