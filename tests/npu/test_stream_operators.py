"""Operators read out of a bare command stream are those that the compiler says it was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import npu
from npu.hardware.catalogue import list_variants, load_variant
from npu.isa.decode import Decoded, decode
from npu.isa.operations import KernelOperation, WeightedOperation
from npu.operator_map import METADATA_NAME, map_of_file, stored_map
from npu.tflite.reader import read_model
from sim.container import jobs_of

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = sorted(path.name for path in EXAMPLES.glob("*.tflite"))
TARGETS = [*list_variants(), "examples/small-sram"]


def parts(owners: tuple[int, ...], operations: tuple[Decoded, ...]) -> list[list[int]]:
    """Positions of the weighted operations of each operator, in order."""
    found: dict[int, list[int]] = {}
    for index, (owner, each) in enumerate(zip(owners, operations, strict=True)):
        if isinstance(each.operation, WeightedOperation):
            found.setdefault(owner, []).append(index)
    return sorted(found.values())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("target", TARGETS)
def test_stripes_and_slices_are_put_together_as_they_were_cut(name: str, target: str) -> None:
    variant = load_variant(target)
    model = read_model(npu.compile(EXAMPLES / name, target=target).content)
    told = stored_map(model, name)
    del model.metadata[METADATA_NAME]
    read = map_of_file(model, name, variant)
    assert told is not None
    assert [each.index for each in read.operators] == list(range(len(read.operators)))
    assert read.profile == "compiled"
    for job in jobs_of(model):
        operations = decode(job.payload.words, variant)
        assert parts(read.sources[job.index], operations) == parts(told.sources[job.index], operations)


def test_a_file_without_a_map_has_a_row_for_every_operator_of_its_stream() -> None:
    variant = load_variant("ethos-u55-128")
    model = read_model(npu.compile(EXAMPLES / "digits.tflite").content)
    del model.metadata[METADATA_NAME]
    found = map_of_file(model, "digits.tflite", variant)
    assert [(each.type, each.name, each.macs) for each in found.operators][:5] == [
        ("CONV 3x3", "8x8x16", 9216),
        ("DEPTHWISE 3x3", "8x8x16", 9216),
        ("CONV 1x1", "8x8x16", 16384),
        ("ADD", "8x8x16", 0),
        ("MAX_POOL 2x2/2", "4x4x16", 0),
    ]
    job = next(jobs_of(model))
    kernels = [isinstance(each.operation, KernelOperation) for each in decode(job.payload.words, variant)]
    assert all(owner >= 0 for owner, is_kernel in zip(found.sources[job.index], kernels, strict=True) if is_kernel)
    assert found.sources[job.index][-1] == -1
