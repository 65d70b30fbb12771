"""What the writer makes besides what the round trip shows: alignment, sharing, limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from npu.errors import ModelError
from npu.graph.attributes import AddOptions, Attributes, Conv2DOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Tensor
from npu.tflite import writer
from npu.tflite.flatbuffer import TableReader
from npu.tflite.reader import read_model
from npu.tflite.schema import IDENTIFIER, ModelTable
from npu.tflite.writer import write_model

from tests.support.sample_models import SAMPLES


def model_of(*constants: Tensor, ops: tuple[Op, ...] = ()) -> Model:
    return Model((Graph("main", constants, ops, (), ()),))


def constant(values: object, dtype: DType = DType.FLOAT32) -> Tensor:
    data = np.asarray(values, dtype.numpy)
    return Tensor("c", data.shape, dtype, data=data)


def tables(content: bytes) -> ModelTable:
    return TableReader(content, "model").root(ModelTable, IDENTIFIER)


@pytest.mark.parametrize("name", list(SAMPLES))
def test_every_buffer_starts_on_a_multiple_of_16_bytes(name: str) -> None:
    content = SAMPLES[name]()
    origin = np.frombuffer(content, np.uint8).ctypes.data
    for buffer in tables(content).buffers:
        if buffer.data is not None and buffer.data.size:
            assert (buffer.data.ctypes.data - origin) % 16 == 0


@pytest.mark.parametrize("name", list(SAMPLES))
def test_the_same_model_gives_the_same_bytes(name: str) -> None:
    assert SAMPLES[name]() == SAMPLES[name]()


def test_equal_constants_share_a_buffer_and_buffer_0_is_empty() -> None:
    content = write_model(model_of(constant([1, 2]), constant([1, 3]), constant([[1], [2]])))
    root = tables(content)
    assert [tensor.buffer for tensor in root.subgraphs[0].tensors] == [1, 2, 1]
    assert root.buffers[0].data is None


def test_constants_are_shared_between_subgraphs_and_with_metadata() -> None:
    model = model_of(constant([1, 2]))
    model = replace(model, graphs=model.graphs * 2, metadata={"m": np.array([1, 2], "<f4").tobytes()})
    assert len(tables(write_model(model)).buffers) == 2


def test_a_constant_without_elements_stays_a_constant() -> None:
    back = read_model(write_model(model_of(constant([]), replace(constant([]), data=None))))
    assert [tensor.is_constant for tensor in back.graphs[0].tensors] == [True, False]


def test_operators_of_one_kind_share_a_code_and_versions_do_not() -> None:
    ops = (Op("ADD", (), ()), Op("ADD", (), (), version=2), Op("ADD", (), ()), Op("CUSTOM", (), (), custom_code="mine"))
    root = tables(write_model(model_of(ops=ops)))
    assert [op.opcode_index for op in root.subgraphs[0].operators] == [0, 1, 0, 2]
    assert [(code.builtin_code, code.version, code.custom_code) for code in root.operator_codes] == [
        (0, 1, ""),
        (0, 2, ""),
        (32, 1, "mine"),
    ]


@pytest.mark.parametrize(("kind", "old"), [("SEGMENT_SUM", 125), ("BATCH_MATMUL", 126), ("CUMSUM", 127), ("UNKNOWN_999", 127)])
def test_codes_that_do_not_fit_the_old_field_say_so_there(kind: str, old: int) -> None:
    code = tables(write_model(model_of(ops=(Op(kind, (), ()),)))).operator_codes[0]
    assert code.deprecated_builtin_code == old


def test_transposed_constants_are_written_in_the_order_of_their_shape() -> None:
    data = np.arange(6, dtype=np.int8).reshape(2, 3).T
    back = read_model(write_model(model_of(Tensor("c", (3, 2), DType.INT8, data=data)))).graphs[0].tensors[0].data
    assert back is not None
    np.testing.assert_array_equal(back, data)


class NoOptions(Attributes):
    pass


REFUSED: dict[str, tuple[Op, str]] = {
    "kind": (Op("CONV2D", (), ()), "operator kind must be in the TFLite schema, got 'CONV2D'"),
    "range": (
        Op("CONV_2D", (), (), Conv2DOptions(stride_w=2**31)),
        r"Conv2DOptions\.stride_w: must fit int32, got \[2147483648\]",
    ),
    "index": (Op("ADD", (2**31,), (), AddOptions()), r"OperatorTable\.inputs: must fit int32"),
    "options": (Op("ADD", (), (), NoOptions()), r"OperatorTable\.builtin_options: must not hold a NoOptions"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_what_the_format_cannot_hold_is_refused(case: str) -> None:
    op, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        write_model(model_of(ops=(op,)))


def test_more_than_two_gibibytes_of_constants_are_refused_before_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_FILE_BYTES", 1000)
    with pytest.raises(ModelError, match="must have at most 1000 bytes of constants, got 1004"):
        write_model(model_of(constant(range(251))))


def test_a_file_of_more_than_two_gibibytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MAX_FILE_BYTES", 1000)
    with pytest.raises(ModelError, match=r"file must have at most 1000 bytes, got 1\d+"):
        write_model(model_of(constant(range(249))))


def test_the_limit_is_what_31_bits_reach() -> None:
    assert writer.MAX_FILE_BYTES == 2**31 - 1
