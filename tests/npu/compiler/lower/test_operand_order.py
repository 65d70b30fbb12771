"""The hardware repeats the second operand of an elementwise operation: a small first one changes places and is not copied."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.graph import attributes as at
from npu.graph.attributes import Attributes, FusedActivation
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.operations import KernelOperation
from npu.tflite.reader import read_model
from sim.container import jobs_of

from tests.support.litert import random_inputs, run_reference
from tests.support.operator_cases import I8, In, model

TARGET = "ethos-u55-128"
MAP = (1, 8, 8, 16)
OPTIONS: dict[str, Attributes | None] = {
    "SQUARED_DIFFERENCE": None,
    "ADD": at.AddOptions(FusedActivation.NONE, False),
    "SUB": at.SubOptions(FusedActivation.NONE, False),
    "MINIMUM": None,
}


def kernels(content: bytes) -> int:
    words = [job.payload.words for job in jobs_of(read_model(content))]
    return sum(isinstance(item.operation, KernelOperation) for part in words for item in decode(part, load_variant(TARGET)))


@pytest.mark.parametrize("small", [(1, 1, 1, 16), (1, 1, 8, 1), (1, 8, 1, 16)])
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_first_operand_that_is_repeated_takes_no_copy(kind: str, small: tuple[int, ...]) -> None:
    operands = [In(small, I8, 0.1), In(MAP, I8, 0.1)]
    content = model(kind, operands, [In(MAP, I8, 0.1)], OPTIONS[kind])
    swapped = model(kind, operands[::-1], [In(MAP, I8, 0.1)], OPTIONS[kind])
    compiled = npu.compile(content, target=TARGET).content
    assert kernels(compiled) == kernels(npu.compile(swapped, target=TARGET).content)
    inputs = random_inputs(content, 1)
    np.testing.assert_array_equal(npu.run(compiled, inputs).outputs[0], run_reference(content, inputs)[0])
