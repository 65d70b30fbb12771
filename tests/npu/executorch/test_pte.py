"""ExecuTorch programs run as the compiled file inside them does, with the quantization that their CPU kernels compute."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import npu
from npu.cli.main import main
from npu.errors import ModelError, UserError
from npu.executorch import is_pte, schema
from npu.executorch.vela_stream import arrays_of

from tests.support.pte import program, quantized_program, stream_of, tensor, vela_stream

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def compiled() -> bytes:
    return npu.compile(EXAMPLES / "digits.tflite").content


@pytest.fixture(scope="module", params=[False, True], ids=["inline", "segment"])
def pte(compiled: bytes, request: pytest.FixtureRequest) -> bytes:
    return quantized_program(compiled, in_segment=request.param)


def image() -> np.ndarray:
    """A picture in the float domain of the quantized one."""
    quantization = npu.load(EXAMPLES / "digits.tflite").graphs[0].tensors[0].quantization
    given = np.load(EXAMPLES / "digit_7.npy").astype(np.float32)
    assert quantization is not None
    return (given - np.float32(quantization.zero_point)) * np.float32(quantization.scale)


def test_a_program_gives_what_the_compiled_file_gives(pte: bytes, compiled: bytes) -> None:
    assert is_pte(pte)
    expected = npu.run(compiled, inputs=[np.load(EXAMPLES / "digit_7.npy")])
    ran = npu.run(pte, inputs=[image()])
    quantization = expected.output_quantization[0]
    assert quantization is not None
    scores = (expected.outputs[0].astype(np.float32) - quantization.zero_point) * np.float32(quantization.scale)
    np.testing.assert_array_equal(ran.outputs[0], scores)
    assert ran.report.totals.npu_cycles == expected.report.totals.npu_cycles


def test_a_program_for_ethos_u85_runs() -> None:
    compiled = npu.compile(EXAMPLES / "digits.tflite", target="ethos-u85-256", memory_mode="Shared_Sram").content
    expected = npu.run(compiled, inputs=[np.load(EXAMPLES / "digit_7.npy")])
    ran = npu.run(quantized_program(compiled, in_segment=False), inputs=[image()])
    assert int(ran.outputs[0].argmax()) == int(expected.outputs[0].argmax()) == 7
    assert ran.report.totals.npu_cycles == expected.report.totals.npu_cycles


def test_the_commands_take_a_program(pte: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "digits.pte"
    path.write_bytes(pte)
    np.save(tmp_path / "x.npy", image())
    assert main(["run", str(path), "--input", str(tmp_path / "x.npy"), "--labels", str(EXAMPLES / "labels.txt")]) == 0
    assert "prediction: 7" in capsys.readouterr().out.lower()
    assert main(["disasm", str(path)]) == 0
    assert "NPU_OP_CONV" in capsys.readouterr().out
    assert main(["verify", str(path)]) == 0


def test_quantizing_rounds_ties_to_even_and_multiplies_by_the_inverse(compiled: bytes) -> None:
    """By hand: halves go to the even neighbour, values beyond the range are clamped, no number is the lowest."""
    interpreter = npu.Interpreter(model=npu.load(quantized_program(compiled, in_segment=False)))
    interpreter.allocate_tensors()
    model = interpreter.model.graphs[0]
    values = np.resize(np.array([0.5, 1.5, 2.5, -0.5, 1e9, -1e9, np.nan, 3.0], np.float32), model.tensors[0].shape)
    from npu.runtime.operators.executorch import CUSTOM_OPERATORS, QUANTIZE, QuantizeCall

    builder = CUSTOM_OPERATORS[QUANTIZE]
    assert builder.init is not None

    class Tensors:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

    class Call:
        tensors = (Tensors(values.ravel()[:8]), Tensors(np.zeros(8, np.int8)))
        inputs, outputs = (0,), (1,)
        user_data = QuantizeCall(1.0, 2, -128, 127)

    builder.invoke(Call, Call)  # type: ignore[arg-type]
    assert Call.tensors[1].array.tolist() == [2, 4, 4, 2, 127, -128, -128, 5]


def refusal(content: bytes) -> str:
    with pytest.raises(ModelError) as refused:
        npu.load(content)
    return str(refused.value)


def test_what_is_no_ethos_u_program_is_refused(compiled: bytes) -> None:
    assert "kernels must be dequantize_per_tensor or quantize_per_tensor, got aten::add" in refusal(
        quantized_program(compiled, in_segment=False, kernel="aten::add")
    )
    plan = schema.ExecutionPlan("forward", None, (tensor((1,), 6),), (0,), (0,), (schema.PteChain(),))
    assert "must call a delegate 'EthosUBackend', got none" in refusal(program(plan, b"", in_segment=False))
    assert "must have one method of one chain" in refusal(program(schema.ExecutionPlan(), b"", in_segment=False))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ({}, "must have the block 'vela_bin_stream'"),
        ({"vela_bin_stream": b"", "cmd_data": b""}, "must have the block 'weight_data'"),
    ],
)
def test_a_stream_without_its_blocks_is_refused(blocks: dict[str, bytes], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        arrays_of(stream_of(blocks), "here")


def test_blocks_that_lie_are_refused(compiled: bytes) -> None:
    stream = vela_stream(compiled)
    with pytest.raises(ModelError, match="block 'cmd_data' must lie inside"):
        arrays_of(stream[:48] + struct.pack("<I", 1 << 31) + stream[52:], "here")
    with pytest.raises(ModelError, match="got a reference to data elsewhere"):
        arrays_of(stream[:20] + b"\1" + stream[21:], "here")
    with pytest.raises(ModelError, match="header must lie inside"):
        arrays_of(stream[:40], "here")


def test_damaged_programs_end_in_an_error_or_run(pte: bytes) -> None:
    random = np.random.default_rng(5)
    for _ in range(300):
        content = bytearray(pte)
        for _ in range(int(random.integers(1, 4))):
            content[int(random.integers(0, 900))] = int(random.integers(0, 256))
        if not is_pte(bytes(content)):
            continue
        try:
            npu.load(bytes(content))
        except UserError:
            continue


def test_a_truncated_program_ends_in_an_error(pte: bytes) -> None:
    for length in range(8, len(pte) - 64, 997):
        with pytest.raises(UserError):
            npu.run(pte[:length])
