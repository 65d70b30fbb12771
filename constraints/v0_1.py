"""Profile `v0.1`: the published constraint list of version 0.1, exactly: 19 operators, 4 generic and 40 specific limits.

Readings where the list is silent, marked in the rules' details: the 8x8 limit of average pooling holds with SAME padding,
because the two VALID limits would contradict it; the weight sum is per output channel over |weight - zero point|; the tensors
that must be int8 are feature maps and weights, not bias, shape or padding tensors.
"""

from __future__ import annotations

from constraints import observe
from constraints.rule import AtMost, Exactly, OneOf, Predicate, Profile, Range, Rule, RuleSet, for_each
from npu.graph.attributes import Padding
from npu.graph.dtype import DType

OPERATORS = (
    "ADD", "AVERAGE_POOL_2D", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "LOGISTIC", "MAX_POOL_2D",
    "MUL", "PACK", "PAD", "RELU", "RELU6", "RELU_N1_TO_1", "RESHAPE", "RESIZE_BILINEAR", "SOFTMAX", "SUB", "TANH",
)  # fmt: skip

INT8 = Exactly(DType.INT8, others=(DType.UINT8, DType.INT16, DType.INT32, DType.FLOAT32))
INT32 = Exactly(DType.INT32, others=(DType.INT64, DType.INT16, DType.FLOAT32))
EIGHT_BIT = Predicate("8-bit", lambda dtype: dtype.bits == 8 and dtype is not DType.BOOL,
                      examples=((DType.INT8, True), (DType.INT16, False), (DType.FLOAT32, False)))  # fmt: skip
CONSTANT = Exactly("constant", others=("computed",))
ACTIVATIONS = OneOf(("LOGISTIC", "RELU", "RELU6", "RELU_N1_TO_1", "TANH"), others=("SIGN_BIT",))
BROADCAST = Predicate(
    "allowed only where one of the two operands has dimension 1",
    observe.can_broadcast,
    examples=(
        (((1, 8, 8, 16), (1, 1, 1, 16)), True),
        (((1, 1, 1, 16), (1, 8, 8, 16)), True),
        (((1, 8, 8, 16), (16,)), True),
        (((1, 8, 1, 16), (1, 1, 8, 16)), True),
        (((1, 8, 8, 2), (1, 8, 8, 3)), False),
    ),
)
DEPTH_MULTIPLIER = Predicate(
    "1, unless the IFM has one channel and the OFM as many as the multiplier",
    observe.depth_multiplier_fits,
    examples=(((1, 8, 8), True), ((8, 1, 8), True), ((2, 2, 4), False), ((8, 1, 16), False)),
)
RESIZE = Predicate(
    "one of the cases below",
    observe.resize_fits,
    examples=(
        (((1, 1), (5, 7), False), True),
        (((6, 8), (6, 8), False), True),
        (((6, 8), (11, 15), True), True),
        (((6, 8), (12, 16), True), False),
        (((6, 8), (21, 29), True), False),
        (((6, 8), (12, 16), False), True),
        (((6, 8), (11, 15), False), False),
        (((6, 8), (18, 24), False), False),
        (((6, 8), (12, 8), False), False),
    ),
)

EXPLICIT_PAD = "pad the input with a PAD operator of its own and use VALID padding"
SPLIT_POOL = "split the pool into several smaller ones, for example 9x9 into two of 3x3 with stride 3"
BATCH_TO_HEIGHT = "run the batch one image at a time"
SMALLER_STRIDE = "use a stride of at most 3; stride 4 is two layers with stride 2"

GENERIC = (
    Rule("V-GEN-1", (), INT8, "tensors must be of type {limit}", observe.tensor_types,
         fix="quantize the model fully to int8, inputs and outputs included",
         details=("Feature maps and weights count; bias, shape, axis and padding tensors have rules of their own.",)),
    Rule("V-GEN-2", (), Range(1, 65535), "tensor dimensions must each be {limit}", observe.tensor_dimensions),
    Rule("V-GEN-3", (), ACTIVATIONS, "the fused activation, if there is one, must be {limit}", observe.fused_activation),
    Rule("V-GEN-4", (), INT8, "with a fused activation the output tensor must be of type {limit}",
         observe.output_type_with_activation),
)  # fmt: skip

BROADCASTING = for_each(
    {"ADD": "V-ADD-1", "SUB": "V-SUB-1", "MUL": "V-MUL-1"},
    Rule("", (), BROADCAST, "broadcasting is {limit}", observe.operand_shapes,
         fix="repeat the smaller operand with a constant, or reshape it so that the differing dimension is 1"),
)  # fmt: skip

POOLING = (
    *for_each(
        {"AVERAGE_POOL_2D": "V-AVG-1", "MAX_POOL_2D": "V-MAX-1"},
        Rule("", (), Exactly(1, others=(0, 2)), "IFM batch size must be {limit}", observe.batch, fix=BATCH_TO_HEIGHT),
    ),
    *for_each(
        {"AVERAGE_POOL_2D": "V-AVG-2", "MAX_POOL_2D": "V-MAX-2"},
        Rule("", (), Range(1, 3), "stride width and height must each be {limit}", observe.STRIDES, fix=SMALLER_STRIDE),
    ),
    Rule("V-AVG-3", ("AVERAGE_POOL_2D",), Range(1, 8), "with SAME padding, kernel width and height must each be {limit}",
         observe.only_with(Padding.SAME, observe.window_sides), fix=f"{EXPLICIT_PAD}, or {SPLIT_POOL}"),
    Rule("V-AVG-4", ("AVERAGE_POOL_2D",), Range(1, 256), "with VALID padding, kernel height must be {limit}",
         observe.only_with(Padding.VALID, observe.window_height), fix=SPLIT_POOL),
    Rule("V-AVG-5", ("AVERAGE_POOL_2D",), Range(1, 65536), "with VALID padding, kernel width x height must be {limit}",
         observe.only_with(Padding.VALID, observe.window_product), fix=SPLIT_POOL),
    Rule("V-MAX-3", ("MAX_POOL_2D",), Range(1, 256), "kernel height must be {limit}", observe.window_height, fix=SPLIT_POOL),
    Rule("V-MAX-4", ("MAX_POOL_2D",), Range(1, 65536), "kernel width x height must be {limit}", observe.window_product,
         fix=SPLIT_POOL),
)  # fmt: skip

