"""Profile `xnnpack`: which operators the XNNPACK-like CPU delegate takes, float and 8-bit quantized.

Rule ids are `X-F-<operator>-<letter>` and `X-Q-<operator>-<letter>`; the letters follow the order of the rules in the tables
below. The delegate accepts nodes by these very rules. Sparse inference is in `constraints.sparse`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from constraints import observe
from constraints.rule import Exactly, Observed, OneOf, Predicate, Profile, Range, RealRange, Rule, RuleSet
from constraints.view import OpView
from npu.graph.dtype import DType
from npu.graph.graph import Tensor
from npu.records import dataclass

EIGHT_BIT = (DType.INT8, DType.UINT8)


@dataclass(frozen=True, slots=True)
class XnnpackSwitches:
    """What the delegate is switched on for: float only by default."""

    floating: bool = True
    qs8: bool = False
    qu8: bool = False
    variables: bool = False


# Observations


def _all_types(view: OpView) -> Iterator[Observed]:
    yield from observe.tensor_types(view)
    yield from observe.bias_type(view)


def _quantized(tensor: Tensor) -> str:
    if tensor.quantization is None or tensor.quantization.scales.size == 0:
        return f"{tensor.dtype} without scale"
    return f"{tensor.dtype} per channel" if tensor.quantization.is_per_channel else f"{tensor.dtype} per tensor"


def _quantized_maps(view: OpView) -> Iterator[Observed]:
    return (Observed(name, _quantized(tensor)) for name, tensor in view.feature_maps)


def _quantized_with_weights(view: OpView) -> Iterator[Observed]:
    """Feature maps, weights (channels may differ in scale) and a bias that is not int32 with a scale, one or per channel."""
    yield from _quantized_maps(view)
    if view.weights is not None:
        yield Observed("weights", _quantized(view.weights).replace("per channel", "per tensor"))
    if view.bias is not None and (view.bias.dtype is not DType.INT32 or _quantized(view.bias).endswith("without scale")):
        yield Observed("bias", f"of type {_quantized(view.bias)}")


def _weight_scales(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    yield Observed("filter scales", "none" if weights is None else _quantized(weights).split(" ", 1)[1])


def _input_count(view: OpView) -> Iterator[Observed]:
    yield Observed("inputs", len(view.op.inputs))


def _output_count(view: OpView) -> Iterator[Observed]:
    yield Observed("outputs", len(view.op.outputs))


def _activation(view: OpView) -> Iterator[Observed]:
    yield Observed("fused activation", view.activation)


def _bias_presence(view: OpView) -> Iterator[Observed]:
    yield Observed("bias", "absent" if view.bias is None else "present")


def _filter_and_bias_constant(view: OpView) -> Iterator[Observed]:
    yield from observe.weights_constant(view)
    if view.bias is not None:
        yield Observed("bias", observe.constancy(view.bias))


def _window_and_stride(view: OpView) -> Iterator[Observed]:
    height, width = observe.window(view)
    strides = (view.attribute("stride_h"), view.attribute("stride_w"))
    known = None not in (height, width, *strides)
    yield Observed("window and stride", ((height, width), strides) if known else None)


def _ranks(view: OpView) -> Iterator[Observed]:
    return (Observed(f"rank of {name}", len(tensor.shape)) for name, tensor in view.feature_maps)


def _integers(tensor: Tensor | None) -> tuple[int, ...] | None:
    if tensor is None or tensor.data is None or not np.issubdtype(tensor.data.dtype, np.integer):
        return None
    return tuple(int(value) for value in tensor.data.reshape(-1)[:64])


def _mean_axes(view: OpView) -> Iterator[Observed]:
    yield Observed("axes", _integers(view.input(1)))


def _strides(view: OpView) -> Iterator[Observed]:
    values = _integers(view.input(3))
    yield from (Observed("stride", value) for value in (values if values is not None else (None,)))


def _slope_shape(view: OpView) -> Iterator[Observed]:
    slope = view.input(1)
    yield Observed("slope shape", None if slope is None else tuple(slope.shape))


def _scale_ratio(view: OpView) -> float | None:
    ifm, ofm = view.ifm, view.output()
    parts = [tensor.quantization if tensor is not None else None for tensor in (ifm, ofm)]
    scales = [float(part.scales[0]) for part in parts if part is not None and part.scales.size]
    return scales[0] / scales[1] if len(scales) == 2 and scales[1] > 0 else None


def _ratio(view: OpView) -> Iterator[Observed]:
    yield Observed("scale ratio", _scale_ratio(view))


def _slope_ratio(view: OpView) -> Iterator[Observed]:
    ratio, alpha = _scale_ratio(view), view.attribute("alpha")
    yield Observed("slope x scale ratio", None if ratio is None or alpha is None else float(alpha) * ratio)


def _requantize(part: Any) -> Any:
    """The observation of an operator that reads 8-bit data, nothing of one that reads float."""

    def restricted(view: OpView) -> Iterator[Observed]:
        if view.ifm is not None and view.ifm.dtype in EIGHT_BIT:
            yield from part(view)

    return restricted


def _signedness(view: OpView) -> Iterator[Observed]:
    ifm, ofm = view.ifm, view.output()
    yield Observed("types", None if ifm is None or ofm is None else (ifm.dtype, ofm.dtype))


def _input_only(view: OpView) -> Iterator[Observed]:
    yield Observed("input", None if view.ifm is None else _quantized(view.ifm))


def _output_only(view: OpView) -> Iterator[Observed]:
    ofm = view.output()
    yield Observed("output", None if ofm is None else _quantized(ofm))


def _output_type(view: OpView) -> Iterator[Observed]:
    ofm = view.output()
    yield Observed("output", None if ofm is None else ofm.dtype)


def _weights_of_float_input(view: OpView) -> Iterator[Observed]:
    if view.ifm is not None and view.ifm.dtype is DType.FLOAT32 and view.weights is not None:
        yield Observed("weights of a float input", view.weights.dtype)


# Rules that several operators share; ids and operators are filled in below


def _rule(limit: Any, says: str, observed: Any, fix: str | None = None) -> Rule:
    return Rule("", (), limit, says, observed, fix)


FLOAT32 = Exactly(DType.FLOAT32, others=(DType.FLOAT16, DType.INT8, DType.INT32))
CONSTANT = Exactly("constant", others=("computed",))
PER_TENSOR = OneOf(
    ("int8 per tensor", "uint8 per tensor"), others=("int16 per tensor", "int8 without scale", "int8 per channel")
)
UNIT_WINDOW = Predicate(
    "larger than 1x1 unless the stride is 1",
    lambda value: value[0] != (1, 1) or value[1] == (1, 1),
    examples=((((1, 1), (1, 1)), True), (((2, 2), (2, 2)), True), (((1, 1), (2, 2)), False), (((1, 1), (1, 2)), False)),
)
SLOPE = Predicate(
    "of rank 1, or 1 in every dimension but the channel",
    lambda shape: len(shape) == 1 or (len(shape) > 1 and all(size == 1 for size in shape[:-1])),
    examples=(((8,), True), ((1, 1, 8), True), ((2, 1, 8), False)),
)

F32 = _rule(FLOAT32, "inputs and outputs must be {limit}", _all_types)
Q8 = _rule(PER_TENSOR, "inputs and outputs must be quantized: {limit}", _quantized_maps)
Q8_WEIGHTS = _rule(PER_TENSOR, "input, filter and output must be quantized ({limit}), bias int32", _quantized_with_weights)
ACTIVATION = _rule(
    OneOf(("NONE", "RELU", "RELU_N1_TO_1", "RELU6"), others=("TANH", "SIGN_BIT")),
    "fused activation must be {limit}",
    _activation,
    "write the activation as an operator of its own",
)
TWO_INPUTS = _rule(Exactly(2, others=(1, 3)), "number of inputs must be {limit}", _input_count)
FEW_INPUTS = _rule(Range(2, 4), "number of inputs must be {limit}", _input_count, "join in several steps")
FEW_OUTPUTS = _rule(Range(2, 4), "number of outputs must be {limit}", _output_count, "split in several steps")
WINDOW = _rule(UNIT_WINDOW, "window must be {limit}", _window_and_stride, "use a strided slice")
HAS_BIAS = _rule(Exactly("present", others=("absent",)), "bias must be {limit}", _bias_presence, "add a bias of zeros")
ANY_BIAS = _rule(OneOf(("absent", "present")), "bias may be {limit}", _bias_presence)
FIXED = _rule(CONSTANT, "filter and bias must be {limit}", _filter_and_bias_constant)
BLOCK = _rule(
    Predicate("at least 2", lambda size: size >= 2, examples=((1, False), (2, True))),
    "block size must be {limit}",
    observe.attributes(block_size="block size"),
)
RANK_4 = _rule(Exactly(4, others=(3, 5)), "rank of input and output must be {limit}", _ranks)
AXES = _rule(OneOf(((1, 2), (2, 1), (2,)), others=((1,), (3,), (1, 2, 3))), "axes must be {limit}", _mean_axes)
SHAPE = _rule(CONSTANT, "new shape must be {limit}", observe.new_shape)
NO_CROP = _rule(Range(0, 2**31 - 1), "padding counts must each be {limit}", observe.padding_counts)
SCALES = _rule(OneOf(("per tensor", "per channel"), others=("without scale",)), "filter scales must be {limit}", _weight_scales)
RATIO = RealRange(((1 / 256, 128.0),))


def _fixed(says: str, *names: tuple[int, str]) -> Rule:
    parts = (observe.input_constant(position, name) for position, name in names)
    return _rule(CONSTANT, f"{says} must be {{limit}}", observe.both(*parts))


PADDINGS = _fixed("padding tensor", (1, "padding tensor"))
SIZE = _fixed("new size", (1, "new size"))
BOUNDS = _fixed("begin and size", (1, "begin"), (2, "size"))
ORDER = _fixed("permutation", (1, "permutation"))
FIXED_SHAPE = _rule(
    CONSTANT,
    "output shape, filter and bias must be {limit}",
    observe.both(observe.input_constant(0, "output shape"), _filter_and_bias_constant),
)
MASKS = observe.attributes(ellipsis_mask="ellipsis_mask", new_axis_mask="new_axis_mask", shrink_axis_mask="shrink_axis_mask")

FLOAT: Mapping[str, tuple[Rule, ...]] = {
    **{
        kind: (F32,)
        for kind in (
            "ABS", "CEIL", "ELU", "FLOOR", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MINIMUM", "NEG", "RELU",
            "RELU6", "RELU_N1_TO_1", "ROUND", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "TANH",
        )
    },
    **{kind: (F32, ACTIVATION) for kind in ("DIV", "MUL", "SUB")},
    **{kind: (F32, WINDOW, ACTIVATION) for kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    **{kind: (F32, HAS_BIAS, FIXED, ACTIVATION) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")},
    **{kind: (F32, BLOCK) for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")},
    "ADD": (F32, TWO_INPUTS, ACTIVATION),
    "CONCATENATION": (F32, FEW_INPUTS),
    "FULLY_CONNECTED": (F32, FIXED, ACTIVATION),
    "MEAN": (F32, RANK_4, _fixed("axes", (1, "axes")), AXES),
    "PAD": (F32, PADDINGS, NO_CROP),
    "PRELU": (F32, _fixed("slope", (1, "slope")), _rule(SLOPE, "slope must be {limit}", _slope_shape)),
    "RESHAPE": (F32, SHAPE),
    "RESIZE_BILINEAR": (F32, RANK_4, SIZE),
    "SLICE": (F32, BOUNDS),
    "SOFTMAX": (F32, _rule(Exactly(1.0, others=(0.5, 2.0)), "beta must be {limit}", observe.attributes(beta="beta"))),
    "SPLIT": (F32, FEW_OUTPUTS),
    "STRIDED_SLICE": (
        F32,
        _fixed("begin, end and strides", (1, "begin"), (2, "end"), (3, "strides")),
        _rule(Exactly(1, others=(2, -1)), "strides must all be {limit}", _strides),
        _rule(Exactly(0, others=(1,)), "ellipsis_mask, new_axis_mask and shrink_axis_mask must be {limit}", MASKS),
    ),
    "TRANSPOSE": (F32, ORDER),
    "TRANSPOSE_CONV": (F32, ANY_BIAS, FIXED_SHAPE),
}  # fmt: skip
"""Rules of the float operators; the first of an operator has letter a, and so on."""

QUANTIZED: Mapping[str, tuple[Rule, ...]] = {
    **{kind: (Q8,) for kind in ("LOGISTIC", "TANH")},
    **{kind: (Q8, ACTIVATION) for kind in ("MUL", "SUB")},
    **{kind: (Q8_WEIGHTS, HAS_BIAS, FIXED, SCALES, ACTIVATION) for kind in ("CONV_2D", "DEPTHWISE_CONV_2D")},
    **{kind: (Q8, BLOCK) for kind in ("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")},
    "ADD": (Q8, TWO_INPUTS, ACTIVATION),
    "CONCATENATION": (Q8, FEW_INPUTS),
    "DEQUANTIZE": (
        _rule(PER_TENSOR, "input must be quantized: {limit}", _input_only),
        _rule(FLOAT32, "output must be {limit}", _output_type),
    ),
    "ELU": (
        _rule(Exactly("int8 per tensor", others=("uint8 per tensor",)), "input and output must be {limit}", _quantized_maps),
    ),
    "FULLY_CONNECTED": (Q8_WEIGHTS, FIXED, ACTIVATION),
    "LEAKY_RELU": (
        Q8,
        _rule(RATIO, "input scale / output scale must be {limit}", _ratio),
        _rule(
            RealRange(((-127.99609375, -1 / 256), (1 / 256, 128.0))), "slope x scale ratio must be {limit}", _slope_ratio
        ),
    ),
    "MAX_POOL_2D": (Q8, WINDOW, ACTIVATION),
    "MEAN": (
        replace(Q8, says="input and output must be of rank 4 and quantized: {limit}", observe=lambda view: _rank_4_maps(view)),
        _fixed("axes", (1, "axes")),
        AXES,
    ),
    "PAD": (Q8, PADDINGS, NO_CROP),
    "QUANTIZE": (
        _rule(
            OneOf((*PER_TENSOR.values, "float32 without scale", "float32 per tensor"), others=("int16 per tensor",)),
            "input must be float32 or quantized: {limit}",
            _input_only,
        ),
        _rule(PER_TENSOR, "output must be quantized: {limit}", _output_only),
        _rule(
            Predicate("the same", lambda types: types[0] is types[1], examples=(((DType.INT8, DType.INT8), True),
                                                                               ((DType.INT8, DType.UINT8), False))),
            "signedness of 8-bit input and output must be {limit}",
            _requantize(_signedness),
        ),
        _rule(
            RealRange(((2.0**-8, 2.0**7),)), "scale ratio of 8-bit input and output must be {limit}", _requantize(_ratio)
        ),
    ),
    "RESHAPE": (Q8, SHAPE),
    "RESIZE_BILINEAR": (
        replace(Q8, says="input and output must be of rank 4 and quantized: {limit}", observe=lambda view: _rank_4_maps(view)),
        SIZE,
    ),
    "SLICE": (Q8, BOUNDS),
    "SPLIT": (Q8, FEW_OUTPUTS),
    "TRANSPOSE": (Q8, ORDER),
    "TRANSPOSE_CONV": (Q8_WEIGHTS, FIXED_SHAPE),
}  # fmt: skip
"""Rules of the quantized operators; the first of an operator has letter a, and so on."""

VARIABLE_OPERATORS = ("ASSIGN_VARIABLE", "READ_VARIABLE", "VAR_HANDLE")


def _rank_4_maps(view: OpView) -> Iterator[Observed]:
    for name, tensor in view.feature_maps:
        yield Observed(name, _quantized(tensor) if len(tensor.shape) == 4 else f"rank {len(tensor.shape)}")


def _stamped(prefix: str, table: Mapping[str, tuple[Rule, ...]]) -> tuple[Rule, ...]:
    return tuple(
        replace(rule, id=f"{prefix}-{kind}-{letter}", operators=(kind,))
        for kind, rules in sorted(table.items())
        for letter, rule in zip(string.ascii_lowercase, rules, strict=False)
    )


def _has_8_bit(view: OpView) -> bool:
    return any(tensor.dtype in EIGHT_BIT for _, tensor in view.feature_maps)


def _switch(identifier: str, name: str, on: bool) -> Rule:
    return Rule(identifier, (), Exactly(True, others=(False,)), f"the delegate's switch '{name}' must be {{limit}}",
                lambda view: (Observed(f"switch '{name}'", on),))  # fmt: skip


def _type_switches(options: XnnpackSwitches) -> Rule:
    enabled = tuple(dtype for dtype, on in ((DType.INT8, options.qs8), (DType.UINT8, options.qu8)) if on)

    def types(view: OpView) -> Iterator[Observed]:
        return (Observed(name, tensor.dtype) for name, tensor in view.feature_maps if tensor.dtype in EIGHT_BIT)

    says = "8-bit types must be switched on with 'qs8' (int8) and 'qu8' (uint8): {limit}"
    limit = Predicate(
        f"on: {', '.join(map(str, enabled)) or 'none'}",
        lambda dtype: dtype in enabled,
        examples=tuple((dtype, dtype in enabled) for dtype in EIGHT_BIT),
    )
    return Rule("X-Q0-1", (), limit, says, types)


DYNAMIC_RANGE = Rule(
    "X-Q0-3",
    ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"),
    FLOAT32,
    "weights of a float input must be {limit} (no dynamic-range quantization)",
    _weights_of_float_input,
)


def xnnpack_profile(options: XnnpackSwitches | None = None) -> Profile:
    """The profile with the delegate's options; without any: float on, quantized and variable operators off."""
    options = options or XnnpackSwitches()
    floating = _switch("X-F-SWITCH", "float", options.floating)
    variables = _switch("X-R-1", "variables", options.variables)
    float_rules = (floating, *_stamped("X-F", FLOAT), DYNAMIC_RANGE)
    quantized_rules = (_type_switches(options), *_stamped("X-Q", QUANTIZED))
    return Profile(
        name="xnnpack",
        version="1",
        device="XNNPACK-like delegate",
        summary="What the XNNPACK-like CPU delegate takes, float and (when switched on) 8-bit quantized.",
        rule_sets=(
            RuleSet("float", tuple(sorted(FLOAT)), float_rules, lambda view: not _has_8_bit(view)),
            RuleSet("quantized", tuple(sorted(QUANTIZED)), quantized_rules, _has_8_bit),
            RuleSet("variables", VARIABLE_OPERATORS, (variables,)),
        ),
        unlisted_rule="X-L-1",
        notes=(
            "Quantized inference is off by default; 'qs8' and 'qu8' switch signed and unsigned 8-bit operators on.",
            "Constant means a read-only tensor with contents in the file.",
            "A bias is optional for FULLY_CONNECTED and TRANSPOSE_CONV; where it is there it must be constant.",
        ),
    )
