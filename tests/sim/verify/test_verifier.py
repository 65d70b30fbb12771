"""Every rule of the verifier fires on a stream that breaks it, and on no stream that a compiler made."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import npu
from npu.api import disassemble
from npu.api import verify as verify_file
from npu.compiler.targets import compiler_targets
from npu.errors import SimulationError, UserError
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.decoded import Decoded
from npu.isa.disassemble import assemble as assemble_words
from npu.isa.disassemble import disassemble as disassemble_words
from npu.isa.operations import (
    ActivationFunction,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaSide,
    DmaWait,
    ElementType,
    Elementwise,
    KernelOperation,
    KernelWait,
    Operation,
    Pooling,
    PoolingMode,
    ShramLayout,
)
from npu.tflite.writer import write_model
from npu.toolchain.listing import assemble
from sim.container import NpuJob, jobs_of
from sim.functional.execute import check
from sim.memory import NpuMemory
from sim.verify.verifier import RULES, Finding, verify, written_by

from tests.support.litert import repaired
from tests.support.random_graphs import chains
from tests.support.shared import shared_models
from tests.support.streams import in_place_of
from tests.support.vela import compile_with_vela

DIGITS = Path(__file__).parents[3] / "examples" / "digits.tflite"
TARGET = "ethos-u55-128"
TARGETS = compiler_targets()
SMALL_MODELS = [
    name
    for name in (
        "mlperf_kws_int8",
        "mlperf_resnet8_int8",
        "mlperf_ad_int8",
        "mlperf_vww_int8",
        "rnnoise_int8",
        "mcunet_vww_int8",
    )
    if name in shared_models()
]
OTHER_MODELS = [name for name in ("mobilenet_v1_025_128_uint8", "movenet_lightning_int8") if name in shared_models()]
"""A softmax over 1001 channels; jobs that read what earlier ones left in the arena."""


@cache
def job_of(target: str) -> NpuJob:
    return next(jobs_of(npu.load(npu.compile(DIGITS, target=target).content)))


def judge(job: NpuJob, target: str, decoded: list[Decoded] | tuple[Decoded, ...]) -> list[Finding]:
    return verify(decoded, load_variant(target), job.region_bytes, job.given)


def judge_words(words: npt.NDArray[np.uint32], job: NpuJob, target: str = TARGET) -> list[Finding]:
    """Findings of a whole stream, its register writes included."""
    variant = load_variant(target)
    return verify(decode(words, variant), variant, job.region_bytes, job.given, words)


def stream(target: str = TARGET) -> list[Decoded]:
    return list(decode(job_of(target).payload.words, load_variant(target)))


def rules_of(decoded: list[Decoded], target: str = TARGET) -> set[str]:
    return {finding.rule for finding in judge(job_of(target), target, decoded)}


def changed(decoded: list[Decoded], index: int, operation: Operation) -> list[Decoded]:
    return [*decoded[:index], in_place_of(decoded[index], operation), *decoded[index + 1 :]]


def index_of(decoded: list[Decoded], accept: Callable[[Operation], bool]) -> int:
    return next(index for index, item in enumerate(decoded) if accept(item.operation))


@pytest.mark.parametrize("target", TARGETS)
def test_our_own_stream_has_no_findings(target: str) -> None:
    assert judge_words(job_of(target).payload.words, job_of(target), target) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_stream_of_vela_has_no_findings(target: str) -> None:
    job = next(jobs_of(npu.load(compile_with_vela(DIGITS.read_bytes(), target))))
    assert judge_words(job.payload.words, job, target) == []


def test_streams_of_random_chains_have_no_findings() -> None:
    for number, case in enumerate(chains(8, seed=5)):
        target = TARGETS[number % len(TARGETS)]
        for job in jobs_of(npu.load(npu.compile(write_model(case.model), target=target).content)):
            assert judge_words(job.payload.words, job, target) == []


def test_an_ofm_beyond_its_region_is_out_of_bounds() -> None:
    decoded = stream()
    index = index_of(decoded, lambda operation: isinstance(operation, Convolution))
    operation = decoded[index].operation
    assert isinstance(operation, Convolution)
    far = replace(operation.ofm, addresses=(job_of(TARGET).region_bytes[1], 0, 0, 0))
    findings = judge(job_of(TARGET), TARGET, changed(decoded, index, replace(operation, ofm=far)))
    assert findings[0].rule == "BOUNDS"
    assert findings[0].command_index == decoded[index].command_index
    assert findings[0].operation == "Convolution"


def test_a_region_that_does_not_exist_is_out_of_bounds() -> None:
    decoded = stream()
    index = index_of(decoded, lambda operation: isinstance(operation, Convolution))
    operation = decoded[index].operation
    assert isinstance(operation, Convolution)
    elsewhere = replace(operation, ifm=replace(operation.ifm, region=6))
    assert "BOUNDS" in rules_of(changed(decoded, index, elsewhere))


def test_a_kernel_that_does_not_wait_for_its_weights_is_a_hazard() -> None:
    decoded = [item for item in stream() if not isinstance(item.operation, DmaWait)]
    assert "HAZARD-KERNEL-DMA" in rules_of(decoded)


def test_a_transfer_over_what_a_kernel_still_reads_is_a_hazard() -> None:
    decoded = stream()
    index = index_of(decoded, lambda operation: isinstance(operation, DepthwiseConvolution))
    kernel = decoded[index].operation
    assert isinstance(kernel, KernelOperation)
    address = kernel.ifm.addresses[0] // 16 * 16
    transfer = Dma(source=DmaSide(0, 0), destination=DmaSide(kernel.ifm.region, address), length_bytes=16)
    late = in_place_of(decoded[index], transfer)
    assert "HAZARD-DMA-KERNEL" in rules_of([*decoded[: index + 1], late, *decoded[index + 1 :]])
    waits = in_place_of(decoded[index], KernelWait(0))
    assert "HAZARD-DMA-KERNEL" not in rules_of([*decoded[: index + 1], waits, late, *decoded[index + 1 :]])


def test_two_transfers_to_the_same_place_are_a_hazard_where_two_may_be_under_way() -> None:
    target = "ethos-u65-256"
    decoded = stream(target)
    transfer = in_place_of(decoded[0], Dma(source=DmaSide(0, 0), destination=DmaSide(2, 0), length_bytes=16))
    assert "HAZARD-DMA-DMA" in rules_of([transfer, transfer, *decoded], target)
    waits = in_place_of(decoded[0], DmaWait(0))
    assert "HAZARD-DMA-DMA" not in rules_of([transfer, waits, transfer, *decoded], target)
    assert "HAZARD-DMA-DMA" not in rules_of([transfer, transfer, *stream()])


def test_a_blockdep_that_lets_a_kernel_read_too_early_is_a_hazard() -> None:
    decoded = stream()
    kernels = [index for index, item in enumerate(decoded) if isinstance(item.operation, KernelOperation)]
    dependent = []
    for before, index in pairwise(kernels):
        operation, producer = decoded[index].operation, decoded[before].operation
        assert isinstance(operation, KernelOperation)
        assert isinstance(producer, KernelOperation)
        if operation.blockdep == 0 and operation.ifm.addresses == producer.ofm.addresses:
            dependent.append(index)
            assert rules_of(changed(decoded, index, replace(operation, blockdep=3))) == {"HAZARD-BLOCKDEP"}
    assert dependent


def test_a_softmax_waits_for_all_channels_that_its_pooling_reads_as_a_row() -> None:
    """As streams of Vela 3.12 and 4.2 do not: they compare channels with columns, and find nothing in common."""
    job = next(jobs_of(npu.load(compile_with_vela(DIGITS.read_bytes(), TARGET))))
    decoded = list(decode(job.payload.words, load_variant(TARGET)))
    kernels = [item for item in decoded if isinstance(item.operation, KernelOperation)]
    index = 0
    for before, item in pairwise(kernels):
        first, second = before.operation, item.operation
        assert isinstance(first, KernelOperation)
        if isinstance(second, Pooling) and second.ifm.addresses == first.ofm.addresses and second.ifm.width == first.ofm.depth:
            assert (first.ofm.width, second.ifm.depth, second.blockdep) == (1, 1, 0)
            index = index or decoded.index(item)
    assert judge(job, TARGET, decoded) == []
    pooling = decoded[index].operation
    assert isinstance(pooling, Pooling)
    found = judge(job, TARGET, changed(decoded, index, replace(pooling, blockdep=3)))
    assert [item.rule for item in found] == ["HAZARD-BLOCKDEP"]
    assert found[0].command_index == decoded[index].command_index


def test_reading_what_nothing_has_written_is_found() -> None:
    decoded = stream()
    index = index_of(decoded, lambda operation: isinstance(operation, DepthwiseConvolution))
    assert "UNINITIALISED" in rules_of(decoded[:index] + decoded[index + 1 :])


def test_a_wait_with_nothing_to_wait_for_is_found() -> None:
    decoded = stream()
    wait = in_place_of(decoded[0], KernelWait(0))
    assert rules_of([wait, *decoded]) == {"NO-EFFECT"}


def listed(before: str, *lines: str) -> npt.NDArray[np.uint32]:
    """The stream of the digits model with commands put before the first line that begins with `before`."""
    text = str(disassemble_words(job_of(TARGET).payload.words, load_variant(TARGET))).splitlines()
    at = next(index for index, line in enumerate(text) if line.startswith(before))
    return assemble_words("\n".join([*text[:at], *lines, *text[at:]]))


UNREAD = {
    "overwritten": ("NPU_SET_OFM_REGION", "NPU_SET_OFM_REGION value=2", "sets the register again"),
    "overwritten_by_the_same": ("NPU_SET_IFM_DEPTH_M1", "NPU_SET_IFM_DEPTH_M1 value=0", "sets the register again"),
    "weights_of_the_last_operation": ("NPU_OP_STOP", "NPU_SET_WEIGHT_BASE value=0x100", "the end"),
    "two_words_of_a_transfer": ("NPU_SET_DMA0_LEN", "NPU_SET_DMA0_LEN value=0x20", "sets the register again"),
}


@pytest.mark.parametrize("case", UNREAD)
def test_a_register_that_is_set_for_no_operation_is_found(case: str) -> None:
    before, line, why = UNREAD[case]
    (finding,) = judge_words(listed(before, line), job_of(TARGET))
    assert (finding.rule, finding.operation) == ("UNREAD-WRITE", line.split()[0])
    assert why in finding.message


def test_weights_set_for_a_pooling_are_found_where_the_next_convolution_sets_its_own() -> None:
    words = listed("NPU_OP_POOL", "NPU_SET_WEIGHT_BASE value=0x7f0")
    (finding,) = judge_words(words, job_of(TARGET))
    assert (finding.rule, finding.operation) == ("UNREAD-WRITE", "NPU_SET_WEIGHT_BASE")
    assert "value=2032" in finding.message


def test_a_register_set_again_to_what_it_holds_is_no_finding() -> None:
    lines = str(disassemble_words(job_of(TARGET).payload.words, load_variant(TARGET))).splitlines()
    first = next(line.partition(";")[0] for line in lines if line.startswith("NPU_SET_OFM_PRECISION"))
    assert judge_words(listed("NPU_OP_DEPTHWISE", first), job_of(TARGET)) == []


def test_what_a_stream_writes_outside_shram_is_left_for_later_jobs() -> None:
    sides = {"memory": DmaSide(1, 64), "table": DmaSide(None, 0)}
    copies = [Decoded(Dma(source=DmaSide(0, 0), destination=side, length_bytes=48), 0, 0) for side in sides.values()]
    assert list(written_by(copies, load_variant(TARGET))) == [(1, 64, 112)]


def test_every_rule_is_described() -> None:
    assert all(text for text in RULES.values())


def test_a_copy_of_bytes_that_nothing_wrote_is_found_and_one_of_a_padded_tensor_is_not() -> None:
    variant = load_variant(TARGET)
    copy = Decoded(Dma(source=DmaSide(1, 0), destination=DmaSide(1, 64), length_bytes=48), 0, 0)
    assert [item.rule for item in verify([copy], variant, {1: 128}, [])] == ["UNINITIALISED"]
    assert verify([copy], variant, {1: 128}, [(1, 0, 42)]) == []


def first_kernel(accept: Callable[[Operation], bool]) -> tuple[list[Decoded], int, KernelOperation]:
    decoded = stream()
    index = index_of(decoded, accept)
    operation = decoded[index].operation
    assert isinstance(operation, KernelOperation)
    return decoded, index, operation


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda shram: replace(shram, ifm_end=3), "IFM buffer"),
        (lambda shram: replace(shram, accumulator_start=shram.accumulator_start + 2), "accumulators"),
    ],
    ids=["input", "accumulators"],
)
def test_buffers_that_do_not_fit_their_banks_are_found(change: Callable[[ShramLayout], ShramLayout], what: str) -> None:
    decoded, index, operation = first_kernel(lambda operation: isinstance(operation, Convolution))
    findings = judge(job_of(TARGET), TARGET, changed(decoded, index, replace(operation, shram=change(operation.shram))))
    assert {finding.rule for finding in findings} == {"SHRAM"}
    assert what in findings[0].message


def test_second_inputs_that_do_not_fit_their_banks_are_found() -> None:
    decoded, index, operation = first_kernel(
        lambda operation: isinstance(operation, Elementwise) and operation.ifm2 is not None
    )
    low = replace(operation.shram, ifm2_start=operation.shram.ifm2_start - 2)
    late = replace(operation.shram, ifm_end=operation.shram.ifm2_start + 1)
    for shram in (low, late):
        assert rules_of(changed(decoded, index, replace(operation, shram=shram))) == {"SHRAM"}


def test_buffers_over_a_table_are_found() -> None:
    decoded, index, operation = first_kernel(lambda operation: operation_uses_table(operation))
    banks = load_variant(TARGET).shram.banks
    over = replace(operation.shram, accumulator_start=banks, ifm_end=banks)
    assert "SHRAM" in rules_of(changed(decoded, index, replace(operation, shram=over)))


def operation_uses_table(operation: Operation) -> bool:
    return isinstance(operation, KernelOperation) and operation.activation.function.lut_index is not None


def test_a_table_in_a_slot_of_another_size_is_found() -> None:
    decoded, index, operation = first_kernel(operation_uses_table)
    moved = replace(operation.activation, function=ActivationFunction.LUT_7)
    assert "LUT" in rules_of(changed(decoded, index, replace(operation, activation=moved)))


REFUSED: dict[str, tuple[Callable[[Operation], bool], Callable[[Operation], Operation], str]] = {
    "a clamp beyond the table": (
        operation_uses_table,
        lambda kernel: replace(
            kernel,
            ofm=replace(kernel.ofm, element=ElementType(8, True)),
            activation=replace(kernel.activation, clip_range=ClipRange.OFM_PRECISION, maximum=2109),
        ),
        "clamped values must lie in",
    ),
    "an input that the window does not fit": (
        lambda kernel: isinstance(kernel, Convolution),
        lambda kernel: replace(kernel, ifm=replace(kernel.ifm, height=kernel.ifm.height + 7)),
        "IFM height: must be",
    ),
    "another depth out of a pooling": (
        lambda kernel: isinstance(kernel, Pooling) and kernel.mode is not PoolingMode.REDUCE_SUM,
        lambda kernel: replace(kernel, ofm=replace(kernel.ofm, depth=kernel.ofm.depth + 1)),
        "OFM depth: must equal the IFM's",
    ),
    "operands of extents that differ": (
        lambda kernel: isinstance(kernel, Elementwise) and kernel.ifm2 is not None,
        lambda kernel: replace(kernel, ifm=replace(kernel.ifm, width=kernel.ifm.width + 3)),
        "IFM must have the OFM's extent",
    ),
    "a scalar beside a second input": (
        lambda kernel: isinstance(kernel, Elementwise) and kernel.ifm2 is not None,
        lambda kernel: replace(kernel, scalar=1),
        "exactly one of a second IFM and a scalar",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_run_refuses_of_an_operation_is_found(case: str) -> None:
    condition, change, what = REFUSED[case]
    decoded, index, operation = first_kernel(condition)
    broken = changed(decoded, index, change(operation))
    assert any(finding.rule == "REFUSED" and what in finding.message for finding in judge(job_of(TARGET), TARGET, broken))
    memory = NpuMemory({region: np.zeros(1 << 20, np.uint8) for region in range(3)}, load_variant(TARGET))
    with pytest.raises(SimulationError, match=what):
        check(broken[index].operation, memory)


def test_a_transfer_over_the_buffers_in_shram_is_found() -> None:
    decoded = stream()
    transfer = in_place_of(decoded[0], Dma(source=DmaSide(0, 0), destination=DmaSide(None, 0), length_bytes=16))
    assert "LUT" in rules_of([transfer, *decoded])


@pytest.mark.parametrize("name", sorted(name for name in shared_models() if "vela" in name))
def test_published_compiled_files_have_no_findings(name: str) -> None:
    assert verify_file(shared_models()[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SMALL_MODELS)
def test_vela_and_our_compiler_give_files_without_findings(name: str, target: str) -> None:
    """But one: for Ethos-U85 Vela sets the length of a second weight stream to 0 where no weights follow."""
    content = repaired(shared_models()[name].read_bytes())
    unread = [("UNREAD-WRITE", "NPU_SET_WEIGHT1_LENGTH")] if (name, target) == ("rnnoise_int8", "ethos-u85-512") else []
    assert [(finding.rule, finding.operation) for _, finding in verify_file(compile_with_vela(content, target))] == unread
    assert verify_file(npu.compile(content, target=target).content) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("name", OTHER_MODELS)
def test_vela_gives_larger_files_without_findings(name: str, target: str) -> None:
    assert verify_file(compile_with_vela(repaired(shared_models()[name].read_bytes()), target)) == []


def test_findings_name_the_operator_and_the_tensors() -> None:
    content = npu.compile(DIGITS, target=TARGET).content
    text = disassemble(content)
    start = text.index("NPU_SET_IFM_REGION value=1")
    broken = assemble(
        text[:start] + text[start:].replace("NPU_SET_IFM_REGION value=1", "NPU_SET_IFM_REGION value=6", 1), content
    )
    (_, finding), *_ = verify_file(broken)
    assert finding.rule == "BOUNDS"
    assert finding.source.startswith("0 CONV_2D")
    assert any("conv2d_1/Relu" in name for name in finding.tensors)


def test_a_kernel_that_does_not_wait_for_its_look_up_table_is_a_hazard() -> None:
    decoded, index, operation = first_kernel(operation_uses_table)
    shram, slot = load_variant(TARGET).shram, operation.activation.function.lut_index
    assert slot is not None
    table = Dma(source=DmaSide(0, 0), destination=DmaSide(None, shram.lut_address + 256 * slot), length_bytes=256)
    late = in_place_of(decoded[index], table)
    found = judge(job_of(TARGET), TARGET, [*decoded[:index], late, *decoded[index:]])
    assert ("HAZARD-KERNEL-DMA", -1) in {(finding.rule, finding.region) for finding in found}
    waits = in_place_of(decoded[index], DmaWait(0))
    found = judge(job_of(TARGET), TARGET, [*decoded[:index], late, waits, *decoded[index:]])
    assert "HAZARD-KERNEL-DMA" not in {finding.rule for finding in found}


def with_constants(content: bytes, change: Callable[[npt.NDArray[np.uint8]], None]) -> bytes:
    """A compiled file with other bytes in the constants of its first job."""
    model = npu.load(content)
    graph = model.graphs[0]
    job = next(op for op in graph.ops if op.custom_code == "ethos-u")
    tensors = list(graph.tensors)
    data = np.array(tensors[job.inputs[1]].data)
    change(data.reshape(-1))
    tensors[job.inputs[1]] = replace(tensors[job.inputs[1]], data=data)
    return write_model(replace(model, graphs=(replace(graph, tensors=tuple(tensors)), *model.graphs[1:])))


def test_weights_that_cannot_be_decoded_are_found() -> None:
    """Staged ones, too: those of the digits lie in flash and are copied into SRAM before they are read."""
    content = npu.compile(DIGITS, target=TARGET).content

    def break_all(data: npt.NDArray[np.uint8]) -> None:
        data[...] = np.random.default_rng(1).integers(0, 256, data.size)

    broken = with_constants(content, break_all)
    findings = [finding for _, finding in npu.verify(broken) if finding.rule == "WEIGHTS"]
    assert findings
    assert "weight stream" in findings[0].message
    with pytest.raises(UserError, match="weight stream"):
        npu.run(broken)
    assert npu.verify(with_constants(content, lambda data: None)) == []


def test_a_huge_region_takes_no_memory_to_verify() -> None:
    job, variant = job_of(TARGET), load_variant(TARGET)
    sizes = {**job.region_bytes, 1: 1 << 33, 2: 1 << 33}
    constants = np.zeros(sizes[0], np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    given = [*job.given, (1, 0, sizes[1]), (2, -5, 1 << 40)]  # as an input of a broken file may be declared
    verify(stream(), variant, sizes, given, contents={0: constants})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 18
