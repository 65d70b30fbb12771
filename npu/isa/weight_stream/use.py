"""How operations use their weights: what the order of a stream depends on."""

from __future__ import annotations

from npu.isa.operations import (
    Block,
    Convolution,
    DepthwiseConvolution,
    KernelWindow,
    Traversal,
    WeightDecoder,
    WeightedOperation,
)
from npu.isa.weight_stream.order import WeightShape
from npu.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightUse:
    """How an operation uses its weights, as far as their order depends on it; `block_depth` is that of all cores.

    `ublock` is the micro-block that it has chosen, if it may.
    """

    kernel: KernelWindow
    block_depth: int
    traversal: Traversal
    is_depthwise: bool
    ifm_bits: int
    cores: int
    has_4x4_sub_kernels: bool = False
    ublock: Block | None = None
    decoder: WeightDecoder = WeightDecoder.STANDARD
    is_sparse: bool = False

    @staticmethod
    def of(operation: WeightedOperation) -> WeightUse:
        """The use by an operation of a stream."""
        return WeightUse(
            kernel=operation.kernel,
            block_depth=operation.block.depth,
            traversal=operation.traversal if isinstance(operation, Convolution) else Traversal.DEPTH_FIRST,
            is_depthwise=isinstance(operation, DepthwiseConvolution),
            ifm_bits=operation.ifm.element.bits,
            cores=len(operation.weights),
            has_4x4_sub_kernels=operation.has_4x4_sub_kernels,
            ublock=None if operation.options is None else operation.options.ublock,
            decoder=operation.weight_decoder,
            is_sparse=operation.has_sparse_weights,
        )


def weight_shape(operation: WeightedOperation) -> WeightShape:
    """Output channels, kernel height, kernel width, input channels."""
    inputs = 1 if isinstance(operation, DepthwiseConvolution) else operation.ifm.depth
    return operation.ofm.depth, operation.kernel.height, operation.kernel.width, inputs
