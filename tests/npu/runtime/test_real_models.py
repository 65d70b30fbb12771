"""Whole models against LiteRT's reference kernels over several runs, where real models are at hand.

States of recurrent and streaming models go on from run to run, in LiteRT as here. Integer results are equal, with the
XNNPACK-like delegate too, which takes only float operators unless it is told otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from npu.errors import UserError
from npu.graph.graph import Op
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.operator import RuntimeOptions
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.interpreters import invoke
from tests.support.litert import random_inputs
from tests.support.shared import shared_models

NOT_RUN_BY_LITERT = {
    "custom_op_unknown": "unresolved custom operator",
    "invalid_makefile": "no model at all",
    "keyword_scrambled_8bit": "its SVDF kernel corrupts memory with int8 state",
    "seanet_transpose_conv0_16x8": "needs its real first input",
}
FLOAT_STEPS = {False: 0, True: 64}
"""Allowed error of float outputs without and with the XNNPACK-like delegate, in steps at the magnitude of the largest one."""
HYBRID_STEPS = {"mlperf_kws_hybrid": 1 << 15}
"""The same where the delegate's float sums are quantized again: a last bit may change an 8-bit value, 1/256 of the range."""
LARGE = 400_000
"""Files of more bytes are compared once in the default run, and with the delegate only in the slow one."""
HUGE = {"edsr_f32b5_int8"}
"""Compared once, in the slow run: 2 million pixels."""
REPEATED = {"mobilenet_v2_1.0_224_INT8", "mobilenet_v2_nchw_int8", "ssd_mobilenet_v1_uint8", "mlperf_vww_int8"}
"""Left to the slow run as well: others hold their operators."""


def _cases() -> dict[str, Path]:
    return {name: path for name, path in shared_models().items() if name not in NOT_RUN_BY_LITERT and "vela" not in name}


def _is_large(name: str) -> bool:
    return _cases()[name].stat().st_size > LARGE


def _content(name: str) -> bytes:
    """The file in a form that LiteRT's reference resolver loads: it lacks version 2 of DEPTH_TO_SPACE, which is the same."""
    content = _cases()[name].read_bytes()
    if not name.startswith(("person_detect", "edsr")):
        return content
    model = read_model(content)
    graphs = (replace(graph, ops=tuple(_first_version(op) for op in graph.ops)) for graph in model.graphs)
    return write_model(replace(model, graphs=tuple(graphs)))


def _first_version(op: Op) -> Op:
    return replace(op, version=1) if op.kind == "DEPTH_TO_SPACE" else op


def _compare(name: str, runs: int, *, xnnpack: bool) -> None:
    content = _content(name)
    reference = LiteRt(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    ours = CpuInterpreter(model_content=content, options=RuntimeOptions(use_xnnpack=xnnpack))
    for interpreter in (reference, ours):
        interpreter.allocate_tensors()
    for seed in range(runs):
        inputs = random_inputs(content, seed)
        for expected, result in zip(invoke(reference, inputs), invoke(ours, inputs), strict=True):
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            if expected.dtype == np.float32:
                step = np.spacing(np.abs(expected).max(initial=np.float32(1e-30)))
                allowed = HYBRID_STEPS.get(name, FLOAT_STEPS[True]) if xnnpack else FLOAT_STEPS[False]
                assert np.abs(result - expected).max(initial=0) <= allowed * step
            else:
                np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", sorted(set(_cases()) - HUGE - REPEATED))
def test_outputs_equal_the_reference(name: str) -> None:
    _compare(name, 1 if _is_large(name) else 2, xnnpack=False)


@pytest.mark.parametrize("name", sorted(n for n in set(_cases()) - HUGE if not _is_large(n)))
def test_outputs_equal_the_reference_with_the_xnnpack_like_delegate(name: str) -> None:
    _compare(name, 2, xnnpack=True)


@pytest.mark.slow
@pytest.mark.parametrize("xnnpack", [False, True], ids=["plain", "xnnpack"])
@pytest.mark.parametrize("name", sorted(_cases()))
def test_outputs_equal_the_reference_over_many_runs(name: str, xnnpack: bool) -> None:
    _compare(name, 1 if name in HUGE else 10, xnnpack=xnnpack)


@pytest.mark.parametrize("name", sorted({"custom_op_unknown", "invalid_makefile"} & set(shared_models())))
def test_what_nobody_can_run_is_refused(name: str) -> None:
    with pytest.raises(UserError):
        CpuInterpreter(str(shared_models()[name])).allocate_tensors()
