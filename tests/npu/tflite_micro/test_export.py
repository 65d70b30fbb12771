"""npu export: sources that a C compiler takes, whose array is the file and whose operators are those in it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.errors import ModelError
from npu.graph.attributes import VarHandleOptions
from npu.graph.dtype import DType
from npu.graph.ethos_u import arena_offsets
from npu.tflite_micro.arena import arena_size, resource_variables
from npu.tflite_micro.c_text import identifier
from npu.tflite_micro.resolver import method_of, registrations
from npu.toolchain.export import Exported

from tests.support.builder import ModelBuilder

EXAMPLES = Path(__file__).parents[3] / "examples"
HEADERS = Path(__file__).parents[2] / "support/tflite_micro"
DUMP = """#include <stdio.h>
#include "digits_model.h"
int main(void) {
  fwrite(digits_model, 1, DIGITS_MODEL_BYTES, stdout);
  return (unsigned)((uintptr_t)digits_model % 16);
}
"""


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return npu.compile(EXAMPLES / "digits.tflite").content


@pytest.fixture(scope="module")
def digit() -> np.ndarray:
    return np.load(EXAMPLES / "digit_7.npy")


@pytest.fixture(scope="module")
def exported(digit: np.ndarray) -> Exported:
    return npu.export(EXAMPLES / "digits.tflite", inputs=[digit])


def built(folder: Path, compiler: str, *arguments: str | Path) -> Path:
    program = folder / "program"
    flags = ("-Wall", "-Wextra", "-Werror", "-pedantic", "-I", str(folder), "-o", str(program))
    subprocess.run([compiler, *flags, *map(str, arguments)], check=True, cwd=folder)
    return program


def test_the_array_in_the_program_is_the_file(exported: Exported, compiled: bytes, tmp_path: Path) -> None:
    exported.save(tmp_path)
    (tmp_path / "dump.c").write_text(DUMP)
    program = built(tmp_path, "gcc", "-std=c99", "dump.c", "digits_model.c")
    ran = subprocess.run([program], capture_output=True, check=True)
    assert ran.stdout == compiled


def application(exported: Exported, folder: Path, *, input_bytes: int = 64, output_bytes: int = 10) -> Path:
    """The exported inference on an interpreter that takes its output from a file."""
    exported.save(folder)
    (main_source,) = (name for name in exported.files if name.endswith(".cc"))
    objects = []
    for source in (name for name in exported.files if name.endswith(".c")):
        objects.append(built(folder, "gcc", "-std=c99", "-c", source).rename(folder / f"{source}.o"))
        built(folder, "g++", "-std=c++17", "-x", "c++", "-c", source)  # for build systems that take .c files for C++
    sizes = (f"-DINPUT_BYTES={input_bytes}", f"-DOUTPUT_BYTES={output_bytes}")
    return built(folder, "g++", "-std=c++17", "-I", HEADERS, *sizes, main_source, *objects)


def test_the_self_test_passes_on_the_simulators_output(exported: Exported, digit: np.ndarray, tmp_path: Path) -> None:
    program = application(exported, tmp_path)
    expected = npu.run(EXAMPLES / "digits.tflite", inputs=[digit]).outputs[0].tobytes()
    (tmp_path / "output.bin").write_bytes(expected)
    ran = subprocess.run([program], capture_output=True, cwd=tmp_path, text=True, check=False)
    assert (ran.returncode, "self-test: passed" in ran.stdout) == (0, True)
    assert (tmp_path / "input.bin").read_bytes() == digit.tobytes()


def test_the_self_test_fails_on_another_output(exported: Exported, tmp_path: Path) -> None:
    program = application(exported, tmp_path)
    (tmp_path / "output.bin").write_bytes(bytes(10))
    ran = subprocess.run([program], capture_output=True, cwd=tmp_path, text=True, check=False)
    assert (ran.returncode, "1 outputs differ" in ran.stdout) == (4, True)


@pytest.mark.parametrize(("factor", "code"), [(1, 0), (1.00001, 0), (1.001, 4), (np.nan, 4)])
def test_float_outputs_may_differ_by_their_last_bits(factor: float, code: int, tmp_path: Path) -> None:
    exported = npu.export(EXAMPLES / "digits_partial.tflite")
    program = application(exported, tmp_path, input_bytes=256, output_bytes=40)
    expected = npu.run(EXAMPLES / "digits_partial.tflite").outputs[0]
    (tmp_path / "output.bin").write_bytes((expected * np.float32(factor)).tobytes())
    assert subprocess.run([program], capture_output=True, cwd=tmp_path, check=False).returncode == code


def with_variables() -> bytes:
    """A sum that is kept from one inference to the next, in a resource variable and in a variable tensor."""
    b = ModelBuilder()
    kept = b.op("VAR_HANDLE", [], (), DType.RESOURCE, attributes=VarHandleOptions("box", "sum"))
    total = b.op(
        "ADD", [b.input((1, 8), DType.FLOAT32), b.op("READ_VARIABLE", [kept], (1, 8), DType.FLOAT32)], (1, 8), DType.FLOAT32
    )
    b.multi_op("ASSIGN_VARIABLE", [kept, total], [])
    b.output(total)
    return b.build()


def test_resource_variables_have_a_table_and_room() -> None:
    exported = npu.export(with_variables())
    source = exported.files["model_main.cc"]
    assert "MicroResourceVariables::Create(allocator, 1)" in source
    assert "MicroInterpreter interpreter(tflite::GetModel(model_model), resolver, allocator, variables)" in source
    assert resource_variables(npu.load(with_variables())) == {("box", "sum"): 32}


def test_an_application_with_resource_variables_compiles(tmp_path: Path) -> None:
    application(npu.export(with_variables()), tmp_path, input_bytes=32, output_bytes=32)


def test_the_fast_scratch_can_be_handed_to_the_driver(tmp_path: Path) -> None:
    exported = npu.export(EXAMPLES / "digits.tflite", target="ethos-u65-512", memory_mode="Dedicated_Sram")
    (size,) = re.findall(r"FAST_SCRATCH_BYTES (\d+)u", exported.files["digits_model.h"])
    assert int(size) > 0
    assert f"extern uint8_t digits_fast_scratch[{size}];" in exported.files["digits_model.h"]
    application(exported, tmp_path)


def test_the_operators_are_those_of_the_file(exported: Exported, compiled: bytes) -> None:
    in_file = {op.name for graph in npu.load(compiled).graphs for op in graph.ops}
    assert {row.name for row in exported.operators} == in_file == {"ethos-u"}
    header = exported.files["digits_operators.h"]
    assert re.findall(r"resolver\.(\w+)\(", header) == ["AddEthosU"]
    assert "kDigitsOperators = 1;" in header


def test_operators_on_the_cpu_are_registered_with_their_versions() -> None:
    rows = registrations(npu.load(EXAMPLES / "digits.tflite"))
    assert {row.name: row.method for row in rows} == {
        "ADD": "AddAdd",
        "AVERAGE_POOL_2D": "AddAveragePool2D",
        "CONV_2D": "AddConv2D",
        "DEPTHWISE_CONV_2D": "AddDepthwiseConv2D",
        "FULLY_CONNECTED": "AddFullyConnected",
        "MAX_POOL_2D": "AddMaxPool2D",
        "SOFTMAX": "AddSoftmax",
    }
    assert all(row.versions for row in rows)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("AVERAGE_POOL_2D", "AddAveragePool2D"),
        ("BATCH_MATMUL", "AddBatchMatMul"),
        ("CUMSUM", "AddCumSum"),
        ("PADV2", "AddPadV2"),
        ("RELU6", "AddRelu6"),
        ("SPACE_TO_BATCH_ND", "AddSpaceToBatchNd"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", "AddUnidirectionalSequenceLSTM"),
    ],
)
def test_methods_of_the_resolver(kind: str, method: str) -> None:
    assert method_of(kind, kind) == method


def test_an_operator_that_the_runtime_lacks_is_refused() -> None:
    builder = ModelBuilder()
    builder.output(builder.op("RANK", [builder.input((1, 4), DType.FLOAT32)], (), DType.INT32))
    with pytest.raises(ModelError, match=r"must be one that TensorFlow Lite Micro has, got RANK"):
        registrations(builder.model())


def test_the_arena_holds_every_planned_map(exported: Exported, compiled: bytes) -> None:
    model = npu.load(compiled)
    offsets = arena_offsets(model)
    end = max(
        int(offset) + tensor.bytes for offset, tensor in zip(offsets, model.graphs[0].tensors, strict=True) if offset >= 0
    )
    places = 4 + 1 + 1  # inputs and outputs of the one ethos-u operator, whose two tables of 8 and 4 bytes each are aligned
    assert exported.arena.head == -(-end // 16) * 16 + (-(-8 * places // 16) + -(-4 * places // 16)) * 16
    assert exported.arena == arena_size(model)
    assert f"DIGITS_ARENA_BYTES {exported.arena.total}u" in exported.files["digits_model.h"]


def test_the_how_to_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (EXAMPLES.parent / "docs/on-a-board.md").read_text(encoding="utf-8")
    commands, shown = re.findall(r"^```(?:sh)?\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    for name in ("digits.tflite", "digit_7.npy"):
        shutil.copy(EXAMPLES / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert [main(line.split()[1:]) for line in commands.splitlines()] == [0, 0]
    assert " ".join(shown.split()) in " ".join(capsys.readouterr().out.split())
    assert {path.name for path in Path("app").iterdir()} == set(re.findall(r"digits_npu_\w+\.\w+", shown))


def test_raw_output_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "raw.npz", cmd_data=np.zeros(4, np.uint8))
    with pytest.raises(ModelError, match=r"must be a \.tflite file, since a runtime loads no other"):
        npu.export(tmp_path / "raw.npz")


def test_the_arena_holds_maps_without_a_planned_place() -> None:
    """A plain model has no plan: every computed map counts, each up to a multiple of 16 bytes."""
    model = npu.load(EXAMPLES / "digits.tflite")
    maps = [tensor for tensor in model.graphs[0].tensors if not tensor.is_constant]
    assert arena_size(model).head == sum(-(-tensor.bytes // 16) * 16 for tensor in maps) > 0


def test_names_become_identifiers() -> None:
    assert [identifier(name) for name in ("a-b.c", "7up", "", "*/ evil")] == ["a_b_c", "model_7up", "model", "evil"]
