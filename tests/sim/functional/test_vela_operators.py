"""Every operator that Vela 5.2 places, alone: compiled by Vela, run here, equal to LiteRT's kernels or to a formula.

Where Vela's stream means something else than LiteRT's kernel (`tests.naive.vela_arithmetic.FORMULAS`), the result must equal
the formula, so no value may differ by chance. uint8 operators that LiteRT lacks are compared in their int8 form.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from npu.api import disassemble, time_model, verify
from npu.graph.attributes import ReducerOptions
from npu.graph.dtype import DType
from npu.graph.ethos_u import is_compiled
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.payload import parse_payload
from npu.rendering.run import run_text
from npu.tflite.reader import read_model
from npu.toolchain.listing import assemble
from sim.memory import NpuMemory

from tests.naive.operations import run_operation
from tests.naive.vela_arithmetic import FORMULAS, real_sum, reduced_axes, sum_over_first_axis
from tests.support.compatibility import TARGETS, Array, reference, simulate
from tests.support.interpreters import run
from tests.support.litert import random_inputs
from tests.support.operator_cases import I16, I32, ints, out, tensor
from tests.support.operator_cases import model as single
from tests.support.vela import only_job
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import CPU_ONLY, KINDS, VELA_CASES, as_int8, with_shapes

QUICK = (
    "CONV_2D-int16",
    "DEPTHWISE_CONV_2D-int8",
    "MEAN-int8",
    "MIRROR_PAD-int8",
    "ADD-uint8",
    "SOFTMAX-int16",
    "ARG_MAX-int8",
    "RESIZE_BILINEAR-int8",
)
SEEDS = 24
BUILTIN = {"ELU-int8"}
"""Operators that LiteRT's reference resolver does not have."""
IN_INT8 = {"ABS-uint8", "QUANTIZE-int16-uint8", "SQUARED_DIFFERENCE-uint8"}
"""uint8 operators that LiteRT's kernels do not have, but their int8 form."""
TWIN = {"SQUARED_DIFFERENCE-int16": "LiteRT has it for int8 and int32 only"}
"""Compared with the naive twin of the stream only."""
REFUSED = {"PRELU-uint8": "Non-passthrough operation"}
"""What some of Vela's runs end with instead of a file."""
NO_REFERENCE = {"FULLY_CONNECTED-uint8": "LiteRT refuses it"}
"""What is said of drawn models that LiteRT's kernels do not take: here a bias of another scale than the product's."""
POSITIVE = {"RSQRT-int16"}
"""Defined for positive values only."""
ASSUMED = {"SUM-int16": {"UNDOCUMENTED"}, "SUM-int32": {"UNDOCUMENTED"}}
"""Findings of what no description of the machine covers."""
NO_MODEL = {"HARD_SWISH-int16"}
"""Types of a kind that LiteRT has no kernel for and Vela does not read."""


def built(name: str, seed: int) -> tuple[bytes, list[Array]]:
    model = with_shapes(VELA_CASES[name](np.random.default_rng([seed, 7])))
    inputs = random_inputs(model, seed)
    if name in POSITIVE:
        inputs = [np.clip(np.abs(item.astype(np.int32)), 1, 32767).astype(np.int16) for item in inputs]
    return model, inputs


def with_builtin_kernels(model: bytes, inputs: list[Array]) -> Array:
    """First output under LiteRT's optimised kernels."""
    interpreter = Interpreter(
        model_content=model, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, num_threads=1
    )
    return run(interpreter, inputs)[0]


def signed(array: Array) -> Array:
    return (array.astype(np.int16) - 128).astype(np.int8) if array.dtype == np.uint8 else array


def twin(compiled: bytes, target: str, inputs: list[Array]) -> list[Array]:
    """Outputs of the only NPU operator of a compiled file, by the naive twin."""
    job, variant = only_job(compiled), load_variant(target)
    arena = np.zeros(job.scratch_bytes, np.uint8)
    for (offset, _, _), value in zip(job.inputs, inputs, strict=True):
        arena[offset : offset + value.nbytes] = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    memory = NpuMemory({0: job.read_only, 1: arena, 2: np.zeros(job.fast_bytes, np.uint8)}, variant)
    for decoded in decode(parse_payload(job.payload).words, variant):
        run_operation(decoded.operation, memory)
    arena = memory.regions[1]
    return [arena[at : at + int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape) for at, shape, kind in job.outputs]


