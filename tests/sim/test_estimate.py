"""The estimate of NPU cycles: written-out cases, and how far it is from the timing engine."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

import npu
from constraints.checker import check
from npu.api import check_report
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port
from npu.reports.check_report import build_check_report
from npu.tflite.writer import write_model
from npu.toolchain.sources import load
from sim.estimate import npu_cycles

from tests.constraints.test_u55_u65 import lstm
from tests.support import single_ops as ops
from tests.support.shared import shared_models

U55_128 = load_variant("ethos-u55-128")
OVERHEAD = U55_128.timing.operation_overhead_cycles


def estimate(model: Model) -> int:
    graph = model.graphs[0]
    return npu_cycles(graph, graph.ops[0], U55_128) - OVERHEAD


CASES = {
    # 32x32x16 outputs, 3x3 kernel, 32 channels: 512 x 2 micro-blocks of 1x2x8, 4 cycles, 9 steps of 32 channels
    "convolution": (
        ops.conv(ifm=(1, 32, 32, 32), out_channels=16, weights=ops.tensor((16, 3, 3, 32), data=1)),
        512 * 2 * 4 * 9,
    ),
    # 8 channels: 3 steps of 4 kernel elements beat 9 steps of 32 channels
    "shallow convolution": (
        ops.conv(ifm=(1, 32, 32, 8), out_channels=16, weights=ops.tensor((16, 3, 3, 8), data=1)),
        512 * 2 * 4 * 3,
    ),
    # 3072 outputs at 0.5 cycles, 2 x 3072 bytes at 8 a cycle: the look-up table takes 1 cycle an element
    "table": (ops.unary("TANH", (1, 32, 32, 3)), 3072),
    # 24x32x4 outputs: 24 x 16 micro-blocks of 4 cycles; 16 kernel elements at one a cycle, 25 at four in 4 cycles
    "resize by 4": (ops.resize(after=(24, 32)), 24 * 16 * 16),
    "resize by 4 with half pixels": (ops.resize(after=(24, 32), half_pixel_centers=True), 24 * 16 * 4 * 7),
    # 3 x 3072 bytes at 8 a cycle are 1152 cycles, 1.5 cycles an element are 4608
    "addition": (ops.binary("ADD", ((1, 32, 32, 3), (1, 32, 32, 3))), 4608),
}


@pytest.mark.parametrize("case", CASES)
def test_an_estimate_is_its_slowest_part(case: str) -> None:
    model, expected = CASES[case]
    assert estimate(model) == expected


def test_traffic_takes_what_the_port_sustains_behind_its_adapter() -> None:
    # 16 bytes of input and 8 of output; 128 weights and 8 biases of 4 bytes at 5 beats of 8 bytes in 400 cycles, which
    # admit one whole burst of 8
    slow = replace(U55_128.system.adapters[Port.AXI1], beats_per_window=5)
    system = replace(U55_128.system, adapters={**U55_128.system.adapters, Port.AXI1: slow})
    graph = ops.fully_connected().graphs[0]
    assert npu_cycles(graph, graph.ops[0], replace(U55_128, system=system)) == OVERHEAD + 160 * 400 // (8 * 8)


@pytest.mark.parametrize("units", [64, 128])
@pytest.mark.parametrize("target", ["ethos-u55-64", "ethos-u55-128", "ethos-u65-256"])
def test_a_cell_of_lstm_takes_about_as_long_as_estimated(units: int, target: str) -> None:
    model, variant = lstm(times=4, units=units, features=units), load_variant(target)
    guessed = npu_cycles(model.graphs[0], model.graphs[0].ops[0], variant)
    timed = npu.time_model(npu.compile(write_model(model), target).content, target).report.totals.npu_cycles
    assert 0.7 < guessed / timed < 1.4


def test_a_view_of_the_same_bytes_is_free() -> None:
    assert estimate(ops.op_model("RESHAPE", [ops.tensor((4, 4))], [ops.tensor((16,))])) + OVERHEAD == 0


@pytest.mark.parametrize("shape", [(), (0,), (1, 0, 3, 4), (7,), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "MAX_POOL_2D", "BATCH_MATMUL", "SOFTMAX"])
def test_odd_shapes_have_an_estimate(kind: str, shape: tuple[int, ...]) -> None:
    model = ops.op_model(kind, [ops.tensor(shape), ops.tensor(shape)], [ops.tensor(shape)])
    assert estimate(model) >= 0
    assert estimate(ops.op_model(kind, [], [])) >= 0


MODELS = ("mlperf_resnet8_int8", "mlperf_vww_int8", "mlperf_kws_int8", "mlperf_ad_int8", "yolo_fastest_face_192_int8")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) & set(shared_models())))
def test_the_estimate_of_a_real_model_is_within_a_factor_of_two(name: str) -> None:
    path = shared_models()[name]
    model = load(path)
    guessed = build_check_report(model, check(model, variant=U55_128), name, U55_128).totals.npu_cycles
    timed = check_report(path).totals.npu_cycles
    assert guessed is not None
    assert timed is not None
    assert abs(math.log2(guessed / timed)) < 1
