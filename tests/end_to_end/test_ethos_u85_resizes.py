"""Resizes to any size by the operation of Ethos-U85, compiled as a whole: exact, and their streams without findings."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.api import check
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.operations import Convolution, Layout, Resizing
from npu.isa.payload import parse_payload
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support import single_ops as ops
from tests.support.architectures.layers import Layers
from tests.support.builder import ModelBuilder
from tests.support.ethos_u85 import TARGETS, exact_operations
from tests.support.litert import random_inputs, run_reference
from tests.support.vela import only_job
from tests.support.vela_fork import compile_forked

MODES = {"plain": (False, False), "aligned": (True, False), "half_pixels": (False, True), "both": (True, True)}
BILINEAR_MODES = tuple(MODES)[:3]
EVEN_SIZES = ((5, 80), (33, 9), (2, 65), (3, 96), (40, 10), (6, 3), (9, 9))
"""By fractions whose denominators are powers of 2: some aligned, some not."""


def resizing(kind: str, shape: tuple[int, ...], size: tuple[int, int], mode: str, dtype: DType = DType.INT8) -> bytes:
    b, zero = ModelBuilder(), 0 if dtype is DType.INT16 else 17
    x = b.input(shape, dtype, scale=0.1, zero_point=zero)
    options = at.ResizeBilinearOptions if kind == "RESIZE_BILINEAR" else at.ResizeNearestNeighborOptions
    made, numbers = (shape[0], *size, shape[3]), b.constant(np.array(size, np.int32))
    b.output(b.op(kind, [x, numbers], made, dtype, 0.1, zero, attributes=options(*MODES[mode])))
    return b.build()


def drawn(rng: np.random.Generator) -> bytes:
    """Any resize that the operation has exact places for, most of the time."""
    shape = (int(rng.integers(1, 3)), *map(int, rng.integers(1, 41, 2)), int(rng.choice([1, 3, 16, 17, 40])))
    size = (int(rng.integers(1, 41)), int(rng.integers(1, 41)))
    dtype = (DType.INT8, DType.UINT8, DType.INT16)[int(rng.integers(3))]
    if rng.integers(2):
        return resizing("RESIZE_NEAREST_NEIGHBOR", shape, size, str(rng.choice(list(MODES))), dtype)
    if dtype is not DType.INT8:
        pairs = [EVEN_SIZES[int(number)] for number in rng.integers(0, len(EVEN_SIZES), 2)]
        shape, size = (shape[0], pairs[0][0], pairs[1][0], shape[3]), (pairs[0][1], pairs[1][1])
    return resizing("RESIZE_BILINEAR", shape, size, str(rng.choice(BILINEAR_MODES)), dtype)


def assert_random_resizes_are_exact(target: str, count: int, seed: int) -> None:
    rng, with_operation = np.random.default_rng([seed, TARGETS.index(target)]), 0
    for number in range(count):
        made = exact_operations(drawn(rng), target, seed=number)
        with_operation += any(isinstance(operation, Resizing) for operation in made)
    assert with_operation > count // 2


@pytest.mark.parametrize("target", TARGETS)
def test_random_resizes_are_exact(target: str) -> None:
    assert_random_resizes_are_exact(target, 10, 1)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_resizes_are_exact(target: str) -> None:
    assert_random_resizes_are_exact(target, 250, 2)


@pytest.mark.parametrize("target", TARGETS)
def test_the_furthest_steps_find_a_block(target: str) -> None:
    """A block of two columns of the array of 256 MACs just finds room."""
    for shape, size in (((1, 41, 83, 20), (3, 6)), ((1, 13, 27, 1), (1, 2))):
        (operation,) = exact_operations(resizing("RESIZE_NEAREST_NEIGHBOR", shape, size, "plain"), target)
        assert isinstance(operation, Resizing)
        assert operation.x.step > 13 * operation.x.scale


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("nearest", [False, True])
def test_a_resize_between_convolutions_waits_for_what_it_reads(target: str, *, nearest: bool) -> None:
    net = Layers(1)
    x = net.resize(net.conv(net.input(9, 11, 16), 32, 1), 21, 30, nearest=nearest, half=not nearest)
    first, resize, last = exact_operations(net.finish(net.conv(x, 16, 1)), target)
    assert isinstance(first, Convolution)
    assert isinstance(last, Convolution)
    assert isinstance(resize, Resizing)
    assert resize.blockdep == 0
    assert (resize.ifm.layout, resize.ofm.layout) == (Layout.NHCWB16, Layout.NHCWB16)


@pytest.mark.parametrize("target", TARGETS)
def test_an_enlargement_by_8_that_reads_little_is_one_operation(target: str) -> None:
    """Fetches of many rows are ahead of the output: the latency of a far memory is not paid for each of them."""
    (operation,) = exact_operations(
        resizing("RESIZE_NEAREST_NEIGHBOR", (1, 28, 28, 2), (224, 224), "plain", DType.UINT8), target
    )
    assert isinstance(operation, Resizing)


@pytest.mark.parametrize("target", ["ethos-u85-128", "ethos-u85-256"])
def test_a_block_of_vela_that_is_no_whole_micro_blocks_wide_is_exact(target: str) -> None:
    model = resizing("RESIZE_NEAREST_NEIGHBOR", (1, 48, 48, 24), (26, 23), "half_pixels", DType.INT16)
    made = compile_forked(model, target)
    words = parse_payload(only_job(made).payload).words
    (resized,) = (one.operation for one in decode(words, load_variant(target)) if isinstance(one.operation, Resizing))
    assert resized.options is not None
    assert resized.block.width % resized.options.ublock.width
    (values,) = random_inputs(model, 5)
    (expected,) = run_reference(model, [values])
    interpreter = npu.Interpreter(model_content=made)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), expected)
    assert npu.time_model(made, target).report.totals.npu_cycles


def test_a_resize_of_sizes_that_have_no_operation_stays_on_the_cpu() -> None:
    content = resizing("RESIZE_BILINEAR", (1, 5, 7, 8), (13, 11), "plain", DType.UINT8)
    assert [op.kind for op in read_model(npu.compile(content, target=TARGETS[0]).content).graphs[0].ops] == ["RESIZE_BILINEAR"]


CASES = {
    "by 3": (ops.resize((6, 8), (18, 24)), set()),
    "along one axis": (ops.resize((6, 8), (6, 24)), set()),
    "smaller": (ops.resize((18, 24), (5, 7), half_pixel_centers=True), set()),
    "aligned": (ops.resize((18, 24), (5, 7), align_corners=True), set()),
    "14 times smaller": (ops.resize((28, 24), (2, 7)), {"N-RSZ-2"}),
    "to one row": (ops.resize((40, 24), (1, 7)), set()),
    "behind the last row": (ops.resize((1, 24), (55, 7)), {"N-RSZ-2"}),
    "int16 by 3": (ops.resize((6, 8), (18, 24), dtype=DType.INT16), {"N-RSZ-2"}),
    "int16 by 2 and 4": (ops.resize((6, 8), (12, 32), dtype=DType.INT16), set()),
    "int16 by 128 and 64": (ops.resize((2, 3), (256, 192), dtype=DType.INT16), set()),
    "int16 by 256 and 128": (ops.resize((2, 3), (512, 384), dtype=DType.INT16), {"N-RSZ-2"}),
    "uint8 by 3": (ops.resize((6, 8), (18, 24), dtype=DType.UINT8), {"N-RSZ-2"}),
    "uint8 by 128": (ops.resize((2, 3), (256, 384), dtype=DType.UINT8), set()),
    "uint8 by 256": (ops.resize((2, 3), (512, 384), dtype=DType.UINT8), {"N-RSZ-2"}),
    "nearest by 3": (ops.resize((6, 8), (18, 24), kind="RESIZE_NEAREST_NEIGHBOR"), set()),
    "nearest uint8": (ops.resize((6, 8), (19, 5), kind="RESIZE_NEAREST_NEIGHBOR", dtype=DType.UINT8), set()),
    "nearest int16": (ops.resize((6, 8), (19, 5), kind="RESIZE_NEAREST_NEIGHBOR", dtype=DType.INT16), set()),
    "nearest of fine places": (ops.resize((6, 7), (19, 1025), kind="RESIZE_NEAREST_NEIGHBOR"), {"N-NN-1"}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_checker_takes_the_sizes_that_the_compiler_has_an_operation_for(case: str) -> None:
    model, expected = CASES[case]
    content = write_model(model)
    for target in TARGETS[:2]:
        (placed,) = check(content, target=target).ops
        assert {violation.rule for violation in placed.violations} == expected
        if not expected:
            assert any(isinstance(operation, Resizing) for operation in exact_operations(content, target))


def message(content: bytes, target: str) -> str:
    return check(content, target=target).ops[0].violations[0].message


def test_the_checker_says_half_pixels_and_type_where_they_count() -> None:
    content = write_model(ops.resize((6, 8), (18, 24), dtype=DType.INT16))
    assert message(content, "ethos-u55-128").endswith("got IFM, OFM, align_corners [[6,8],[18,24],false]")
    assert message(content, TARGETS[0]).endswith("align_corners, half_pixel_centers, type [[6,8],[18,24],false,false,int16]")
