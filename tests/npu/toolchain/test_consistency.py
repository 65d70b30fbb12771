"""A model that contradicts itself gets one answer from check, compile, run and Interpreter; LiteRT is the judge."""

from __future__ import annotations

import numpy as np
import pytest

import npu
from npu.errors import InterpreterError, ModelError
from npu.graph.placement import CONSISTENCY

from tests.support.inconsistent_models import CONSISTENT, DECLARED_OTHERWISE, IMPOSSIBLE
from tests.support.litert import random_inputs, run_reference


def reasons(model: bytes) -> set[str]:
    return {violation.rule for op in npu.check(model).ops for violation in op.violations}


@pytest.mark.parametrize("case", CONSISTENT)
def test_a_model_that_agrees_with_itself_is_not_accused(case: str) -> None:
    assert CONSISTENCY not in reasons(CONSISTENT[case])


@pytest.mark.parametrize("case", DECLARED_OTHERWISE)
def test_other_declared_shapes_put_the_operator_on_the_cpu_which_computes_those_of_litert(case: str) -> None:
    model, message = DECLARED_OTHERWISE[case]
    (op,) = npu.check(model).ops
    assert any(v.rule == CONSISTENCY and message in v.message for v in op.violations)
    compiled = npu.compile(model)
    assert compiled.compiled_model.partitions == ()
    inputs = random_inputs(model, 3)
    for ours, theirs in zip(npu.run(compiled.content, inputs).outputs, run_reference(model, inputs), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_operands_that_no_kernel_takes_are_refused_by_every_verb_with_the_same_words(case: str) -> None:
    model, message = IMPOSSIBLE[case]
    for verb in (npu.check, npu.check_report, npu.compile, npu.run):
        with pytest.raises(ModelError) as refused:
            verb(model)
        assert message in str(refused.value)
    with pytest.raises(InterpreterError) as refused_too:
        npu.Interpreter(model_content=model).allocate_tensors()
    assert message in str(refused_too.value)
