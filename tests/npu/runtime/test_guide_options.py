"""Every input and option that the operation guide names for an operator, each value of it, against LiteRT's reference kernels.

The random cases of `test_operators` draw options; here none is left to chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation, Padding
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter

from tests.support.accuracy import assert_as_accurate, magnitudes, needs_magnitudes
from tests.support.interpreters import run
from tests.support.litert import run_reference
from tests.support.operator_cases import In, ints, model

F32, U8, I8, I32, I64, BOOL = DType.FLOAT32, DType.UINT8, DType.INT8, DType.INT32, DType.INT64, DType.BOOL
GUIDE_ACTIVATIONS = (FusedActivation.NONE, FusedActivation.RELU, FusedActivation.RELU6)
ID = {"TRANSPOSE_CONV": "CONV_2D_TRANSPOSE", "TOPK_V2": "TOP_K"}

Case = tuple[bytes, list[np.ndarray]]


def drawn(shape: Sequence[int], dtype: DType = F32, low: float = -9, high: float = 9) -> np.ndarray:
    """Values of an input, the same in every run."""
    generator = np.random.default_rng([len(shape), *shape])
    values = generator.uniform(low, high, tuple(shape))
    return values.astype(dtype.numpy) if dtype is not BOOL else values > 0


def floats(
    kind: str, *shapes: Sequence[int] | In, out: int = 1, result: Sequence[int] = (1,), attributes: Attributes | None = None,
    low: float = -9, high: float = 9,
) -> Case:  # fmt: skip
    """An operator of float inputs (shapes) and constants or other inputs (In); the shape of the result may be a placeholder."""
    inputs = [shape if isinstance(shape, In) else In(shape, F32) for shape in shapes]
    content = model(kind, inputs, [In(result, F32)] * out, attributes)
    return content, [drawn(item.shape, item.dtype, low, high) for item in inputs if item.data is None]


def fixed(values: Any, dtype: DType = F32) -> In:
    array = np.asarray(values, dtype.numpy)
    return In(array.shape, dtype, data=array)


def cases() -> Iterator[tuple[str, str, Case]]:
    """(operator, what is special, model and inputs)"""
    yield from arithmetic()
    yield from windows()
    yield from shapes()
    yield from selections()
    yield from functions()


def arithmetic() -> Iterator[tuple[str, str, Case]]:
    options = {"ADD": at.AddOptions, "MUL": at.MulOptions, "SUB": at.SubOptions, "DIV": at.DivOptions}
    for kind, maker in options.items():
        for activation in GUIDE_ACTIVATIONS:
            yield kind, activation.name, floats(kind, (2, 3), (2, 3), attributes=maker(activation))
    for activation in GUIDE_ACTIVATIONS:
        dense = at.FullyConnectedOptions(activation)
        for name, lead in {"rank 2": (3,), "rank 4": (1, 2, 3)}.items():
            weights, bias = fixed(drawn((5, 4))), fixed(drawn((5,)))
            for what, given in {"bias": (weights, bias), "no bias": (weights,)}.items():
                case = floats("FULLY_CONNECTED", (*lead, 4), *given, attributes=dense)
                yield "FULLY_CONNECTED", f"{name} {activation.name} {what}", case
        for what, computed in {"bias": ((37, 21), (37,)), "no bias": ((37, 21),)}.items():
            case = floats("FULLY_CONNECTED", (19, 21), *computed, attributes=dense)
            yield "FULLY_CONNECTED", f"computed weights {activation.name} {what}", case


def windows() -> Iterator[tuple[str, str, Case]]:
    for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
        for padding in Padding:
            for activation in GUIDE_ACTIVATIONS:
                made = at.Pool2DOptions(padding, 2, 1, 3, 2, activation)
                yield kind, f"{padding.name} {activation.name}", floats(kind, (1, 5, 7, 2), attributes=made)
            for sizes in ((1, 3, 2, 4), (3, 1, 4, 2), (2, 2, 1, 1)):
                yield kind, f"{padding.name} {sizes}", floats(kind, (2, 6, 7, 1), attributes=at.Pool2DOptions(padding, *sizes))
    for padding in Padding:
        for activation in GUIDE_ACTIVATIONS:
            for stride in ((1, 2), (3, 1)):
                made = at.Conv2DOptions(padding, *stride, activation)
                yield "CONV_2D", f"{padding.name} {activation.name} {stride}", floats(
                    "CONV_2D", (1, 5, 6, 3), fixed(drawn((4, 2, 3, 3))), fixed(drawn((4,))), attributes=made)  # fmt: skip
                each = at.DepthwiseConv2DOptions(padding, stride[0], stride[0], 2, activation)
                given = fixed(drawn((1, 2, 3, 6))), fixed(drawn((6,)))
                yield "DEPTHWISE_CONV_2D", f"{padding.name} {activation.name} {stride}", floats(
                    "DEPTHWISE_CONV_2D", (1, 5, 6, 3), *given, attributes=each)  # fmt: skip
        for stride in ((1, 2), (2, 1), (3, 3)):
            size = (1, 8, 9, 4) if padding is Padding.VALID else (1, 3 * stride[1], 4 * stride[0], 4)
            if padding is Padding.VALID:
                size = (1, (3 - 1) * stride[1] + 2, (4 - 1) * stride[0] + 3, 4)
            made = at.TransposeConvOptions(padding, *stride)
            yield "TRANSPOSE_CONV", f"{padding.name} {stride}", floats(
                "TRANSPOSE_CONV", ints(size), fixed(drawn((4, 2, 3, 2))), (1, 3, 4, 2), attributes=made)  # fmt: skip


def shapes() -> Iterator[tuple[str, str, Case]]:
    for count in (1, 2, 3, 6):
        for axis in (0, 2, -1):
            parts, name = [(2, 1, 3)] * count, f"{count} on {axis}"
            yield "CONCATENATION", name, floats("CONCATENATION", *parts, attributes=at.ConcatenationOptions(axis))
            yield "PACK", name, floats("PACK", *parts, attributes=at.PackOptions(count, axis))
    for axis, count in ((0, 2), (1, 3), (-1, 4), (-3, 2)):
        yield "UNPACK", f"{axis}", floats("UNPACK", (2, 3, 4), out=count, attributes=at.UnpackOptions(count, axis))
        yield "SPLIT", f"{axis}", floats("SPLIT", fixed(axis, I32), (2, 3, 4), out=count, attributes=at.SplitOptions(count))
    for axis, sizes in ((0, (2, 3)), (-1, (1, 0, 3)), (1, (3,)), (1, (1, -1))):
        made, given = at.SplitVOptions(len(sizes)), (ints(sizes), fixed(axis, I32))
        yield "SPLIT_V", f"{axis} {sizes}", floats("SPLIT_V", (5, 3, 4), *given, out=len(sizes), attributes=made)
    for dims in ((), (0,), (2,), (0, 2), (-2,), (-4, 2)):
        yield "SQUEEZE", f"{dims}", floats("SQUEEZE", (1, 3, 1, 2), attributes=at.SqueezeOptions(dims))
    for new in ((6, 4), (-1, 8), (24,), (2, 3, 4, 1)):
        yield "RESHAPE", f"option {new}", floats("RESHAPE", (2, 3, 4), attributes=at.ReshapeOptions(new))
        yield "RESHAPE", f"input {new}", floats("RESHAPE", (2, 3, 4), ints(new), attributes=at.ReshapeOptions())
    yield "RESHAPE", "both", floats("RESHAPE", (2, 3, 4), ints((4, 6)), attributes=at.ReshapeOptions((4, 6)))
    for out in (I32, I64):
        content = model("SHAPE", [In((2, 0, 3), F32)], [In((3,), out)], at.ShapeOptions(out))
        yield "SHAPE", str(out), (content, [drawn((2, 0, 3))])
        for values in ((2, 3), (4,), ()):
            content = model("FILL", [In((len(values),), out), fixed(7)], [In((1,), F32)], at.FillOptions())
            yield "FILL", f"{out} {values}", (content, [np.array(values, out.numpy)])
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (0, 3, 1, 2), (1, 0, 3, 2)):
        yield "TRANSPOSE", f"{order}", floats("TRANSPOSE", (2, 3, 4, 5), ints(order), attributes=at.TransposeOptions())
    for block in (2, 3):
        yield "SPACE_TO_DEPTH", str(block), floats("SPACE_TO_DEPTH", (2, 6, 12, 2), attributes=at.SpaceToDepthOptions(block))
    for sizes, crops in (((2, 3), ((0, 0), (0, 0))), ((2, 1), ((1, 0), (0, 2))), ((1, 3), ((0, 1), (1, 0)))):
        to_space, to_batch = at.BatchToSpaceNDOptions(), at.SpaceToBatchNDOptions()
        yield "BATCH_TO_SPACE_ND", f"{sizes} {crops}", floats(
            "BATCH_TO_SPACE_ND", (6, 3, 4, 2), ints(sizes), ints(crops), attributes=to_space)  # fmt: skip
        pads, ifm = ((sizes[0], 0), (0, sizes[1])), (2, 2 * sizes[0], 3 * sizes[1], 2)
        yield "SPACE_TO_BATCH_ND", f"{sizes} {pads}", floats(
            "SPACE_TO_BATCH_ND", ifm, ints(sizes), ints(pads), attributes=to_batch)  # fmt: skip
    for table in (((0, 0), (1, 2)), ((3, 0), (0, 0)), ((1, 1), (2, 2))):
        for dtype in (I32, I64):
            yield "PAD", f"{table} {dtype}", floats("PAD", (2, 3), ints(table, dtype), attributes=at.PadOptions())
    for align, half in ((False, False), (True, False), (False, True)):
        for size in ((6, 8), (2, 3), (5, 9), (1, 1)):
            near, line = at.ResizeNearestNeighborOptions(align, half), at.ResizeBilinearOptions(align, half)
            for kind, made in {"RESIZE_NEAREST_NEIGHBOR": near, "RESIZE_BILINEAR": line}.items():
                yield kind, f"{size} {align} {half}", floats(kind, (2, 3, 4, 2), ints(size), attributes=made)


def selections() -> Iterator[tuple[str, str, Case]]:
    bounds = {((0, 1, 2), (2, 1, 1)): (2, 1, 1), ((1, 0, 0), (-1, -1, -1)): (1, 3, 4), ((0, 0, 1), (1, 3, -1)): (1, 3, 3)}
    for (begin, size), result in bounds.items():
        for dtype in (I32, I64):
            given = ints(begin, dtype), ints(size, dtype)
            yield (
                "SLICE",
                f"{begin} {size} {dtype}",
                floats("SLICE", (2, 3, 4), *given, result=result, attributes=at.SliceOptions()),
            )
    masks = {"begin_mask": (1, 2, 7), "end_mask": (1, 4, 7), "shrink_axis_mask": (1, 2, 4, 5)}
    for name, values in masks.items():
        for mask in values:
            made = at.StridedSliceOptions(**{name: mask})
            yield "STRIDED_SLICE", f"{name} {mask}", floats(
                "STRIDED_SLICE", (3, 4, 5), ints((1, 1, 1)), ints((2, 3, 4)), ints((1, 1, 1)), attributes=made)  # fmt: skip
    for begin, end, step in (((2, 3, 4), (0, 0, 0), (-1, -2, -3)), ((-2, -3, 0), (-1, 4, 5), (1, 2, 3))):
        yield "STRIDED_SLICE", f"{begin} {end} {step}", floats(
            "STRIDED_SLICE", (3, 4, 5), ints(begin), ints(end), ints(step), attributes=at.StridedSliceOptions())  # fmt: skip
    for axis in (0, 1, 2, -1, -3):
        for shape in ((), (2,), (2, 2)):
            indices = fixed(np.arange(int(np.prod(shape, dtype=int))).reshape(shape) % 2, I32)
            yield "GATHER", f"{axis} {shape}", floats("GATHER", (2, 3, 4), indices, attributes=at.GatherOptions(axis))
    for k in (1, 3, 5):
        content = model("TOPK_V2", [In((2, 3, 5), F32), fixed(k, I32)], [In((1,), F32), In((1,), I32)], at.TopKV2Options())
        yield "TOPK_V2", str(k), (content, [np.round(drawn((2, 3, 5)) / 3)])
    for kind, maker in {"ARG_MAX": at.ArgMaxOptions, "ARG_MIN": at.ArgMinOptions}.items():
        for axis in (0, 1, 2, -1):
            for out in (I32, I64):
                content = model(kind, [In((2, 3, 5), F32), fixed(axis, I32)], [In((1,), out)], maker(out))
                yield kind, f"{axis} {out}", (content, [np.round(drawn((2, 3, 5)) / 4)])
    for rank in (1, 2, 3):
        shape = (3, 2, 4)[:rank]
        for condition in {shape, shape[:1]}:
            given = [In(condition, BOOL), In(shape, F32), In(shape, F32)]
            content = model("SELECT", given, [In((1,), F32)], at.SelectOptions())
            yield "SELECT", f"{condition} {shape}", (content, [drawn(condition, BOOL), drawn(shape), -drawn(shape)])
    indices = {"scalar": 2, "vector": (0, 3), "matrix": ((0, 2), (1, 0), (1, 3))}
    for name, places in indices.items():
        count = len(places) if name != "scalar" else 1
        for dtype in (I32, I64):
            for values in (np.float32(5), np.arange(1, count + 1, dtype=np.float32)):
                if name == "scalar" and np.ndim(values):
                    values = np.float32(5)
                size = (2, 4) if name == "matrix" else (4,)
                given = [fixed(places, dtype), ints(size, dtype), In(np.shape(values), F32), fixed(-1.5)]
                content = model("SPARSE_TO_DENSE", given, [In((1,), F32)], at.SparseToDenseOptions(True))
                yield "SPARSE_TO_DENSE", f"{name} {dtype} {np.shape(values)}", (content, [np.asarray(values)])


def functions() -> Iterator[tuple[str, str, Case]]:
    for alpha in (0.0, 0.25, 1.0, -0.5, 1.5):
        yield "LEAKY_RELU", str(alpha), floats("LEAKY_RELU", (3, 4), attributes=at.LeakyReluOptions(alpha))
    for radius, bias, alpha, beta in ((1, 1.0, 0.5, 0.75), (2, 2.0, 0.1, 0.5), (0, 0.5, 1.0, 1.0), (9, 1.0, 0.25, 0.25)):
        made = at.LocalResponseNormalizationOptions(radius, bias, alpha, beta)
        yield "LOCAL_RESPONSE_NORMALIZATION", f"{radius} {bias} {alpha} {beta}", floats(
            "LOCAL_RESPONSE_NORMALIZATION", (1, 2, 3, 7), attributes=made)  # fmt: skip
    for beta in (0.5, 1.0, 2.0):
        for shape in ((7,), (2, 5), (2, 3, 4), (1, 2, 3, 4)):
            yield "SOFTMAX", f"{beta} {shape}", floats("SOFTMAX", shape, attributes=at.SoftmaxOptions(beta))
    for shape in ((2, 5), (1, 2, 3, 4)):
        yield "LOG_SOFTMAX", f"{shape}", floats("LOG_SOFTMAX", shape, attributes=at.LogSoftmaxOptions())
        yield "L2_NORMALIZATION", f"{shape}", floats("L2_NORMALIZATION", shape, attributes=at.L2NormOptions())
    for keep in (False, True):
        for axes in ((0,), (-1,), (1, 2), (0, 1, 2), (2, 0)):
            yield "MEAN", f"{axes} {keep}", floats("MEAN", (2, 3, 4), ints(axes), attributes=at.ReducerOptions(keep))
    yield "POW", "float", floats("POW", (2, 3), (2, 3), attributes=at.PowOptions(), low=0.1, high=3)
    yield "POW", "broadcast", floats("POW", (2, 3), (3,), attributes=at.PowOptions(), low=0.1, high=3)
    for dtype, bounds in ((I32, ((0, 7, 2), (7, 0, -3), (3, 4, 1))), (F32, ((0.5, 3.1, 0.5), (3.0, -1.0, -0.75)))):
        for triple in bounds:
            content = model("RANGE", [In((), dtype)] * 3, [In((1,), dtype)], at.RangeOptions())
            yield "RANGE", f"{dtype} {triple}", (content, [np.array(item, dtype.numpy) for item in triple])


CASES = {f"{kind}: {what}": (kind, case) for kind, what, case in cases()}


def ours(content: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return run(CpuInterpreter(model_content=content), inputs)


def _parameters() -> list[Any]:
    ids = {"SUB": (), "DIV": (), "RESIZE_BILINEAR": ("T-N-1",)}
    return [
        pytest.param(name, id=name, marks=pytest.mark.seed(*ids.get(kind, (f"T-{ID.get(kind, kind)}",))))
        for name, (kind, _) in CASES.items()
    ]


@pytest.mark.parametrize("name", _parameters())
def test_an_option_of_the_guide_gives_the_result_of_the_reference(name: str) -> None:
    kind, (content, inputs) = CASES[name]
    expected = run_reference(content, inputs)
    sizes = magnitudes(kind, content, inputs) if needs_magnitudes(kind) else None
    assert_as_accurate(kind, expected, ours(content, inputs), sizes, name)


# What LiteRT refuses, though the guide lists it


LIMITS = {FusedActivation.RELU: (0, np.inf), FusedActivation.RELU6: (0, 6), FusedActivation.RELU_N1_TO_1: (-1, 1)}


@pytest.mark.seed("T-CONCATENATION", "T-L2_NORMALIZATION")
@pytest.mark.parametrize("activation", LIMITS)
def test_activations_of_joined_and_normalised_tensors_limit_the_plain_result(activation: FusedActivation) -> None:
    for kind, maker, shapes in (
        ("CONCATENATION", lambda act: at.ConcatenationOptions(1, act), [(2, 3), (2, 2)]),
        ("L2_NORMALIZATION", at.L2NormOptions, [(2, 3)]),
    ):
        (plain,) = run_reference(*floats(kind, *shapes, attributes=maker(FusedActivation.NONE)))
        (limited,) = ours(*floats(kind, *shapes, attributes=maker(activation)))
        np.testing.assert_array_equal(limited, np.clip(plain, *LIMITS[activation]))


STORED = {(I8, FusedActivation.RELU): (-5, 127), (I8, FusedActivation.RELU6): (-5, 7), (U8, FusedActivation.RELU): (100, 255),
          (U8, FusedActivation.RELU6): (100, 112), (I8, FusedActivation.RELU_N1_TO_1): (-7, -3)}  # fmt: skip
"""Limits at a scale of 0.5 and a zero point of -5 or 100."""


@pytest.mark.seed("T-CONCATENATION")
@pytest.mark.parametrize(("dtype", "activation"), STORED)
def test_activations_of_joined_quantized_tensors_limit_the_stored_values(dtype: DType, activation: FusedActivation) -> None:
    zero_point = -5 if dtype is I8 else 100
    map_ = In((1, 256), dtype, 0.5, zero_point)
    content = model("CONCATENATION", [map_, map_], [map_], at.ConcatenationOptions(0, activation))
    info = np.iinfo(dtype.numpy)
    values = np.arange(info.min, info.max + 1).astype(dtype.numpy)[None]
    low, high = STORED[dtype, activation]
    np.testing.assert_array_equal(ours(content, [values, values])[0], np.clip(np.concatenate([values, values]), low, high))


def test_integers_without_a_scale_have_no_activation() -> None:
    map_ = In((2, 3), I32)
    content = model("CONCATENATION", [map_, map_], [map_], at.ConcatenationOptions(0, FusedActivation.RELU))
    with pytest.raises(InterpreterError, match="fused activation must be NONE for int32, got RELU"):
        CpuInterpreter(model_content=content).allocate_tensors()


@pytest.mark.seed("T-CONV_2D")
def test_a_convolution_without_bias_is_one_with_a_bias_of_zeros() -> None:
    weights, made = fixed(drawn((4, 2, 3, 3))), at.Conv2DOptions(Padding.SAME, 1, 2)
    with_zeros = floats("CONV_2D", (1, 5, 6, 3), weights, fixed(np.zeros(4)), attributes=made)
    without = floats("CONV_2D", (1, 5, 6, 3), weights, attributes=made)
    np.testing.assert_array_equal(ours(*without)[0], ours(*with_zeros)[0])


@pytest.mark.parametrize("activation", [FusedActivation.TANH, FusedActivation.SIGN_BIT])
@pytest.mark.parametrize("kind", ["ADD", "MAX_POOL_2D", "CONV_2D", "FULLY_CONNECTED", "CONCATENATION", "L2_NORMALIZATION"])
def test_activations_that_the_guide_does_not_name_are_refused_rather_than_ignored(
    kind: str, activation: FusedActivation
) -> None:
    case = {
        "ADD": lambda: floats(kind, (2, 3), (2, 3), attributes=at.AddOptions(activation)),
        "MAX_POOL_2D": lambda: floats(kind, (1, 5, 5, 1), attributes=at.Pool2DOptions(Padding.SAME, 1, 1, 2, 2, activation)),
        "CONV_2D": lambda: floats(
            kind, (1, 5, 6, 3), fixed(drawn((4, 2, 3, 3))), fixed(np.zeros(4)),
            attributes=at.Conv2DOptions(Padding.SAME, 1, 1, activation)),
        "FULLY_CONNECTED": lambda: floats(kind, (2, 3), fixed(drawn((4, 3))), attributes=at.FullyConnectedOptions(activation)),
        "CONCATENATION": lambda: floats(kind, (2, 3), attributes=at.ConcatenationOptions(0, activation)),
        "L2_NORMALIZATION": lambda: floats(kind, (2, 3), attributes=at.L2NormOptions(activation)),
    }[kind]()  # fmt: skip
    with pytest.raises(InterpreterError, match=f"fused activation must be NONE, .*, got {activation.name}"):
        ours(*case)
