"""What an operation must satisfy to be one that Ethos-U85 accepts, as far as it is modelled.

Decoder and encoder both apply these rules, and those of the form of records (`canonical.py`).
"""

from __future__ import annotations

from npu.hardware.variant import Variant
from npu.isa.ethos_u85.canonical import check_canonical
from npu.isa.operations import (
    AccumulatorSource,
    ActivationFunction,
    Block,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    ElementwiseMode,
    FeatureMap,
    KernelOperation,
    KernelOptions,
    MapStorage,
    OfmReverse,
    OfmTranspose,
    Operation,
    Pooling,
    PoolingMode,
    ResizeMode,
    Resizing,
    Rounding,
    WeightDecoder,
    WeightedOperation,
    WindowOperation,
)
from npu.isa.rules import (
    ALIGNMENT_BYTES,
    MAX_EXTENT,
    broken,
    check_address,
    check_feature_map,
    check_pattern,
    check_range,
    check_window,
)
from npu.layouts import BRICK_DEPTH
from npu.numerics.arg_max import PLACE_SHIFT

CHAINING_BUFFERS = 6
"""Maps that operations can hand on without memory at the same time."""
_MODES = frozenset(ElementwiseMode) - {ElementwiseMode.DIV}


def check_operation(operation: Operation, variant: Variant) -> None:
    """Raise StreamError if the hardware of `variant` does not accept `operation`, or it does what is not modelled."""
    check_canonical(operation, variant.accelerator)
    if isinstance(operation, KernelOperation):
        _check_kernel_operation(operation, variant)
    if isinstance(operation, WindowOperation):
        check_window(operation)
    if isinstance(operation, WeightedOperation):
        _check_weights(operation, variant)
    if isinstance(operation, Pooling):
        _check_pooling(operation)
    if isinstance(operation, Elementwise):
        _check_elementwise(operation)
    if isinstance(operation, Resizing):
        _check_resize(operation)
    if isinstance(operation, Dma):
        _check_dma(operation, variant)


def _check_kernel_operation(operation: KernelOperation, variant: Variant) -> None:
    options = operation.options
    assert options is not None
    named = [("IFM", operation.ifm), ("OFM", operation.ofm)]
    if len(operation.ifms) > 1:
        named.append(("IFM2", operation.ifms[1]))
    for name, fm in named:
        _check_map(fm, name, variant.accelerator.address_bits)
    is_kept = operation.ofm.storage is MapStorage.NONE
    if is_kept != options.keeps_accumulators:
        raise broken("OFM storage", "NONE where accumulators are kept, and only there", operation.ofm.storage.name)
    if operation.ifm.storage is MapStorage.NONE:
        raise broken("IFM storage", "not NONE, unless the operand is a number", operation.ifm.storage.name)
    _check_accumulators(operation, options)
    _check_block(operation, options.ublock, variant)
    _check_activation(operation)
    if operation.rounding is Rounding.DOUBLE_ASYMMETRIC:
        raise broken("rounding", "one that is modelled", operation.rounding.name)
    is_moved = options.transpose is not OfmTranspose.HWC, options.reverse is not OfmReverse.NONE
    if sum(is_moved) + (operation.ofm.storage is MapStorage.CHAINED and any(is_moved)) > 1:
        raise broken("OFM", "one of transposed, reversed and chained", (options.transpose.name, options.reverse.name))
    if operation.ofm.storage is MapStorage.CHAINED and operation.ofm.element.bits > 32:
        raise broken("OFM element", "of at most 32 bits in a chaining buffer", operation.ofm.element)
    is_wide = operation.ofm.element.bits == 32
    if is_wide and operation.activation.function in (ActivationFunction.TANH, ActivationFunction.SIGMOID):
        raise broken("activation function", "no TANH or SIGMOID of a 32-bit OFM", operation.activation.function.name)


def _check_accumulators(operation: KernelOperation, options: KernelOptions) -> None:
    """Sums stay and go on in operations with weights alone; a pooling of mode NONE scales those of IFM2."""
    sources = {AccumulatorSource.RESET}
    if isinstance(operation, WeightedOperation):
        sources.add(AccumulatorSource.KEEP)
        if isinstance(operation, Convolution) and operation.weights:
            sources.add(AccumulatorSource.IFM2)
    elif options.keeps_accumulators:
        raise broken("accumulators", "kept by an operation with weights", type(operation).__name__)
    if isinstance(operation, Pooling) and operation.mode is PoolingMode.NONE:
        sources = {AccumulatorSource.IFM2}
    if options.accumulator_source not in sources:
        names = " or ".join(source.name for source in sorted(sources))
        raise broken("accumulators", f"from {names} in this operation", options.accumulator_source.name)


def _check_map(fm: FeatureMap, name: str, address_bits: int) -> None:
    if fm.storage is MapStorage.TILES_3X1:
        raise broken(f"{name} storage", "one that is modelled", fm.storage.name)
    if fm.storage is MapStorage.CHAINED and fm.region >= CHAINING_BUFFERS:
        raise broken(f"{name} region", f"a chaining buffer, below {CHAINING_BUFFERS}", fm.region)
    if fm.is_in_memory:
        check_feature_map(fm, name, address_bits)
        return
    for axis in ("height", "width", "depth"):
        if not 0 < getattr(fm, axis) <= MAX_EXTENT:
            raise broken(f"{name} {axis}", f"in [1, {MAX_EXTENT}]", getattr(fm, axis))
    check_pattern(fm.zero_point, fm.element, f"{name} zero point")


