"""What an operation makes the machine do, as names: the rows of docs/validated-by-execution.md.

`FEATURES` are all modes, fields and values that change a result on Ethos-U55 and Ethos-U65; `features_of` names those of one
operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from npu.isa.operations import (
    AccumulatorFormat,
    ActivationFunction,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Dma,
    DmaStride,
    ElementType,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOperation,
    Layout,
    OperandScaling,
    Operation,
    Pooling,
    PoolingMode,
    Traversal,
    Upscale,
    WeightedOperation,
    WindowOperation,
)

from tests.support.registers import members, modes

_SUMS = ("convolution", "depthwise", "AVERAGE", "REDUCE_SUM", "MUL", "ADD", "SUB", "LRELU", "ABS", "SHR")
FEATURES: tuple[str, ...] = (
    *(f"convolution, {order.name}" for order in Traversal),
    "depthwise",
    *(f"pooling {mode.name}" for mode in modes("NPU_OP_POOL")),
    *(f"elementwise {mode.name}" for mode in modes("NPU_OP_ELEMENTWISE")),
    *(f"{kind} of {bits}" for kind in ("convolution", "depthwise", "MAX pooling", "AVERAGE")
      for bits in ("int8", "uint8", "int16")),
    *(f"{kind} of {bits}" for kind in ("REDUCE_SUM", "elementwise") for bits in ("int8", "uint8", "int16", "int32")),
    *(f"{kind} into {bits}" for kind in ("convolution", "depthwise", "pooling", "elementwise")
      for bits in ("int8", "uint8", "int16", "int32")),
    *(f"{kind}, rounding {rounding.name}" for kind in _SUMS for rounding in members("rounding")),
    "convolution, scale per channel", "convolution, global scale", "depthwise, scale per channel", "depthwise, global scale",
    "AVERAGE, global scale", "AVERAGE divided by its count, padded", "AVERAGE divided by its count, unpadded",
    *(f"{name} {layout.name}" for name in ("IFM", "IFM2", "OFM") for layout in Layout),
    *(f"{name} in two rows of tiles" for name in ("IFM", "IFM2", "OFM")),
    *(f"{name} in two columns of tiles" for name in ("IFM", "IFM2", "OFM")),
    *(f"{name} in four tiles" for name in ("IFM", "IFM2", "OFM")),
    "OFM with negative row stride", "OFM with negative column stride",
    "IFM with negative row stride", "IFM with negative column stride",
    *(f"{name} zero point" for name in ("IFM", "IFM2", "OFM", "scalar")),
    *(f"stride {axis} {n}" for axis in ("y", "x") for n in (1, 2, 3, 4)),
    *(f"dilation {axis} 2" for axis in ("y", "x")),
    *(f"padding {side}" for side in ("top", "left", "bottom", "right")),
    *(f"{kind}, upscale {mode.name}" for kind in ("convolution", "depthwise", "pooling")
      for mode in (Upscale.NEAREST, Upscale.ZEROS)),
    "4x4 sub-kernels", "two weight streams",
    *(f"accumulator {form.name}" for form in (AccumulatorFormat.INT32, AccumulatorFormat.INT40)),
    "clamp", "TANH of 16 bits", "SIGMOID of 16 bits", "LUT of 8 to 8 bits, signed", "LUT of 8 to 8 bits, unsigned",
    "LUT of 8 to 32 bits", "LUT of 16 bits", "LUT other than 0",
    *(f"clip range {clip.name}" for clip in members("activation.clip_range")),
    "broadcast H", "broadcast W", "broadcast C", "scalar", "reversed operands", "reversed scalar",
    *(f"operand scaling {mode.name} of {bits}" for mode in OperandScaling for bits in ("8 bits", "16 bits")),
    *(f"scaled operand, rounding {rounding.name}" for rounding in members("rounding")),
    "32-bit OFM without clamp", "shift above 31",
    "DMA contiguous", "DMA of rows", "DMA of planes", "DMA into SHRAM", "DMA between regions",
)  # fmt: skip


def features_of(operation: Operation) -> frozenset[str]:
    """The features of one operation."""
    if isinstance(operation, Dma):
        return frozenset(_dma(operation))
    if not isinstance(operation, KernelOperation):
        return frozenset()
    found = {*_common(operation), *_maps(operation)}
    if isinstance(operation, WindowOperation):
        found |= set(_window(operation))
    if isinstance(operation, Elementwise):
        found |= set(_elementwise(operation))
    return frozenset(found & set(FEATURES))


def _kind(operation: KernelOperation) -> str:
    if isinstance(operation, Convolution):
        return "convolution"
    if isinstance(operation, DepthwiseConvolution):
        return "depthwise"
    return "pooling" if isinstance(operation, Pooling) else "elementwise"


def _common(operation: KernelOperation) -> Iterator[str]:
    kind, activation, ofm = _kind(operation), operation.activation, operation.ofm.element
    yield f"{kind} into {ofm}"
    if not isinstance(operation, Pooling):
        yield f"{kind} of {operation.ifm.element}"
    if operation.scale is not None and operation.scale.shift > 31:
        yield "shift above 31"
    yield f"accumulator {operation.accumulator.name}"
    yield f"clip range {activation.clip_range.name}"
    if ofm.bits == 32 and activation.clip_range is ClipRange.OFM_PRECISION:
        yield "32-bit OFM without clamp"
    elif activation.minimum > ofm.minimum or activation.maximum < ofm.maximum:
        yield "clamp"
    if activation.function in (ActivationFunction.TANH, ActivationFunction.SIGMOID) and ofm.bits == 16:
        yield f"{activation.function.name} of 16 bits"
    if activation.function.lut_index is not None:
        yield from _lut(activation.function.lut_index, ofm)


def _lut(index: int, ofm: ElementType) -> Iterator[str]:
    sign = "signed" if ofm.is_signed else "unsigned"
    yield {8: f"LUT of 8 to 8 bits, {sign}", 16: "LUT of 16 bits", 32: "LUT of 8 to 32 bits"}[ofm.bits]
    if index:
        yield "LUT other than 0"


def _maps(operation: KernelOperation) -> Iterator[str]:
    maps = {"IFM": operation.ifm, "OFM": operation.ofm}
    if isinstance(operation, Elementwise) and operation.ifm2 is not None:
        maps["IFM2"] = operation.ifm2
    for name, fm in maps.items():
        yield f"{name} {fm.layout.name}"
        yield from (f"{name} {what}" for what in _map(fm))


def _map(fm: FeatureMap) -> Iterator[str]:
    rows, columns = min(fm.tile_height_0, fm.tile_height_1) < fm.height, fm.tile_width_0 < fm.width
    if fm.zero_point and fm.element.bits < 32:
        yield "zero point"
    if rows and not columns and fm.tile_height_0 < fm.height:
        yield "in two rows of tiles"
    if columns and fm.tile_height_1 >= fm.height:
        yield "in two columns of tiles"
    if columns and fm.tile_height_0 < fm.height and fm.tile_height_1 < fm.height:
        yield "in four tiles"
    if fm.stride_y < 0 and fm.height > 1:
        yield "with negative row stride"
    if fm.stride_x < 0 and fm.width > 1 and fm.layout is Layout.NHWC:
        yield "with negative column stride"


def _window(operation: WindowOperation) -> Iterator[str]:
    kind, kernel = _kind(operation), operation.kernel
    if operation.ofm.height > 1:
        yield f"stride y {kernel.stride_y}"
    if operation.ofm.width > 1:
        yield f"stride x {kernel.stride_x}"
    yield from (f"dilation y {kernel.dilation_y}", f"dilation x {kernel.dilation_x}")
    yield from (f"padding {side}" for side in ("top", "left", "bottom", "right") if getattr(operation.padding, side))
    yield f"{kind}, upscale {operation.upscale.name}"
    if isinstance(operation, WeightedOperation):
        yield from (kind, f"{kind}, rounding {operation.rounding.name}")
        yield f"{kind}, {'scale per channel' if operation.scale is None else 'global scale'}"
        if operation.has_4x4_sub_kernels:
            yield "4x4 sub-kernels"
        if len(operation.weights) > 1:
            yield "two weight streams"
    if isinstance(operation, Convolution):
        yield f"convolution, {operation.traversal.name}"
    if isinstance(operation, Pooling):
        yield from _pooling(operation)


def _pooling(operation: Pooling) -> Iterator[str]:
    mode, is_padded = operation.mode.name, operation.padding != type(operation.padding)()
    yield f"pooling {mode}"
    yield f"{'MAX pooling' if operation.mode is PoolingMode.MAX else mode} of {operation.ifm.element}"
    yield f"{mode}, rounding {operation.rounding.name}"
    if operation.scale is not None:
        yield f"{mode}, global scale"
    else:
        yield f"{mode} divided by its count, {'padded' if is_padded else 'unpadded'}"


def _elementwise(operation: Elementwise) -> Iterator[str]:
    yield f"elementwise {operation.mode.name}"
    yield f"{operation.mode.name}, rounding {operation.rounding.name}"
    ifm, ifm2 = operation.ifm, operation.ifm2
    if ifm2 is not None:
        for axis, letter in (("height", "H"), ("width", "W"), ("depth", "C")):
            if getattr(ifm2, axis) < getattr(ifm, axis):
                yield f"broadcast {letter}"
    if operation.scalar is not None:
        yield "scalar"
        if operation.scalar_zero_point:
            yield "scalar zero point"
    if operation.is_reversed:
        yield "reversed scalar" if operation.scalar is not None else "reversed operands"
    if operation.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB) and ifm.element.bits < 32:
        yield f"operand scaling {operation.operand_scaling.name} of {ifm.element.bits} bits"
        if operation.operand_scaling is not OperandScaling.BOTH_16:
            yield f"scaled operand, rounding {operation.operand_rounding.name}"


def _dma(operation: Dma) -> Iterator[str]:
    stride = max(operation.source.stride, operation.destination.stride)
    yield {DmaStride.CONTIGUOUS: "DMA contiguous", DmaStride.ROWS: "DMA of rows", DmaStride.PLANES: "DMA of planes"}[stride]
    yield "DMA into SHRAM" if operation.destination.region is None else "DMA between regions"


_TRUNCATED = ("convolution", "depthwise", "AVERAGE", "REDUCE_SUM", "MUL", "ADD", "SUB", "LRELU", "ABS", "SHR", "scaled operand")
ABSENT: dict[str, tuple[str, ...]] = {
    "no operator of TFLite or TOSA asks for it": tuple(f"{kind}, rounding TRUNCATE" for kind in _TRUNCATED),
    "Vela always writes DOUBLE": ("LRELU, rounding NATURAL", "ABS, rounding NATURAL", "scaled operand, rounding NATURAL"),
    "sums of 8 bits are made by convolutions": ("REDUCE_SUM of int8", "REDUCE_SUM of uint8"),
    "Vela writes a scale for every channel, also if all are equal": ("convolution, global scale", "depthwise, global scale"),
    "without padding the divisor is part of the scale": ("AVERAGE divided by its count, unpadded",),
    "only the first operand is kept in a rolling buffer": ("IFM2 in two rows of tiles",),
    "maps are cut into bands of rows only": tuple(f"{name} in two columns of tiles" for name in ("IFM", "IFM2", "OFM")),
    "only edges that are repeated on reading need four tiles": ("IFM2 in four tiles", "OFM in four tiles"),
    "maps are mirrored when they are written": ("IFM with negative row stride", "IFM with negative column stride"),
    "larger strides than 3 are taken apart": ("stride y 4", "stride x 4"),
    "convolutions upscale by zeros, copies and depthwise ones by repetition": (
        "convolution, upscale NEAREST", "depthwise, upscale ZEROS", "pooling, upscale ZEROS",
    ),
    "Vela never sets the bit": ("4x4 sub-kernels",),
    "the only forced range is that of signed 8-bit tables of 32-bit values": (
        "clip range FORCE_UINT8", "clip range FORCE_INT16",
    ),
}  # fmt: skip
"""Why no stream of Vela has some features, as far as its code and its reports tell."""


def table(velas: Mapping[str, Sequence[str]]) -> str:
    """docs/validated-by-execution.md; `velas` gives for a feature the cases whose Vela streams have it."""
    reasons = {feature: reason for reason, features in ABSENT.items() for feature in features}
    rows = []
    for feature in FEATURES:
        names = list(velas.get(feature, ()))
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        text = ", ".join(names[:3]) + more if names else f"none: {reasons.get(feature, 'not known')}"
        rows.append(f"| {feature} | {text} |")
    alone = sum(not velas.get(feature) for feature in FEATURES)
    return _TEXT.format(features=len(FEATURES), alone=alone, rows="\n".join(rows))


_TEXT = """# Validated by execution

