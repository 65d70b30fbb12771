"""Networks of published architectures give LiteRT's reference results, in the fastest plan and in the smallest."""

from __future__ import annotations

import numpy as np
import pytest

import npu

from tests.support.architectures import ARCHITECTURES
from tests.support.litert import random_inputs, run_reference

QUICK = ("dncnn_64", "face_mesh_96", "first_layers_u8", "recurrent_steps_12", "speech_mask_i16")
"""Those that every run looks at: a deep chain, PRELU with padded channels, uint8, unrolled steps, int16."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES]
)
def test_results_are_those_of_the_reference(name: str) -> None:
    content = ARCHITECTURES[name]()
    inputs = random_inputs(content, 3)
    expected = run_reference(content, inputs, fully_connected="npu")
    for target in ("ethos-u55-128", "ethos-u65-256"):
        whole = npu.compile(content, target)
        taken = whole.compiled_model.usage.arena_bytes + whole.compiled_model.usage.fast_bytes
        for made in (
            whole,
            npu.compile(content, target, optimise="size"),
            npu.compile(content, target, arena_cache_size=max(taken // 2, 1024)),
        ):
            for ours, theirs in zip(npu.run(made.content, inputs, target).outputs, expected, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_each_network_is_written_the_same_every_time() -> None:
    assert len(ARCHITECTURES) > 100
    assert all(ARCHITECTURES[name]() == ARCHITECTURES[name]() for name in QUICK)