def expected_outputs(name: str, model: bytes, inputs: list[Array], compiled: bytes, target: str) -> list[Array]:
    if name in FORMULAS:
        return [FORMULAS[name](read_model(model), inputs)]
    if name in TWIN:
        return twin(compiled, target, inputs)
    if name in BUILTIN:
        return [with_builtin_kernels(model, inputs)]
    if name in IN_INT8:
        return reference(as_int8(model), [signed(item) for item in inputs])
    return reference(model, inputs)


Expected = Callable[[str, bytes, list[Array], bytes, str], list[Array]]
"""Outputs by name, model, inputs, compiled file and target."""


def check(name: str, seed: int, target: str) -> str:
    """Compile and compare one case: "npu", "cpu", "refused" by Vela or "no reference"."""
    return outcome(name, *built(name, seed), target, expected_outputs)


def outcome(name: str, model: bytes, inputs: list[Array], target: str, expect: Expected) -> str:
    """`check` of a given model, by what is to be expected."""
    try:
        compiled = compile_forked(model, target)
    except RuntimeError as error:
        if REFUSED.get(name, "\n") not in str(error):
            raise
        return "refused"
    if not is_compiled(read_model(compiled)):
        return "cpu"
    try:
        expected = expect(name, model, inputs, compiled, target)
    except RuntimeError as error:
        if NO_REFERENCE.get(name, "\n") not in str(error):
            raise
        return "no reference"
    for ours, theirs in zip(simulate(compiled, inputs), expected, strict=True):
        ours = signed(ours) if name in IN_INT8 else ours
        np.testing.assert_array_equal(ours.reshape(theirs.shape), theirs, err_msg=f"{name}, {target}")
    return "npu"


@pytest.mark.parametrize("name", QUICK)
def test_an_operator_alone_equals_the_reference(name: str) -> None:
    results = [check(name, seed, "ethos-u55-128") for seed in range(3)]
    assert "npu" in results
    assert set(results) <= {"npu", "cpu"}


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_where_velas_stream_means_something_else_it_is_known_exactly(name: str) -> None:
    results = [check(name, seed, TARGETS[seed % len(TARGETS)]) for seed in range(4)]
    assert results.count("npu") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(VELA_CASES) - NO_MODEL - CPU_ONLY))
def test_every_operator_alone_equals_the_reference(name: str) -> None:
    results = [check(name, seed, TARGETS[seed % len(TARGETS)]) for seed in range(SEEDS)]
    assert "npu" in results


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(VELA_CASES) - NO_MODEL - CPU_ONLY))
def test_the_file_of_an_operator_has_no_findings_and_comes_back_from_its_listing(name: str) -> None:
    judged = 0
    for seed, target in enumerate(TARGETS):
        try:
            compiled = compile_forked(built(name, seed)[0], target)
        except RuntimeError:  # a model that LiteRT or Vela refuses
            continue
        if is_compiled(read_model(compiled)):
            judged += 1
            assert {finding.rule for _, finding in verify(compiled)} <= ASSUMED.get(name, set())
            assert assemble(disassemble(compiled), compiled) == compiled
    assert judged


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(VELA_CASES) & CPU_ONLY))
def test_what_vela_leaves_to_the_cpu_is_known(name: str) -> None:
    for seed in range(6):
        try:
            model, _ = built(name, seed)
        except (RuntimeError, ValueError):  # LiteRT has no such kernel
            continue
        assert not is_compiled(read_model(compile_forked(model, TARGETS[seed % len(TARGETS)])))