Every mode, field and value of the command stream that changes a result, {features} in all. Each is executed by every set of
kernels of the simulator and by a slow twin in Python integers, with equal bytes
(`tests/sim/functional/test_every_feature.py`). The table adds which streams of Vela have it:

- operators compiled alone by Vela 5.2 (`test_vela_operators.py` beside that test);
- TOSA operators ("TOSA ...", `test_tosa_streams.py`);
- small graphs compiled with options, by Vela's older core or by Vela 5.0 (`test_vela_options.py`).

Their results equal LiteRT's kernels, Arm's TOSA reference model, or a formula of [exactness.md](exactness.md).
{alone} features are in none of these streams. Twin and simulator agree on them, but nothing independent confirms the
meaning that both implement.

Made by `python -m tests.support.vela_features`; do not edit.

| feature | Vela's streams that have it |
| --- | --- |
{rows}

Not in the table: waits, interrupts, performance counters and block dependencies change no result; long addresses, regions,
registers that keep their values and COP1 payloads are tested with the decoder and the container (`tests/npu/isa`). Overflow
of accumulators, shifts by negative amounts and a lower clamp above the upper one are not described for the hardware; here
sums do not wrap, such shifts are by 0 (SHR) or give 0 (SHL), and the upper clamp wins.
"""
