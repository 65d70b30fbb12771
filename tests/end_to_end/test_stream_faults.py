"""Errors about command streams say where: the file, the operator, the command, and what it works for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from npu.api import compile, disassemble
from npu.cli.main import main
from npu.graph.attributes import GatherNdOptions
from npu.graph.dtype import DType
from npu.graph.graph import Model, Op, Tensor
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from npu.toolchain.listing import assemble

EXAMPLES = Path(__file__).parents[2] / "examples"
SOURCE = "source.tflite"
COMMANDS = {
    "run": ["run"],
    "timing": ["run", "--timing-only"],
    "dump": ["run", "--dump-tensors", "tensors"],
    "explain": ["explain"],
    "disasm": ["disasm"],
    "verify": ["verify"],
    "diff": ["diff", SOURCE],
}


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    monkeypatch.chdir(tmp_path)
    Path(SOURCE).write_bytes(write_model(interrupted(read_model(EXAMPLES / "digits_partial.tflite"))))
    return compile(SOURCE).content


def interrupted(model: Model) -> Model:
    """The model with a GATHER_ND of all rows behind its second convolution, which stays on the CPU.

    Compiled, it has two NPU jobs, operators 1 (CONV_2D to CONV_2D) and 3 (CONV_2D to SOFTMAX).
    """
    (graph,) = model.graphs
    strided = graph.ops[3].outputs[0]
    rows, gathered = len(graph.tensors), len(graph.tensors) + 1
    whole = np.array([[[0, row] for row in range(graph.tensors[strided].shape[1])]], np.int32)
    tensors = Tensor("rows", whole.shape, DType.INT32, data=whole), replace(graph.tensors[strided], name="gathered")
    gather = Op("GATHER_ND", (strided, rows), (gathered,), GatherNdOptions())
    after = replace(graph.ops[4], inputs=(gathered, *graph.ops[4].inputs[1:]))
    ops = (*graph.ops[:4], gather, after, *graph.ops[5:])
    return replace(model, graphs=(replace(graph, tensors=(*graph.tensors, *tensors), ops=ops),))


def changed(compiled: bytes, operator: int, pattern: str, replacement: str) -> bytes:
    """The file with the first line of the operator's listing that matches replaced."""
    listing = disassemble(compiled)
    start = listing.index(f".operator 0 {operator} ")
    found, count = re.subn(pattern, replacement, listing[start:], count=1)
    assert count == 1
    return assemble(listing[:start] + found, compiled)


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == "" or arguments[0] == "disasm"
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("npu: error: ").rstrip("\n")


@pytest.mark.parametrize("command", ["run", "dump", "diff"])
@pytest.mark.parametrize(("job", "source"), [(1, "1 CONV_2D"), (3, "5 CONV_2D")])
def test_an_access_out_of_bounds_names_file_operator_and_command(
    job: int, source: str, command: str, compiled: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad model.tflite").write_bytes(
        changed(compiled, job, r"NPU_SET_OFM_BASE0 value=\S+", "NPU_SET_OFM_BASE0 value=0x7000000")
    )
    message = error_of([*COMMANDS[command], "bad model.tflite"], capsys)
    found = re.fullmatch(
        rf"bad model\.tflite: operator {job} \(ethos-u\): command (\d+) at (\w{{6}}) \(Convolution\): write of region 1: bytes "
        rf"must lie within its \d+ bytes, got \[0x7000000, 0x7\w+\); npu disasm lists the command, a part of operator {source} "
        r"of the source model",
        message,
    )
    assert found is not None, message
    listing = disassemble("bad model.tflite")
    section = listing[listing.index(f".operator 0 {job} ") :]
    assert re.search(rf"^NPU_OP_CONV +; {found[2]} Convolution .* ofm .* at region 1 \+ 0x7000000 ", section, re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_command_names_file_and_operator(command: str, compiled: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """The opcode of a register that does not exist in place of NPU_SET_KERNEL_STRIDE, in the second job."""
    word = re.compile(rb"\x22\x01(..)", re.DOTALL)
    place = [item.start() for item in word.finditer(compiled) if item.start() % 4 == 0][-1]
    Path("bad.tflite").write_bytes(compiled[:place] + b"\xff\x01" + compiled[place + 2 :])
    message = error_of([*COMMANDS[command], "bad.tflite"], capsys)
    assert re.fullmatch(
        r"bad\.tflite: operator 3 \(ethos-u\): command \d+ at \w{6}: must be a known command, got 0x\w{4}01ff", message
    )


def test_a_broken_stream_is_listed_with_what_is_no_command(compiled: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    words = ".word 0x000001ff\n.word 0x00004000"  # no command; a wide one without its second word
    broken = changed(compiled, 3, r"NPU_OP_STOP mask=65535", words)
    Path("bad.tflite").write_bytes(broken)
    assert main(["disasm", "bad.tflite"]) == 1
    captured = capsys.readouterr()
    place = re.search(r"operator 3 \(ethos-u\): command \d+ at (\w{6}): must be a known command, got 0x000001ff", captured.err)
    assert place is not None
    assert re.search(rf"^\.word 0x000001ff +; {place[1]} REFUSED no command$", captured.out, re.MULTILINE)
    assert re.search(r"^\.word 0x00004000 +; \w{6} REFUSED no command$", captured.out, re.MULTILINE)
    assert "NPU_OP_CONV" in captured.out
    assert assemble(captured.out, broken) == broken


@pytest.mark.parametrize("command", COMMANDS)
def test_a_payload_that_is_none_names_file_and_operator(
    command: str, compiled: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    place = compiled.rindex(b"COP1")
    Path("bad.tflite").write_bytes(compiled[:place] + b"COPY" + compiled[place + 4 :])
    message = error_of([*COMMANDS[command], "bad.tflite"], capsys)
    assert re.fullmatch(r"bad\.tflite: operator [13] \(ethos-u\): payload: must begin with COP1 or COP2, got b'COPY'", message)


def test_weights_that_do_not_decode_name_file_operator_and_command(compiled: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Found only at the moment of their use."""
    Path("bad.tflite").write_bytes(changed(compiled, 3, r"NPU_SET_WEIGHT_BASE value=\S+", "NPU_SET_WEIGHT_BASE value=0x10"))
    message = error_of(["run", "bad.tflite"], capsys)
    assert re.match(r"bad\.tflite: operator 3 \(ethos-u\): command \d+ at \w{6} \(Convolution\): weight stream: ", message)
    assert "a part of operator 5 CONV_2D of the source model" in message
