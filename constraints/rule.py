"""The rule engine: limits, rules, profiles. What a rule says is declared once, here is what is derived from it.

A rule has a limit and a function that observes values of an operator. The message of a violation, the line of the operator
document, the JSON and the values that the boundary tests use all come from these two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from constraints.view import OpView
from npu.graph.placement import Violation
from npu.hardware.variant import Variant
from npu.memo import cached_property
from npu.records import dataclass


@dataclass(frozen=True, slots=True)
class Observed:
    """A value of an operator that a rule looks at; `value` is None if the file does not tell."""

    what: str
    value: Any


@dataclass(frozen=True, slots=True)
class Range:
    """An inclusive interval of integers."""

    low: int
    high: int

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int) and self.low <= value <= self.high

    def __str__(self) -> str:
        return f"in the range [{self.low}, {self.high}]"

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """Values around the limit and whether each is accepted."""
        return ((self.low - 1, False), (self.low, True), (self.high, True), (self.high + 1, False))


@dataclass(frozen=True, slots=True)
class RealRange:
    """An inclusive interval of real numbers, or a union of several."""

    intervals: tuple[tuple[float, float], ...]

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and any(low <= value <= high for low, high in self.intervals)

    def __str__(self) -> str:
        return "in " + " or ".join(f"[{low:.10g}, {high:.10g}]" for low, high in self.intervals)

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """Values around the limit and whether each is accepted."""
        inside = tuple((edge, True) for interval in self.intervals for edge in interval)
        low, high = self.intervals[0][0], self.intervals[-1][1]
        return ((low - abs(low) / 256, False), *inside, (high + abs(high) / 256, False))


@dataclass(frozen=True, slots=True)
class AtMost:
    """A number with an upper bound only."""

    high: int

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and value <= self.high

    def __str__(self) -> str:
        return f"at most {self.high}"

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """Values around the limit and whether each is accepted."""
        return ((self.high, True), (self.high + 1, False))


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number with a lower bound only."""

    low: int

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int | float) and value >= self.low

    def __str__(self) -> str:
        return f"at least {self.low}"

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """Values around the limit and whether each is accepted."""
        return ((self.low - 1, False), (self.low, True))


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value out of a list. `others` are values outside it that are worth a test."""

    values: tuple[Any, ...]
    others: tuple[Any, ...] = ()

    def accepts(self, value: Any) -> bool:
        return value in self.values

    def __str__(self) -> str:
        return " or ".join(show(value) for value in self.values) if len(self.values) < 3 else self._list

    @property
    def _list(self) -> str:
        return "one of " + ", ".join(show(value) for value in self.values)

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """Every value of the list, and every one of `others`."""
        return tuple((value, True) for value in self.values) + tuple((value, False) for value in self.others)


@dataclass(frozen=True, slots=True)
class Exactly:
    """One value. `others` are values outside it that are worth a test."""

    value: Any
    others: tuple[Any, ...] = ()

    def accepts(self, value: Any) -> bool:
        return type(value) is type(self.value) and bool(value == self.value)

    def __str__(self) -> str:
        return show(self.value)

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """The value, and every one of `others`."""
        return ((self.value, True), *((other, False) for other in self.others))


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition that is no interval or list: its wording, its test, and values on both sides of it."""

    description: str
    test: Callable[[Any], bool]
    examples: tuple[tuple[Any, bool], ...] = ()

    def accepts(self, value: Any) -> bool:
        return value is not None and self.test(value)

    def __str__(self) -> str:
        return self.description

    @property
    def boundaries(self) -> tuple[tuple[Any, bool], ...]:
        """Examples on both sides."""
        return self.examples


Limit = Range | RealRange | AtLeast | AtMost | OneOf | Exactly | Predicate
Observe = Callable[[OpView], Iterable[Observed]]