def _check_block(operation: KernelOperation, ublock: Block, variant: Variant) -> None:
    """Blocks are whole micro-blocks; those of elementwise operations need not be as deep, those of a resize as high or
    wide: Vela 5.2 makes some of 3 columns for micro-blocks of 4."""
    limit, block = variant.accelerator.max_block, operation.block
    if ublock.depth < 1:
        raise broken("micro-block", f"of at most {variant.accelerator.macs_per_cycle} MACs", f"{ublock.height}x{ublock.width}")
    for axis in ("height", "width", "depth"):
        size, unit = getattr(block, axis), getattr(ublock, axis)
        if axis == "depth" and isinstance(operation, Elementwise):
            unit = min(unit, BRICK_DEPTH)
        if axis != "depth" and isinstance(operation, Resizing):
            unit = 1
        if not 0 < size <= getattr(limit, axis):
            raise broken(f"block {axis}", f"in [1, {getattr(limit, axis)}]", size)
        if size % unit:
            raise broken(f"block {axis}", f"a multiple of the micro-block's {unit}", size)


def _check_activation(operation: KernelOperation) -> None:
    activation, element = operation.activation, operation.ofm.element
    check_pattern(activation.minimum, element, "activation minimum")
    check_pattern(activation.maximum, element, "activation maximum")
    if element.bits > 32 and activation.function is not ActivationFunction.NONE:
        raise broken("activation function", f"NONE for an OFM of {element.bits} bits", activation.function.name)


def _check_weights(operation: WeightedOperation, variant: Variant) -> None:
    if operation.ifm.element.bits not in (8, 16):
        raise broken("IFM element", "8 or 16 bits of a convolution", operation.ifm.element)
    if isinstance(operation, Convolution) and operation.ifm2 is not None and not operation.weights:
        if operation.ifm2.element.bits != operation.ifm.element.bits:
            raise broken("IFM2 element", f"of the IFM's {operation.ifm.element.bits} bits", operation.ifm2.element)
        if operation.kernel.height * operation.kernel.width != 1 or operation.ifm2.storage is not MapStorage.TILES_2X2:
            raise broken("weights in IFM2", "those of a kernel of 1x1, in memory", f"{operation.kernel}")
        return
    streams = 1 if operation.weight_decoder is WeightDecoder.FAST else variant.accelerator.weight_decoders
    if len(operation.weights) != streams:
        raise broken("weights", f"{streams} stream(s) that are not empty", len(operation.weights))
    if operation.has_4x4_sub_kernels:
        raise broken("decomposition", "one that is modelled, 8x8", "4x4")
    for number, one in enumerate(operation.weights):
        check_range(one, f"weight stream {number}", variant.accelerator.address_bits)
    check_range(operation.scales[0], "scales", variant.accelerator.address_bits)


def _check_pooling(operation: Pooling) -> None:
    ifm, ofm = operation.ifm, operation.ofm
    if operation.mode is not PoolingMode.REDUCE_SUM and ifm.depth != ofm.depth:
        raise broken("IFM depth", f"the OFM depth {ofm.depth}", ifm.depth)
    scale = operation.scale
    if operation.mode in _INDICES and (scale is None or (scale.scale, scale.shift) != (1, PLACE_SHIFT)):
        got = "none" if scale is None else f"{scale.scale} >> {scale.shift}"
        raise broken("OFM scale", f"1 >> {PLACE_SHIFT} of {operation.mode.name}, for the place of the maximum", got)


_INDICES = (PoolingMode.ARGMAX_X, PoolingMode.ARGMAX_Y)


def _check_elementwise(operation: Elementwise) -> None:
    if operation.mode not in _MODES:
        raise broken("mode", "one that is modelled", operation.mode.name)
    ofm, operands = operation.ofm, operation.ifms
    for axis in ("height", "width", "depth"):
        sizes, full = [getattr(fm, axis) for fm in operands], getattr(ofm, axis)
        if not all(size in (1, full) for size in sizes):
            raise broken(f"operand {axis}", f"1 or the OFM's {full}", sizes)
    if len(operands) > 1 and operands[0].element.bits != operands[1].element.bits:
        raise broken("IFM2 element", f"of the IFM's {operands[0].element.bits} bits", operands[1].element)
    check_pattern(operation.scalar_zero_point, operation.ifm.element, "scalar zero point")


def _check_resize(operation: Resizing) -> None:
    if operation.mode is ResizeMode.REPLICATE:
        raise broken("mode", "one that is modelled", operation.mode.name)
    if operation.ifm.depth != operation.ofm.depth:
        raise broken("IFM depth", f"the OFM depth {operation.ofm.depth}", operation.ifm.depth)


def _check_dma(operation: Dma, variant: Variant) -> None:
    for name, side in (("source", operation.source), ("destination", operation.destination)):
        _check_side(side, name, variant.accelerator.address_bits)
    touches_tables = operation.source.region is None or operation.destination.region is None
    if operation.length_bytes <= 0 or (touches_tables and operation.length_bytes % ALIGNMENT_BYTES):
        raise broken("length", f"positive, of tables a multiple of {ALIGNMENT_BYTES}", operation.length_bytes)
    if operation.rows <= 0 or operation.planes <= 0:
        raise broken("rows and planes", "positive", (operation.rows, operation.planes))
    if operation.indices is not None:
        check_address(operation.indices.address, "address of the indices", 4, variant.accelerator.address_bits)


def _check_side(side: DmaSide, name: str, address_bits: int) -> None:
    check_address(side.address, f"{name} address", ALIGNMENT_BYTES if side.region is None else 1, address_bits)
