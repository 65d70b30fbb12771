"""What the compiler decides for hundreds of small models, as golden files: none of it changes unnoticed.

Whether it is right, the other tests say. `make golden TESTS=tests/npu/compiler/test_decisions.py` takes a change over; the
columns that differ in a line name who decides otherwise (`tests.support.decisions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import TypeVar
from zlib import crc32

import numpy as np
import pytest

from npu.compiler.block_config import BlockChooser
from npu.compiler.goal import Goal
from npu.compiler.targets import compiler_targets
from npu.graph import attributes as at
from npu.graph.attributes import Attributes
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model
from npu.hardware.choice import Hardware
from npu.tflite.reader import read_model

from tests.npu.compiler.lower import (
    test_depth_to_space,
    test_edges,
    test_errors,
    test_gather,
    test_joined,
    test_lstm,
    test_matmul,
    test_more_operators,
    test_transpose,
    test_windows,
)
from tests.support import random_graphs as graphs
from tests.support.builder import ModelBuilder
from tests.support.decisions import decisions
from tests.support.mixed_graphs import FIXED, mixed_graph
from tests.support.networks import network
from tests.support.single_ops import constant, op_model, tensor
from tests.support.vela_operators import VELA_CASES, with_shapes

T = TypeVar("T")
Case = tuple[str, Model, Hardware]
TARGETS = tuple(Hardware(target) for target in compiler_targets())
MEMORIES = (
    Hardware("ethos-u55-128"),
    Hardware("ethos-u55-128", arena_cache_bytes=20_000),
    Hardware("ethos-u55-64", arena_cache_bytes=12_000),
    Hardware("ethos-u65-256"),
    Hardware("ethos-u65-512", arena_cache_bytes=16_000),
    Hardware("ethos-u55-256", memory_mode="sram-only"),
    Hardware("ethos-u65-256", memory_mode="dedicated-sram-256kb"),
    Hardware("ethos-u65-256", memory_mode="shared-sram", arena_cache_bytes=30_000),
)
MANIFOLD = ("MEAN", "PRELU", "QUANTIZE", "RESIZE", "STRIDED_SLICE", "SUM")
"""Operators that are lowered in many ways."""
GOALS = (Goal.PERFORMANCE, Goal.PERFORMANCE, Goal.SIZE)
POINTS: tuple[tuple[str, Attributes | None], ...] = (
    ("ABS", at.AbsOptions()), ("ELU", None), ("EXP", at.ExpOptions()), ("GELU", at.GeluOptions(False)),
    ("GELU", at.GeluOptions(True)), ("HARD_SWISH", at.HardSwishOptions()), ("LEAKY_RELU", at.LeakyReluOptions(0.3)),
    ("LEAKY_RELU", at.LeakyReluOptions(-0.4)), ("LOG", None), ("LOGISTIC", None), ("NEG", at.NegOptions()),
    ("QUANTIZE", at.QuantizeOptions()), ("RELU", None), ("RELU6", None), ("RELU_0_TO_1", None), ("RELU_N1_TO_1", None),
    ("RSQRT", None), ("TANH", None),
)  # fmt: skip
MAP, I16, I32 = (1, 3, 4, 8), DType.INT16, DType.INT32
SINGLE = {
    "long repetition": op_model("TILE", [tensor((2, 3)), constant((150, 1))], [tensor((300, 3))], at.TileOptions()),
    "int32 to int8": op_model("QUANTIZE", [tensor(MAP, I32, scale=0.001)], [tensor(MAP, scale=0.3)], at.QuantizeOptions()),
    "int32 to int16": op_model("QUANTIZE", [tensor(MAP, I32, scale=0.01)], [tensor(MAP, I16, scale=0.3)], at.QuantizeOptions()),
    "int32 to finer": op_model("QUANTIZE", [tensor(MAP, I32, scale=0.3)], [tensor(MAP, scale=0.001)], at.QuantizeOptions()),
    **{
        f"{kind} of powers of two {shifts}": op_model(
            kind,
            [tensor(MAP, I16, scale=2.0 ** (-12 - shift)) for shift in shifts[:2]],
            [tensor(MAP, I16, scale=2.0 ** (-12 - shifts[2]))],
            options(pot_scale_int16=True),
        )
        for kind, options in (("ADD", at.AddOptions), ("SUB", at.SubOptions))
        for shifts in ((0, 0, 0), (2, 0, 0), (0, 3, 0), (1, 1, 0), (0, 0, 1))
    },
}


@cache
def chooser(hardware: Hardware) -> BlockChooser:
    """It knows the blocks that it has chosen before."""
    return BlockChooser(hardware.load())


def any_of(choices: tuple[T, ...], name: str, further: int = 0) -> T:
    """One for a case, which stays when other cases come and go."""
    return choices[(crc32(name.encode()) + further) % len(choices)]


def operators() -> Iterator[Case]:
    """Every operator of the NPU in every type; not those that were drawn so that LiteRT refuses them."""
    for name, make in VELA_CASES.items():
        for seed in range(1, 7 if name.startswith(MANIFOLD) else 3):
            with suppress(ValueError, RuntimeError):
                content = with_shapes(make(np.random.default_rng([seed, 2026])))
                yield f"{name} {seed}", read_model(content), any_of(TARGETS, name, seed)


def lowerings() -> Iterator[Case]:
    """The cases of the tests of lowering: edges, and what is refused."""
    for name, graph in lowered_graphs():
        yield name, Model((graph,)), any_of(TARGETS, name)
    for name, make in test_windows.CASES.items():
        for seed in range(4):
            yield f"{name} {seed}", read_model(make(np.random.default_rng(seed))), any_of(TARGETS, name, seed)
    for name, draw in test_more_operators.MAKERS.items():
        for seed in range(3):
            s = graphs.Sketch(np.random.default_rng([seed, 5]))
            yield f"{name} {seed}", Model((s.graph(draw(s)),)), any_of(TARGETS, name, seed)
    for name, made in SINGLE.items():
        yield name, made, any_of(TARGETS, name)
    for name in test_matmul.CASES:
        yield f"product {name}", read_model(test_matmul.product(name, 5)), any_of(TARGETS, name)
    for name in ("batches", "time major", "coupled gates", "no clip", "tight clip", "one time"):
        yield f"cell {name}", read_model(test_lstm.cell(3, **test_lstm.CELLS[name])), any_of(TARGETS, name)


def lowered_graphs() -> Iterator[tuple[str, Graph]]:
    for name, sketched in test_edges.CASES.items():
        s, output = sketched()
        yield name, s.graph([output])
    for name, (make, _) in test_errors.CASES.items():
        yield f"refused {name}", make()
    for name, case in test_depth_to_space.CASES.items():
        yield name, test_depth_to_space.graph_of(*case, inside=True)
    for name, (shape, order, _) in (test_transpose.STEPS | test_transpose.WAYS).items():
        yield name, test_transpose.single(shape, order)
    for name, (shape, axis, indices, _) in test_gather.STEPS.items():
        yield f"gather of {name}", test_gather.alone(shape, axis, indices, inside=True)
    for name, permuted in test_transpose.GRAPHS.items():
        yield name, permuted()
    for ratio in test_joined.RATIOS:
        yield f"joined {ratio}", test_joined.joined(DType.UINT8, (0.079 * ratio, 0.079, 0.079), (138, 191, 191), 9)


def chains() -> Iterator[Case]:
    """Several operators with branches, of int8."""
    for case in (*graphs.chains(24, 26, graphs.LINKS_AND_PERMUTATIONS), *graphs.resizing_chains(6, 26)):
        yield case.name, case.model, any_of(TARGETS, case.name)


def points() -> Iterator[Case]:
    """Operators on every value alone, one behind the other: tables of one are made of several."""
    for seed in range(40):
        name = f"points {seed}"
        yield name, read_model(points_of(np.random.default_rng([seed, 26]))), any_of(TARGETS, name)


def points_of(rng: np.random.Generator) -> bytes:
    b, dtype = ModelBuilder(), (DType.INT8, DType.INT8, DType.UINT8, DType.INT16)[int(rng.integers(4))]
    x = b.input((1, 3, 4, 5), dtype, scale=0.05, zero_point=int(rng.integers(0, 99)) * (dtype is not DType.INT16))
    for _ in range(int(rng.integers(1, 5))):
        kind, options = POINTS[int(rng.integers(len(POINTS)))]
        zero = 0 if dtype is DType.INT16 else int(rng.integers(0, 99))
        scale, zero = FIXED[kind][dtype] if kind in FIXED else (float(0.05 * 2.0 ** rng.uniform(-2, 2)), zero)
        x = b.op(kind, [x], (1, 3, 4, 5), dtype, scale, zero, attributes=options)
    b.output(x)
    return b.build()


def mixtures() -> Iterator[Case]:
    """Several operators of every type."""
    for dtype in (DType.INT8, DType.UINT8, DType.INT16):
        for seed in range(10):
            name = f"mixed {dtype} {seed}"
            yield name, read_model(mixed_graph(2600 + seed, dtype)), any_of(TARGETS, name)


def networks() -> Iterator[Case]:
    """Large maps and large weights, in memories that are too small for them and in others."""
    for seed in range(10):
        for scarce in (False, True):
            model, name = read_model(network(seed, scarce=scarce)), f"network {seed}{' scarce' if scarce else ''}"
            for further in (0, 3):
                yield name, model, any_of(MEMORIES, name, further)


MODELS: dict[str, Callable[[], Iterator[Case]]] = {
    "chains": chains, "mixtures": mixtures, "points": points,
    "lowerings": lowerings, "networks": networks, "operators": operators,
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_decisions_are_as_recorded(name: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for case, model, hardware in MODELS[name]():
        goal = any_of(GOALS, case)
        lines.append(f"{case} {hardware.target} {goal.value}: {decisions(model, chooser(hardware), goal)}")
    golden(f"compiler/decisions-{name}.txt", "\n".join(lines) + "\n")
