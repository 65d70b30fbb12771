"""Chains: an elementwise operation hands its map on to the next one in a chaining buffer, where the NPU has such buffers.

The map keeps its place in memory, where nobody writes it then: what else is planned stays as it is. Blocks of both operations
take turns, so both have the same block, and the second one must not write over what the first one still reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from npu.compiler.dependencies import map_access
from npu.compiler.ir import ElementwiseStep, Storage
from npu.compiler.jobs import Job
from npu.compiler.layout import views
from npu.hardware.variant import Variant
from npu.isa.families import family_of
from npu.isa.operations import Elementwise, FeatureMap, MapStorage, Operation
from npu.isa.shram import buffers_of
from npu.records import replace

_BUFFER = 0
"""Chains of two operations need one buffer."""

_LEAST_BYTES = 16384
"""Of a map that is handed on: the registers that a chain writes anew take longer than to write and read a smaller one."""


def with_chains(operations: Sequence[Operation], job_of: Mapping[int, Job], variant: Variant) -> list[Operation]:
    """The operations of a partition in order of issue, with chains; `job_of` has the job of each kernel by its place.

    Nothing stands between the operations of a chain.
    """
    if not family_of(variant.accelerator.product).chains:
        return list(operations)
    uses = Counter(view.storage for job in job_of.values() for view in views(job.step))
    made = list(operations)
    for place in range(len(made) - 1):
        first, second = made[place], made[place + 1]
        if not isinstance(first, Elementwise) or not isinstance(second, Elementwise):
            continue
        is_free = all(fm.is_in_memory for fm in (*first.ifms, first.ofm))
        if is_free and _is_handed_on(job_of[place], job_of[place + 1], uses):
            made[place : place + 2] = _chained(first, second, variant) or (first, second)
    return made


def _is_handed_on(first: Job, second: Job, uses: Mapping[Storage, int]) -> bool:
    """Whether one step makes its map for the next one alone, all of it."""
    step, following = first.step, second.step
    made = step.ofm.storage
    is_private = uses[made] == 2 and not made.is_boundary and not made.is_rolling and made.data is None
    if made.bytes < _LEAST_BYTES or not (
        is_private and isinstance(step, ElementwiseStep) and isinstance(following, ElementwiseStep)
    ):
        return False
    read = [view for view in views(following)[:-1] if view.storage is made]
    return len(read) == 1 and read[0].shape == step.ofm.shape == following.ofm.shape and read[0].start == step.ofm.start


def _chained(first: Elementwise, second: Elementwise, variant: Variant) -> tuple[Elementwise, Elementwise] | None:
    """Both with the map between them in a chaining buffer; None if that may not be."""
    is_first, is_second = _lies_as(second.ifm, first.ofm), second.ifm2 is not None and _lies_as(second.ifm2, first.ofm)
    if is_first is is_second or second.activation.function.lut_index is not None or not _is_safe(first, second):
        return None
    handed = replace(first, ofm=_in_buffer(first.ofm))
    if is_first or second.ifm2 is None:
        taken = replace(second, ifm=_in_buffer(second.ifm))
    else:
        taken = replace(second, ifm2=_in_buffer(second.ifm2))
    for one in (second, first):
        pair = _with_block(handed, one), _with_block(taken, one)
        if all(_takes_block(member, variant) for member in pair):
            return pair
    return None


def _with_block(operation: Elementwise, other: Elementwise) -> Elementwise:
    """The operation with the block and micro-block of another one."""
    assert operation.options is not None
    assert other.options is not None
    return replace(operation, block=other.block, options=replace(operation.options, ublock=other.options.ublock))


def _takes_block(operation: Elementwise, variant: Variant) -> bool:
    """Whether the operation may have its block and micro-block."""
    buffers, problem = family_of(variant.accelerator.product).buffers, buffers_of(operation)
    assert buffers.micro_blocks is not None
    assert operation.options is not None
    is_choice = operation.options.ublock in buffers.micro_blocks(problem, variant)
    return is_choice and buffers.layout(problem, operation.block, variant) is not None


def _lies_as(fm: FeatureMap, other: FeatureMap) -> bool:
    """Whether two maps are the same elements at the same place; their zero points may differ."""
    return replace(fm, zero_point=other.zero_point) == other


def _is_safe(first: Elementwise, second: Elementwise) -> bool:
    """Whether the second one writes nothing that the first one reads later: other memory, or element by element the same."""
    written = map_access(second.ofm, is_write=True)
    return not any(map_access(fm, is_write=False).conflicts(written) and not _lies_as(fm, second.ofm) for fm in first.ifms)


def _in_buffer(fm: FeatureMap) -> FeatureMap:
    return replace(
        fm, region=_BUFFER, storage=MapStorage.CHAINED, addresses=(0, 0, 0, 0), stride_y=0, stride_x=0, stride_c=0,
        tile_height_0=fm.height, tile_height_1=fm.height, tile_width_0=fm.width,
    )  # fmt: skip