@dataclass(frozen=True)
class Rule:
    """One limit of some operators; `operators` empty means every operator of the profile.

    `says` is a clause with `{limit}` in it. `observe` yields the values to judge; none at all means that the rule does not
    apply. `details` are extra lines under the rule in the document. `limit_of` derives the limit from a variant's fields.
    """

    id: str
    operators: tuple[str, ...]
    limit: Limit
    says: str
    observe: Observe
    fix: str | None = None
    details: tuple[str, ...] = ()
    limit_of: Callable[[Variant], Limit] | None = None

    def sentence(self, limit: Limit | None = None) -> str:
        """What the rule demands, as a clause; on one variant, with the limit there."""
        return self.says.format(limit=self.limit if limit is None else limit)

    def limit_for(self, variant: Variant | None) -> Limit:
        """The limit on one variant."""
        return self.limit if self.limit_of is None or variant is None else self.limit_of(variant)

    @cached_property
    def _usual_words(self) -> tuple[str, str]:
        """The sentence and the limit where no variant changes it: all operators of a model may break the same rule."""
        return self.sentence(), str(self.limit)

    def check(self, view: OpView) -> Violation | None:
        """The violation of this rule by an operator, None if it holds."""
        limit = self.limit_for(view.variant)
        offending = [seen for seen in self.observe(view) if not limit.accepts(seen.value)]
        if not offending:
            return None
        value = ", ".join(f"{seen.what} {show(seen.value)}" for seen in offending)
        sentence, words = self._usual_words if limit is self.limit else (self.sentence(limit), str(limit))
        return Violation(self.id, f"{sentence}, got {value}", words, value, self.fix)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """A set of operators and rules that applies to one kind of data, such as float; most profiles have only one."""

    name: str
    operators: tuple[str, ...]
    rules: tuple[Rule, ...]
    applies: Callable[[OpView], bool] = lambda view: True

    @property
    def generic(self) -> tuple[Rule, ...]:
        """Rules of every operator."""
        return tuple(rule for rule in self.rules if not rule.operators)

    def specific(self, kind: str) -> tuple[Rule, ...]:
        """Rules of one operator beyond the generic ones."""
        return tuple(rule for rule in self.rules if kind in rule.operators)


@dataclass(frozen=True)
class Profile:
    """A named set of rules that decides which operators a device takes."""

    name: str
    version: str
    device: str
    summary: str
    rule_sets: tuple[RuleSet, ...]
    unlisted_rule: str
    """Rule id of the violation of an operator that the profile does not list."""
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def operators(self) -> tuple[str, ...]:
        """Every listed operator, in alphabetic order."""
        return tuple(sorted({kind for rule_set in self.rule_sets for kind in rule_set.operators}))

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of all rule sets."""
        return tuple(rule for rule_set in self.rule_sets for rule in rule_set.rules)

    @cached_property
    def _of_kind(self) -> dict[str, tuple[tuple[RuleSet, tuple[Rule, ...]], ...]]:
        """The rule sets of the operators that were asked for, with their rules; none where no rule set lists the operator."""
        return {}

    def _candidates(self, kind: str) -> tuple[tuple[RuleSet, tuple[Rule, ...]], ...]:
        known = self._of_kind.get(kind)
        if known is None:
            own = [rule_set for rule_set in self.rule_sets if kind in rule_set.operators]
            known = self._of_kind[kind] = tuple([(one, one.generic + one.specific(kind)) for one in own])
        return known

    def violations(self, view: OpView) -> tuple[Violation, ...]:
        """Everything that keeps an operator off the device; empty if the device takes it."""
        candidates = self._candidates(view.op.kind)
        if not candidates:
            return (self._unlisted(view),)
        rules = next((rules for rule_set, rules in candidates if rule_set.applies(view)), candidates[0][1])
        return tuple([violation for rule in rules if (violation := rule.check(view)) is not None])

    def _unlisted(self, view: OpView) -> Violation:
        name = view.op.name
        return Violation(
            rule=self.unlisted_rule,
            message=f"operator must be one that profile '{self.name}' lists for the {self.device}, got {name}",
            limit="a listed operator",
            value=name,
        )


def for_each(identifiers: Mapping[str, str], rule: Rule) -> tuple[Rule, ...]:
    """The same rule for several operators, each under an id of its own (operator -> id)."""
    return tuple(replace(rule, id=identifier, operators=(kind,)) for kind, identifier in identifiers.items())


def show(value: Any) -> str:
    """A value as a person writes it."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple | list):
        return "[" + ",".join(show(part) for part in value) + "]"
    return str(value)
