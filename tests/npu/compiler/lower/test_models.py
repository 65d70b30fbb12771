"""Real models, lowered as one partition, equal LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from npu.compiler.lower.table import LOWERED
from npu.graph.dtype import DType
from npu.graph.graph import Graph
from npu.tflite.reader import read_model

from tests.support.lowering import assert_exact
from tests.support.random_graphs import random_inputs
from tests.support.shared import shared_models

MODELS = (
    "mlperf_kws_int8", "mlperf_vww_int8", "mlperf_resnet8_int8", "mlperf_ad_int8", "mlperf_strww_int8", "kws_micronet_m_int8",
    "ad_medium_int8", "micro_speech_int8", "person_detect_int8", "mnist_a8w8_int8", "mltk_kws_on_off_int8", "rnnoise_int8",
    "ssd_slim_face_int8", "yolo-fastest_192_face_v4", "mobilenet_v2_1.0_224_INT8",
)  # fmt: skip


def lowerable(graph: Graph) -> bool:
    kinds = all(op.kind in LOWERED for op in graph.ops)
    return kinds and all(graph.tensors[t].dtype is DType.INT8 for op in graph.ops for t in op.outputs)


LARGE = {"mlperf_vww_int8", "yolo-fastest_192_face_v4", "mobilenet_v2_1.0_224_INT8", "kws_micronet_m_int8"}
"""Those that `test_exactness.py` compares as compiled files in every run."""


def _models() -> Iterator[Any]:
    for name in sorted(set(MODELS) & set(shared_models())):
        yield pytest.param(name, marks=pytest.mark.slow if name in LARGE else ())


@pytest.mark.parametrize("name", list(_models()))
def test_real_models_equal_the_reference(name: str) -> None:
    graph = read_model(shared_models()[name]).graphs[0]
    if not lowerable(graph):
        pytest.skip("holds operators that run elsewhere")
    assert_exact(graph, random_inputs(graph, 1), name)
