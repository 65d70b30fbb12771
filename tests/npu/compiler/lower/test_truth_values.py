"""Comparisons, logic and SELECT on the NPU: exact on every family, with any scales, shapes that broadcast, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import npu
from npu.compiler.lower.admit import LoweringError
from npu.compiler.lower.partition import lower_partition
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.graph.placement import Device
from npu.hardware.catalogue import load_variant
from npu.numerics.comparison import EQUALITIES, RELATIONS
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.litert import random_array, run_reference

I8, U8, I16, I32, BOOL = DType.INT8, DType.UINT8, DType.INT16, DType.INT32, DType.BOOL
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
MAP = (1, 6, 5, 4)
SHAPES = {
    "equal": (MAP, MAP),
    "channels": (MAP, (4,)),
    "both": ((1, 6, 1, 4), (5, 4)),
    "rank 5": ((2, 3, 2, 3, 4), (3, 1, 3, 1)),
}
QUANTIZATIONS = {
    "same": ((0.1, 3), (0.1, 3)),
    "other scale": ((0.1, 3), (0.17, -20)),
    "moved": ((0.1, 3), (0.1, 5)),
    "rounded to one": ((0.0007, 0), (0.0007, 0)),
}


def assert_exact(model: bytes, target: str, inputs: Sequence[npt.NDArray[Any]] | None = None, *, seed: int = 0) -> None:
    """All operators run on the NPU, which finds what the reference kernels do."""
    graph, rng = read_model(model).graphs[0], np.random.default_rng(seed)
    tensors = [graph.tensors[index] for index in graph.inputs]
    given = [random_array(tensor.shape, tensor.dtype, rng) for tensor in tensors] if inputs is None else list(inputs)
    compiled = npu.compile(model, target=target)
    assert [violation.message for op in compiled.compiled_model.placement.ops for violation in op.violations] == []
    assert npu.verify(compiled.content) == []
    for found, wanted in zip(npu.run(compiled.content, given).outputs, run_reference(model, given), strict=True):
        np.testing.assert_array_equal(found, wanted)


def compared(
    kind: str,
    shapes: tuple[Sequence[int], Sequence[int]] = (MAP, MAP),
    quantizations: Any = QUANTIZATIONS["same"],
    dtype: DType = I8,
    *,
    number: int | None = None,
    is_number_first: bool = False,
) -> bytes:
    """An operator of two maps, or of a map and a constant."""
    b = ModelBuilder()
    made: list[int] = []
    for shape, (scale, point) in zip(shapes, quantizations, strict=True):
        options = {"scale": scale, "zero_point": point if dtype is not U8 else point + 100} if dtype is not I32 else {}
        is_constant = number is not None and bool(made) != is_number_first
        data = np.full(shape, number or 0, dtype.numpy)
        made.append(b.constant(data, **options) if is_constant else b.input(shape, dtype, **options))
    b.output(b.op(kind, made, np.broadcast_shapes(*map(tuple, shapes)), BOOL))
    return b.build()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("quantizations", QUANTIZATIONS)
@pytest.mark.parametrize("kind", sorted(RELATIONS))
def test_maps_of_any_scales_are_compared(kind: str, quantizations: str, target: str) -> None:
    for dtype in (I8, U8):
        assert_exact(compared(kind, quantizations=QUANTIZATIONS[quantizations], dtype=dtype), target, seed=dtype.value)


@pytest.mark.parametrize("kind", EQUALITIES)
def test_one_symbol_too_many_is_refused(kind: str) -> None:
    """All values but one are common to both operands, and the others differ."""
    model = compared(kind, quantizations=((0.1, 3), (0.1, 4)))
    (op,) = npu.check(model).ops
    assert [violation.rule for violation in op.violations] == ["N-CMP-1"]
    with pytest.raises(LoweringError, match="at most 256 symbols"):
        lower_partition(read_model(model).graphs[0], [0], load_variant("ethos-u55-128"))


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", ["LESS", "EQUAL"])
def test_operands_broadcast(kind: str, shapes: str) -> None:
    for position, target in enumerate(TARGETS):
        assert_exact(compared(kind, SHAPES[shapes], QUANTIZATIONS["other scale"]), target, seed=position)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("kind", sorted(RELATIONS))
def test_a_comparison_with_a_number_is_one_look_up(kind: str, *, is_first: bool) -> None:
    shapes: Any = ((1,), MAP) if is_first else (MAP, (1, 1))
    model = compared(kind, shapes, ((0.1, 3), (0.4, -9)), number=-2, is_number_first=is_first)
    for target in TARGETS:
        assert_exact(model, target)
    graph = read_model(model).graphs[0]
    (step,) = lower_partition(graph, [0], load_variant("ethos-u55-128")).steps
    assert step.lut is not None


@pytest.mark.parametrize("dtype", [I16, I32])
@pytest.mark.parametrize("kind", sorted(RELATIONS))
def test_ethos_u85_compares_wider_numbers_as_they_are_stored(kind: str, dtype: DType) -> None:
    if dtype is I16 and kind in EQUALITIES:  # whose scales LiteRT takes into account
        return
    model, rng = compared(kind, ((1, 6, 1, 4), (5, 4)), ((0.1, 0), (0.3, 0)), dtype), np.random.default_rng(3)
    values = [random_array(shape, dtype, rng) for shape in ((1, 6, 1, 4), (5, 4))]
    values[1][:3] = values[0][0, :3, 0]
    assert_exact(model, "ethos-u85-128", values)
    assert_exact(model, "ethos-u85-1024", values)
    assert [op.device for op in npu.check(model, target="ethos-u55-128").ops] == [Device.CPU]


def test_a_scale_of_one_which_ends_litert_is_refused() -> None:
    model = compared("LESS", quantizations=((1.0, 0), (0.5, 0)))
    (op,) = npu.check(model).ops
    assert [violation.rule for violation in op.violations] == ["N-CMP-2"]
    with pytest.raises(LoweringError, match="scales must be above 0 and below 1"):
        lower_partition(read_model(model).graphs[0], [0], load_variant("ethos-u55-128"))


@pytest.mark.parametrize("target", TARGETS)
def test_logic(target: str) -> None:
    b = ModelBuilder()
    x, y = b.input(MAP, BOOL), b.input((5, 1), BOOL)
    both = b.op("LOGICAL_AND", [x, y], MAP, BOOL)
    either = b.op("LOGICAL_OR", [b.op("LOGICAL_NOT", [y], (5, 1), BOOL), x], MAP, BOOL)
    axes = b.constant(np.array([1, 2], np.int32))
    b.output(both, either)
    b.output(
        *(b.op(kind, [either, axes], (1, 4), BOOL, attributes=at.ReducerOptions()) for kind in ("REDUCE_ANY", "REDUCE_ALL"))
    )
    for seed in range(3):
        assert_exact(b.build(), target, seed=seed)


def selected(kind: str, shapes: Sequence[Sequence[int]], dtype: DType, numbers: Sequence[int | None] = (None, None)) -> bytes:
    """`numbers`: what stands for a map that is given by none."""
    b = ModelBuilder()
    scaled = {} if dtype in (I32, BOOL) else {"scale": 0.1, "zero_point": 0 if dtype is I16 else 7}
    inputs = [b.input(shapes[0], BOOL)]
    for shape, number in zip(shapes[1:], numbers, strict=True):
        data = np.full(shape, number or 0, dtype.numpy)
        inputs.append(b.input(shape, dtype, **scaled) if number is None else b.constant(data, **scaled))
    shape = tuple(shapes[1]) if kind == "SELECT" else np.broadcast_shapes(*map(tuple, shapes))
    made = {"scale": None, "zero_point": 0, **scaled}
    b.output(b.op(kind, inputs, shape, dtype, made["scale"], made["zero_point"]))
    return b.build()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [I8, U8, I16, I32, BOOL])
def test_select(dtype: DType, target: str) -> None:
    for shapes in ([MAP, MAP, MAP], [(6, 1, 1), MAP, (4,)], [(1,), (6, 5, 4), (6, 5, 4)], [(5, 4), (6, 1, 1), (1, 6, 1, 4)]):
        assert_exact(selected("SELECT_V2", shapes, dtype), target, seed=len(shapes[0]))
    for condition in ((6, 5, 4), (6,)):
        assert_exact(selected("SELECT", [condition, (6, 5, 4), (6, 5, 4)], dtype), target)


@pytest.mark.parametrize("dtype", [I8, U8, I16, I32])
@pytest.mark.parametrize("numbers", [(5, None), (None, -3), (4, 9)])
def test_select_of_a_number(numbers: tuple[int | None, int | None], dtype: DType) -> None:
    numbers = tuple(abs(number) if number is not None and dtype is U8 else number for number in numbers)  # type: ignore[assignment]
    shapes = [MAP, *(MAP if number is None else (1,) for number in numbers)]
    model = selected("SELECT_V2", shapes, dtype, numbers)
    for target in TARGETS:
        assert_exact(model, target)


def test_a_mask_is_one_operation() -> None:
    """A number where the condition does not hold: the zero point of a product."""
    graph = read_model(selected("SELECT_V2", [MAP, MAP, (1,)], I8, (None, -128))).graphs[0]
    assert len(lower_partition(graph, [0], load_variant("ethos-u55-128")).steps) == 1


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_network_masks(target: str) -> None:
    """A convolution, whose result is compared, masked and summed: one job."""
    b, rng = ModelBuilder(), np.random.default_rng(4)
    x = b.input((1, 8, 8, 8), I8, scale=0.1, zero_point=-3)
    weights = b.constant(rng.integers(-127, 128, (8, 1, 1, 8)).astype(np.int8), scale=0.01)
    bias = b.constant(rng.integers(-500, 500, 8).astype(np.int32), scale=0.001)
    y = b.op("CONV_2D", [x, weights, bias], (1, 8, 8, 8), I8, 0.2, 4, attributes=at.Conv2DOptions(at.Padding.VALID, 1, 1))
    mask = b.op("GREATER", [y, x], (1, 8, 8, 8), BOOL)
    least = b.constant(np.array([-128], np.int8), scale=0.2, zero_point=4)
    masked = b.op("SELECT_V2", [mask, y, least], (1, 8, 8, 8), I8, 0.2, 4)
    b.output(b.op("ADD", [masked, x], (1, 8, 8, 8), I8, 0.3, 0, attributes=at.AddOptions()))
    assert_exact(b.build(), target)
    assert len(read_model(npu.compile(b.build(), target=target).content).graphs[0].ops) == 1


@pytest.mark.parametrize("kind", ["CONCATENATION", "PACK", "PAD", "PADV2"])
@pytest.mark.parametrize("dtype", [I32, BOOL])
def test_joins_and_paddings_of_plain_numbers(kind: str, dtype: DType) -> None:
    if (kind, dtype) == ("PACK", BOOL):  # of which LiteRT has no kernel
        return
    b = ModelBuilder()
    x, y = (b.input((2, 3, 4), dtype) for _ in range(2))
    if kind in ("CONCATENATION", "PACK"):
        z = b.op("NEG", [y], (2, 3, 4), dtype) if dtype is I32 else b.op("LOGICAL_NOT", [y], (2, 3, 4), dtype)
        attributes: Any = at.ConcatenationOptions(1) if kind == "CONCATENATION" else at.PackOptions(2, 1)
        shape = (2, 6, 4) if kind == "CONCATENATION" else (2, 2, 3, 4)
        b.output(b.op(kind, [x, z], shape, dtype, attributes=attributes))
    else:
        table = b.constant(np.array([(0, 1), (1, 2), (2, 0)], np.int32))
        value = [b.constant(np.array(-70000 if dtype is I32 else 1).astype(dtype.numpy))] if kind == "PADV2" else []
        attributes = at.PadV2Options() if value else at.PadOptions()
        padded = b.op(kind, [x, table, *value], (3, 6, 6), dtype, attributes=attributes)
        b.output(padded, b.op("MAXIMUM" if dtype is I32 else "LOGICAL_OR", [x, y], (2, 3, 4), dtype))
    for target in TARGETS:
        assert_exact(b.build(), target)
