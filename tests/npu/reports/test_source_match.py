"""Operators of the source are found in files of another compiler; its debug database says whether they are the right ones."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.errors import ModelError
from npu.graph.attributes import ConcatenationOptions, Conv2DOptions, Padding, ReshapeOptions, StridedSliceOptions
from npu.graph.dtype import DType
from npu.graph.ethos_u import Input, is_npu_job
from npu.hardware.catalogue import load_variant
from npu.isa.operations import Dma, KernelOperation, WeightedOperation
from npu.reports.operator_map import GUESSED, LIKELY, METADATA_NAME, SURE, Match, OperatorMap, SourceOperator, stored_map
from npu.reports.source_graph import SourceGraph
from npu.reports.source_match import match_source
from npu.reports.source_rows import PieceOwner, how_each_was_matched
from npu.reports.stream_operators import Staged, operators_of_stream, origin_of, stage
from npu.reports.vela_database import map_of_database, parse_database, read_database
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from npu.toolchain.diff import diff
from npu.toolchain.session import Session
from sim.container import CompiledFile

from tests.support.builder import ModelBuilder
from tests.support.shared import shared_models
from tests.support.vela_files import compile_with_database

EXAMPLES = Path(__file__).parents[3] / "examples"


def branches() -> bytes:
    """Two convolutions of the same shape side by side, their sum, a table, and a view."""
    rng = np.random.default_rng(5)
    b = ModelBuilder()
    x = b.input((1, 12, 12, 8), DType.INT8, scale=0.05, zero_point=3)
    sides = []
    for _ in range(2):
        weights = b.constant(rng.integers(-127, 128, (8, 3, 3, 8), np.int8), scale=[0.01] * 8)
        bias = b.constant(rng.integers(-99, 99, 8, np.int32), scale=[0.0005] * 8)
        options = Conv2DOptions(Padding.SAME, 1, 1)
        sides.append(b.op("CONV_2D", [x, weights, bias], (1, 12, 12, 8), DType.INT8, 0.3, 1, attributes=options))
    total = b.op("ADD", sides, (1, 12, 12, 8), DType.INT8, 0.5, -2)
    table = b.op("LOGISTIC", [total], (1, 12, 12, 8), DType.INT8, 1 / 256, -128)
    b.output(b.op("RESHAPE", [table], (1, 1152), DType.INT8, 1 / 256, -128, attributes=ReshapeOptions((1, 1152))))
    return b.build()


def boxes() -> bytes:
    """What detectors do behind their last convolution: slices through one table each, and sums and products of two maps."""
    b = ModelBuilder()
    x = b.input((1, 10, 10, 24), DType.INT8, scale=0.1, zero_point=50)
    cells = b.op("RESHAPE", [x], (1, 100, 3, 8), DType.INT8, 0.1, 50, attributes=ReshapeOptions((1, 100, 3, 8)))
    parts = []
    for first, last in ((0, 2), (2, 4), (4, 8)):
        ends = [b.constant(np.array([0, 0, 0, first], np.int32)), b.constant(np.array([1, 100, 3, last], np.int32))]
        ones, shape = b.constant(np.ones(4, np.int32)), (1, 100, 3, last - first)
        part = b.op("STRIDED_SLICE", [cells, *ends, ones], shape, DType.INT8, 0.1, 50, attributes=StridedSliceOptions())
        parts.append(b.op("LOGISTIC", [part], shape, DType.INT8, 1 / 256, -128))
    low = b.op("SUB", parts[:2], (1, 100, 3, 2), DType.INT8, 1 / 128, 3)
    high = b.op("ADD", parts[:2], (1, 100, 3, 2), DType.INT8, 1 / 128, -128)
    half = b.constant(np.array(64, np.int8), scale=1 / 128)
    middle = b.op(
        "MUL",
        [b.op("ADD", [low, high], (1, 100, 3, 2), DType.INT8, 1 / 64, -60), half],
        (1, 100, 3, 2),
        DType.INT8,
        1 / 128,
        -128,
    )
    size = b.op("SUB", [high, low], (1, 100, 3, 2), DType.INT8, 1 / 128, -128)
    options = ConcatenationOptions(3)
    scores = b.op("QUANTIZE", [parts[2]], (1, 100, 3, 4), DType.INT8, 1 / 128, -128)
    b.output(b.op("CONCATENATION", [middle, size, scores], (1, 100, 3, 8), DType.INT8, 1 / 128, -128, attributes=options))
    return b.build()


@pytest.fixture(scope="module")
def vela_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, Path]]:
    """Source, file and database of Vela by name."""
    folder = tmp_path_factory.mktemp("vela")
    (folder / "branches.tflite").write_bytes(branches())
    (folder / "boxes.tflite").write_bytes(boxes())
    shutil.copy(EXAMPLES / "digits.tflite", folder)
    sources = [folder / "branches.tflite", folder / "boxes.tflite", folder / "digits.tflite"]
    sources += [path for name, path in shared_models().items() if name in ("rnnoise_INT8", "vww4_128_128_INT8")]
    return {source.stem: (source, *compile_with_database(source, folder)) for source in sources}


def file_of(path: Path) -> CompiledFile:
    return CompiledFile(read_model(path), load_variant("ethos-u55-128"))


def operations(operators: OperatorMap) -> list[int]:
    return [owner for _, owners in sorted(operators.sources.items()) for owner in owners]


def test_matches_agree_with_the_database(vela_files: dict[str, tuple[Path, Path, Path]]) -> None:
    for name, (source, compiled, database) in vela_files.items():
        graph, file = read_model(source).graphs[0], file_of(compiled)
        told = operations(match_source(file, graph, read_database(database)))
        guess = match_source(file, graph)
        wrong = {mine for mine, right in zip(operations(guess), told, strict=True) if mine != right}
        assert all(guess.matches[index].sure == GUESSED for index in wrong), (name, wrong)
        assert len(wrong) <= {"rnnoise_INT8": 4, "boxes": 2}.get(name, 0), (name, wrong)
        assert set(guess.matches) == set(range(len(graph.ops))), name


def test_the_database_alone_names_the_rows(vela_files: dict[str, tuple[Path, Path, Path]]) -> None:
    _, compiled, database = vela_files["digits"]
    operators = map_of_database(file_of(compiled), read_database(database))
    assert [row.type for row in operators.operators][:4] == ["Conv2D", "DepthwiseConv2D", "Conv2D", "Add"]
    assert len(operators.operators) == len(read_model(EXAMPLES / "digits.tflite").graphs[0].ops)
    assert operators.has_names
    assert set(operations(operators)) - {-1} <= set(operators.matches)


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("model", [branches(), (EXAMPLES / "digits.tflite").read_bytes()], ids=["branches", "digits"])
def test_a_file_without_its_map_is_matched_to_the_same_operators(model: bytes, target: str) -> None:
    compiled = read_model(npu.compile(model, target).content)
    stored = stored_map(compiled, "compiled")
    assert stored is not None
    bare = dataclasses.replace(
        compiled, metadata={key: value for key, value in compiled.metadata.items() if key != METADATA_NAME}
    )
    matched = match_source(CompiledFile(bare, load_variant(target)), read_model(model).graphs[0])
    file = CompiledFile(compiled, load_variant(target))
    for job in file.jobs():
        for item, mine, right in zip(
            file.operations(0, job.index), matched.sources[job.index], stored.sources[job.index], strict=True
        ):
            if isinstance(item.operation, WeightedOperation):
                assert mine == right
    assert set(matched.matches) == set(range(len(stored.operators)))


def with_broken_scale(compiled: Path, operator: int, source: Path) -> bytes:
    """Vela's file with another bias in the first scale record of one operator."""
    file, model = file_of(compiled), read_model(compiled)
    matched = match_source(file, read_model(source).graphs[0])
    graph = model.graphs[0]
    index = next(index for index, op in enumerate(graph.ops) if is_npu_job(op))
    held = list(zip(file.operations(0, index), matched.sources[index], strict=True))
    staged: Staged = {}
    for item, mine in held:
        if isinstance(item.operation, Dma):
            stage(item.operation, staged)
        elif mine == operator and isinstance(item.operation, WeightedOperation):
            break
    _, address = origin_of(item.operation.scales[0], staged)
    position = graph.ops[index].inputs[Input.CONSTANTS]
    data = np.array(graph.tensors[position].data)
    data.reshape(-1)[address + 1] ^= 0x3F
    tensors = [dataclasses.replace(t, data=data) if i == position else t for i, t in enumerate(graph.tensors)]
    return write_model(dataclasses.replace(model, graphs=(dataclasses.replace(graph, tensors=tuple(tensors)),)))


