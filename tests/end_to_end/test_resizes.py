"""Resizes of int8 maps by 2, 4 and 8, compiled as a whole, on every target: exact, and their streams without findings."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.api import verify
from npu.compiler.targets import compiler_targets
from npu.graph import attributes as at
from npu.graph.graph import Model
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.random_graphs import Case, Sketch, resize_bilinear, resizing_chains
from tests.support.shared import shared_models

TARGETS = compiler_targets()
MODES = {"plain": (False, False), "aligned": (True, False), "half_pixels": (False, True)}
SHAPES = {
    "one element": (1, 1, 1, 5),
    "one row": (1, 1, 7, 16),
    "one column": (1, 6, 1, 17),
    "odd": (1, 5, 3, 1),
    "many channels": (1, 3, 2, 300),
    "batch": (3, 4, 3, 8),
}
EXTREMES = (-128, 127)


def model_of(shape: tuple[int, ...], mode: str, factor: int, zero_point: int) -> bytes:
    s = Sketch(np.random.default_rng(1))
    batch, height, width, depth = shape
    less = int(MODES[mode][0])
    size = (factor * (height - less) + less, factor * (width - less) + less)
    x, y = s.input(shape, 0.3, zero_point), s.tensor((batch, *size, depth), 0.3, zero_point)
    options = at.ResizeBilinearOptions(*MODES[mode])
    return write_model(Model((s.graph([s.op("RESIZE_BILINEAR", [x, s.numbers(size)], [y], options)]),)))


def assert_exact(content: bytes, target: str, inputs: list[np.ndarray]) -> None:
    """The model is one NPU job that gives what the reference kernels give, in a stream without findings."""
    compiled = npu.compile(content, target=target)
    assert [op.name for op in read_model(compiled.content).graphs[0].ops] == ["ethos-u"]
    assert list(verify(compiled.content)) == []
    expected = run_reference(content, inputs, fully_connected="npu")
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def inputs_of(content: bytes, name: str) -> list[np.ndarray]:
    """Random data of the full range, or of its two ends alone."""
    inputs = random_inputs(content, 1)
    return inputs if name == "random" else [np.where(value < 0, *EXTREMES).astype(np.int8) for value in inputs]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_a_resize_by_2_is_exact(mode: str, target: str) -> None:
    for zero_point, values in ((127, "random"), (-128, "extreme")):
        content = model_of((1, 6, 5, 24), mode, 2, zero_point)
        assert_exact(content, target, inputs_of(content, values))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [2, 4, 8])
@pytest.mark.parametrize("name", SHAPES)
def test_a_resize_of_any_shape_is_exact(name: str, factor: int, mode: str, target: str) -> None:
    for zero_point in (-128, 3):
        content = model_of(SHAPES[name], mode, factor, zero_point)
        for values in ("random", "extreme"):
            assert_exact(content, target, inputs_of(content, values))


def drawn(seed: int) -> Case:
    s = Sketch(np.random.default_rng([seed, 3]))
    return Case(f"resize {seed}", s.graph([resize_bilinear(s)]))


def test_random_resizes_alone_and_between_operators_are_exact() -> None:
    cases = [*(drawn(seed) for seed in range(12)), *resizing_chains(18, seed=31)]
    for number, case in enumerate(cases):
        content = write_model(case.model)
        assert_exact(content, TARGETS[number % len(TARGETS)], random_inputs(content, number))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_resizes_alone_and_between_operators_are_exact(target: str) -> None:
    cases = [*(drawn(seed) for seed in range(100, 180)), *resizing_chains(80, seed=32)]
    for number, case in enumerate(cases):
        content = write_model(case.model)
        assert_exact(content, target, random_inputs(content, number))


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in ("movenet_lightning_int8",) if name in shared_models()])
def test_a_real_model_with_half_pixel_resizes_is_exact(name: str, target: str) -> None:
    content = repaired(shared_models()[name].read_bytes())
    compiled = npu.compile(content, target=target)
    left = [op.name for op in read_model(compiled.content).graphs[0].ops]
    assert "RESIZE_BILINEAR" not in left
    for seed in (1, 2):
        inputs = random_inputs(content, seed)
        expected = run_reference(content, inputs, fully_connected="npu")
        for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
