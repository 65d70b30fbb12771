"""Steps on a copy of a map at the boundary, which lies in the NPU's own fast memory, in place of the map behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu.compiler.ir import PoolingStep, Step, Storage, View
from npu.compiler.layout import views
from npu.hardware.variant import MemoryMode
from npu.isa.operations import IDENTITY, PoolingMode, Rounding
from npu.records import replace

WORTH_COPYING = 1.25
"""How many times its own cycles a copy must save by the estimate, which does not see the streams of weights beside it."""

_INPUT_SHARE = 2
"""A copy of an input takes at most one part in so many of the fast memory: copies of constants need the rest."""


def may_be_copied(storage: Storage, mode: MemoryMode, *, is_made: bool) -> bool:
    """Whether a map behind a separate fast memory may have a copy there, from which it is written if it `is_made`."""
    is_behind = mode.has_separate_cache and storage.is_boundary and storage.element.bits < 32
    return is_behind and storage.bytes * (1 if is_made else _INPUT_SHARE) <= mode.arena_cache_bytes


def near_copy(storage: Storage) -> Storage:
    """A map for a copy of another one that only the NPU sees."""
    return Storage(f"{storage.name} copied", storage.shape, storage.element)


def copying_step(step: Step, source: Storage, target: Storage) -> PoolingStep:
    """The step that copies a map, for the operator of another step."""
    return PoolingStep(
        source=step.source,
        ifm=View.whole(source),
        ofm=View.whole(target),
        minimum=target.element.minimum,
        maximum=target.element.maximum,
        mode=PoolingMode.AVERAGE,
        scale=IDENTITY,
        rounding=Rounding.NATURAL,
    )


def on_copy(step: Step, storage: Storage, near: Storage) -> Step:
    """A step that works with the copy in place of what is copied."""
    if not touches(step, storage):
        return step

    def there(view: View) -> View:
        return replace(view, storage=near) if view.storage is storage else view

    ifm2 = None if step.ifm2 is None else there(step.ifm2)
    return replace(step, ifm=there(step.ifm), ifm2=ifm2, ofm=there(step.ofm))


def touches(step: Step, storage: Storage) -> bool:
    """Whether a step reads or writes a map."""
    return any(view.storage is storage for view in views(step))


def cycles_with_copy(steps: Sequence[Step], storage: Storage, cycles: Callable[[Step], float], *, is_made: bool) -> float:
    """Those of steps that each work on a copy of a map: it is copied last if it `is_made`, else first."""
    near = near_copy(storage)
    copy = copying_step(steps[-1], near, storage) if is_made else copying_step(steps[0], storage, near)
    return sum(cycles(on_copy(step, storage, near)) for step in steps) + WORTH_COPYING * cycles(copy)
