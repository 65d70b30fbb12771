"""What the reader makes of unusual and of hostile files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npu.errors import ModelError
from npu.graph.attributes import AddOptions, CallOptions, FusedActivation
from npu.graph.attributes_2 import DilateOptions
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op
from npu.graph.wire import UnknownMember
from npu.tflite import flatbuffer
from npu.tflite.flatbuffer import TableReader, TableWriter
from npu.tflite.reader import read_model
from npu.tflite.schema import (
    IDENTIFIER,
    Buffer,
    MetadataTable,
    ModelTable,
    OperatorCode,
    OperatorTable,
    QuantizationParameters,
    SignatureDef,
    SubGraphTable,
    TensorMap,
    TensorTable,
)
from npu.tflite.writer import write_model

from tests.support.litert import run_reference
from tests.support.sample_models import SAMPLES
from tests.support.work_done import lines_run


def pack(table: ModelTable) -> bytes:
    return TableWriter(16).file(table, IDENTIFIER)


def tables(content: bytes) -> ModelTable:
    return TableReader(content, "model").root(ModelTable, IDENTIFIER)


VALUES = np.arange(6, dtype=np.float32)

ADD = ModelTable(
    version=3,
    operator_codes=(OperatorCode(0),),
    subgraphs=(
        SubGraphTable(
            tensors=(
                TensorTable((2, 3), DType.FLOAT32, 0, "x"),
                TensorTable((2, 3), DType.FLOAT32, 1, "constant"),
                TensorTable((2, 3), DType.FLOAT32, 0, "y"),
            ),
            inputs=(0,),
            outputs=(2,),
            operators=(OperatorTable(0, (0, 1), (2,), AddOptions()),),
            name="main",
        ),
    ),
    buffers=(Buffer(), Buffer(VALUES.view(np.uint8))),
)
"""x + constant, as tables, for the cases below to change."""

GRAPH = ADD.subgraphs[0]


def with_graph(**changes: object) -> ModelTable:
    return replace(ADD, subgraphs=(replace(GRAPH, **changes),))  # type: ignore[arg-type]


def with_tensor(index: int, **changes: object) -> ModelTable:
    tensors = list(GRAPH.tensors)
    tensors[index] = replace(tensors[index], **changes)  # type: ignore[arg-type]
    return with_graph(tensors=tuple(tensors))


def with_op(**changes: object) -> ModelTable:
    return with_graph(operators=(replace(GRAPH.operators[0], **changes),))  # type: ignore[arg-type]


def scales(*values: float, zero_points: tuple[int, ...] = (0,), axis: int = 0) -> QuantizationParameters:
    return QuantizationParameters(
        scale=np.array(values, np.float32), zero_point=np.array(zero_points, np.int64), quantized_dimension=axis
    )


def test_the_file_that_the_cases_change_is_sound() -> None:
    graph = read_model(pack(ADD)).graphs[0]
    np.testing.assert_array_equal(graph.tensors[1].data, VALUES.reshape(2, 3))


def test_constants_are_read_only_views_of_the_file() -> None:
    data = read_model(pack(ADD)).graphs[0].tensors[1].data
    assert data is not None
    assert not data.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        data[0, 0] = 1


def test_a_misaligned_constant_is_read_all_the_same() -> None:
    content = pack(replace(ADD, buffers=(Buffer(), Buffer(None, 1001, 24)))).ljust(1001, b"\0") + VALUES.tobytes()
    data = read_model(content).graphs[0].tensors[1].data
    assert data is not None
    assert data.flags.aligned
    assert not data.flags.writeable
    np.testing.assert_array_equal(data, VALUES.reshape(2, 3))


def test_a_buffer_behind_the_tables_is_read_and_runs_as_in_litert() -> None:
    start = 4096
    content = pack(replace(ADD, buffers=(Buffer(), Buffer(None, start, 24)))).ljust(start, b"\0") + VALUES.tobytes()
    x = np.ones((2, 3), np.float32)
    expected = run_reference(content, [x])
    np.testing.assert_array_equal(run_reference(write_model(read_model(content)), [x])[0], expected[0])
    np.testing.assert_array_equal(expected[0], x + VALUES.reshape(2, 3))


def test_large_custom_options_behind_the_tables_are_read() -> None:
    custom = replace(ADD, operator_codes=(OperatorCode(32, "mine", 1, 32),))
    operator = OperatorTable(0, (0, 1), (2,), large_custom_options_offset=2048, large_custom_options_size=5)
    custom = replace(custom, subgraphs=(replace(GRAPH, operators=(operator,)),))
    op = read_model(pack(custom).ljust(2048, b"\0") + b"hello").graphs[0].ops[0]
    assert (op.kind, op.custom_code, op.name, op.custom_options) == ("CUSTOM", "mine", "mine", b"hello")
    written = write_model(Model((replace(read_model(pack(ADD)).graphs[0], ops=(op,)),)))
    assert read_model(written).graphs[0].ops[0].custom_options == b"hello"


def test_an_operator_code_of_the_future_is_kept() -> None:
    model = read_model(pack(replace(ADD, operator_codes=(OperatorCode(127, "", 9, 4711),))))
    op = model.graphs[0].ops[0]
    assert (op.kind, op.version) == ("UNKNOWN_4711", 9)
    code = tables(write_model(model)).operator_codes[0]
    assert (code.deprecated_builtin_code, code.builtin_code, code.version) == (127, 4711, 9)


def test_an_options_table_of_the_future_keeps_its_number() -> None:
    future = OperatorTable(0, (0, 1), (2,), UnknownMember(200), builtin_options_2=UnknownMember(99))
    model = read_model(pack(with_graph(operators=(future,))))
    op = model.graphs[0].ops[0]
    assert op.attributes is None
    assert op.extra == {"unknown_options": 200, "unknown_options_2": 99}
    written = tables(write_model(model)).subgraphs[0].operators[0]
    assert (written.builtin_options, written.builtin_options_2) == (UnknownMember(200), UnknownMember(99))


def test_of_two_options_tables_the_second_counts_and_both_are_kept() -> None:
    dilate = replace(with_op(builtin_options_2=DilateOptions()), operator_codes=(OperatorCode(127, "", 1, 203),))
    model = read_model(pack(dilate))
    op = model.graphs[0].ops[0]
    assert op.attributes == DilateOptions()
    written = tables(write_model(model)).subgraphs[0].operators[0]
    assert (written.builtin_options, written.builtin_options_2) == (AddOptions(), DilateOptions())


CODES = [(55, 0, "MAXIMUM"), (55, 55, "MAXIMUM"), (127, 130, "BROADCAST_TO"), (127, 0, None)]


@pytest.mark.parametrize(("old", "new", "kind"), CODES)
def test_the_larger_of_both_operator_codes_counts(old: int, new: int, kind: str | None) -> None:
    other = replace(
        with_op(builtin_options=None), operator_codes=(OperatorCode(old, "", 2 if kind == "BROADCAST_TO" else 1, new),)
    )
    op = read_model(pack(other)).graphs[0].ops[0]
    assert op.kind == (kind or "PLACEHOLDER_FOR_GREATER_OP_CODES")


def test_all_that_an_operator_says_beside_its_options_is_kept() -> None:
    changed = with_op(mutating_variable_inputs=(False, True), intermediates=(2,), debug_metadata_index=4)
    written = tables(write_model(read_model(pack(changed)))).subgraphs[0].operators[0]
    assert written.mutating_variable_inputs == (False, True)
    assert written.intermediates == (2,)
    assert written.debug_metadata_index == 4


def test_ranges_without_scales_are_kept_and_are_no_quantization() -> None:
    ranges = QuantizationParameters(min=np.array([-1], np.float32), max=np.array([1], np.float32))
    model = read_model(pack(with_tensor(0, quantization=ranges)))
    assert model.graphs[0].tensors[0].quantization is None
    written = tables(write_model(model)).subgraphs[0].tensors[0].quantization
    assert written is not None
    assert written.min is not None
    assert written.min.tolist() == [-1]


def test_the_axis_of_a_vector_is_its_only_dimension_whatever_the_file_says() -> None:
    tensor = TensorTable((2,), DType.INT32, 0, "bias", scales(0.5, 0.25, zero_points=(0, 0), axis=3))
    quantization = read_model(pack(with_graph(tensors=(*GRAPH.tensors, tensor)))).graphs[0].tensors[3].quantization
    assert quantization is not None
    assert quantization.axis == 0


@pytest.mark.parametrize("points", [(), (3,), (1, 2, 3)])
def test_every_scale_has_a_zero_point(points: tuple[int, ...]) -> None:
    tensor = TensorTable((2,), DType.INT8, 0, "w", scales(0.5, 0.25, zero_points=points))
    with pytest.raises(ModelError, match=f"must have one zero point per scale, got {len(points)} for 2"):
        read_model(pack(with_graph(tensors=(*GRAPH.tensors, tensor))))


def test_a_file_without_buffers_has_no_constants() -> None:
    with pytest.raises(ModelError, match="got tensor 1 without data"):
        read_model(pack(replace(with_tensor(1, buffer=0), buffers=())))


def test_metadata_map_names_to_contents_and_the_first_of_equal_names_counts() -> None:
    entries = (MetadataTable("a", 1), MetadataTable("b", 0), MetadataTable("a", 0))
    assert read_model(pack(replace(ADD, metadata=entries))).metadata == {"a": VALUES.tobytes(), "b": b""}


def test_strings_stay_bytes() -> None:
    packed = np.frombuffer(struct.pack("<iii", 1, 12, 14) + b"hi", np.uint8)
    changed = replace(with_tensor(1, type=DType.STRING, shape=(1,)), buffers=(Buffer(), Buffer(packed)))
    data = read_model(pack(changed)).graphs[0].tensors[1].data
    assert data is not None
    assert data.tobytes() == packed.tobytes()


SIGNATURE = SignatureDef((TensorMap("x", 0),), (TensorMap("y", 2),), "serve", 0)
LOOP = SubGraphTable(GRAPH.tensors, (0,), (2,), (OperatorTable(1, (0,), (2,), CallOptions(1)),), "loop")

HOSTILE: dict[str, tuple[ModelTable, str]] = {
    "version": (replace(ADD, version=4), "schema version must be 3, got 4"),
    "no_subgraph": (replace(ADD, subgraphs=()), "a model must have a subgraph, got none"),
    "negative_operator_code": (replace(ADD, operator_codes=(OperatorCode(-3, "", 1, -2),)), "must not be negative, got -2"),
    "opcode_index": (with_op(opcode_index=1), r"opcode index must be in \[0, 1\), got 1"),
    "buffer_index": (with_tensor(1, buffer=2), r"buffer must be in \[0, 2\), got 2"),
    "metadata_buffer": (replace(ADD, metadata=(MetadataTable("m", 9),)), r"metadata\[0\]: buffer must be in \[0, 2\), got 9"),
    "buffer_range": (replace(ADD, buffers=(Buffer(), Buffer(None, 999999, 24))), r"buffers\[1\]: must lie inside the file"),
    "buffer_range_overflow": (replace(ADD, buffers=(Buffer(), Buffer(None, 2**64 - 1, 2**64 - 1))), "must lie inside the file"),
    "custom_range": (
        with_op(large_custom_options_offset=99999, large_custom_options_size=1),
        "large custom options must lie inside the file",
    ),
    "input_index": (with_graph(inputs=(7,)), r"inputs must be tensors in \[0, 3\), got 7"),
    "negative_input": (with_graph(inputs=(-1,)), r"inputs must be tensors in \[0, 3\), got -1"),
    "output_index": (with_graph(outputs=(3,)), r"outputs must be tensors in \[0, 3\), got 3"),
    "duplicate_inputs": (with_graph(inputs=(0, 0)), r"inputs must be different tensors, got \[0, 0\]"),
    "op_input": (with_op(inputs=(0, 99)), r"ADD \(op 0\): inputs must be tensors in \[-1, 3\), got 99"),
    "op_input_negative": (with_op(inputs=(0, -2)), r"inputs must be tensors in \[-1, 3\), got -2"),
    "op_output_absent": (with_op(outputs=(-1,)), r"outputs must be tensors in \[0, 3\), got -1"),
    "op_intermediate": (with_op(intermediates=(5,)), r"intermediates must be tensors in \[-1, 3\), got 5"),
    "op_reads_itself": (with_op(inputs=(0, 2)), r"must read what an earlier operator writes, got tensor 2 of op 0"),
    "op_writes_input": (with_op(outputs=(0,)), "must not write tensor 0, an input or constant"),
    "op_writes_constant": (with_op(outputs=(1,)), "must not write tensor 1, an input or constant"),
    "two_writers": (with_graph(operators=GRAPH.operators * 2), r"ADD \(op 1\): must not write tensor 2, op 0 does"),
    "wrong_order": (
        with_graph(
            tensors=(*GRAPH.tensors, TensorTable((2, 3), DType.FLOAT32, 0, "z")),
            operators=(OperatorTable(0, (3, 1), (2,)), OperatorTable(0, (0, 1), (3,))),
        ),
        r"ADD \(op 0\): must read what an earlier operator writes, got tensor 3 of op 1",
    ),
    "output_of_nothing": (with_graph(operators=()), "output tensor 2 must be written by an operator"),
    "negative_dimension": (with_tensor(0, shape=(2, -3)), r"dimensions must be in \[0, 2147483647\], got \[2, -3\]"),
    "negative_dimension_of_constant": (
        with_tensor(1, shape=(2, -3)),
        r"dimensions must be in \[0, 2147483647\], got \[2, -3\]",
    ),
    "absurd_size": (with_tensor(0, shape=(2**31 - 1,) * 8), "must have at most 68719476736 bytes"),
    "absurd_empty_constant": (with_tensor(1, shape=(0, *(2**31 - 1,) * 8)), r"must have a shape of an array, got \[0, "),
    "absurd_constant": (with_tensor(1, shape=(2**31 - 1,) * 8), r"data of shape .* must have at least \d+ bytes, got 24"),
    "absurd_rank": (with_tensor(0, shape=(1,) * 65), "must have at most 64 dimensions, got 65"),
    "shape_signature": (with_tensor(0, shape_signature=(-2, 3)), r"shape signature must hold sizes or -1, got \[-2, 3\]"),
    "data_size": (with_tensor(1, shape=(2, 4)), "'constant': data of shape .* float32 must have at least 32 bytes, got 24"),
    "data_size_4_bit": (with_tensor(1, type=DType.INT4, shape=(2, 30)), "int4 must have at least 30 bytes, got 24"),
    "variable_with_data": (with_tensor(1, is_variable=True), "a variable tensor must not have constant data"),
    "nan_scale": (with_tensor(0, quantization=scales(float("nan"))), "scales must be finite and not negative"),
    "infinite_scale": (with_tensor(0, quantization=scales(float("inf"))), "scales must be finite and not negative"),
    "negative_scale": (with_tensor(0, quantization=scales(-0.5)), "scales must be finite and not negative"),
    "zero_point_count": (
        with_tensor(0, quantization=scales(1, 1, zero_points=(0, 0, 0))),
        "must have one zero point per scale, got 3 for 2",
    ),
    "zero_point_range": (
        with_tensor(0, type=DType.INT8, quantization=scales(1, zero_points=(200,))),
        r"zero points of int8 must be in \[-128, 127\], got \[200\]",
    ),
    "huge_zero_point": (with_tensor(0, quantization=scales(1, zero_points=(2**40,))), "zero points of float32 must be in"),
    "axis": (
        with_tensor(0, quantization=scales(1, 1, zero_points=(0, 0), axis=2)),
        r"quantized dimension must be in \[0, 2\), got 2",
    ),
    "scale_count": (
        with_tensor(1, quantization=scales(1, 1, 1, zero_points=(0,) * 3)),
        r"must have one scale or 2 \(dimension 0\), got 3",
    ),
    "signature_subgraph": (
        replace(ADD, signature_defs=(replace(SIGNATURE, subgraph_index=1),)),
        r"signature 'serve': subgraph must be in \[0, 1\), got 1",
    ),
    "signature_tensor": (
        replace(ADD, signature_defs=(replace(SIGNATURE, inputs=(TensorMap("x", 9),)),)),
        r"input 'x' must be a tensor in \[0, 3\), got 9",
    ),
    "called_subgraph": (
        replace(ADD, operator_codes=(OperatorCode(0), OperatorCode(31)), subgraphs=(replace(LOOP),)),
        r"CALL \(op 0\): must call subgraphs in \[0, 1\), got 1",
    ),
    "endless_recursion": (
        replace(ADD, operator_codes=(OperatorCode(0), OperatorCode(31)), subgraphs=(GRAPH, LOOP)),
        r"subgraphs must not call themselves, got a cycle through \[1\]",
    ),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_an_inconsistent_file_is_refused_with_the_reason(case: str) -> None:
    table, message = HOSTILE[case]
    with pytest.raises(ModelError, match=message):
        read_model(pack(table))


def test_what_a_buffer_has_behind_a_constant_is_left_out() -> None:
    content = pack(with_tensor(1, shape=(3,)))
    whole, given = (read_model(one).graphs[0].tensors[1].data for one in (pack(ADD), content))
    assert whole is not None
    assert given is not None
    np.testing.assert_array_equal(given, whole.reshape(-1)[:3])
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(run_reference(content, [x])[0], np.broadcast_to(given, (2, 3)))


def test_an_unknown_enum_value_is_refused_with_the_known_ones() -> None:
    one, other = (pack(with_op(builtin_options=AddOptions(FusedActivation(value)))) for value in (1, 5))
    (position,) = (index for index, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
    content = bytearray(one)
    content[position] = 77
    with pytest.raises(ModelError, match=r"fused_activation_function: must be one of 0 \(NONE\), .*, got 77"):
        read_model(bytes(content))


def test_messages_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "broken.tflite"
    path.write_bytes(pack(with_graph(inputs=(7,))))
    with pytest.raises(ModelError, match=r"broken\.tflite: graph 'main': inputs must be"):
        read_model(path)


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def file_with(content: bytes) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


NOT_MODELS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda path: path, "must be a TFLite file, but there is no such file"),
    "folder": (folder, "must be a TFLite file, got a folder"),
    "empty": (file_with(b""), "must be a TFLite file, got an empty file"),
    "text": (file_with(b"all: clean\n\tmake -C src\n"), "must be a TFLite model .identifier TFL3 at byte 4., got ' cle'"),
    "short": (file_with(b"\0\0TFL3"), "must be a TFLite model .identifier TFL3 at byte 4., got a file of 6 bytes"),
    "pointer": (
        file_with(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        "must be a TFLite model .identifier TFL3 at byte 4., got a pointer of Git LFS to it; bring the file itself",
    ),
    "only_the_identifier": (file_with(b"\0\0\0\0TFL3"), "root: offset at byte 0 must point into the file, got 0"),
    "device": (lambda path: Path("/dev/zero"), "must be a TFLite file"),
    "impossible_name": (lambda path: Path("a\0b"), r"a\\x00b: must be"),
}


@pytest.mark.parametrize("case", list(NOT_MODELS))
def test_what_is_no_model_file_is_refused(case: str, tmp_path: Path) -> None:
    make, message = NOT_MODELS[case]
    with pytest.raises(ModelError, match=message):
        read_model(make(tmp_path / case))


def test_tables_that_repeat_without_end_are_refused_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vector of offsets that all lead to the same table: small file, many objects."""
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 1000)
    with pytest.raises(ModelError, match="the file must describe at most 1000 tables"):
        read_model(pack(with_graph(tensors=GRAPH.tensors * 400)))


