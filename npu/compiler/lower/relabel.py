"""QUANTIZE between int8 and uint8 of the same scale only moves the zero point by 128: neighbours take the other type instead.

What reads such a copy can read its source, and what writes the source of one can write the copy, with zero point and limits
moved along: the map is in memory once, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu.compiler.ir import ConvolutionStep, PoolingStep, Step, Storage, WindowStep
from npu.compiler.layout import reads
from npu.isa.operations import ElementType, KernelWindow, PoolingMode, Upscale
from npu.records import replace

_SIGN_OFFSET = 128


def without_relabelings(steps: Sequence[Step]) -> list[Step]:
    """The steps without those that only move a whole map between int8 and uint8, where all its readers or writers allow it."""
    kept = list(steps)
    for relabeling in [step for step in steps if _is_relabeling(step)]:
        at = next((i for i, step in enumerate(kept) if step is relabeling), None)
        if at is not None:
            kept = _read_at_source(kept, at) or _written_at_target(kept, at) or kept
    return kept


def _is_relabeling(step: Step) -> bool:
    """Whether a step moves all of a map to one of its own, every raw value by 128."""
    if not isinstance(step, PoolingStep) or step.mode is not PoolingMode.AVERAGE or step.lut is not None or step.scale is None:
        return False
    source, target = step.ifm, step.ofm
    is_point = step.kernel == KernelWindow() and step.upscale is Upscale.NONE and step.scale.scale == 1 << step.scale.shift
    is_all = source.fills_storage and target.fills_storage and source.shape == target.shape
    is_moved = source.element.bits == target.element.bits == 8 and source.element != target.element
    limits = (target.element.minimum, target.element.maximum)
    return is_point and is_all and is_moved and _offset(step) == _sign_offset(step) and limits == (step.minimum, step.maximum)


def _offset(step: Step) -> int:
    """What is added to every raw value."""
    return step.ofm.zero_point - step.ifm.zero_point


def _sign_offset(step: Step) -> int:
    return -_SIGN_OFFSET if step.ofm.element.is_signed else _SIGN_OFFSET


def _read_at_source(steps: Sequence[Step], at: int) -> list[Step] | None:
    """The steps whose readers of a relabeled map read what it was made of; None where they cannot."""
    step = steps[at]
    source, target = step.ifm.storage, step.ofm.storage
    behind = steps[at + 1 :]
    is_overwritten = any(other.ofm.storage is source for other in behind)
    if target.is_boundary or is_overwritten or any(_uses(other, target) for other in steps[:at]):
        return None
    if not all(_can_read(other, step) for other in behind if _uses(other, target)):
        return None
    return [*steps[:at], *(_reading(other, step) if _uses(other, target) else other for other in behind)]


def _uses(step: Step, storage: Storage) -> bool:
    return step.ofm.storage is storage or any(view.storage is storage for view in reads(step))


def _can_read(step: Step, relabeling: Step) -> bool:
    """Whether a reader subtracts the zero point: a maximum of raw values does not."""
    is_arithmetic = isinstance(step, ConvolutionStep) or (isinstance(step, PoolingStep) and step.mode is PoolingMode.AVERAGE)
    is_own = step.ifm.element == relabeling.ofm.element and step.ofm.storage is not relabeling.ofm.storage
    return is_arithmetic and is_own and _holds(relabeling.ifm.element, step.ifm.zero_point - _offset(relabeling))


def _reading(step: Step, relabeling: Step) -> Step:
    moved = step.ifm.zero_point - _offset(relabeling)
    source = relabeling.ifm
    return replace(step, ifm=replace(step.ifm, storage=source.storage, element=source.element, zero_point=moved))


def _written_at_target(steps: Sequence[Step], at: int) -> list[Step] | None:
    """The steps whose writers of a map that is only relabeled write what is made of it; None where they cannot."""
    step = steps[at]
    source, target = step.ifm.storage, step.ofm.storage
    before, others = steps[:at], [other for other in (*steps[:at], *steps[at + 1 :]) if _uses(other, source)]
    if source.is_boundary or not others or any(_uses(other, target) for other in before):
        return None
    if any(other.ofm.storage is target for other in steps[at + 1 :]) or not all(_can_write(other, step) for other in others):
        return None
    return [*(_writing(other, step) if _uses(other, source) else other for other in before), *steps[at + 1 :]]


def _can_write(step: Step, relabeling: Step) -> bool:
    source = relabeling.ifm
    is_plain = isinstance(step, WindowStep) and step.lut is None and step.function is None
    is_own = step.ofm.element == source.element and all(view.storage is not source.storage for view in reads(step))
    return is_plain and is_own and _holds(relabeling.ofm.element, step.ofm.zero_point + _offset(relabeling))


def _holds(element: ElementType, zero_point: int) -> bool:
    return element.minimum <= zero_point <= element.maximum


def _writing(step: Step, relabeling: Step) -> Step:
    offset, target = _offset(relabeling), relabeling.ofm
    ofm = replace(step.ofm, storage=target.storage, element=target.element, zero_point=step.ofm.zero_point + offset)
    return replace(step, ofm=ofm, minimum=step.minimum + offset, maximum=step.maximum + offset)
