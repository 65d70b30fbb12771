"""GATHER of indices that come with the data: on Ethos-U85 a transfer, elsewhere the CPU's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import npu
from npu.compiler.ir import GatherStep
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.errors import SimulationError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.placement import Device
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_array, run_reference

I8, I16, I32, I64 = DType.INT8, DType.INT16, DType.INT32, DType.INT64
TARGETS = ("ethos-u85-128", "ethos-u85-256", "ethos-u85-2048")
CASES = {
    "words of a sentence": ((64, 48), 0, 0, (1, 16)),
    "rows of any length": ((7, 5), 0, 0, (3,)),
    "single elements": ((50, 1), 0, 0, (2, 3)),
    "more indices than rows": ((30, 16), 0, 0, (64,)),
    "maps": ((5, 4, 4, 16), 0, 0, (3,)),
    "behind one batch": ((1, 20, 6), 1, 0, (9,)),
    "each batch its own": ((3, 20, 6), 1, 1, (3, 9)),
    "two common dimensions": ((2, 3, 20, 6), 2, 2, (2, 3, 4)),
}


def network(
    name: str, dtype: DType = I8, *, is_constant: bool = True, computes_before: bool = False, computes_after: bool = True,
    index_type: DType = I32,
) -> bytes:  # fmt: skip
    """A table, constant or not, whose rows are taken, between sums."""
    shape, axis, batch, indices = CASES[name]
    made: Sequence[int] = (*shape[:axis], *indices[batch:], *shape[axis + 1 :])
    b, rng = ModelBuilder(), np.random.default_rng(3)
    point = 0 if dtype is I16 else 5
    scaled = {"scale": 0.5, "zero_point": point}
    sums = at.AddOptions(pot_scale_int16=False)
    x = b.constant(random_array(shape, dtype, rng), **scaled) if is_constant else b.input(shape, dtype, **scaled)
    if computes_before:
        x = b.op("ADD", [x, x], shape, dtype, 0.5, point, attributes=sums)
    y = b.op("GATHER", [x, b.input(indices, index_type)], made, dtype, 0.5, point, attributes=at.GatherOptions(axis, batch))
    b.output(b.op("ADD", [y, y], made, dtype, 0.3, point, attributes=sums) if computes_after else y)
    return b.build()


def inputs_of(model: bytes, extent: int, seed: int = 1) -> list[np.ndarray]:
    graph, rng = read_model(model).graphs[0], np.random.default_rng(seed)
    made: list[np.ndarray] = []
    for tensor in (graph.tensors[index] for index in graph.inputs):
        taken = rng.integers(0, extent, tensor.shape).astype(np.int32)
        made.append(taken if tensor.dtype is I32 else random_array(tensor.shape, tensor.dtype, rng))
    return made


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_rows_that_indices_name_are_transferred(name: str, target: str) -> None:
    shape, axis, _, _ = CASES[name]
    for dtype, is_constant in ((I8, True), (I16, False)):
        model = network(name, dtype, is_constant=is_constant, computes_before=not is_constant)
        compiled, given = npu.compile(model, target=target), inputs_of(model, shape[axis])
        assert {op.device for op in compiled.compiled_model.placement.ops} == {Device.NPU}
        assert npu.verify(compiled.content) == []
        for found, wanted in zip(npu.run(compiled.content, given).outputs, run_reference(model, given), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_it_is_one_transfer() -> None:
    for name in CASES:
        graph = read_model(network(name, computes_after=False)).graphs[0]
        (step,) = lower_partition(graph, [0], load_variant("ethos-u85-256")).steps
        assert isinstance(step, GatherStep)


def test_a_row_that_is_not_there_is_an_error_with_its_number() -> None:
    model = network("words of a sentence")
    compiled, (indices,) = npu.compile(model, target="ethos-u85-256"), inputs_of(model, 64)
    indices[0, 3] = 64
    with pytest.raises(SimulationError, match=r"indices must lie in \[0, 63\], got 64"):
        npu.run(compiled.content, [indices])


@pytest.mark.parametrize(
    ("target", "options", "rule"),
    [
        ("ethos-u55-128", {}, "N-GATHER-1"),
        ("ethos-u65-256", {}, "N-GATHER-1"),
        ("ethos-u85-256", {"index_type": I64}, "N-GATHER-6"),
    ],
)
def test_what_no_transfer_says_stays_on_the_cpu(target: str, options: dict[str, DType], rule: str) -> None:
    model = network("words of a sentence", **options)  # type: ignore[arg-type]
    gather = npu.check(model, target=target).ops[0]
    assert rule in [violation.rule for violation in gather.violations]
    with pytest.raises(LoweringError, match="indices must be"):
        lower_partition(read_model(model).graphs[0], [0, 1], load_variant(target))


def test_an_axis_behind_others_stays_on_the_cpu() -> None:
    b = ModelBuilder()
    x = b.input((2, 20, 6), I8, scale=0.5)
    y = b.op("GATHER", [x, b.input((9,), I32)], (2, 9, 6), I8, 0.5, attributes=at.GatherOptions(1))
    b.output(b.op("ADD", [y, y], (2, 9, 6), I8, 0.3, attributes=at.AddOptions()))
    assert [violation.rule for violation in npu.check(b.build(), target="ethos-u85-256").ops[0].violations] == ["N-GATHER-5"]
    with pytest.raises(LoweringError, match=r"got int32 and \[2\] between"):
        lower_partition(read_model(b.build()).graphs[0], [0, 1], load_variant("ethos-u85-256"))


def test_more_rows_than_a_transfer_has_stay_on_the_cpu() -> None:
    b = ModelBuilder()
    x = b.input((5, 1), I8, scale=0.5)
    y = b.op("GATHER", [x, b.input((65536,), I32)], (65536, 1), I8, 0.5, attributes=at.GatherOptions(0))
    b.output(b.op("ADD", [y, y], (65536, 1), I8, 0.3, attributes=at.AddOptions()))
    compiled = npu.compile(b.build(), target="ethos-u85-256")
    gather = compiled.compiled_model.placement.ops[0]
    assert [violation.rule for violation in gather.violations] == ["LOWERING"]


def indices_made_here(kind: str) -> bytes:
    """Indices and rows that other operations make and read: a sum of indices, a part of them, the last rows that are taken."""
    b, rng = ModelBuilder(), np.random.default_rng(3)
    if kind == "sum":
        x, taken = b.constant(random_array((64, 48), I8, rng), scale=0.5), 16
        numbers = b.op(
            "ADD", [b.input((16,), I32), b.constant(np.full(1, 2, np.int32))], (16,), I32, attributes=at.AddOptions()
        )
        y = b.op("GATHER", [x, numbers], (16, 48), I8, 0.5, attributes=at.GatherOptions(0))
    elif kind == "part":
        x, taken = b.input((3, 20, 48), I8, scale=0.5), 9
        zero = b.constant(np.full(1, 0, np.int32))
        made = b.op("ADD", [b.input((3, 12), I32), zero], (3, 12), I32, attributes=at.AddOptions())
        begin, size = (b.constant(np.array(values, np.int32)) for values in ((0, 2), (3, 9)))
        numbers = b.op("SLICE", [made, begin, size], (3, 9), I32, attributes=at.SliceOptions())
        y = b.op("GATHER", [x, numbers], (3, 9, 48), I8, 0.5, attributes=at.GatherOptions(1, 1))
    else:
        x = b.constant(random_array((64, 48), I8, rng), scale=0.5)
        numbers = b.input((64,), I32)
        y = b.op("GATHER", [x, numbers], (64, 48), I8, 0.5, attributes=at.GatherOptions(0))
        begin, size = (b.constant(np.array(values, np.int32)) for values in ((40, 0), (24, 48)))
        y, taken = b.op("SLICE", [y, begin, size], (24, 48), I8, 0.5, attributes=at.SliceOptions()), 24
    shape = (3, 9, 48) if kind == "part" else (taken, 48)
    b.output(b.op("ADD", [y, y], shape, I8, 0.3, attributes=at.AddOptions()))
    if kind == "last rows":  # no result may take the place of the indices
        b.output(b.op("ADD", [numbers, numbers], (64,), I32, attributes=at.AddOptions()))
    return b.build()


@pytest.mark.parametrize("kind", ["sum", "part", "last rows"])
def test_transfers_and_operations_wait_for_each_other(kind: str) -> None:
    model = indices_made_here(kind)
    given = inputs_of(model, 15)
    for target in TARGETS:
        compiled = npu.compile(model, target=target)
        assert {op.device for op in compiled.compiled_model.placement.ops} == {Device.NPU}
        assert npu.verify(compiled.content) == []
        for found, wanted in zip(npu.run(compiled.content, given).outputs, run_reference(model, given), strict=True):
            np.testing.assert_array_equal(found, wanted)
