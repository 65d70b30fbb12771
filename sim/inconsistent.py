"""What the parts of one operation must be for each other: the one place that says which operations nothing can run.

`npu run` refuses such an operation, and `npu verify` finds it. Its ranges and alignments are the decoder's business, its
addresses that of whoever knows the memory.
"""

from __future__ import annotations

from npu.isa.operations import (
    ActivationFunction,
    ClipRange,
    Convolution,
    DepthwiseConvolution,
    Elementwise,
    KernelOperation,
    Operation,
    Pooling,
    PoolingMode,
    Upscale,
    WindowOperation,
)
from npu.isa.shram import LUT_SLOT_BYTES, table_bytes

_CLIP_LIMITS = {
    ClipRange.FORCE_UINT8: (0, 255),
    ClipRange.FORCE_INT8: (-128, 127),
    ClipRange.FORCE_INT16: (-32768, 32767),
}

_UNCLAMPED = -(1 << 62), 1 << 62


def inconsistent(operation: Operation | KernelOperation, lut_bytes: int) -> str | None:
    """The first thing that must hold between the parts of an operation and does not; None if all does."""
    if not isinstance(operation, KernelOperation):
        return None
    reason = _of_output(operation, lut_bytes)
    if reason is None and isinstance(operation, WindowOperation):
        reason = _of_window(operation)
        if reason is None and isinstance(operation, Convolution | DepthwiseConvolution) and operation.ifm.element.bits == 32:
            reason = "convolution: IFM must have 8 or 16 bits, got 32"
    if reason is None and isinstance(operation, Elementwise):
        reason = _of_elementwise(operation)
    return reason


def output_limits(operation: KernelOperation) -> tuple[int, int]:
    """Lowest and highest value after the clamps of the output stage."""
    low, high = operation.activation.minimum, operation.activation.maximum
    clip_range = operation.activation.clip_range
    if clip_range is ClipRange.NONE:
        return _UNCLAMPED
    if clip_range is not ClipRange.OFM_PRECISION and (clip := _CLIP_LIMITS.get(clip_range)) is not None:
        low = min(max(clip[0], low), high)
        high = max(min(clip[1], high), low)
    return low, high


def _of_window(operation: WindowOperation) -> str | None:
    kernel, padding, ifm, ofm = operation.kernel, operation.padding, operation.ifm, operation.ofm
    factor = 1 if operation.upscale is Upscale.NONE else 2
    for axis, needed, size in (
        ("height", (ofm.height - 1) * kernel.stride_y + kernel.dilated_height - padding.top - padding.bottom, ifm.height),
        ("width", (ofm.width - 1) * kernel.stride_x + kernel.dilated_width - padding.left - padding.right, ifm.width),
    ):
        if -(-needed // factor) != size:
            return f"IFM {axis}: must be {-(-needed // factor)} to fit OFM, kernel and padding, got {size}"
    is_sum = isinstance(operation, Pooling) and operation.mode is PoolingMode.REDUCE_SUM
    same_depth = isinstance(operation, DepthwiseConvolution | Pooling) and not is_sum
    if same_depth and ofm.depth != ifm.depth:
        return f"OFM depth: must equal the IFM's {ifm.depth}, got {ofm.depth}"
    return None


def _of_elementwise(operation: Elementwise) -> str | None:
    ifm, ofm, ifm2 = operation.ifm, operation.ofm, operation.ifm2
    shape = (ofm.height, ofm.width, ofm.depth)
    if operation.ifm_scale is not None:
        return _of_operands(operation)
    if (ifm.height, ifm.width, ifm.depth) != shape:
        return f"elementwise: IFM must have the OFM's extent {shape}, got {ifm.height, ifm.width, ifm.depth}"
    if operation.mode.is_unary:
        return None
    if (ifm2 is None) == (operation.scalar is None):
        return "elementwise: a binary operation must have exactly one of a second IFM and a scalar, got both or none"
    if ifm2 is None:
        return None
    extent = (ifm2.height, ifm2.width, ifm2.depth)
    if any(size not in (1, full) for size, full in zip(extent, shape, strict=True)):
        return f"elementwise: second IFM must have the OFM's extent {shape} or 1, got {extent}"
    return None


def _of_operands(operation: Elementwise) -> str | None:
    """Of an operation both of whose operands may be repeated."""
    ofm = operation.ofm
    shape = (ofm.height, ofm.width, ofm.depth)
    for name, fm in zip(("IFM", "IFM2"), operation.ifms, strict=False):
        extent = (fm.height, fm.width, fm.depth)
        if any(size not in (1, full) for size, full in zip(extent, shape, strict=True)):
            return f"elementwise: {name} must have the OFM's extent {shape} or 1, got {extent}"
    return None


def _of_output(operation: KernelOperation, lut_bytes: int) -> str | None:
    activation = operation.activation
    if activation.function is ActivationFunction.NONE:
        return None
    index = activation.function.lut_index
    if index is None:
        if operation.ofm.element.bits == 32 and activation.clip_range is ClipRange.OFM_PRECISION:
            got = activation.function.name
            return f"activation: a 32-bit OFM without clip range must have none, got {got}"
        return None
    kind, size = lut_kind(operation), table_bytes(operation)
    if kind == 0:
        return f"LUT: a table needs a clamped output, got a {operation.ofm.element} OFM without clip range"
    if LUT_SLOT_BYTES * index + size > lut_bytes:
        return f"LUT {index}: {size} bytes must fit the table area of {lut_bytes}"
    low, high = output_limits(operation)
    first, last = {1: (0, 255), 5: (-32768, 32767)}.get(kind if kind == 5 else kind & 1, (-128, 127))
    if low < first or high > last:
        return f"LUT {index}: clamped values must lie in [{first}, {last}], got [{low}, {high}]"
    return None


def lut_kind(operation: KernelOperation) -> int:
    """Kind of table for the kernels; 0 if the operation cannot use one."""
    element, clip = operation.ofm.element, operation.activation.clip_range
    if element.bits == 8:
        return 2 if element.is_signed else 1
    if clip in (ClipRange.FORCE_INT8, ClipRange.FORCE_UINT8):
        unsigned = clip is ClipRange.FORCE_UINT8
        return 4 - unsigned if element.bits == 32 else 6 + unsigned
    return 5 if element.bits == 16 else 0
