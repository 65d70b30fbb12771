"""EMBEDDING_LOOKUP, EMBEDDING_LOOKUP_SPARSE, HASHTABLE_LOOKUP, LSH_PROJECTION and SKIP_GRAM against LiteRT's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from ai_edge_litert.interpreter import OpResolverType

from npu.errors import InterpreterError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.kernels.fingerprint import fingerprint64

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run

Rng = np.random.Generator
Case = tuple[bytes, list[Array]]

F32, I8, U8, I32, STR = DType.FLOAT32, DType.INT8, DType.UINT8, DType.INT32, DType.STRING


def _embedding(rng: Rng) -> Case:
    b = ModelBuilder()
    rows, count = int(rng.integers(1, 8)), int(rng.integers(1, 6))
    shape = (rows, *(int(n) for n in rng.integers(1, 5, rng.integers(1, 3))))
    dtype = (F32, I8, U8, DType.INT4)[rng.integers(0, 4)]
    x = b.input((count,), I32)
    scale: Any = None if dtype is F32 else np.linspace(0.1, 0.7, rows).tolist() if rng.random() < 0.5 else 0.3
    if dtype is DType.INT4:
        shape = (rows, 2 * shape[-1])
        table = b.tensor(shape, dtype, data=rng.integers(-128, 128, rows * shape[1] // 2).astype(np.int8), scale=scale)
    else:
        values = rng.standard_normal(shape) if dtype is F32 else rng.integers(0, 127, shape) * (1 if dtype is U8 else -1)
        table = b.constant(values.astype(dtype.numpy), dtype, scale=scale)
    b.output(b.op("EMBEDDING_LOOKUP", [x, table], (1,), F32, version=4))
    return b.build(), [rng.integers(0, rows, count).astype(np.int32)]


def _sparse(rng: Rng) -> Case:
    b = ModelBuilder()
    rank, count, rows = int(rng.integers(1, 4)), int(rng.integers(1, 9)), int(rng.integers(1, 6))
    dense = rng.integers(1, 5, rank).astype(np.int32)
    inputs = [b.input((count,), I32), b.input((count, rank), I32), b.input((rank,), I32), b.input((count,), F32)]
    table = b.constant(rng.standard_normal((rows, *rng.integers(1, 4, rng.integers(1, 3)))).astype(np.float32))
    options = at.EmbeddingLookupSparseOptions(at.CombinerType(int(rng.integers(0, 3))))
    b.output(b.op("EMBEDDING_LOOKUP_SPARSE", [*inputs, table], (1,), F32, attributes=options))
    places = np.stack([rng.integers(0, n, count) for n in dense], axis=1).astype(np.int32)
    places = places[np.lexsort(places.T[::-1])] if rng.random() < 0.7 else places
    ids = rng.integers(0, rows, count).astype(np.int32)
    return b.build(), [ids, places, dense, rng.uniform(0.1, 2, count).astype(np.float32)]


def _hashtable(rng: Rng) -> Case:
    b = ModelBuilder()
    count, asked = int(rng.integers(1, 9)), int(rng.integers(1, 6))
    keys = np.sort(rng.choice(20, count, replace=False)).astype(np.int32)
    x, k = b.input((asked,), I32), b.constant(keys)
    inputs = [rng.integers(0, 20, asked).astype(np.int32)]
    if rng.random() < 0.5:
        v, dtype = b.input((count,), STR), STR
        inputs.append(np.array([b"v%d" % i for i in range(count)]))
    else:
        v, dtype = b.constant(rng.standard_normal((count, *rng.integers(1, 4, rng.integers(0, 3)))).astype(np.float32)), F32
    outputs = [b.tensor((1,), dtype), b.tensor((1,), U8)]
    b.multi_op("HASHTABLE_LOOKUP", [x, k, v], outputs)
    b.output(*outputs)
    return b.build(), inputs


def _lsh(rng: Rng) -> Case:
    b = ModelBuilder()
    functions, bits, count = (int(n) for n in rng.integers(1, 6, 3))
    width = int(rng.choice([1, 2, 3, 5, 7, 9, 15, 30, 45]))
    dtype = (I32, I8, F32)[rng.integers(0, 3)]
    seeds, items = b.constant(rng.standard_normal((functions, bits)).astype(np.float32)), b.input((count, width), dtype)
    inputs = [rng.integers(-100, 100, (count, width)).astype(dtype.numpy)]
    given = [seeds, items]
    if rng.random() < 0.5:
        given.append(b.input((count,), F32))
        inputs.append(rng.standard_normal(count).astype(np.float32))
    kind = at.LshProjectionType.SPARSE if rng.random() < 0.5 else at.LshProjectionType.DENSE
    b.output(b.op("LSH_PROJECTION", given, (1,), I32, attributes=at.LSHProjectionOptions(kind)))
    return b.build(), inputs


def _skip_gram(rng: Rng) -> Case:
    b = ModelBuilder()
    letters = list("ab c  d\te")
    text = "".join(rng.choice(letters, rng.integers(0, 24))).encode()
    options = at.SkipGramOptions(int(rng.integers(1, 4)), int(rng.integers(0, 3)), bool(rng.integers(0, 2)))
    b.output(b.op("SKIP_GRAM", [b.input((1,), STR)], (1,), STR, attributes=options))
    return b.build(), [np.array([text], object)]


CASES: dict[str, Callable[[Rng], Case]] = {
    "EMBEDDING_LOOKUP": _embedding,
    "EMBEDDING_LOOKUP_SPARSE": _sparse,
    "HASHTABLE_LOOKUP": _hashtable,
    "LSH_PROJECTION": _lsh,
    "SKIP_GRAM": _skip_gram,
}


def _compare(name: str, seed: int) -> None:
    content, inputs = CASES[name](np.random.default_rng(seed))
    reference = LiteRt(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    for expected, result in zip(run(reference, inputs), run(CpuInterpreter(model_content=content), inputs), strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(result, expected)


@pytest.mark.seed("T-N-4")
@pytest.mark.parametrize("name", sorted(CASES))
def test_look_ups_equal_the_reference(name: str) -> None:
    for seed in range(25):
        _compare(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_look_ups_equal_the_reference_on_many_cases(name: str) -> None:
    for seed in range(25, 600):
        _compare(name, seed)


def test_fingerprints_are_the_published_ones() -> None:
    """No bytes give the third constant of the published function; other lengths are compared through LSH_PROJECTION."""
    assert fingerprint64(b"") == 0x9AE16A3B2F90404F - (1 << 64)


def _refused(kind: str, inputs: list[tuple[Any, DType]], attributes: Any = None, values: list[Array] | None = None) -> str:
    b = ModelBuilder()
    output = {"LSH_PROJECTION": I32, "SKIP_GRAM": STR}.get(kind, F32)
    given = [b.input(shape, dtype, scale=None if dtype in (F32, I32, STR) else 0.1) for shape, dtype in inputs]
    made = [b.tensor((1,), output)] + ([b.tensor((1,), U8)] if kind == "HASHTABLE_LOOKUP" else [])
    b.multi_op(kind, given, made, attributes=attributes)
    b.output(*made)
    with pytest.raises(InterpreterError) as caught:
        run(CpuInterpreter(model_content=b.build()), values or [])
    return str(caught.value)


def test_misfits_are_refused_when_allocating() -> None:
    row, table = ((2,), I32), ((3, 2), F32)
    for kind, inputs, options, message in (
        ("EMBEDDING_LOOKUP", [((2, 2), I32), table], None, "rows must have rank 1"),
        ("EMBEDDING_LOOKUP_SPARSE", [row, row, row, ((2,), F32), table], None, "must have ranks 1, 2, 1, 1"),
        ("EMBEDDING_LOOKUP_SPARSE", [row, ((2, 3), I32), row, ((2,), F32), table], None, "with one weight each"),
        ("HASHTABLE_LOOKUP", [row, ((4,), I32), table], None, "one value each"),
        ("HASHTABLE_LOOKUP", [row, ((0,), I32), ((0, 2), F32)], None, "values must have a row"),
        ("LSH_PROJECTION", [((2,), F32), row], at.LSHProjectionOptions(at.LshProjectionType.DENSE), "seeds must have rank 2"),
        ("LSH_PROJECTION", [((2, 2), F32), ((0,), I32)], at.LSHProjectionOptions(at.LshProjectionType.DENSE), "have an item"),
        ("LSH_PROJECTION", [((2, 2), F32), row, ((3,), F32)], at.LSHProjectionOptions(at.LshProjectionType.DENSE), "weights"),
        ("LSH_PROJECTION", [((2, 2), F32), row], at.LSHProjectionOptions(), "type must be SPARSE or DENSE, got UNKNOWN"),
        ("SKIP_GRAM", [((1,), STR)], at.SkipGramOptions(0, 0), "1 to 64 words"),
    ):
        assert message in _refused(kind, inputs, options)


def test_rows_outside_the_table_are_refused_in_the_run() -> None:
    message = _refused(
        "EMBEDDING_LOOKUP", [((2,), I32), ((3, 2), F32)], None, [np.array([0, 3], np.int32), np.ones((3, 2), "f4")]
    )
    assert "rows must be in [0, 3), got 0 to 3" in message


def test_tables_with_a_zero_point_are_refused() -> None:
    b = ModelBuilder()
    table = b.constant(np.ones((3, 2), np.int8), scale=0.1, zero_point=3)
    b.output(b.op("EMBEDDING_LOOKUP", [b.input((2,), I32), table], (1,), F32, version=3))
    with pytest.raises(InterpreterError, match="zero point 0"):
        CpuInterpreter(model_content=b.build()).allocate_tensors()


@pytest.mark.parametrize("kind", ["CONCAT_EMBEDDINGS", "HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"])
def test_operators_that_the_reference_resolver_lacks_are_refused_by_name(kind: str) -> None:
    b = ModelBuilder()
    b.output(b.op(kind, [b.input((2, 2), F32)], (2, 2), F32))
    content = b.build()
    with pytest.raises(ValueError, match=f"Didn't find op for builtin opcode '{kind}'"):
        LiteRt(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    with pytest.raises(InterpreterError, match=f"must be an operator that has a CPU kernel, got {kind}"):
        CpuInterpreter(model_content=content).allocate_tensors()
