"""A program with some of its chains computed in stripes, and which of its steps are which."""

from __future__ import annotations

from npu.compiler.ir import Step
from npu.records import dataclass, replace


@dataclass(frozen=True, slots=True)
class Cascade:
    """Steps [first, last] of a program, and what computes them in stripes."""

    first: int
    last: int
    stripes: tuple[Step, ...]

    @property
    def added(self) -> int:
        """How many steps more it has."""
        return len(self.stripes) - (self.last - self.first + 1)


@dataclass(frozen=True, slots=True, eq=False)
class CutProgram:
    """The steps of a program, and the cascades in place of some of them, in order."""

    whole: tuple[Step, ...]
    cascades: tuple[Cascade, ...] = ()

    def steps(self) -> tuple[Step, ...]:
        """All steps, in stripes or not."""
        steps: list[Step] = []
        done = 0
        for cascade in self.cascades:
            steps += (*self.whole[done : cascade.first], *cascade.stripes)
            done = cascade.last + 1
        return (*steps, *self.whole[done:])

    def with_cascade(self, new: Cascade) -> CutProgram | None:
        """With one more, in place of those that are part of it; None if any other has some of its steps."""
        others = tuple(old for old in self.cascades if old.last < new.first or new.last < old.first)
        parts = tuple(old for old in self.cascades if new.first <= old.first and old.last <= new.last)
        if len(others) + len(parts) < len(self.cascades):
            return None
        return replace(self, cascades=tuple(sorted((*others, new), key=lambda one: one.first)))

    def has_cascades(self, chain: tuple[int, int]) -> bool:
        """Whether any of the steps of a chain is in stripes."""
        return any(one.first <= chain[1] and chain[0] <= one.last for one in self.cascades)

    def position(self, number: int) -> int:
        """Where step `number` of the whole program, or the cascade that begins with it, is among all steps."""
        return number + sum(cascade.added for cascade in self.cascades if cascade.last < number)

    def extent(self, number: int) -> range:
        """Where step `number` of the whole program, or the cascade that has it, is among all steps."""
        cascade = next((one for one in self.cascades if one.first <= number <= one.last), None)
        start = self.position(number if cascade is None else cascade.first)
        return range(start, start + (1 if cascade is None else len(cascade.stripes)))

    def uncut(self, position: int) -> int:
        """The step of the whole program that is there among all steps, or the first of the cascade."""
        added = 0
        for cascade in self.cascades:
            if position < cascade.first + added:
                break
            if position < cascade.first + added + len(cascade.stripes):
                return cascade.first
            added += cascade.added
        return position - added
