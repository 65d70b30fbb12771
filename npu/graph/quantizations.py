"""What TFLite's kernels demand of scales and zero points: those that must be equal, and those of an output that are fixed.

A rule raises Mismatch where LiteRT's kernel refuses to be prepared. Operators that rescale, or that copy whatever the scales
say (RESHAPE, SPLIT, SLICE, TRANSPOSE), have no rule. Which operator has which rule is in `npu.graph.ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.operands import Mismatch, Operands, OperandValue

QuantizationRule = Callable[[Operands], None]

QUANTIZED = (DType.INT8, DType.UINT8, DType.INT16)


def _parameters(tensor: OperandValue) -> tuple[float, int]:
    """Scale and zero point, as LiteRT reads them: 0 of a tensor without, and of one with several."""
    quantization = tensor.quantization
    if quantization is None or quantization.scales.size != 1:
        return 0.0, 0
    return quantization.scale, quantization.zero_point


def _equal(tensor: OperandValue, other: OperandValue) -> None:
    if tensor.dtype in QUANTIZED and _parameters(tensor) != _parameters(other):
        (scale, zero), (expected, offset) = _parameters(tensor), _parameters(other)
        raise Mismatch(
            f"tensor '{tensor.name}' must have the scale {expected:g} and zero point {offset} of '{other.name}', "
            f"got {scale:g} and {zero}"
        )


def every_input(operands: Operands) -> None:
    """Inputs and outputs have one scale."""
    for tensor in (*operands.inputs, *operands.outputs[1:]):
        if tensor is not None:
            _equal(tensor, operands.outputs[0])


def first_input(operands: Operands) -> None:
    """The feature map that is read has the scale of the output."""
    for output in operands.outputs:
        _equal(operands.tensor(0), output)


def fill(operands: Operands) -> None:
    """The value has the scale of the output."""
    _equal(operands.tensor(1), operands.outputs[0])


def padding_value(operands: Operands) -> None:
    """The value that is padded with has the scale of the output."""
    _equal(operands.tensor(2), operands.outputs[0])


def concatenation(operands: Operands) -> None:
    """Signed inputs have the scale of the output, 16-bit ones a zero point of 0; of uint8 the kernel rescales."""
    output = operands.outputs[0]
    if output.dtype is DType.INT8:
        every_input(operands)
    for tensor in (*operands.inputs, output) if output.dtype is DType.INT16 else ():
        if tensor is not None and _parameters(tensor)[1] != 0:
            raise Mismatch(f"tensor '{tensor.name}' must have zero point 0, got {_parameters(tensor)[1]}")


def one_scale(tensors: Iterable[OperandValue | None]) -> None:
    """Feature maps that are computed with have one scale; LiteRT's kernels take 0 for that of a map with several."""
    for tensor in tensors:
        quantization = None if tensor is None else tensor.quantization
        if tensor is not None and quantization is not None and tensor.dtype in QUANTIZED and quantization.scales.size > 1:
            raise Mismatch(f"feature map '{tensor.name}' must have one scale, got {quantization.scales.size}")


def bias_type(operands: Operands, position: int) -> None:
    """The bias of 16-bit maps has the type that the options say, if they say one."""
    said = getattr(operands.options, "quantized_bias_type", DType.FLOAT32)
    bias = operands.inputs[position] if operands.has(position) else None
    if bias is not None and operands.outputs[0].dtype is DType.INT16 and said not in (DType.FLOAT32, bias.dtype):
        raise Mismatch(f"bias '{bias.name}' must be {said}, as quantized_bias_type says, got {bias.dtype}")


_LARGEST = {FusedActivation.RELU6: 6.0, FusedActivation.RELU_N1_TO_1: 1.0}
"""The largest bound of fused activations that have two."""


def activation_fits(operands: Operands) -> None:
    """The bounds of a fused activation fit 32 bits in the output's quantization."""
    activation = getattr(operands.options, "fused_activation_function", FusedActivation.NONE)
    if activation not in _LARGEST:
        return
    bound = _LARGEST[activation]
    for output in operands.outputs:
        scale, _ = _parameters(output)
        if output.dtype in QUANTIZED and scale > 0 and bound / scale >= 1 << 31:
            least = bound / (1 << 31)
            raise Mismatch(f"output must have a scale above {least:g} for its fused activation, got {scale:g}")
