"""The stream decoder: real streams, registers that persist, and every rule that a stream can break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product
from npu.isa.decode import decode
from npu.isa.disassemble import disassemble
from npu.isa.encode import encode
from npu.isa.ethos_u55_u65 import ETHOS_U55_U65
from npu.isa.operations import (
    INT8,
    INT16,
    INT32,
    Activation,
    ActivationFunction,
    AddressRange,
    Block,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    DmaWait,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    IfmPadding,
    KernelWindow,
    Layout,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Scale,
    ShramLayout,
    Stop,
    Upscale,
)
from npu.isa.stream import CommandStream
from npu.tflite.writer import write_model

from tests.support.operations import operations
from tests.support.sample_models import image_classifier
from tests.support.shared import shared_models
from tests.support.single_ops import binary
from tests.support.streams import Job, jobs
from tests.support.vela import compile_with_vela

U55, U65_512 = load_variant("ethos-u55-128"), load_variant("ethos-u65-512")
STOP = 0xFFFF0000
COMPILED = {
    "classifier-u55-128": (image_classifier, "ethos-u55-128"),
    "classifier-u65-512": (image_classifier, "ethos-u65-512"),
    "addition-u55-32": (lambda: write_model(binary("ADD")), "ethos-u55-32"),
}


def feature_map(height: int, width: int, depth: int, *, address: int = 0, element: object = INT8) -> FeatureMap:
    size = element.bytes  # type: ignore[attr-defined]
    return FeatureMap(
        1, height, width, depth, element, Layout.NHWC, -3, (address, 0, 0, 0), height, height, width,  # type: ignore[arg-type]
        width * depth * size, depth * size, size,
    )  # fmt: skip


CONVOLUTION = Convolution(
    ifm=feature_map(8, 8, 16),
    ofm=feature_map(4, 4, 32, address=0x400),
    block=Block(4, 4, 32),
    shram=ShramLayout(6, 14),
    activation=Activation(-128, 127),
    scale=None,
    kernel=KernelWindow(3, 3, 2, 2),
    padding=IfmPadding(0, 0, 1, 1),
    weights=(AddressRange(0, 0x40, 0x1000),),
    scales=(AddressRange(0, 0x1040, 0x140),),
)
DEPTHWISE = DepthwiseConvolution(
    ifm=feature_map(8, 8, 16),
    ofm=feature_map(8, 8, 16, address=0x400),
    block=Block(8, 8, 16),
    shram=ShramLayout(6, 14),
    activation=Activation(-128, 127),
    scale=None,
    kernel=KernelWindow(3, 3),
    padding=IfmPadding(1, 1, 1, 1),
    weights=(AddressRange(0, 0x40, 0x100),),
    scales=(AddressRange(0, 0x140, 0xA0),),
)
POOLING = Pooling(
    ifm=feature_map(8, 8, 16),
    ofm=feature_map(4, 4, 16, address=0x400),
    block=Block(4, 4, 16),
    shram=ShramLayout(6, 14),
    activation=Activation(-128, 127),
    scale=Scale(1 << 30, 32),
    kernel=KernelWindow(2, 2, 2, 2),
    mode=PoolingMode.AVERAGE,
)
ADD = Elementwise(
    ifm=feature_map(4, 4, 16),
    ofm=feature_map(4, 4, 16, address=0x400),
    ifm2=feature_map(1, 1, 16, address=0x800),
    block=Block(4, 4, 16),
    shram=ShramLayout(22, 22, 8),
    activation=Activation(-128, 127),
    scale=Scale(3, 1),
    mode=ElementwiseMode.ADD,
    operand_scaling=OperandScaling.A_32,
    opa_scale=Scale(1 << 30, 12),
)


def words_of(*operations_: Operation) -> list[int]:
    return encode([*operations_, Stop()], U55).tolist()


def write(name: str, **values: int) -> list[int]:
    command = ETHOS_U55_U65.by_name[f"NPU_SET_{name}"]
    return list(command.words(command.operand(values, Product.ETHOS_U65)))


def decode_words(words: list[int], variant: object = U55) -> list[Operation]:
    return [one.operation for one in decode(np.array(words, np.uint32), variant)]  # type: ignore[arg-type]


def compiled(case: str) -> list[Job]:
    make, accelerator = COMPILED[case]
    return jobs(compile_with_vela(make(), accelerator))


@pytest.mark.parametrize("case", COMPILED)
def test_streams_of_vela_decode_and_encode_to_the_same_operations(case: str) -> None:
    found = compiled(case)
    assert found
    for job in found:
        program = [one.operation for one in job.decode()]
        again = encode(program, job.variant)
        assert [one.operation for one in decode(again, job.variant)] == program
        assert len(again) <= len(job.payload.words) + 2


@pytest.mark.parametrize("name", [name for name in shared_models() if "vela" in name])
def test_real_streams_decode_and_encode_to_the_same_operations(name: str) -> None:
    for job in jobs(shared_models()[name].read_bytes()):
        program = [one.operation for one in job.decode()]
        assert [one.operation for one in decode(encode(program, job.variant), job.variant)] == program


def test_first_operation_of_vela_is_the_convolution_of_the_model() -> None:
    program = [one.operation for one in compiled("classifier-u55-128")[0].decode()]
    convolution = next(operation for operation in program if isinstance(operation, Convolution))
    ifm, ofm = convolution.ifm, convolution.ofm
    assert (ifm.height, ifm.width, ifm.depth, ifm.element, ifm.zero_point) == (8, 8, 4, INT8, -3)
    assert (ofm.height, ofm.width, ofm.depth, ofm.zero_point) == (4, 4, 8, -128)
    assert convolution.kernel == KernelWindow(3, 3, 2, 2)
    assert convolution.padding == IfmPadding(0, 0, 1, 1)


def test_two_cores_have_two_weight_streams() -> None:
    program = [one.operation for one in compiled("classifier-u65-512")[0].decode()]
    assert all(len(one.weights) == len(one.scales) == 2 for one in program if isinstance(one, Convolution))


def test_indices_point_at_the_kick_offs() -> None:
    words = words_of(CONVOLUTION, DmaWait(0))
    decoded = decode(np.array(words, np.uint32), U55)
    assert [words[one.word_index] for one in decoded] == [0x2, 0x11, STOP]
    assert [one.word_index for one in decoded] == [len(words) - 3, len(words) - 2, len(words) - 1]
    assert decoded[1].command_index == decoded[0].command_index + 1


def test_registers_keep_their_values() -> None:
    words = words_of(CONVOLUTION)
    first, second = decode_words([*words[:-1], *write("OFM_ZERO_POINT", value=5), 0x2, STOP])[:2]
    assert first == CONVOLUTION
    assert second == replace(CONVOLUTION, ofm=replace(CONVOLUTION.ofm, zero_point=5))


def test_upscaling_halves_the_physical_ifm() -> None:
    upscaled = replace(CONVOLUTION, upscale=Upscale.NEAREST, ifm=replace(CONVOLUTION.ifm, height=4, width=4))
    assert decode_words(words_of(upscaled))[0] == upscaled


def test_padded_average_with_unit_scale_divides_by_its_count() -> None:
    padded = replace(POOLING, ifm=feature_map(7, 7, 16), padding=IfmPadding(1, 1, 0, 0), scale=None)
    words = words_of(padded)[:-2] + write("OFM_SCALE", scale=1, shift=0)
    precision = {"sign": 1, "precision": 0, "layout": 0, "scale_mode": 1, "rounding": 0}
    assert decode_words([*words, *write("OFM_PRECISION", **precision), 0x00010005, STOP])[0] == padded


def test_a_unary_operation_ignores_stale_registers_of_the_second_operand() -> None:
    absolute = replace(
        ADD, mode=ElementwiseMode.ABS, ifm2=None, operand_scaling=OperandScaling.BOTH_16, opa_scale=Scale(0, 0),
        shram=ShramLayout(22, 22),
    )  # fmt: skip
    assert decode_words(words_of(ADD, absolute))[1] == absolute


def test_a_scale_of_16_bits_is_the_lower_half_of_its_register() -> None:
    both = replace(ADD, operand_scaling=OperandScaling.BOTH_16, opa_scale=Scale(0x2345, 0), opb_scale=1)
    words = words_of(both)[:-2]
    kick_off = words_of(both)[-2:]
    assert decode_words([*words, *write("OPA_SCALE", scale=0x12345, shift=3), *kick_off])[0] == both


def test_a_core_without_work_has_no_stream() -> None:
    words = encode([CONVOLUTION, Stop()], U65_512).tolist()
    assert decode_words(words, U65_512)[0] == CONVOLUTION


_CONV = words_of(CONVOLUTION)[:-2]
"""Registers of the convolution, without its kick-off and STOP."""
STREAMS: dict[str, tuple[list[int], str]] = {
    "empty": ([], r"command stream of 0 words: must end with NPU_OP_STOP"),
    "no_stop": ([0x11], r"command stream of 1 words: must end with NPU_OP_STOP"),
    "after_stop": ([STOP, 0x11], r"command 1 at 000001: NPU_OP_STOP must be the last command, got NPU_OP_DMA_WAIT"),
    "unknown_opcode": ([0x00000004, STOP], r"command 0 at 000000: must be a known command, got 0x00000004"),
    "reserved_class": ([0x00008002, STOP], r"must be a known command, got 0x00008002"),
    "reserved_code_bits": ([0x00000402, STOP], r"must be a known command, got 0x00000402"),
    "truncated": ([0x11, 0x00004000], r"command 1 at 000001: NPU_SET_IFM_BASE0 must have 2 words, got 1"),
    "reserved_bits": ([0x00100103, 0x80000107, STOP], r"command 1 at 000001: NPU_SET_IFM_UPSCALE: reserved bits .* 0x8000"),
    "range": ([0x00810103, STOP], r"NPU_SET_IFM_PAD_BOTTOM: value must be in \[0, 128\], got 129"),
    "enum": ([0x00030107, STOP], r"NPU_SET_IFM_UPSCALE: mode must be one of 0 \(NONE\).* got 3"),
    "second_core_on_u55": ([0x00004091, 16, STOP], r"NPU_SET_WEIGHT1_LENGTH: must be 0 on ETHOS_U55"),
    "wide_address_on_u55": ([0x00014000, 0, STOP], r"NPU_SET_IFM_BASE0: value must fit in 32 bits on ETHOS_U55"),
    "power_on": ([0x00000002, STOP], r"NPU_OP_CONV: block depth: must be|NPU_OP_CONV: block width"),
    "padding_beyond_ifm": (
        [*_CONV, *write("IFM_PAD_BOTTOM", value=9), 0x2, STOP], r"NPU_OP_CONV: IFM height: must be in \[1, 65536\], got 0",
    ),
    "weight_length": ([*_CONV, *write("WEIGHT_LENGTH", value=24), 0x2, STOP], r"weights of core 0 length: .* got 24"),
    "no_weights": ([*_CONV, *write("WEIGHT_LENGTH", value=0), 0x2, STOP], r"weights of core 0 length: .* got 0"),
    "weight_address": ([*_CONV, *write("WEIGHT_BASE", value=8), 0x2, STOP], r"weights of core 0 address: .* got 8"),
    "depthwise_depth": ([*_CONV, 0x3, STOP], r"NPU_OP_DEPTHWISE: IFM depth: must be the OFM depth 32, got 16"),
    "max_pool_depth": ([*_CONV, 0x5, STOP], r"NPU_OP_POOL: IFM depth: must be the OFM depth 32, got 16"),
    "elementwise_depth": ([*_CONV, 0x00060006, STOP], r"NPU_OP_ELEMENTWISE: IFM depth must be the OFM depth 32, got 16"),
    "dilation": (
        [*_CONV, *write("KERNEL_STRIDE", stride_x_m1=1, stride_y_m1=1, traversal=0, dilation_x_m1=1, dilation_y_m1=0,
                        decomposition=0), *write("KERNEL_WIDTH_M1", value=3), 0x2, STOP],
        r"NPU_SET_KERNEL_WIDTH_M1: value must be a multiple of the dilation 2, got 3",
    ),
    "block": ([*_CONV, *write("OFM_BLK_DEPTH_M1", value=3), 0x2, STOP], r"block depth: must be a multiple of .* 8, got 4"),
    "shram": ([*_CONV, *write("AB_START", value=25), 0x2, STOP], r"SHRAM accumulator_start: must be in \[0, 24\], got 25"),
    "dma": ([0x00004032, 20, 0x10, STOP], r"NPU_OP_DMA_START: length: must be a positive multiple of 16, got 20"),
    "dma_nothing": ([0x10, STOP], r"NPU_OP_DMA_START: length: must be a positive multiple of 16, got 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMS)
def test_what_no_real_stream_contains_is_refused(case: str) -> None:
    words, message = STREAMS[case]
    with pytest.raises(StreamError, match=message):
        decode_words(words)


def test_parallel_mode_must_fit_the_cores() -> None:
    words = encode([CONVOLUTION, Stop()], U65_512)
    with pytest.raises(StreamError, match=r"mode must be SINGLE_CORE on ethos-u65-256 with 1 core\(s\), got DUAL_CORE_DEPTH"):
        decode(words, load_variant("ethos-u65-256"))


def test_a_stream_is_decoded_once() -> None:
    words = encode([CONVOLUTION, Stop()], U65_512)
    stream = CommandStream(words, U65_512)
    assert stream.operations == decode(words, U65_512)
    assert stream.operations is stream.operations
    with pytest.raises(StreamError, match="mode must be SINGLE_CORE on ethos-u65-256"):
        _ = CommandStream(words, load_variant("ethos-u65-256")).operations


@pytest.mark.parametrize("words", [np.zeros((2, 2), np.uint32), np.zeros(4, np.int64)], ids=["matrix", "int64"])
def test_other_arrays_are_refused(words: np.ndarray) -> None:
    with pytest.raises(StreamError, match=r"must be a one-dimensional uint32 array"):
        decode(words, U55)


def ifm(operation: Operation, **changes: object) -> Operation:
    return replace(operation, ifm=replace(operation.ifm, **changes))  # type: ignore[union-attr,call-arg,arg-type,type-var]


OPERATIONS: dict[str, tuple[Operation, str]] = {
    "depthwise_depth": (ifm(DEPTHWISE, depth=8), r"IFM depth: must be the OFM depth 16, got 8"),
    "extent": (ifm(CONVOLUTION, height=9), r"IFM height: must be what OFM, kernel and padding imply: 8, got 9"),
    "width": (ifm(CONVOLUTION, width=9), r"IFM width: must be what OFM, kernel and padding imply: 8, got 9"),
    "element": (ifm(CONVOLUTION, element=INT32), r"IFM element: must be 8 or 16 bits of a convolution, got int32"),
    "zero_point": (ifm(CONVOLUTION, zero_point=40000), r"IFM zero point: must be in \[-32768, 32767\], got 40000"),
    "tile": (ifm(CONVOLUTION, tile_width_0=0), r"IFM tile_width_0: must be in \[1, 65536\], got 0"),
    "brick_address": (
        ifm(CONVOLUTION, layout=Layout.NHCWB16, addresses=(8, 0, 0, 0)), r"IFM address of tile 0: must be a multiple of 16",
    ),
    "brick_stride": (ifm(CONVOLUTION, layout=Layout.NHCWB16, stride_y=8), r"IFM stride_y: must be a multiple of 16, got 8"),
    "element_address": (ifm(ADD, element=INT16, addresses=(1, 0, 0, 0)), r"IFM address of tile 0: .* multiple of 2, got 1"),
    "activation": (replace(CONVOLUTION, activation=Activation(-40000, 0)), r"activation minimum: must be in \[-32768, 32767\]"),
    "function_of_32_bits": (
        replace(CONVOLUTION, ofm=replace(CONVOLUTION.ofm, element=INT32), activation=Activation(0, 0, ActivationFunction.TANH)),
        r"activation function: must be NONE for an unclipped 32-bit OFM, got TANH",
    ),
    "streams": (replace(CONVOLUTION, weights=()), r"weights: must be ranges for 1 to 1 core\(s\), got 0"),
    "average": (
        replace(POOLING, ifm=feature_map(7, 7, 16), padding=IfmPadding(1, 1, 0, 0), scale=Scale(1, 0)),
        r"scale: must be None for an AVERAGE with padding",
    ),
    "elementwise_extent": (ifm(ADD, width=5), r"IFM: must be of the OFM's extent \(4, 4, 16\), got \(4, 5, 16\)"),
    "no_operand": (replace(ADD, ifm2=None), r"ADD: must be given IFM2 or a scalar unless unary, got 0"),
    "two_operands": (replace(ADD, scalar=1), r"ADD: must be given IFM2 or a scalar unless unary, got 2"),
    "ifm2_element": (
        replace(ADD, ifm2=replace(ADD.ifm2, element=INT16)),  # type: ignore[type-var]
        r"IFM2 element: must be the IFM's int8, got int16",
    ),
    "ifm2_extent": (
        replace(ADD, ifm2=replace(ADD.ifm2, width=2)),  # type: ignore[type-var]
        r"IFM2 width: must be 1 or the IFM's 4, got 2",
    ),
    "scalar": (replace(ADD, ifm2=None, scalar=1 << 15), r"scalar: must be in \[-32768, 32767\], got 32768"),
    "scalar_zero_point": (replace(ADD, scalar_zero_point=1), r"scalar zero point: must be 0 without a scalar, got 1"),
    "unary_reversed": (
        replace(ADD, mode=ElementwiseMode.CLZ, ifm2=None, is_reversed=True), r"operand order: must be unreversed",
    ),
    "unary_ifm2_start": (replace(ADD, mode=ElementwiseMode.CLZ, ifm2=None), r"SHRAM ifm2_start: must be 0 for a unary mode"),
    "scaled_min": (replace(ADD, mode=ElementwiseMode.MIN), r"operand scaling: must be left at its defaults for MIN"),
    "wide_operand_scale": (
        replace(ADD, operand_scaling=OperandScaling.BOTH_16, opa_scale=Scale(1 << 16, 0)), r"operand A scale: must be 16 bits",
    ),
    "second_operand_scale": (replace(ADD, opb_scale=1), r"operand B scale: must be 0 for A_32, got 1"),
}  # fmt: skip


@pytest.mark.parametrize("case", OPERATIONS)
def test_what_the_decoder_would_refuse_is_not_encoded(case: str) -> None:
    operation, message = OPERATIONS[case]
    with pytest.raises(StreamError, match=message):
        encode([operation, Stop()], U55)


def test_a_clipped_32_bit_ofm_may_have_a_table() -> None:
    activation = Activation(-128, 127, ActivationFunction.LUT_4, ClipRange.FORCE_INT8)
    operation = replace(CONVOLUTION, ofm=replace(CONVOLUTION.ofm, element=INT32), activation=activation)
    assert decode_words(words_of(operation))[0] == operation


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_damaged_streams_are_decoded_or_refused(data: st.DataObject) -> None:
    words = encode(data.draw(operations(U65_512)), U65_512)
    seed = data.draw(st.integers(0, 1 << 30))
    rng = np.random.default_rng(seed)
    for _ in range(25):
        damaged = words[: rng.integers(0, len(words) + 1)].copy()
        for _ in range(rng.integers(0, 3)):
            if damaged.size:
                damaged[rng.integers(damaged.size)] ^= np.uint32(1 << rng.integers(32))
        _decode_or_refuse(lambda stream: decode(stream, U65_512), damaged)


def _decode_or_refuse(decoder: Callable[[np.ndarray], object], words: np.ndarray) -> None:
    try:
        decoded = decoder(words)
    except StreamError:
        return
    program = [one.operation for one in decoded]  # type: ignore[attr-defined]
    assert [one.operation for one in decode(encode(program, U65_512), U65_512)] == program


def test_a_core_without_work_has_the_addresses_of_the_other_and_no_bytes() -> None:
    variant = load_variant("ethos-u65-512")
    lines = str(disassemble(encode([CONVOLUTION, Stop()], variant), variant)).splitlines()
    words = {line.split()[0]: line.split()[1] for line in lines if "WEIGHT" in line or "SCALE_" in line or "SCALE1" in line}
    assert words["NPU_SET_WEIGHT1_BASE"] == words["NPU_SET_WEIGHT_BASE"]
    assert words["NPU_SET_SCALE1_BASE"] == words["NPU_SET_SCALE_BASE"]
    assert {words["NPU_SET_WEIGHT1_LENGTH"], words["NPU_SET_SCALE1_LENGTH"]} == {"value=0x0"}