def test_values_that_repeat_without_end_are_refused_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuffer, "MAX_ELEMENTS", 1000)
    with pytest.raises(ModelError, match="the file must hold at most 1000 shape, index and option values"):
        read_model(pack(with_op(inputs=(0,) * 1001)))


def test_strings_that_overlap_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuffer, "SLACK_BYTES", -100_000)
    with pytest.raises(ModelError, match="strings, blobs and arrays must not overlap"):
        read_model(pack(ADD))


def test_quantization_that_all_tensors_share_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuffer, "SLACK_BYTES", 10_000)
    content = pack(with_tensor(0, quantization=scales(*[1.0] * 4000, axis=0)))
    quantization = tables(content).subgraphs[0].tensors[0].quantization
    assert quantization is not None
    reader = TableReader(content, "model")
    reader.root(ModelTable, IDENTIFIER)
    with pytest.raises(ModelError, match="strings, blobs and arrays must not overlap"):
        reader.root(ModelTable, IDENTIFIER)


def test_a_table_of_the_far_future_is_read_as_far_as_it_is_known() -> None:
    """A vtable of 200 entries: the fields beyond the known ones are not looked at."""
    vtable = struct.pack("<202H", 404, 8, *([4] + [0] * 199))
    content = struct.pack("<I4s", 8 + len(vtable), b"TFL3") + vtable + struct.pack("<iI", len(vtable), 3)
    assert tables(content).version == 3


