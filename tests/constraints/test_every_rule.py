"""What every rule demands and what it sees in thousands of models, sound and broken, as golden files: nothing of it changes
unnoticed. `make golden` takes a change over.

The other tests here say what must hold; these say that no limit, no value at its edge and no observation moved with them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from zlib import crc32

import numpy as np
import pytest

from constraints import sparse
from constraints.profiles import profile_named, profile_names
from constraints.rule import Rule
from constraints.view import OpView
from npu.compiler.targets import compiler_targets
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model

from tests.support.hostile import changed_model
from tests.support.operator_cases import CASES
from tests.support.random_graphs import OPERATORS, cases

CHANGES = 6
"""Broken forms of every model."""
SPARSE = (*sparse.ALWAYS, sparse.FIRST, *sparse.INNER, sparse.LAST, sparse.WHOLE)
PROFILES = {name: profile_named(name) for name in profile_names()}
RULES = {**{name: profile.rules for name, profile in PROFILES.items()}, "sparse": SPARSE}


@cache
def _models() -> tuple[Model, ...]:
    return tuple(_made())


def _made() -> Iterator[Model]:
    """Every operator and type, and more of those of the NPU; each also with one to three fields changed."""
    contents = {name: CASES[name](np.random.default_rng(crc32(name.encode()))) for name in sorted(CASES)}
    sound = {name: read_model(content) for name, content in contents.items()}
    more = {made.name: made.model for kind in OPERATORS for made in cases(kind, 12, 300)}
    for name, model in {**sound, **more}.items():
        yield model
        for number in range(CHANGES):
            yield changed_model(model, np.random.default_rng([crc32(name.encode()), number]))


def _views(models: Sequence[Model]) -> Iterator[OpView]:
    targets = [load_variant(name) for name in compiler_targets()]
    for number, model in enumerate(models):
        for graph in model.graphs:
            for op in graph.ops:
                yield OpView(graph, op, targets[number % len(targets)])


def _rules_of(name: str, view: OpView) -> Iterator[Rule]:
    if name == "sparse":
        yield from (rule for rule in SPARSE if not rule.operators or view.op.kind in rule.operators)
        return
    for rule_set in PROFILES[name].rule_sets:
        if view.op.kind in rule_set.operators and rule_set.applies(view):
            yield from rule_set.generic + rule_set.specific(view.op.kind)


@pytest.mark.parametrize("name", RULES)
def test_what_every_rule_sees(name: str, golden: Callable[[str, str], None]) -> None:
    seen = defaultdict(list)
    for view in _views(_models()):
        for rule in _rules_of(name, view):
            limit = rule.limit_for(view.variant)
            values = [(item.what, item.value, limit.accepts(item.value)) for item in rule.observe(view)]
            seen[rule.id].append((view.op.kind, values, rule.check(view)))
    lines = [_line(rule, seen[rule]) for rule in sorted(seen)]
    golden(f"constraints/{name}-seen.txt", "\n".join(lines) + "\n")


def _line(rule: str, seen: Sequence[tuple[object, Sequence[tuple[str, object, bool]], object]]) -> str:
    values = [value for _, found, _ in seen for value in found]
    refused = sum(not accepted for _, _, accepted in values)
    digest = blake2b("\n".join(map(repr, seen)).encode(), digest_size=6).hexdigest()
    return f"{rule}: {len(seen)} operators, {len(values)} values, {refused} refused, {digest}"


@pytest.mark.parametrize("name", RULES)
def test_what_every_rule_demands(name: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for rule in RULES[name]:
        lines.append(f"{rule.id} {' '.join(rule.operators) or 'every operator'}")
        limits = {
            f"{target}: {rule.sentence(rule.limit_for(load_variant(target)))}" for target in compiler_targets() if rule.limit_of
        }
        lines += [f"  {text}" for text in (rule.sentence(), *sorted(limits), *rule.details, rule.fix or "") if text]
        lines += [f"  {'takes' if accepted else 'refuses'} {value!r}" for value, accepted in rule.limit.boundaries]
    golden(f"constraints/{name}-limits.txt", "\n".join(lines) + "\n")
