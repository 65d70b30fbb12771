"""The output unit's SIGMOID and TANH, in the kernel and in its naive twin, are LiteRT's over every int16 number."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph.dtype import DType
from sim.functional.kernels.output import sigmoid, tanh

from tests.naive import operations as naive
from tests.support.builder import ModelBuilder

EVERY = np.arange(-32768, 32768, dtype=np.int16)


CASES = {
    "logistic": ("LOGISTIC", sigmoid),
    "tanh": ("TANH", tanh),
    "logistic_of_the_twin": ("LOGISTIC", naive.sigmoid),
    "tanh_of_the_twin": ("TANH", naive.tanh),
}


@pytest.mark.parametrize(("kind", "function"), CASES.values(), ids=CASES)
def test_every_entry_of_the_table_and_every_step_between_is_that_of_the_reference(kind: str, function: object) -> None:
    b = ModelBuilder()
    x = b.input(EVERY.shape, DType.INT16, scale=2**-12, zero_point=0)
    b.output(b.op(kind, [x], EVERY.shape, DType.INT16, 2**-15, 0))
    interpreter = Interpreter(model_content=b.build(), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], EVERY)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    found = [min(max(int(function(3 * int(value))), -32768), 32767) for value in EVERY]  # type: ignore[operator]
    np.testing.assert_array_equal(found, expected)