def attempt(content: bytes) -> None:
    """Either a model or a ModelError; nothing else escapes. What is read can be written and read again."""
    try:
        model = read_model(content)
    except ModelError:
        return
    read_model(write_model(model))


SAMPLE_BYTES = {name: build() for name, build in SAMPLES.items()}


@pytest.mark.parametrize("name", ["image_classifier", "two_branches"])
def test_a_truncated_file_is_refused_or_read(name: str) -> None:
    content = SAMPLE_BYTES[name]
    for length in range(0, len(content), 11):
        attempt(content[:length])


@given(
    st.sampled_from(sorted(SAMPLES)), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4)
)
@settings(max_examples=300)
def test_a_file_with_changed_bytes_is_refused_or_read(name: str, changes: list[tuple[int, int]]) -> None:
    content = bytearray(SAMPLE_BYTES[name])
    for position, value in changes:
        content[position % len(content)] = value
    attempt(bytes(content))


@given(st.sampled_from(sorted(SAMPLES)), st.integers(0, 10**6), st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 4]))
@settings(max_examples=200)
def test_a_file_with_an_extreme_word_is_refused_or_read(name: str, position: int, value: int) -> None:
    content = bytearray(SAMPLE_BYTES[name])
    struct.pack_into("<I", content, position % (len(content) - 3) & ~3, value)
    attempt(bytes(content))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_changed_byte_is_refused_or_read(name: str) -> None:
    content = SAMPLE_BYTES[name]
    for position in range(len(content)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            changed = bytearray(content)
            changed[position] = value
            attempt(bytes(changed))
        attempt(content[:position])


def test_the_work_of_reading_grows_with_the_number_of_operators_only() -> None:
    graph = read_model(pack(ADD)).graphs[0]

    def lines_to_read(length: int) -> int:
        tensors = graph.tensors[:2] + graph.tensors[2:] * length
        ops = tuple(Op("ADD", (0 if i == 0 else i + 1, 1), (i + 2,), AddOptions()) for i in range(length))
        content = write_model(Model((Graph("long", tensors, ops, (0,), (length + 1,)),)))
        return lines_run(lambda: read_model(content))

    assert lines_to_read(200) < 2.2 * lines_to_read(100)


def test_of_arguments_of_a_signature_with_one_name_the_last_counts() -> None:
    twice = replace(SIGNATURE, inputs=(TensorMap("x", 1), TensorMap("x", 0)))
    (signature,) = read_model(pack(replace(ADD, signature_defs=(twice,)))).signatures
    assert signature.inputs == {"x": 0}
