"""disasm and asm, raw archives, tensor dumps and diff: on files of this compiler and of Vela, and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.api import diff, disassemble, run, verify
from npu.cli.main import main
from npu.errors import ModelError, StreamError
from npu.graph import attributes as at
from npu.graph.dtype import DType
from npu.tflite.reader import read_model
from npu.toolchain.listing import assemble

from tests.support.builder import ModelBuilder
from tests.support.compatibility import TARGETS, reference
from tests.support.litert import random_inputs, repaired
from tests.support.shared import shared_models
from tests.support.vela import compile_with_vela
from tests.support.vela_fork import run_vela

ROOT = Path(__file__).parents[2]
I8 = DType.INT8
DIGITS = ROOT / "examples" / "digits.tflite"
SEPARATE = ("--cop-format", "COP2", "--separate-io-regions")


@cache
def ours(target: str = "ethos-u55-128") -> bytes:
    return npu.compile(DIGITS, target=target).content


@cache
def vela_raw(name: str, *options: str) -> bytes:
    """Vela's raw output of a model."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "model.tflite"
        source.write_bytes(shared_models()[name].read_bytes() if name in shared_models() else DIGITS.read_bytes())
        return run_vela(source, Path(folder), "ethos-u55-128", "--output-format", "raw", *options, suffix=".npz").read_bytes()


# --- listings -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_an_unchanged_listing_gives_the_same_file(target: str) -> None:
    for content in (ours(target), compile_with_vela(DIGITS.read_bytes(), target)):
        assert assemble(disassemble(content), content) == content


def test_an_unchanged_listing_of_a_cop2_file_gives_the_same_file() -> None:
    content = compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128", *SEPARATE)
    assert assemble(disassemble(content), content) == content


@pytest.mark.parametrize("name", sorted(name for name in shared_models() if "vela" in name))
def test_published_files_survive_the_listing(name: str) -> None:
    content = shared_models()[name].read_bytes()
    assert assemble(disassemble(content), content) == content


def test_a_listing_names_operators_and_tensors_with_addresses_and_shapes() -> None:
    text = disassemble(ours())
    assert ".operator 0 0 ; <bytes> for ethos-u55-128" in text
    assert ";   ifm [8, 8, 1] int8 region 1 [0x400, 0x440) 'serving_default_keras_tensor:0'" in text
    assert ";   operator 4 MAX_POOL_2D 'functional_1/max_pooling2d_1/MaxPool2d'" in text


@pytest.mark.parametrize("options", [(), SEPARATE], ids=["COP1", "COP2"])
def test_a_longer_stream_is_assembled_and_runs_the_same(options: tuple[str, ...]) -> None:
    content = compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128", *options)
    lines = disassemble(content).splitlines()
    stop = next(index for index, line in enumerate(lines) if line.startswith("NPU_OP_STOP"))
    changed = assemble("\n".join([*lines[:stop], "NPU_OP_IRQ mask=1", *lines[stop:]]), content)
    assert changed != content
    assert "NPU_OP_IRQ mask=1" in disassemble(changed)
    inputs = random_inputs(DIGITS.read_bytes(), 1)
    for found, expected in zip(run(changed, inputs).outputs, run(content, inputs).outputs, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_edited_field_is_patched_in_place() -> None:
    text = disassemble(ours())
    changed = assemble(text.replace("NPU_OP_STOP mask=65535", "NPU_OP_STOP mask=1"), ours())
    assert len(changed) == len(ours())
    assert sum(a != b for a, b in zip(changed, ours(), strict=True)) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a section that begins with .operator SUBGRAPH INDEX, got none"),
        ("NPU_OP_STOP mask=1", "listing line 1: must begin with .operator SUBGRAPH INDEX"),
        ("\n.operator 0 7", "listing line 2: .operator: must be one of 0 0, got 0 7"),
        (".operator 0 0\n.product ETHOS_U55\nNPU_OP_STOPP", "listing line 3: must be a known command, got NPU_OP_STOPP"),
        (".operator 0 0\n.operator 0 0", "listing line 2: .operator: each operator must have one section"),
        (".operator 0 0", "must have 1 to"),
    ],
)
def test_a_wrong_listing_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(StreamError) as caught:
        assemble(text, ours())
    assert message in str(caught.value)


def test_a_listing_for_another_product_than_that_of_the_base_is_refused() -> None:
    with pytest.raises(StreamError, match=r"line \d+: .product: must be that of the base file, ETHOS_U65, got ETHOS_U55"):
        assemble(disassemble(ours()), ours("ethos-u65-256"))


def test_asm_names_the_listing_and_leaves_it_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, listing = tmp_path / "base.tflite", tmp_path / "base.lst"
    base.write_bytes(ours())
    listing.write_text("NPU_OP_STOP mask=1\n")
    assert main(["asm", str(listing), "--base", str(base), "-o", str(tmp_path / "new.tflite")]) == 1
    assert f"{listing} line 1: must begin with" in capsys.readouterr().err
    assert main(["asm", str(listing), "--base", str(base), "-o", str(listing)]) == 1
    assert listing.read_text() == "NPU_OP_STOP mask=1\n"


