"""Whole models against LiteRT's reference kernels, where real models are at hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npu.graph.dtype import DType
from npu.runtime.interpreter import Interpreter

from tests.support.litert import random_inputs, repaired, run_reference
from tests.support.shared import shared_models

NOT_RUN_BY_LITERT = {
    "custom_op_unknown": "unresolved custom operator",
    "edsr_f32b5_int8": "its reference resolver lacks DEPTH_TO_SPACE version 2",
    "invalid_makefile": "no model at all",
    "keyword_scrambled_8bit": "its SVDF kernel corrupts memory with int8 state",
    "seanet_transpose_conv0_16x8": "needs its real first input",
}
NOT_RUN_HERE = {
    "einsum_a16w8": "BATCH_MATMUL of int16 by int8 with a scale per channel is not supported",
}
FLOAT_STEPS = 64
"""Allowed error of float outputs, in steps at the magnitude of the largest one; nearly all models are equal."""


def _cases() -> dict[str, Path]:
    skipped = {*NOT_RUN_BY_LITERT, *NOT_RUN_HERE}
    return {name: path for name, path in shared_models().items() if name not in skipped and "vela" not in name}


@pytest.mark.parametrize("name", sorted(_cases()))
def test_outputs_equal_the_reference(name: str) -> None:
    content = _cases()[name].read_bytes()
    if name.startswith("person_detect"):
        content = repaired(content)
    for seed in range(2):
        inputs = random_inputs(content, seed)
        expected = run_reference(content, inputs)
        interpreter = Interpreter(model_content=content)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        for detail, reference in zip(interpreter.get_output_details(), expected, strict=True):
            result = interpreter.get_tensor(detail["index"])
            if result.dtype == DType.FLOAT32.numpy:
                step = np.spacing(np.abs(reference).max(initial=np.float32(1e-30)))
                assert np.abs(result - reference).max(initial=0) <= FLOAT_STEPS * step
            else:
                np.testing.assert_array_equal(result, reference)