def test_diff_compares_inner_maps_of_another_compilers_file(vela_files: dict[str, tuple[Path, Path, Path]]) -> None:
    source, compiled, database = vela_files["branches"]
    whole = diff(source, compiled, Session(), database=database)
    assert whole.first is None
    assert {"0 CONV_2D", "1 CONV_2D"} <= set(whole.compared)
    for operator in (0, 1):
        first = diff(source, with_broken_scale(compiled, operator, source), Session()).first
        assert first is not None
        assert first.operator == operator


def test_diff_finds_no_difference_where_there_is_none(vela_files: dict[str, tuple[Path, Path, Path]]) -> None:
    source, compiled, _ = vela_files["boxes"]
    alone = diff(source, compiled, Session())
    assert alone.first is None
    assert {"7 SUB", "8 ADD", "9 ADD", "10 MUL", "11 SUB"} <= set(alone.compared)


def test_only_functions_of_one_value_and_paddings_are_likely_to_be_fused() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 8), DType.INT8, scale=0.1, zero_point=0)
    total = b.op("ADD", [x, x], (1, 4, 4, 8), DType.INT8, 0.2, 0)
    other = b.op("ADD", [total, x], (1, 4, 4, 8), DType.INT8, 0.3, 0)
    b.output(b.op("TANH", [other], (1, 4, 4, 8), DType.INT8, 1 / 128, 0))
    source = SourceGraph(read_model(b.build()).graphs[0])
    rows = [SourceOperator(index, kind, "", "npu", 0) for index, kind in enumerate(("ADD", "ADD", "TANH"))]
    rows[1:] = [dataclasses.replace(row, absorbed_into=0) for row in rows[1:]]
    matches = how_each_was_matched(rows, {0: PieceOwner(0, Match("weights", SURE))}, source)
    assert [matches[index].sure for index in range(3)] == [SURE, GUESSED, LIKELY]


