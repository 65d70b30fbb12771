"""Whether a kernel's buffers and look-up tables fit where the stream puts them in SHRAM, or memories of their own.

The sizes of the buffers are those of `npu.isa.shram` and `npu.isa.ethos_u85.micro_blocks`, which the compiler uses too: what
judges these formulas are the registers of Vela's streams, in the tests. The boundaries are the registers of the operation.
"""

from __future__ import annotations

from collections.abc import Iterator

from npu.hardware.variant import Variant
from npu.isa.ethos_u85.micro_blocks import map_bytes
from npu.isa.families import family_of
from npu.isa.operations import Block, Dma, Elementwise, KernelOperation, Operation, Pooling, PoolingMode
from npu.isa.shram import LUT_SLOT_BYTES, buffer_banks, buffer_rule, buffers_of, lut_start, table_bytes
from npu.machine.buffers import accumulator_banks, ifm_banks


def shram_findings(operation: Operation, variant: Variant) -> Iterator[str]:
    """What is too small among the buffers of an operation; nothing for transfers and waits."""
    if not isinstance(operation, KernelOperation):
        return
    if operation.options is not None:
        yield from _apart(operation, operation.options.ublock, variant)
        return
    problem, block, layout = buffers_of(operation), operation.block, operation.shram
    ifm, accumulator = buffer_banks(buffer_rule(problem, variant), block.height, block.width, block.depth)
    first, end = variant.shram.reserved_output_banks, lut_start(problem, variant)
    if isinstance(operation, Elementwise):
        start = layout.ifm2_start if problem.reads_ifm2 else layout.ifm_end
        yield from _too_small("IFM buffer", first, start, ifm)
        if problem.reads_ifm2 and not _is_one_element(operation):
            yield from _too_small("IFM2 buffer", layout.ifm2_start, layout.ifm_end, ifm)
        if layout.ifm_end > end:
            yield f"its input buffers must end at bank {end}, before tables and reserved banks, got {layout.ifm_end}"
        return
    yield from _too_small("IFM buffer", first, min(layout.ifm_end, layout.accumulator_start), ifm)
    yield from _too_small("accumulators", layout.accumulator_start, end, accumulator)


def _apart(operation: KernelOperation, ublock: Block, variant: Variant) -> Iterator[str]:
    """What does not fit memories of their own: one block of the IFM, and its accumulators."""
    if isinstance(operation, Pooling) and operation.mode is PoolingMode.NONE:
        return
    problem, block, buffers = buffers_of(operation), operation.block, family_of(variant.accelerator.product).buffers
    assert buffers.micro_blocks is not None
    allowed = buffers.micro_blocks(problem, variant)
    if ublock not in allowed:
        names = ", ".join(f"{one.height}x{one.width}x{one.depth}" for one in allowed)
        yield f"its micro-block must be {names}, got {ublock.height}x{ublock.width}x{ublock.depth}"
        return
    rule = buffers.rule(problem, ublock, variant, min(buffers.halves))
    if 0 < rule.row_width < block.width:
        yield f"its block must be at most {rule.row_width} columns wide, for the rows of its IFM, got {block.width}"
    if rule.ifm_buffers:
        whole = map_bytes(operation.ifm, ublock, variant.accelerator)
        ifm = min(ifm_banks(rule, block.height, block.width, block.depth), whole)
        if ifm > rule.ifm_room:
            yield f"its IFM block must fit {rule.ifm_room} bytes, got {ifm}"
    accumulators = accumulator_banks(rule, block.height, block.width, block.depth) if rule.has_accumulators else 0
    if accumulators > rule.accumulator_room:
        yield f"its accumulators must fit {rule.accumulator_room} bytes, got {accumulators}"


def _is_one_element(operation: Elementwise) -> bool:
    """Whether the second operand is one value for all, for which Vela 5.2 leaves less than a buffer of blocks."""
    fm = operation.ifm2
    return fm is not None and fm.height * fm.width * fm.depth == 1


def _too_small(what: str, start: int, end: int, needed: int) -> Iterator[str]:
    if end - start < needed:
        yield f"its {what} must have {needed} banks, got banks [{start}, {end})"


def lut_findings(operation: Operation, variant: Variant) -> Iterator[tuple[str, int]]:
    """Broken rules of look-up tables, each with a SHRAM address."""
    area, end = variant.shram.lut_address, variant.shram.lut_address + variant.shram.lut_bytes
    if isinstance(operation, Dma):
        target = operation.destination
        length = operation.length_bytes * operation.rows * operation.planes
        if target.region is None and not (area <= target.address and target.address + length <= end):
            where = f"[{target.address:#x}, {target.address + length:#x})"
            yield f"a transfer into SHRAM must stay in the tables' area [{area:#x}, {end:#x}), got {where}", target.address
    elif isinstance(operation, KernelOperation) and operation.activation.function.lut_index is not None:
        index, size = operation.activation.function.lut_index, table_bytes(operation)
        start = area + LUT_SLOT_BYTES * index
        if start + size > end or LUT_SLOT_BYTES * index % size:
            yield f"table {index} of {size} bytes must begin at a multiple of its size and end in {end - area} bytes", start
