"""What only Ethos-U85 has, on streams of Vela 5.2: forms of weights, chains, transfers by indices, transposed maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from npu.errors import SimulationError
from npu.graph.attributes import Conv2DOptions, FullyConnectedOptions, FusedActivation, GatherOptions, Padding
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.decode import Decoded, decode
from npu.isa.operations import Dma, KernelOperation, MapStorage, OfmTranspose, WeightDecoder, WeightedOperation
from npu.isa.payload import parse_payload
from sim.functional.ethos_u85 import _in_16_bits
from sim.machine import Machine
from sim.memory import NpuMemory
from sim.verify.verifier import RULES, verify

from tests.support.builder import ModelBuilder
from tests.support.compatibility import reference, simulate
from tests.support.litert import random_inputs, run_reference
from tests.support.vela import Job, only_job
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import VELA_CASES, with_shapes

TARGET = "ethos-u85-512"


def weighted(kind: str, weights: np.ndarray, shape: tuple[int, ...]) -> bytes:
    """A model of one CONV_2D or FULLY_CONNECTED."""
    builder = ModelBuilder()
    x = builder.input(shape, DType.INT8, scale=0.05)
    held = builder.constant(weights, DType.INT8, scale=0.02)
    bias = builder.constant(np.arange(len(weights)) * 7 - 50, DType.INT32, scale=0.001)
    options = (
        Conv2DOptions(Padding.SAME, 1, 1, FusedActivation.NONE, 1, 1)
        if kind == "CONV_2D"
        else FullyConnectedOptions(FusedActivation.NONE)
    )
    out = (*shape[:-1], len(weights))
    builder.output(builder.op(kind, [x, held, bias], out, DType.INT8, attributes=options, scale=0.2))
    return builder.build()


def operations_of(compiled: bytes, target: str = TARGET) -> tuple[Decoded, ...]:
    return decode(parse_payload(only_job(compiled).payload).words, load_variant(target))


def pruned(weights: np.ndarray) -> np.ndarray:
    """Two of four input channels are zero."""
    weights.reshape(-1, 4)[:, ::2] = 0
    return weights


FORMS = {
    "many weights": ("CONV_2D", (64, 3, 3, 64), (1, 8, 8, 64), False),
    "two of four are zero": ("CONV_2D", (64, 1, 1, 64), (1, 8, 8, 64), True),
    "two of four are zero, 3x3": ("CONV_2D", (32, 3, 3, 32), (1, 9, 8, 32), True),
    "one pixel": ("FULLY_CONNECTED", (96, 128), (1, 128), False),
}


@pytest.mark.parametrize("target", [f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048)])
@pytest.mark.parametrize("form", FORMS)
def test_weights_of_every_form_are_exact(form: str, target: str) -> None:
    kind, shape, ifm, is_pruned = FORMS[form]
    weights = np.random.default_rng(3).integers(-127, 128, shape).astype(np.int8)
    model = weighted(kind, pruned(weights) if is_pruned else weights, ifm)
    compiled, inputs = compile_forked(model, target), random_inputs(model, 4)
    ours = simulate(compiled, inputs)[0]
    np.testing.assert_array_equal(ours, run_reference(model, inputs, fully_connected="npu")[0].reshape(ours.shape))
    kinds = [one.operation for one in operations_of(compiled, target) if isinstance(one.operation, WeightedOperation)]
    if target == TARGET:
        assert any(one.has_sparse_weights for one in kinds) == is_pruned


def test_all_decoders_are_met() -> None:
    found = set()
    for kind, shape, ifm, _ in FORMS.values():
        model = weighted(kind, np.random.default_rng(3).integers(-127, 128, shape).astype(np.int8), ifm)
        for target in ("ethos-u85-128", "ethos-u85-2048"):
            found |= {one.operation.weight_decoder for one in operations_of(compile_forked(model, target), target)
                      if isinstance(one.operation, WeightedOperation)}  # fmt: skip
    assert found == set(WeightDecoder)


def memory_of(job: Job, inputs: Sequence[np.ndarray]) -> NpuMemory:
    arena = np.zeros(job.scratch_bytes, np.uint8)
    for (offset, _, _), value in zip(job.inputs, inputs, strict=True):
        arena[offset : offset + value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return NpuMemory({0: job.read_only, 1: arena, 2: np.zeros(job.fast_bytes, np.uint8)}, load_variant(TARGET))


def chained() -> tuple[bytes, list[np.ndarray]]:
    model = with_shapes(VELA_CASES["SOFTMAX-int8"](np.random.default_rng([1, 7])))
    return compile_forked(model, TARGET), random_inputs(model, 1)


def is_chained(one: Decoded) -> bool:
    return isinstance(one.operation, KernelOperation) and one.operation.ofm.storage is MapStorage.CHAINED


def test_a_map_that_is_handed_on_must_have_been_made() -> None:
    compiled, inputs = chained()
    operations = operations_of(compiled)
    assert any(map(is_chained, operations))
    without = [one.operation for one in operations if not is_chained(one)]
    message = r"chaining buffer \d: must hold a map of \(\d+, \d+, \d+\) that an operation has made, got nothing"
    with pytest.raises(SimulationError, match=message):
        Machine(load_variant(TARGET)).run(without, memory_of(only_job(compiled), inputs))


def test_the_verifier_finds_a_chain_that_nobody_began() -> None:
    job = only_job(chained()[0])
    operations = operations_of(chained()[0])
    sizes = {0: job.read_only.size, 1: job.scratch_bytes, 2: job.fast_bytes}
    whole = [finding for finding in verify(operations, load_variant(TARGET), sizes, []) if finding.rule == "CHAIN"]
    broken = [one for one in operations if not is_chained(one)]
    found = [finding for finding in verify(broken, load_variant(TARGET), sizes, []) if finding.rule == "CHAIN"]
    assert "CHAIN" in RULES
    assert not whole
    assert "must be the map of" in found[0].message


def gathering(indices: list[int]) -> bytes:
    builder = ModelBuilder()
    x = builder.input((40, 24), DType.INT8, scale=0.05)
    at = builder.input((len(indices),), DType.INT32)
    options = GatherOptions(axis=0, batch_dims=0)
    builder.output(builder.op("GATHER", [x, at], (len(indices), 24), DType.INT8, attributes=options, scale=0.05))
    return builder.build()


def test_rows_by_indices_are_exact_and_others_are_refused() -> None:
    model = gathering([0] * 7)
    compiled = compile_forked(model, TARGET)
    assert any(isinstance(one.operation, Dma) and one.operation.indices is not None for one in operations_of(compiled))
    values = np.random.default_rng(1).integers(-128, 128, (40, 24)).astype(np.int8)
    inputs = [values, np.array([39, 0, 7, 7, 21, 3, 38], np.int32)]
    np.testing.assert_array_equal(simulate(compiled, inputs)[0], reference(model, inputs)[0])
    for wrong in (40, -1, 1 << 30):
        with pytest.raises(SimulationError, match=rf"DMA: indices must lie in \[0, 39\], got {wrong}"):
            simulate(compiled, [values, np.array([0, 0, wrong, 0, 0, 0, 0], np.int32)])


@pytest.mark.parametrize("seed", range(4))
def test_a_map_is_stored_in_another_order(seed: int) -> None:
    model = with_shapes(VELA_CASES["TRANSPOSE-int8"](np.random.default_rng([seed, 7])))
    compiled, inputs = compile_forked(model, TARGET), random_inputs(model, seed)
    np.testing.assert_array_equal(simulate(compiled, inputs)[0], reference(model, inputs)[0])


def test_some_of_these_orders_are_none_of_the_computation() -> None:
    orders = set()
    for seed in range(8):
        model = with_shapes(VELA_CASES["TRANSPOSE-int8"](np.random.default_rng([seed, 7])))
        orders |= {one.operation.options.transpose for one in operations_of(compile_forked(model, TARGET))
                   if isinstance(one.operation, KernelOperation) and one.operation.options is not None}  # fmt: skip
    assert len(orders - {OfmTranspose.HWC}) > 1


def test_weights_in_a_map_may_be_larger_than_16_bits_less_their_zero_point() -> None:
    values = np.array([[65535, -65535, 40000, 5, -32768]], np.int64)
    parts = _in_16_bits(values)
    assert {part.dtype for part in parts} == {np.dtype(np.int16)}
    np.testing.assert_array_equal(sum(part.astype(np.int64) for part in parts), values)
    assert len(_in_16_bits(values[:, 3:])) == len(_in_16_bits(0 * values)) == 1