def test_slices_that_lie_side_by_side_are_no_stripes_of_one_operator() -> None:
    b = ModelBuilder()
    x = b.input((1, 80, 2, 8), DType.INT8, scale=0.1, zero_point=5)
    for first in (0, 2, 4):
        ends = [b.constant(np.array([0, 0, 0, first], np.int32)), b.constant(np.array([1, 80, 2, first + 2], np.int32))]
        part = [x, *ends, b.constant(np.ones(4, np.int32))]
        piece = b.op("STRIDED_SLICE", part, (1, 80, 2, 2), DType.INT8, 0.1, 5, attributes=StridedSliceOptions())
        b.output(b.op("LOGISTIC", [piece], (1, 80, 2, 2), DType.INT8, 1 / 256, -128))
    variant = load_variant("ethos-u55-128")
    file = CompiledFile(read_model(npu.compile(b.build(), "ethos-u55-128").content), variant)
    (job,) = file.jobs()
    decoded = file.operations(0, job.index)
    maps = [one.operation.ofm for one in decoded if isinstance(one.operation, KernelOperation)]
    assert maps[1].addresses[0] - maps[0].addresses[0] in (320, -320)
    rows, _ = operators_of_stream(decoded)
    assert [row.shape for row in rows] == ["80x2x2"] * 3


def test_what_is_no_database_is_refused() -> None:
    entities, lone = "<!DOCTYPE x [<!ENTITY a 'b'>]><debug/>", '<debug><table name="source">"id"\n1</table></debug>'
    table = '<debug><table name="source">"id","operator","ext_key"\n{}</table></debug>'
    rows = [table.format(row) for row in ('1,"ADD"', '1,"ADD",0,5', '1,"ADD",-1', '1,"ADD",1000000000', '1,"ADD",' + "9" * 30)]
    for text in ("", "<debug/>", entities, lone, *rows):
        with pytest.raises(ModelError, match="must be a debug database of Vela"):
            parse_database(text, "x.xml")


def test_a_model_that_did_not_make_the_file_is_refused(vela_files: dict[str, tuple[Path, Path, Path]]) -> None:
    from npu.toolchain.origin import Origin

    with pytest.raises(ModelError, match="must be compiled from"):
        Origin(vela_files["branches"][0]).map_of(file_of(vela_files["digits"][1]), "digits")
