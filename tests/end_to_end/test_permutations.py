"""TRANSPOSE on the NPU: any permutation, alone and between other operators, is exact on every target."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.api import verify
from npu.compiler.targets import compiler_targets
from npu.errors import ModelError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.graph import Model
from npu.graph.placement import Device
from npu.isa.operations import FeatureMap, KernelOperation
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.random_graphs import LINKS_AND_PERMUTATIONS, Sketch, chains
from tests.support.shared import shared_models

TARGETS = compiler_targets()
REAL = [name for name in ("mcunet_vww_int8", "mobilenet_v2_nchw_int8", "shufflenet_person_int8") if name in shared_models()]
EXTENTS = (1, 1, 2, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 100)
MOST_ELEMENTS = 20_000
LONG = (300, 700, 1500, 3000)


def permutation(seed: int) -> Model:
    """One TRANSPOSE of rank 1 to 6: odd channels, dimensions of 1, a long one now and then."""
    s = Sketch(np.random.default_rng([seed, 4711]))
    shape: list[int] = [s.pick((*EXTENTS, *LONG))]
    for _ in range(s.pick((0, 1, 2, 3, 4, 5)) if seed % 6 else 5):
        shape.append(s.pick([extent for extent in EXTENTS if extent * int(np.prod(shape)) <= MOST_ELEMENTS]))
    shape = [shape[i] for i in s.rng.permutation(len(shape))]
    order = [int(axis) for axis in s.rng.permutation(len(shape))]
    x = s.input(tuple(shape))
    y = s.tensor(tuple(shape[axis] for axis in order), s.scale_of(x), s.zero_point_of(x))
    return Model((s.graph([s.op("TRANSPOSE", [x, s.numbers(order)], [y], at.TransposeOptions())]),))


def assert_exact(model: bytes, seed: int, **hardware: Any) -> list[str]:
    """The compiled model gives the reference's result, nothing in its streams is wrong; the kinds left on the CPU."""
    compiled = npu.compile(model, **hardware)
    inputs = random_inputs(model, seed)
    expected = run_reference(model, inputs, fully_connected="npu")
    for ours, theirs in zip(npu.run(compiled.content, inputs, **hardware).outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert verify(compiled.content, **hardware) == []
    return [op.kind for op in compiled.compiled_model.placement.ops if op.violations]


def is_refused(model: Model) -> bool:
    """Whether too many copies are the only reason to leave a permutation on the CPU."""
    return [violation.rule for violation in check(model).ops[0].violations] == ["N-TR-7"]


def test_random_permutations_are_exact() -> None:
    for seed in range(48):
        model = permutation(seed)
        assert assert_exact(write_model(model), seed, target=TARGETS[seed % len(TARGETS)]) == ["TRANSPOSE"] * is_refused(model)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_permutations_are_exact(target: str) -> None:
    for seed in range(100, 400):
        model = permutation(seed)
        assert assert_exact(write_model(model), seed, target=target) == ["TRANSPOSE"] * is_refused(model)


def test_random_chains_with_permutations_are_exact() -> None:
    for seed, case in enumerate(chains(24, 31, LINKS_AND_PERMUTATIONS)):
        assert_exact(write_model(case.model), seed, target=TARGETS[seed % len(TARGETS)])


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_chains_with_permutations_are_exact(target: str) -> None:
    for seed, case in enumerate(chains(100, 32, LINKS_AND_PERMUTATIONS)):
        assert_exact(write_model(case.model), seed, target=target)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["Sram_Only", "Shared_Sram", "Dedicated_Sram"])
def test_permutations_in_other_memory_modes_are_exact(mode: str) -> None:
    for seed, case in enumerate(chains(40, 33, LINKS_AND_PERMUTATIONS)):
        assert_exact(write_model(case.model), seed, target="ethos-u65-256", memory_mode=mode)


@pytest.mark.parametrize("target", [TARGETS[0], *(pytest.param(item, marks=pytest.mark.slow) for item in TARGETS[1:])])
@pytest.mark.parametrize("name", [*REAL[:1], *(pytest.param(name, marks=pytest.mark.slow) for name in REAL[1:])])
def test_a_real_model_with_permutations_is_exact(name: str, target: str) -> None:
    model = repaired(shared_models()[name].read_bytes())
    assert not {"TRANSPOSE", "RESHAPE"} & set(assert_exact(model, 1, target=target))


def span(feature_map: FeatureMap) -> tuple[int, int, int]:
    """Region, first byte and end of an NHWC map."""
    last = (feature_map.height - 1) * feature_map.stride_y + (feature_map.width - 1) * feature_map.stride_x
    start = feature_map.addresses[0]
    return feature_map.region, start, start + last + feature_map.depth


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 3, 1, 2), (0, 3, 2, 1)])
def test_a_permutation_never_writes_over_what_it_reads(order: tuple[int, ...]) -> None:
    """Not even where its input is not read again and has the output's size."""
    s = Sketch(np.random.default_rng(3))
    x = s.input((1, 8, 8, 8), 0.1, 3)
    before = s.op("ADD", [x, x], [s.tensor((1, 8, 8, 8), 0.2, 3)], at.AddOptions())
    turned = s.op("TRANSPOSE", [before, s.numbers(order)], [s.tensor((1, 8, 8, 8), 0.2, 3)], at.TransposeOptions())
    model = Model((s.graph([s.op("ADD", [turned, turned], [s.tensor((1, 8, 8, 8), 0.4, 3)], at.AddOptions())]),))
    compiled = npu.compile(write_model(model), target="ethos-u55-128")
    (part,) = compiled.compiled_model.partitions
    moves = [
        operation
        for operation, source in zip(part.operations, part.source_of, strict=True)
        if source == 1 and isinstance(operation, KernelOperation)
    ]
    assert moves
    for (region, start, end), (other, first, last) in product((span(m.ifm) for m in moves), (span(m.ofm) for m in moves)):
        assert region != other or end <= first or last <= start


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "computed permutation": ({"is_constant": False}, "N-TR-1"),
    "other scale": ({"scale": 0.25}, "N-TR-6"),
    "other type": ({"map_type": DType.FLOAT32}, "N-TYPE-I8-U8-I16-I32-BOOL"),
}


def one(*, is_constant: bool = True, dtype: DType = DType.INT32, scale: float = 0.5, map_type: DType = DType.INT8) -> bytes:
    b = ModelBuilder()
    x = b.input((2, 3, 4), map_type, scale=0.5)
    order = b.constant(np.array((2, 0, 1), dtype.numpy), dtype) if is_constant else b.input((3,), dtype)
    b.output(b.op("TRANSPOSE", [x, order], (4, 2, 3), map_type, scale, attributes=at.TransposeOptions()))
    return b.build()


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_permutation_of_integers_stays_on_the_cpu_with_the_reason(case: str) -> None:
    fields, rule = REFUSED[case]
    (placed,) = npu.check(one(**fields), target="ethos-u55-128").ops
    assert placed.device is Device.CPU
    assert rule in [violation.rule for violation in placed.violations]


def test_a_permutation_of_int64_runs_nowhere() -> None:
    with pytest.raises(ModelError, match=r"input 1 \(permutation\) must be int32, got int64; no kernel runs the operator"):
        npu.check(one(dtype=DType.INT64))
