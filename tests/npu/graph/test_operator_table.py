"""The operator table against LiteRT and against the kernels of the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.graph.consistency import infer_shapes, operands_of
from npu.graph.operands import Operand, Role, count_defect, parse, positions
from npu.graph.ops import BY_NAME, OPS
from npu.runtime.registry import OPERATORS
from npu.tflite.reader import read_model

import tests.support.recurrent_cases as recurrent_cases
from tests.support.operator_cases import CASES

assert recurrent_cases  # registers its cases

VALUE_DEPENDENT = {"EMBEDDING_LOOKUP_SPARSE", "RANGE", "READ_VARIABLE", "SKIP_GRAM", "UNIQUE", "WHERE"}
"""Operators whose output is as large as elements say."""
ROUNDS = 3


def reference_shapes(model: bytes) -> list[tuple[int, ...]]:
    """Shapes of the outputs as LiteRT's kernels set them before they run."""
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    interpreter.allocate_tensors()
    return [tuple(int(size) for size in detail["shape"]) for detail in interpreter.get_output_details()]


@pytest.mark.parametrize("name", CASES)
def test_inferred_shapes_are_those_of_litert(name: str) -> None:
    for seed in range(ROUNDS):
        model = CASES[name](np.random.default_rng(seed))
        graph = read_model(model).graphs[0]
        (op,) = graph.ops
        shapes = infer_shapes(BY_NAME[op.kind], operands_of(BY_NAME[op.kind], graph.tensors, op))
        if op.kind in VALUE_DEPENDENT:
            assert shapes is None
        elif shapes is not None:
            found = dict(zip(op.outputs, shapes, strict=False))
            assert [found[index] for index in graph.outputs] == reference_shapes(model)
        else:
            assert any(graph.tensors[index].data is None for index in op.inputs[1:])


def test_every_kernel_of_the_interpreter_has_a_signature_of_as_many_operands() -> None:
    for kind, kernel in OPERATORS.items():
        signature = BY_NAME[kind].signature
        assert signature is not None, kind
        for pattern in kernel.types:
            for words, operands, what in zip(pattern.split("->"), (signature.inputs, signature.outputs), "io", strict=True):
                given = [word for word in words.split() if not word.endswith("*")]
                assert count_defect(operands, [not word.endswith("?") for word in given], what) is None, (kind, pattern)


def test_every_operator_with_weights_has_multiply_accumulates() -> None:
    for row in OPS:
        if row.operands is not None and row.name not in ("PRELU",):
            has_weights = positions(row.operands, Role.WEIGHTS, 48) != ()
            assert not has_weights or row.macs is not None, row.name


SIGNATURES = {
    "ifm weights bias? -> ofm": ([Operand("ifm"), Operand("weights"), Operand("bias", is_optional=True)], [Operand("ofm")]),
    "ifm ifm* -> ofm": ([Operand("ifm"), Operand("ifm", is_repeated=True)], [Operand("ofm")]),
    "-> resource": ([], [Operand("resource")]),
}


@pytest.mark.parametrize("text", SIGNATURES)
def test_a_signature_reads_as_operands(text: str) -> None:
    inputs, outputs = SIGNATURES[text]
    assert list(parse(text).inputs) == inputs
    assert list(parse(text).outputs) == outputs


ROLES = {
    "ifm": Role.FEATURE_MAP, "ifm2": Role.FEATURE_MAP, "auxiliary_ifm": Role.FEATURE_MAP, "weights": Role.WEIGHTS,
    "forget_weights": Role.WEIGHTS, "cell_bias": Role.BIAS, "output_state": Role.STATE, "axis": Role.PARAMETER,
}  # fmt: skip


@pytest.mark.parametrize("name", ROLES)
def test_the_end_of_a_name_says_the_role(name: str) -> None:
    assert Operand(name).role is ROLES[name]


def test_positions_of_a_role_follow_repeated_operands() -> None:
    assert positions("axis ifm -> ofm ofm*", Role.FEATURE_MAP, 2) == (1,)
    assert positions("ifm ifm* -> ofm", Role.FEATURE_MAP, 4) == (0, 1, 2, 3)
    assert positions("ifm size -> ofm", Role.FEATURE_MAP, 5) == (0,)


COUNTS = {
    "enough": ("ifm weights bias? -> ofm", [True, True], None),
    "absent bias": ("ifm weights bias? -> ofm", [True, True, False], None),
    "too few": ("ifm weights bias? -> ofm", [True], "must have 2 to 3 inputs, got 1"),
    "too many": ("ifm -> ofm", [True, True], "must have 1 inputs, got 2"),
    "absent weights": ("ifm weights bias? -> ofm", [True, False, True], r"input 1 (weights) must be given, it is absent"),
    "none of many": ("ifm ifm* -> ofm", [], "must have 1 or more inputs, got 0"),
    "absent one of many": ("ifm ifm* -> ofm", [True, True, False], r"input 2 (ifm) must be given, it is absent"),
    "absent optional ones of many": ("ifm operand?* -> ofm", [True, False, False], None),
}


@pytest.mark.parametrize("case", COUNTS)
def test_numbers_of_operands_are_checked(case: str) -> None:
    text, given, message = COUNTS[case]
    assert count_defect(parse(text).inputs, given, "input") == message


def test_rows_of_int8_functions_of_one_element_have_one_map() -> None:
    rows = [row for row in OPS if row.is_lut]
    assert len(rows) >= 16
    assert all(row.operands == "ifm -> ofm" for row in rows)