def test_asm_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, listing, output = tmp_path / "base.tflite", tmp_path / "base.lst", tmp_path / "new.tflite"
    base.write_bytes(ours())
    assert main(["disasm", str(base), "-o", str(listing)]) == 0
    assert main(["asm", str(listing), "--base", str(base), "-o", str(output)]) == 0
    assert "identical to" in capsys.readouterr().out
    assert output.read_bytes() == ours()
    assert main(["asm", str(tmp_path / "none.lst"), "--base", str(base), "-o", str(output)]) == 1
    assert "none.lst: must be a listing of npu disasm" in capsys.readouterr().err


# --- raw archives and separate regions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), SEPARATE], ids=["COP1", "COP2"])
@pytest.mark.parametrize("name", ["digits", *(name for name in ("rnnoise_int8",) if name in shared_models())])
def test_a_raw_archive_runs_like_the_reference(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "model_vela.npz"
    path.write_bytes(vela_raw(name, *options))
    model = shared_models()[name].read_bytes() if name in shared_models() else DIGITS.read_bytes()
    inputs = random_inputs(model, 3)
    shapes = [tensor.shape for tensor in (npu.load(model).graphs[0].tensors[k] for k in npu.load(model).graphs[0].inputs)]
    given = [array.reshape((1,) * (4 - len(shape)) + shape) for array, shape in zip(inputs, shapes, strict=True)]
    found = run(path, given).outputs
    for actual, expected in zip(found, reference(model, inputs), strict=True):
        np.testing.assert_array_equal(actual.reshape(expected.shape), expected)
    assert verify(path) == []
    assert "NPU_OP_STOP" in disassemble(path)


@pytest.mark.parametrize("name", ["digits", *(n for n in ("rnnoise_int8", "mcunet_vww_int8") if n in shared_models())])
def test_separate_regions_of_inputs_and_outputs_run_like_the_reference(name: str) -> None:
    model = shared_models()[name].read_bytes() if name in shared_models() else DIGITS.read_bytes()
    compiled = compile_with_vela(model, "ethos-u55-128", *SEPARATE)
    inputs = random_inputs(model, 4)
    for found, expected in zip(run(compiled, inputs).outputs, reference(model, inputs), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("cmd_data", None, "cmd_data: must be an array of numbers or bytes"),
        ("cmd_data", np.zeros(3), "cmd_data: must be bytes"),
        ("cmd_data", np.array([{"a": 1}], dtype=object), "cmd_data: must be an array of numbers or bytes"),
        ("scratch_size", np.array([1, 2]), "scratch_size: must be one number"),
        ("input_elem_size", np.array([3]), "input_elem_size: must be 1, 2 or 4, got 3"),
        ("input_region", np.array([7]), "input_region: must be 1 or 3, got 7"),
        ("input_offset", np.array([-1]), "input 0: must have a positive shape"),
        ("output_shape", np.array([1, 2]), "output_shape: must have a row for each"),
        ("variable_region", np.array([1]), "variables are not supported"),
    ],
)
def test_a_malformed_raw_archive_is_told_with_its_entry(
    entry: str, value: np.ndarray | None, message: str, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    good.write_bytes(vela_raw("digits"))
    with np.load(good, allow_pickle=False) as archive:
        content = {name: archive[name] for name in archive.files if "quantization" not in name}
    content = {name: array for name, array in {**content, entry: value}.items() if array is not None}
    np.savez(bad, **content)
    with pytest.raises(ModelError) as caught:
        run(bad)
    assert str(caught.value).startswith("bad.npz: ")
    assert message in str(caught.value)


def test_a_broken_archive_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "cut.npz"
    path.write_bytes(vela_raw("digits")[:2000])
    with pytest.raises(ModelError, match=r"cut.npz: must be a readable .npz archive"):
        run(path)


# --- tensors and the first difference -----------------------------------------------------------------------------------------


def test_dumped_tensors_are_those_of_the_reference(tmp_path: Path) -> None:
    folder = tmp_path / "tensors"
    assert main(["run", str(DIGITS), "--seed", "5", "--dump-tensors", str(folder)]) == 0
    graph = read_model(DIGITS).graphs[0]
    inputs = [np.load(next(folder.glob("tensor_*_serving_default_keras_tensor_0.npy")))]
    output = np.load(next(folder.glob("tensor_*_StatefulPartitionedCall_1_0.npy")))
    np.testing.assert_array_equal(output, reference(DIGITS.read_bytes(), inputs)[0])
    pooled = np.load(next(folder.glob("npu_*_Pooling_MAX_functional_1_max_pooling2d_1_MaxPool2d.npy")))
    assert pooled.shape == next(t.shape for t in graph.tensors if t.name.endswith("MaxPool2d"))[1:]


@pytest.mark.parametrize("target", TARGETS)
def test_our_file_and_its_source_have_no_difference(target: str) -> None:
    result = diff(DIGITS, ours(target), seed=2)
    assert result.first is None
    assert len(result.compared) + len(result.skipped) >= 8


def _relabeled() -> bytes:
    """A convolution whose result is reshaped twice and handed over as uint8: the convolution writes uint8."""
    b, random = ModelBuilder(), np.random.default_rng(4)
    x = b.input((1, 6, 6, 8), I8, scale=0.5)
    weights = b.constant(random.integers(-9, 9, (4, 1, 1, 8)).astype(np.int8), scale=0.1)
    bias = b.constant(np.zeros(4, np.int32), scale=0.05)
    x = b.op("CONV_2D", [x, weights, bias], (1, 6, 6, 4), I8, 0.7, 9, attributes=at.Conv2DOptions(at.Padding.VALID, 1, 1))
    for shape in ((1, 12, 12), (1, 144)):
        x = b.op("RESHAPE", [x, b.constant(np.array(shape, np.int32))], shape, I8, 0.7, 9)
    b.output(b.op("QUANTIZE", [x], (1, 144), DType.UINT8, 0.7, 137))
    return b.build()


def _transposed() -> bytes:
    """A map whose first two axes are swapped between two sums: it is written with rows closer together than columns."""
    b = ModelBuilder()
    x = b.input((1, 4, 16, 40), I8, scale=0.5)
    x = b.op("ADD", [x, x], (1, 4, 16, 40), I8, 0.9)
    x = b.op("TRANSPOSE", [x, b.constant(np.array([0, 2, 1, 3], np.int32))], (1, 16, 4, 40), I8, 0.9)
    b.output(b.op("ADD", [x, x], (1, 16, 4, 40), I8, 1.7, attributes=at.AddOptions()))
    return b.build()


@pytest.mark.parametrize("model", [_relabeled, _transposed])
def test_maps_in_another_type_or_order_than_their_tensor_have_no_difference(model: Callable[[], bytes]) -> None:
    content = model()
    result = diff(content, npu.compile(content).content)
    assert result.first is None
    assert len(result.compared) >= 2


def test_inner_maps_of_a_file_of_vela_are_compared() -> None:
    result = diff(DIGITS, compile_with_vela(DIGITS.read_bytes(), "ethos-u55-128"))
    assert result.first is None
    assert {"0 CONV_2D", "1 DEPTHWISE_CONV_2D", "3 ADD", "9 SOFTMAX"} <= set(result.compared)


@cache
def broken() -> bytes:
    """Our file with the maximum of one activation lowered: that of the first pooling."""
    lines = disassemble(ours()).splitlines()
    pool = next(index for index, line in enumerate(lines) if line.startswith("NPU_OP_POOL"))
    limit = "NPU_SET_ACTIVATION_MAX value=65436"
    restored = "NPU_SET_ACTIVATION_MAX value=127"
    return assemble("\n".join([*lines[:pool], limit, lines[pool], restored, *lines[pool + 1 :]]), ours())


def test_the_first_difference_is_named_with_position_and_values(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first = diff(DIGITS, broken()).first
    assert first is not None
    assert (first.operator, first.type, first.tensor) == (4, "MAX_POOL_2D", "functional_1/max_pooling2d_1/MaxPool2d")
    assert first.actual == -100
    assert first.expected > -100
    path = tmp_path / "broken.tflite"
    path.write_bytes(broken())
    assert main(["diff", str(DIGITS), str(path)]) == 3
    text = capsys.readouterr().out
    assert "first differs from digits.tflite in operator 4 MAX_POOL_2D" in text
    assert "got -100" in text
    assert main(["diff", str(DIGITS), str(path), "--format", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["first"]["operator"] == 4


def test_diff_refuses_what_does_not_belong_together(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "compiled.tflite"
    path.write_bytes(ours())
    assert main(["diff", str(path), str(path)]) == 1
    assert "must be the plain source model" in capsys.readouterr().err
    assert main(["inference-diff", str(path), "--use_npu"]) == 1
    assert "must be a plain model" in capsys.readouterr().err
    assert main(["inference-diff", str(DIGITS), "--test-model", str(path), "--use_npu", "--num-runs", "1"]) == 0
    capsys.readouterr()
    assert main(["diff", str(DIGITS), str(DIGITS)]) == 1
    assert "compile it first" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(set(shared_models()) & {"mlperf_vww_int8", "mlperf_resnet8_int8", "kws_micronet_m_int8"})
)
def test_real_models_have_no_difference_and_survive_the_listing(name: str) -> None:
    model = repaired(shared_models()[name].read_bytes())
    compiled = npu.compile(model).content
    assert diff(model, compiled).first is None
    assert assemble(disassemble(compiled), compiled) == compiled
