"""What TFLite's interpreter refuses although everything here takes it: the only place that knows, for `npu check --strict`.

Each rule yields what must hold and what was found. What cannot run anywhere is refused when a file is read (`npu.graph.verify`)
or compiled (`npu.graph.consistency`); what is here runs, with a result that docs/exactness.md tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npu.graph.attributes import FusedActivation
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Model, Op, Tensor
from npu.graph.quantizations import QUANTIZED

_MOST_STEP = (1 << 15) - 1
_EIGHT_BITS = (DType.INT8, DType.UINT8)
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")
SchemaCheck = Callable[[Graph, Op], Iterator[str]]


def departures(model: Model) -> Iterator[str]:
    """What of a model TFLite's interpreter refuses: where, what must hold, what was found."""
    for number, graph in enumerate(model.graphs):
        place = f" of subgraph {number}" if number else ""
        for index, tensor in enumerate(graph.tensors):
            for defect in _tensor(tensor):
                yield f"tensor {index} '{tensor.name}'{place}: {defect}"
        for index, op in enumerate(graph.ops):
            for rule in _RULES:
                for defect in rule(graph, op):
                    yield f"{op.name} (op {index}{place}): {defect}"


def _tensor(tensor: Tensor) -> Iterator[str]:
    quantization, rank = tensor.quantization, len(tensor.shape)
    if quantization is not None and rank and not 0 <= quantization.axis < rank:
        yield f"quantized dimension must be in [0, {rank}), got {quantization.axis}"


def _activation(graph: Graph, op: Op) -> Iterator[str]:
    activation = getattr(op.attributes, "fused_activation_function", FusedActivation.NONE)
    if op.kind in ("CONCATENATION", "L2_NORMALIZATION") and activation is not FusedActivation.NONE:
        yield f"fused activation must be NONE, got {activation.name}"


def _bias(graph: Graph, op: Op) -> Iterator[str]:
    if op.kind not in _CONVOLUTIONS:
        return
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    if bias == ABSENT or (bias is None and graph.tensors[op.inputs[0]].dtype in QUANTIZED and op.kind == "CONV_2D"):
        yield "bias must be given, it is absent"
        return
    quantization = None if bias is None else graph.tensors[bias].quantization
    if quantization is not None and quantization.zero_points.any():
        yield f"zero point of the bias must be 0, got {quantization.zero_points[:4].tolist()}"


def _steps(graph: Graph, op: Op) -> Iterator[str]:
    for name in ("stride_w", "stride_h", "dilation_w_factor", "dilation_h_factor"):
        value = getattr(op.attributes, name, 0)
        if op.kind in _CONVOLUTIONS and value > _MOST_STEP:
            yield f"{name} must be at most {_MOST_STEP}, got {value}"


def _type_of_indices(graph: Graph, op: Op) -> Iterator[str]:
    name = {"ARG_MAX": "output_type", "ARG_MIN": "output_type", "SHAPE": "out_type"}.get(op.kind)
    if name is not None and getattr(op.attributes, name, DType.FLOAT32) not in (DType.INT32, DType.INT64):
        yield f"{name} must be int32 or int64, got {getattr(op.attributes, name, 'none')}"


def _narrow_range(graph: Graph, op: Op) -> Iterator[str]:
    if op.kind == "FAKE_QUANT" and getattr(op.attributes, "narrow_range", False):
        yield "narrow_range must be false, got true"


_FIXED_SCALES = {"LOGISTIC": 1 / 256, "TANH": 1 / 128}


def _output_scale(graph: Graph, op: Op) -> Iterator[str]:
    for output in (graph.tensors[index] for index in op.outputs if op.kind in _FIXED_SCALES):
        wanted, quantization = _FIXED_SCALES[op.kind], output.quantization
        if output.dtype in _EIGHT_BITS and quantization is not None and quantization.scale != wanted:
            yield f"output must have the scale {wanted:g}, got {quantization.scale:g}"


_MOST_BIAS_DIFFERENCE = 0.02


def _bias_scale(graph: Graph, op: Op) -> Iterator[str]:
    """The bias counts in steps of input times weights, whatever scale it has; TFLite's GetQuantizedConvolutionMultipler."""
    kinds = {"FULLY_CONNECTED": (*_EIGHT_BITS, DType.INT16), **dict.fromkeys(_CONVOLUTIONS, (DType.UINT8,))}
    if len(op.inputs) < 3 or op.inputs[2] == ABSENT or graph.tensors[op.inputs[0]].dtype not in kinds.get(op.kind, ()):
        return
    quantizations = [graph.tensors[index].quantization for index in (*op.inputs[:3], op.outputs[0])]
    scales = [one.scale for one in quantizations if one is not None and one.scales.size == 1]
    if len(scales) == len(quantizations):
        product, bias, output = scales[0] * scales[1], *scales[2:]
        if abs(product - bias) > _MOST_BIAS_DIFFERENCE * output:
            wanted = f"within {_MOST_BIAS_DIFFERENCE:.0%} of the output's {output:g} of input times weights, {product:g}"
            yield f"scale of the bias must be {wanted}, got {bias:g}"


_RULES: tuple[SchemaCheck, ...] = (_activation, _bias, _bias_scale, _steps, _type_of_indices, _narrow_range, _output_scale)
