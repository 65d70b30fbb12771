"""Profile `u55-u65`: what Ethos-U55 and Ethos-U65 run through this project's compiler and simulator.

An operator or limit is listed only if the compiler lowers it and the simulator runs it bit for bit like the reference kernels.
Limits that differ between products come from the variant's fields. It starts from the limits of `v0.1`, drops none, and adds
what exactness on the hardware needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from constraints import observe, v0_1
from constraints.rule import Exactly, Form, Observed, Profile, Range, Rule
from constraints.view import OpView
from npu.graph.graph import Quantization, Tensor

OPERATORS = v0_1.OPERATORS
MEMORY_ONLY = ("CONCATENATION", "PACK", "RESHAPE")
"""Operators that only place data: their inputs must have the quantisation of the output."""


def _has_scale(quantization: Quantization | None) -> str:
    if quantization is None or quantization.scales.size == 0:
        return "none"
    if quantization.scales.size > 1 or quantization.zero_points.size > 1:
        return "per channel"
    scale = quantization.scale
    return "per tensor" if np.isfinite(scale) and scale > 0 else "no positive scale"


def _zero_point(tensor: Tensor) -> int | None:
    quantization = tensor.quantization
    return quantization.zero_point if quantization is not None and quantization.zero_points.size else 0


def _rank(tensor: Tensor) -> int:
    return len(tensor.shape)


def _feature_map_batch(view: OpView) -> Iterator[Observed]:
    """Batch of rank-4 feature maps; a fully connected layer's batch is its rows, so it is exempt."""
    for name, tensor in view.feature_maps:
        if len(tensor.shape) == 4:
            yield Observed(f"{name} batch", int(tensor.shape[0]))


def _presence(view: OpView) -> Iterator[Observed]:
    yield Observed("input", "present" if view.inputs else "absent")
    yield Observed("output", "present" if view.outputs else "absent")


def _weight_quantization(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    quantization = None if weights is None else weights.quantization
    if quantization is None or quantization.scales.size == 0:
        yield Observed("weights", "no scale")
        return
    positive = bool(np.all(np.isfinite(quantization.scales)) and np.all(quantization.scales > 0))
    yield Observed("weights", "positive scales" if positive else "a scale that is not positive")


def _weight_zero_points(view: OpView) -> Iterator[Observed]:
    weights = view.weights
    if weights is not None and weights.quantization is not None:
        points = np.asarray(weights.quantization.zero_points)
        yield Observed("weight zero point", int(points[np.argmax(np.abs(points))]) if points.size else 0)


def _bias_constant(view: OpView) -> Iterator[Observed]:
    if view.bias is not None:
        yield Observed("bias", observe.constancy(view.bias))


def _same_quantization(view: OpView) -> Iterator[Observed]:
    output = view.output()
    for name, tensor in view.inputs:
        if output is None or tensor.quantization is None or output.quantization is None:
            continue
        ours, theirs = tensor.quantization, output.quantization
        equal = np.array_equal(ours.scales, theirs.scales) and np.array_equal(ours.zero_points, theirs.zero_points)
        yield Observed(f"quantisation of {name}", "that of the output" if equal else "another")


def _paddings_constant(view: OpView) -> Iterator[Observed]:
    tensor = view.input(1)
    yield Observed("padding tensor", "absent" if tensor is None else observe.constancy(tensor))


SCALED = Exactly("per tensor", others=("none", "per channel"))

HARDWARE = (
    Rule("N-GEN-1", (), Exactly("present", others=("absent",)), "data input and output must be {limit}", _presence),
    Rule("N-GEN-2", (), SCALED, "feature maps must be quantised {limit}, with a positive scale",
         observe.each(lambda tensor: _has_scale(tensor.quantization), lambda view: view.feature_maps),
         fix="convert the model with full integer quantisation"),
    Rule("N-GEN-3", (), Range(-128, 127), "zero points of feature maps must be {limit}",
         observe.each(_zero_point, lambda view: view.feature_maps)),
    Rule("N-GEN-4", (), Range(0, 4), "rank of feature maps must be {limit}",
         observe.each(_rank, lambda view: view.feature_maps), fix="merge neighbouring dimensions with a RESHAPE"),
    Rule("N-W-1", ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), Exactly("positive scales", others=("no scale",)),
         "weights must have {limit}", _weight_quantization),
    Rule("N-W-2", ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), Exactly(0, others=(1,)),
         "zero points of int8 weights must be {limit}", _weight_zero_points),
    Rule("N-W-3", ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"), Exactly("constant", others=("computed",)),
         "bias, if there is one, must be {limit}", _bias_constant),
    Rule("N-PAD-1", ("PAD",), Exactly("constant", others=("computed",)), "padding tensor must be {limit}",
         _paddings_constant),
    Rule("N-PAD-2", ("PAD",), Range(0, 65535), "padding counts must each be {limit}", observe.padding_counts),
    Rule("N-MEM-1", MEMORY_ONLY, Exactly("that of the output", others=("another",)),
         "quantisation of the inputs must be {limit}", _same_quantization,
         fix="quantise all inputs and the output with the same scale and zero point"),
)  # fmt: skip

PROFILE = Profile(
    name="u55-u65",
    version="1",
    device="NPU",
    summary="What Ethos-U55 and Ethos-U65 run through this project's compiler and simulator.",
    forms=(Form("int8", OPERATORS, v0_1.RULES + HARDWARE),),
    unlisted_rule="N-LIST",
    notes=v0_1.PROFILE.notes,
)