@pytest.mark.parametrize("name", ["SUM-int8", "SUM-uint8", "SUM-int16"])
def test_a_sum_over_one_axis_equals_litert(name: str) -> None:
    """The optimised kernel: the reference kernel of LiteRT 2.3 gives other values in every run for int8 and int16."""
    compared = 0
    for seed in range(SEEDS):
        model, inputs = built(name, seed)
        axes = reduced_axes(read_model(model))
        expected = with_builtin_kernels(model, inputs)
        np.testing.assert_array_equal(real_sum(read_model(model), inputs, axes).reshape(expected.shape), expected)
        compared += len(axes) == 1
    assert compared >= 6


NO_KERNEL = {"EXP-uint8", "NEG-uint8", "RELU_0_TO_1-int16", "RELU_N1_TO_1-int16", "UNIDIRECTIONAL_SEQUENCE_LSTM-int16"}
"""Operators with a formula that LiteRT does not have."""
UNLIKE_LITERT = sorted(set(FORMULAS) - NO_KERNEL)


@pytest.mark.parametrize("name", UNLIKE_LITERT)
def test_every_formula_is_needed(name: str) -> None:
    def differs(seed: int) -> bool:
        model, inputs = built(name, seed)
        theirs = with_builtin_kernels(model, inputs) if name.startswith("SUM") else reference(model, inputs)[0]
        return not np.array_equal(FORMULAS[name](read_model(model), inputs).reshape(theirs.shape), theirs)

    assert any(map(differs, range(SEEDS)))


@pytest.mark.parametrize("name", ["SUM-int16", "PRELU-int16", "TRANSPOSE-uint8", "NEG-int8", "EXP-int8"])
def test_the_simulator_equals_the_naive_twin_on_these_streams(name: str) -> None:
    compared = 0
    for seed in range(6):
        model, inputs = built(name, seed)
        compiled = compile_forked(model, "ethos-u55-128")
        if not is_compiled(read_model(compiled)):
            continue
        compared += 1
        for ours, theirs in zip(simulate(compiled, inputs), twin(compiled, "ethos-u55-128", inputs), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert compared >= 2


@pytest.mark.parametrize("dtype", [I16, I32], ids=str)
@pytest.mark.parametrize("shape", [(6, 4), (4, 6, 5), (7, 2, 3), (1, 3, 2)], ids=str)
def test_a_reduce_sum_with_several_output_channels_runs_as_assumed(dtype: DType, shape: tuple[int, ...]) -> None:
    """Vela 5.2 makes one of a SUM over the last axis. It reads one pixel for n sums, so no meaning of it gives all of them."""
    rng = np.random.default_rng(3)
    ifm = tensor(rng, shape, dtype)
    model = with_shapes(single("SUM", [ifm, ints(len(shape) - 1)], [out(rng, dtype, ifm)], ReducerOptions(False)))
    inputs = random_inputs(model, 5)
    compiled = compile_forked(model, "ethos-u55-128")
    np.testing.assert_array_equal(simulate(compiled, inputs)[0], sum_over_first_axis(read_model(model), inputs))
    ((_, finding),) = verify(compiled)
    assert (finding.rule, finding.operation) == ("UNDOCUMENTED", "Pooling")
    assert finding.message == (
        f"REDUCE_SUM: OFM depth should be 1, got {shape[-2]}; what the hardware writes is not public, here every channel holds "
        "the sum of its pixel"
    )
    timed = time_model(compiled)
    assert timed.report.notes == (f"job 0, command {finding.command_index} at {finding.word_index:06x}: {finding.message}",)
    assert "note    job 0, command" in run_text(timed.report, 100)


def test_the_operators_are_those_of_velas_report(tmp_path: Path) -> None:
    vela = Path(sys.executable).with_name("vela")
    subprocess.run(
        [str(vela), "--supported-ops-report", "--output-dir", str(tmp_path)], capture_output=True, check=True, cwd=tmp_path
    )
    text = (tmp_path / "SUPPORTED_OPS.md").read_text()
    section = text[: text.index("## Ethos-U85")] if "## Ethos-U85" in text else text
    listed = dict.fromkeys(re.findall(r"^\| ([A-Z0-9_]+) \|", section, re.MULTILINE))
    assert set(KINDS) <= set(listed)
    assert {name.split("-")[0] for name in VELA_CASES} >= set(KINDS)
