"""Streams that Vela makes, run on the simulator, against LiteRT's reference kernels: no code of ours makes either side.

FULLY_CONNECTED is compared by the hardware's rounding; see `tests.support.litert`.
"""

from __future__ import annotations

import numpy as np
import pytest

from npu.compiler.targets import compiler_targets
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.isa.payload import parse_payload
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.functional.prepared import Tier
from sim.machine import Machine
from sim.memory import NpuMemory

from tests.support.litert import random_inputs, run_reference
from tests.support.machine import TIERS
from tests.support.random_graphs import OPERATORS, cases, chains
from tests.support.shared import shared_models
from tests.support.vela import Job, compile_with_vela, only_job

GOLDEN = {
    "kws_micronet_m_vela_H256": ("kws_micronet_m_int8", 1, 1),
    "rnnoise_vela_H256": ("rnnoise_int8", 4, 5),
}
REAL = ("mlperf_kws_int8", "mlperf_resnet8_int8", "mlperf_ad_int8", "mlperf_vww_int8", "kws_micronet_m_int8", "rnnoise_int8")
ACCELERATORS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512")


def run_job(job: Job, target: str, inputs: list[np.ndarray], tier: Tier | None = None) -> list[np.ndarray]:
    variant = load_variant(target)
    arena = np.zeros(job.scratch_bytes, np.uint8)
    memory = NpuMemory({0: job.read_only, 1: arena, 2: np.zeros(job.fast_bytes, np.uint8)}, variant)
    for (offset, _, _), value in zip(job.inputs, inputs, strict=True):
        arena[offset : offset + value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    Machine(variant, tier).run(parse_payload(job.payload).words, memory)
    return [
        arena[offset : offset + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
        for offset, shape, dtype in job.outputs
    ]


def assert_exact(model: bytes, target: str, seeds: tuple[int, ...] = (0, 1)) -> None:
    job = only_job(compile_with_vela(model, target))
    for seed in seeds:
        inputs = random_inputs(model, seed)
        expected = run_reference(model, inputs, fully_connected="npu")
        for ours, theirs in zip(run_job(job, target, inputs), expected, strict=True):
            np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs)


def is_npu_only(model: bytes, target: str) -> bool:
    graph = read_model(compile_with_vela(model, target)).graphs[0]
    return [op.custom_code for op in graph.ops] == ["ethos-u"]


@pytest.mark.parametrize("case", chains(4, seed=5), ids=lambda case: case.name)
def test_a_chain_compiled_by_vela_equals_the_reference(case) -> None:  # type: ignore[no-untyped-def]
    model = write_model(Model((case.graph,)))
    if is_npu_only(model, "ethos-u55-128"):
        assert_exact(model, "ethos-u55-128")


@pytest.mark.slow
@pytest.mark.parametrize("target", ACCELERATORS)
@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_compiled_by_vela_equals_the_reference(op: str, target: str) -> None:
    compared = 0
    for case in cases(op, 6, seed=3):
        model = write_model(Model((case.graph,)))
        if is_npu_only(model, target):
            assert_exact(model, target)
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("name", [name for name in REAL[:3] if name in shared_models()])
def test_a_real_model_compiled_by_vela_equals_the_reference(name: str) -> None:
    assert_exact(shared_models()[name].read_bytes(), "ethos-u55-128")


@pytest.mark.slow
@pytest.mark.parametrize("target", ACCELERATORS)
@pytest.mark.parametrize("name", [name for name in REAL if name in shared_models()])
def test_every_real_model_compiled_by_vela_equals_the_reference(name: str, target: str) -> None:
    assert_exact(shared_models()[name].read_bytes(), target)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", [name for name in GOLDEN if name in shared_models()])
def test_a_file_that_arm_compiled_gives_the_outputs_that_arm_published(name: str, tier: Tier) -> None:
    path = shared_models()[name]
    source, inputs, outputs = GOLDEN[name]
    job = only_job(path.read_bytes())
    found = run_job(job, "ethos-u55-256", [np.load(path.with_name(f"{source}.ifm{k}.npy")) for k in range(inputs)], tier)
    for k in range(outputs):
        expected = np.load(path.with_name(f"{source}.ofm{k}.npy"))
        np.testing.assert_array_equal(found[k].reshape(expected.shape), expected)


def test_every_target_is_covered() -> None:
    assert set(compiler_targets()) >= set(ACCELERATORS)
