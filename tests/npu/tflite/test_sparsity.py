"""Sparse constants against LiteRT's DENSIFY and against a naive packing of dense arrays."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from hypothesis import given
from hypothesis import strategies as st

from npu.errors import ModelError
from npu.graph.attributes import AddOptions
from npu.graph.dtype import DType
from npu.graph.graph import Tensor
from npu.graph.wire import UnknownMember
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tflite.schema import (
    DimensionMetadata,
    DimensionType,
    Int32Vector,
    SparsityParameters,
    Uint8Vector,
    Uint16Vector,
)
from npu.tflite.sparsity import densify, is_sparse
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder
from tests.support.interpreters import run
from tests.support.litert import run_reference
from tests.support.sample_models import sparse_weights

VECTORS = {"int32": Int32Vector, "uint16": Uint16Vector, "uint8": Uint8Vector}


def packed(dense: np.ndarray[Any, Any], order: list[int], blocks: dict[int, int], compressed: set[int], kind: str) -> Tensor:
    """`dense` stored in `order`, with blocks (dimension to size), the dimensions `compressed` without their empty entries."""
    rank, block_map = dense.ndim, sorted(blocks)
    sizes = [size // blocks.get(dimension, 1) for dimension, size in enumerate(dense.shape)]
    sizes += [blocks[dimension] for dimension in block_map]

    def at(index: tuple[int, ...]) -> Any:
        place = list(index[:rank])
        for block, dimension in enumerate(block_map):
            place[dimension] = place[dimension] * blocks[dimension] + index[rank + block]
        return dense[tuple(place)]

    def values(prefix: tuple[int, ...]) -> list[Any]:
        """Everything below the first `len(prefix)` indices in traversal order."""
        rest = [range(sizes[dimension]) for dimension in order[len(prefix) :]]
        found = []
        for tail in product(*rest):
            index = [0] * len(order)
            for dimension, value in zip(order, (*prefix, *tail), strict=True):
                index[dimension] = value
            found.append(at(tuple(index)))
        return found

    prefixes: list[tuple[int, ...]] = [()]
    metadata = []
    for dimension in order:
        if dimension not in compressed:
            metadata.append(DimensionMetadata(DimensionType.DENSE, sizes[dimension]))
            prefixes = [(*prefix, index) for prefix in prefixes for index in range(sizes[dimension])]
            continue
        segments, indices, kept = [0], [], []
        for prefix in prefixes:
            for index in range(sizes[dimension]):
                if np.any(values((*prefix, index))):
                    indices.append(index)
                    kept.append((*prefix, index))
            segments.append(len(indices))
        vector = VECTORS[kind]
        metadata.append(
            DimensionMetadata(DimensionType.SPARSE_CSR, 0, vector(np.array(segments, kind)), vector(np.array(indices, kind)))
        )
        prefixes = kept
    stored = np.array([values(prefix)[0] for prefix in prefixes], dense.dtype)
    sparsity = SparsityParameters(tuple(order), tuple(block_map), tuple(metadata))
    return Tensor("sparse", dense.shape, DType.FLOAT32, data=stored, extra={"sparsity": sparsity})


CASES: dict[str, tuple[tuple[int, ...], list[int], dict[int, int], set[int]]] = {
    "rows_then_columns": ((4, 6), [0, 1], {}, {1}),
    "columns_then_rows": ((4, 6), [1, 0], {}, {0}),
    "blocks_of_4_by_1": ((8, 6), [0, 1, 2], {0: 4}, {1}),
    "blocks_of_2_by_3": ((4, 6), [0, 1, 2, 3], {0: 2, 1: 3}, {1}),
    "kernel": ((4, 2, 2, 3), [0, 1, 2, 3], {}, {1, 3}),
}


def random_sparse(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) * (generator.random(shape) < 0.3)).astype(np.float32)


@pytest.mark.seed("X-S-2")
@pytest.mark.parametrize("kind", list(VECTORS))
@pytest.mark.parametrize("case", list(CASES))
def test_the_dense_values_are_those_that_were_packed(case: str, kind: str) -> None:
    shape, order, blocks, compressed = CASES[case]
    dense = random_sparse(shape, 1)
    np.testing.assert_array_equal(densify(packed(dense, order, blocks, compressed, kind)), dense)


@given(st.permutations(range(3)), st.sets(st.integers(0, 2)), st.integers(0, 99))
def test_every_order_and_choice_of_compressed_dimensions_unpacks(order: list[int], compressed: set[int], seed: int) -> None:
    dense = random_sparse((2, 3, 4), seed)
    np.testing.assert_array_equal(densify(packed(dense, list(order), {}, compressed, "int32")), dense)


@pytest.mark.seed("X-S-2")
@pytest.mark.parametrize("case", ["rows_then_columns", "columns_then_rows", "blocks_of_4_by_1", "blocks_of_2_by_3"])
def test_litert_unpacks_the_same_values(case: str) -> None:
    shape, order, blocks, compressed = CASES[case]
    tensor = packed(random_sparse(shape, 2), order, blocks, compressed, "int32")
    b = ModelBuilder()
    x = b.input(shape, DType.FLOAT32)
    weights = b.tensor(shape, DType.FLOAT32, data=tensor.data, extra=tensor.extra)
    dense = b.op("DENSIFY", [weights], shape, DType.FLOAT32)
    b.output(b.op("ADD", [x, dense], shape, DType.FLOAT32))
    content = b.build()
    (expected,) = run_reference(content, [np.zeros(shape, np.float32)])
    found = read_model(content).graphs[0].tensors[weights]
    assert is_sparse(found)
    np.testing.assert_array_equal(densify(found), expected)
    interpreter = CpuInterpreter(model_content=content)
    interpreter.allocate_tensors()
    interpreter.invoke()
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), expected)


SOUND = packed(np.array([[1, 0, 0], [0, 0, 2]], np.float32), [0, 1], {}, {1}, "int32")
BLOCKED = packed(np.ones((4, 2), np.float32), [0, 1, 2], {0: 2}, {1}, "int32")


def changed(tensor: Tensor, **changes: Any) -> Tensor:
    return replace(tensor, extra={"sparsity": replace(tensor.extra["sparsity"], **changes)})


def level(tensor: Tensor, index: int, **changes: Any) -> Tensor:
    levels = list(tensor.extra["sparsity"].dim_metadata)
    levels[index] = replace(levels[index], **changes)
    return changed(tensor, dim_metadata=tuple(levels))


def int32s(*values: int) -> Int32Vector:
    return Int32Vector(np.array(values, np.int32))


WRONG: dict[str, tuple[Tensor, str]] = {
    "not_sparse": (replace(SOUND, extra={}), "must be a constant with sparsity metadata"),
    "no_values": (replace(SOUND, data=None), "must be a constant with sparsity metadata"),
    "order": (changed(SOUND, traversal_order=(0, 0)), "traversal order must be a permutation of 2 dimensions and 0 blocks"),
    "no_order": (changed(SOUND, traversal_order=None), "traversal order must be a permutation"),
    "scalar": (
        replace(changed(SOUND, traversal_order=None), shape=()),
        "traversal order must be a permutation of 0 dimensions",
    ),
    "levels": (changed(SOUND, dim_metadata=None), "must have metadata for 2 dimensions, got 0"),
    "block_map": (changed(BLOCKED, block_map=(2,)), r"block map must name different dimensions in \[0, 2\), got \[2\]"),
    "block_size": (level(BLOCKED, 2, dense_size=3), "must be dense and divide its 4 elements, got 3"),
    "zero_block": (level(BLOCKED, 2, dense_size=0), "must be dense and divide its 4 elements, got 0"),
    "compressed_block": (level(BLOCKED, 2, format=DimensionType.SPARSE_CSR), "must be dense and divide"),
    "dense_size": (level(SOUND, 0, dense_size=3), "dense size must be 2, got 3"),
    "unknown_vector": (level(SOUND, 1, array_segments=UnknownMember(9)), "segments and indices of a known type"),
    "no_segments": (level(SOUND, 1, array_segments=None), "must have 3 segments that ascend from 0 to 2"),
    "segments_count": (level(SOUND, 1, array_segments=int32s(0, 2)), "must have 3 segments that ascend from 0 to 2"),
    "segments_order": (level(SOUND, 1, array_segments=int32s(0, 3, 2)), "must have 3 segments that ascend from 0 to 2"),
    "segments_end": (level(SOUND, 1, array_segments=int32s(0, 1, 9)), "must have 3 segments that ascend from 0 to 2"),
    "index": (level(SOUND, 1, array_indices=int32s(0, 3)), r"indices must be in \[0, 3\), got \[0, 3\]"),
    "negative_index": (level(SOUND, 1, array_indices=int32s(-1, 2)), r"indices must be in \[0, 3\), got \[-1, 2\]"),
    "values": (replace(SOUND, data=np.ones(3, np.float32)), "must store 2 values, got 3"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_metadata_that_contradict_each_other_are_refused(case: str) -> None:
    tensor, message = WRONG[case]
    with pytest.raises(ModelError, match=message):
        densify(tensor)


def test_a_sparse_constant_without_stored_values_is_all_zero() -> None:
    nothing = packed(np.zeros((2, 3), np.float32), [0, 1], {}, {1}, "int32")
    b = ModelBuilder()
    b.tensor(nothing.shape, DType.FLOAT32, data=nothing.data, extra=nothing.extra)
    np.testing.assert_array_equal(densify(read_model(b.build()).graphs[0].tensors[0]), np.zeros((2, 3)))


def test_the_reader_refuses_wrong_metadata_and_names_the_tensor() -> None:
    b = ModelBuilder()
    b.tensor(SOUND.shape, DType.FLOAT32, data=SOUND.data, extra=level(SOUND, 0, dense_size=3).extra, name="weights")
    with pytest.raises(ModelError, match=r"model: subgraphs\[0\]\.tensors\[0\]: 'weights': dimension 0 .*must be 2, got 3"):
        read_model(write_model(b.model()))


def test_the_interpreter_gives_a_sparse_constant_as_it_is_stored_as_litert_does() -> None:
    content = sparse_weights()
    theirs, ours = Interpreter(model_content=content), CpuInterpreter(model_content=content)
    for interpreter in (theirs, ours):
        interpreter.allocate_tensors()
        np.testing.assert_array_equal(interpreter.get_tensor(1), np.array([1, 2], np.float32))
    assert list(ours.get_tensor_details()[1]["shape"]) == list(theirs.get_tensor_details()[1]["shape"]) == [2, 3]


def test_operators_read_the_dense_values_of_a_sparse_constant() -> None:
    """Those of LiteRT but DENSIFY take the stored values for the first of a dense tensor, and read on behind them."""
    b = ModelBuilder()
    x, weights = b.input(SOUND.shape, DType.FLOAT32), b.tensor(SOUND.shape, DType.FLOAT32, data=SOUND.data, extra=SOUND.extra)
    b.output(b.op("ADD", [x, weights], SOUND.shape, DType.FLOAT32, attributes=AddOptions()))
    (got,) = run(CpuInterpreter(model_content=b.build()), [np.zeros(SOUND.shape, np.float32)])
    np.testing.assert_array_equal(got, densify(SOUND))
