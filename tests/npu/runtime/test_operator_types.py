"""Every plausible combination of types of every operator: what LiteRT computes is computed alike, the rest is refused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from npu.errors import InterpreterError, UserError
from npu.graph.dtype import DType
from npu.graph.operands import Role
from npu.graph.ops import OPS
from npu.numerics.arrays import Array
from npu.runtime.accuracy import ACCEPTED, ACCURACY, OTHER_VALUES, REFUSED, Departure
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.registry import OPERATORS
from npu.runtime.type_page import operator_types_page
from npu.runtime.types import CODES

from tests.support.accuracy import assert_as_accurate, magnitudes, needs_magnitudes
from tests.support.cell_templates import TEMPLATES, dtype_of
from tests.support.interpreters import run
from tests.support.type_cells import all_cells
from tests.support.type_probe import Answer, ask, model_and_inputs

PAGE = Path(__file__).parents[3] / "docs" / "operator-types.md"

WITH_STATE_OR_TABLES = {
    "ASSIGN_VARIABLE", "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "CALL", "CALL_ONCE", "CONCAT_EMBEDDINGS",
    "EMBEDDING_LOOKUP", "EMBEDDING_LOOKUP_SPARSE", "HASHTABLE_LOOKUP", "IF", "LSH_PROJECTION", "LSTM", "READ_VARIABLE", "RNN",
    "SKIP_GRAM", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "VAR_HANDLE", "WHILE",
}  # fmt: skip
"""Operators that other tests cover."""


TAKE_EVERYTHING = {"EXPAND_DIMS", "RANK", "RESHAPE", "SHAPE", "SQUEEZE", "TILE"}
"""Operators that no type of the cells is refused for."""


@lru_cache(maxsize=1)
def _reference(seed: int) -> dict[str, Answer]:
    return ask(all_cells(), seed)


def _is_listed(cell: str, rows: Sequence[Departure]) -> bool:
    return any(row.matches(cell) for row in rows)


def _declared(cell: str, answer: list[Array]) -> bool:
    """Whether LiteRT wrote the types that the file gives the outputs; it overwrites some of them."""
    words = cell.split("->")[1].split()
    wanted = [dtype_of(words[min(i, len(words) - 1)]).numpy or np.dtype(object) for i in range(len(answer))]
    return [a.dtype for a in answer] == wanted


def _without_scales(cell: str) -> bool:
    return any(word in ("i8p", "u8p", "i16p") for word in cell.split())


def _check(cell: str, seed: int, answer: Answer) -> None:
    content, inputs = model_and_inputs(cell, seed)
    try:
        got: Answer = run(CpuInterpreter(model_content=content), inputs)
    except UserError as error:
        got = str(error)
    if isinstance(got, str):
        if isinstance(answer, list) and _declared(cell, answer):
            assert _is_listed(cell, REFUSED) or _without_scales(cell), f"{cell}: LiteRT runs this, here: {got}"
        return
    if isinstance(answer, str):
        invalid_file = "invalid quantization parameters" in answer
        assert invalid_file or _is_listed(cell, ACCEPTED), f"{cell}: executed here, LiteRT: {answer}"
        return
    assert not _is_listed(cell, REFUSED), f"{cell}: must be refused"
    if not _is_listed(cell, OTHER_VALUES):
        kind = cell.split()[0]
        sizes = magnitudes(kind, content, inputs) if needs_magnitudes(kind) and "f32" in cell else None
        assert_as_accurate(kind, answer, got, sizes, cell)


@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_type_combinations_are_those_of_the_reference(kind: str) -> None:
    answers = _reference(0)
    for cell in TEMPLATES[kind].cells():
        _check(cell, 0, answers[cell])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 25))
def test_type_combinations_are_those_of_the_reference_on_many_cases(seed: int) -> None:
    for cell, answer in ask(all_cells(), seed).items():
        _check(cell, seed, answer)


FEW = 4
"""Refusals of an operator whose words are judged in every run; all of them are compared with LiteRT's above."""


def _refusal(cell: str) -> str | None:
    try:
        CpuInterpreter(model_content=model_and_inputs(cell, 0)[0]).allocate_tensors()
    except InterpreterError as error:
        return str(error)
    return None


@pytest.mark.parametrize("most", [FEW, pytest.param(None, marks=pytest.mark.slow)], ids=["few", "all"])
@pytest.mark.parametrize("kind", sorted(TEMPLATES))
def test_types_that_no_operator_takes_are_refused_when_tensors_are_allocated(kind: str, most: int | None) -> None:
    refusals = (message for cell in TEMPLATES[kind].cells() if (message := _refusal(cell)) is not None)
    messages = list(islice(refusals, most))
    assert all(message.startswith(f"{kind.lower()} (op 0 of subgraph 0): ") for message in messages)
    assert any("types must be one of" in message for message in messages) or kind in TAKE_EVERYTHING


def taken(pattern: str, position: int) -> set[DType]:
    """The types of one input in a pattern of types."""
    codes = pattern.split("->")[0].split()
    return {CODES[code] for code in codes[position].rstrip("?*").split("|")} if position < len(codes) else set()


def test_axes_and_sizes_of_operators_of_the_npu_have_the_types_that_kernels_take() -> None:
    for row in (row for row in OPS if row.npu and row.signature is not None):
        for position, operand in enumerate(row.signature.inputs):
            if operand.role is Role.PARAMETER and operand.name not in ("value", "slopes"):
                kernels = set().union(*(taken(types, position) for types in OPERATORS[row.name].types))
                assert set(operand.types) == kernels, row.name


def test_every_operator_without_state_has_cells() -> None:
    assert set(OPERATORS) - set(TEMPLATES) <= WITH_STATE_OR_TABLES
    assert set(TEMPLATES) <= set(OPERATORS)


def test_every_bound_and_departure_belongs_to_a_cell() -> None:
    assert set(ACCURACY) <= set(TEMPLATES) | WITH_STATE_OR_TABLES
    for row in (*REFUSED, *ACCEPTED, *OTHER_VALUES):
        for pattern in row.cells:
            assert any(Departure((pattern,), "").matches(cell) for cell in all_cells()), pattern


def test_the_page_of_types_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == operator_types_page(), "run: python -m tests.support.operator_types_page"