_CONVOLUTION = (
    Rule("1", (), Range(1, 3), "stride width and height must each be {limit}", observe.STRIDES, fix=SMALLER_STRIDE),
    Rule("2", (), Range(1, 2), "dilation factors of width and height must each be {limit}", observe.DILATIONS),
    Rule("3", (), Range(1, 64), "height of the dilated kernel must be {limit}", observe.dilated_height),
    Rule("4", (), Range(1, 4096), "width x height of the dilated kernel must be {limit}", observe.dilated_product),
    Rule("5", (), EIGHT_BIT, "weights must be {limit}", observe.weight_type, fix="quantize the weights to int8"),
    Rule("6", (), CONSTANT, "weights must be {limit}", observe.weights_constant,
         fix="freeze the weights into the file as a constant"),
    Rule("7", (), AtMost(8323072), "sum of the weights must be {limit}", observe.weight_sum,
         details=("The largest sum over one output channel of |weight - zero point| counts.",)),
    Rule("8", (), INT32, "bias, if there is one, must be of type {limit}", observe.bias_type),
    Rule("9", (), Exactly(1, others=(0, 2)), "IFM batch size must be {limit}", observe.batch, fix=BATCH_TO_HEIGHT),
)  # fmt: skip

CONVOLUTION = tuple(
    stamped
    for rule in _CONVOLUTION
    for stamped in for_each({"CONV_2D": f"V-CONV-{rule.id}", "DEPTHWISE_CONV_2D": f"V-DW-{rule.id}"}, rule)
)

OTHERS = (
    Rule("V-DW-10", ("DEPTHWISE_CONV_2D",), DEPTH_MULTIPLIER, "depth multiplier must be {limit}", observe.depth_multiplier,
         fix="write the layer as a CONV_2D with zeros in the other channels"),
    Rule("V-FC-1", ("FULLY_CONNECTED",), EIGHT_BIT, "weights must be {limit}", observe.weight_type,
         fix="quantize the weights to int8"),
    Rule("V-FC-2", ("FULLY_CONNECTED",), CONSTANT, "weights must be {limit}", observe.weights_constant,
         fix="freeze the weights into the file as a constant"),
    Rule("V-FC-3", ("FULLY_CONNECTED",), INT32, "bias, if there is one, must be of type {limit}", observe.bias_type),
    Rule("V-PAD-1", ("PAD",), OneOf(((3, 2), (4, 2)), others=((2, 2), (5, 2))), "padding tensor must have shape {limit}",
         observe.paddings_shape, fix="reshape the input to rank 3 or 4 around the PAD"),
    Rule("V-PAD-2", ("PAD",), Exactly(0, others=(1,)), "padding outside width and height must be {limit}",
         observe.paddings_outside_plane, fix="concatenate zeros instead of padding the channel"),
    Rule("V-PAD-3", ("PAD",), INT32, "padding tensor must be of type {limit}", observe.paddings_type),
    Rule("V-RSH-1", ("RESHAPE",), CONSTANT, "new shape must be {limit}", observe.new_shape,
         fix="convert the model with fixed input shapes, so that the new shape is a constant"),
    Rule("V-RSZ-1", ("RESIZE_BILINEAR",), RESIZE, "width and height of IFM and OFM must be {limit}", observe.resize_shapes,
         fix="resize in steps of two",
         details=("IFM width and height are both 1", "OFM has the width and height of the IFM",
                  "align_corners: OFM width and height are twice those of the IFM, less 1",
                  "no align_corners: OFM width and height are twice those of the IFM")),
    Rule("V-RSZ-2", ("RESIZE_BILINEAR",), Exactly(False, others=(True,)), "the attribute half_pixel_centers must be {limit}",
         observe.attributes(half_pixel_centers="half_pixel_centers"), fix="export the model without half_pixel_centers"),
)  # fmt: skip

RULES = GENERIC + BROADCASTING + POOLING + CONVOLUTION + OTHERS

READINGS = (
    "The 8x8 limit of AVERAGE_POOL_2D holds with SAME padding only: with VALID padding the two larger limits apply.",
    "The sum of the weights is taken per output channel over |weight - zero point|.",
    "LOGISTIC as a fused activation does not exist in files; it arises only when a tool fuses the operators itself.",
)

PROFILE = Profile(
    name="v0.1",
    version="0.1",
    device="NPU",
    summary="The operators and limits of the first published constraint list, for int8 networks on Ethos-U.",
    rule_sets=(RuleSet("int8", OPERATORS, RULES),),
    unlisted_rule="V-T-3",
    notes=(
        *READINGS,
        "What the list takes but this compiler does not lower, such as a bias that is computed, runs on the CPU for the reason "
        "`LOWERING`, found when the model is compiled.",
    ),
)
