"""Broken hardware descriptions: values of a whole one changed, as a mapping and as the text of a YAML file."""

from __future__ import annotations

import copy
import dataclasses
import math
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from npu.api import check_report, time_model
from npu.compiler.targets import compiler_targets
from npu.hardware.choice import Hardware
from npu.hardware.loader import describe

from tests.fuzz.answer import attempt

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits.tflite"
NUMBERS = (0, -1, 1, 2, 3, 7, 16, 255, 256, 65_536, 1 << 31, 1 << 40, 1 << 63, 1 << 70)
FRACTIONS = (0.0, -0.5, 0.5, 1e-9, 1e9, 1e300, 1e-300, math.inf, -math.inf, math.nan)
OTHERS: tuple[Any, ...] = (
    *(None, True, False, "", "x", "axi0", "axi1", "\x1b[31m", "é", "1", "a" * 3000, "../..", "a\nb"),
    *([], [1], {}, {"x": 1}, b"x"),
)
NAMES = (*compiler_targets(), *map(str, sorted((ROOT / "configs" / "examples").glob("*.yaml"))))
Tree = dict[str, Any]


def case(number: int) -> str:
    """What is loaded has times that are numbers; the same description as a file and as a mapping says the same."""
    rng = np.random.default_rng([number, 9])
    tree = _changed(_whole(NAMES[number % len(NAMES)]), rng)
    if number % 2:
        return _answer("mapping", Hardware(config=tree), number)
    path = _folder() / "board.yaml"
    path.write_text(yaml.dump(tree, allow_unicode=bool(number % 4), default_flow_style=bool(number % 8 > 3)), "utf-8")
    return _answer("file", Hardware(config=path), number)


def _answer(what: str, hardware: Hardware, number: int) -> str:
    variant = attempt(what, hardware.load)
    if number % 5 > 1:
        return f"{what}: loaded"
    config = hardware.config
    report = attempt(f"{what}: check", lambda: check_report(DIGITS, config=config))
    assert all(0 <= value < math.inf for value in _numbers(dataclasses.asdict(report))), "an estimate that is no number"
    if number % 5:
        return f"{what}: estimated"
    timed = attempt(f"{what}: time", lambda: time_model(DIGITS, config=config))
    assert all(0 <= value < math.inf for value in _numbers(dataclasses.asdict(timed.report))), "a time that is no number"
    assert variant.name
    return f"{what}: timed"


def _numbers(value: Any) -> list[float]:
    """Every number in a report."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    return [value] if isinstance(value, int | float) else []


@cache
def _text(name: str) -> str:
    return yaml.dump(describe(name).values)


def _whole(name: str) -> Tree:
    """A copy of a shipped description with everything that it extends."""
    tree: Tree = yaml.safe_load(_text(name))
    return tree


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="fuzz"))


def _changed(tree: Tree, rng: np.random.Generator) -> Tree:
    """One to three keys left out, renamed, doubled elsewhere, or with a value that they were not made for."""
    for _ in range(int(rng.choice((1, 1, 1, 2, 3)))):
        places = list(_places(tree))
        owner, key = places[int(rng.integers(len(places)))]
        way = rng.random()
        if way < 0.1:
            del owner[key]
        elif way < 0.2:
            owner[str(OTHERS[int(rng.integers(len(OTHERS)))])] = owner.pop(key)
        elif way < 0.3:
            other, name = places[int(rng.integers(len(places)))]
            owner[key] = copy.deepcopy(other.get(name))
        else:
            owner[key] = _value(owner[key], rng)
        if not tree:
            break
    return tree


def _value(old: Any, rng: np.random.Generator) -> Any:
    if isinstance(old, int | float) and not isinstance(old, bool) and rng.random() < 0.8:
        if rng.random() < 0.5:
            return old * 2 if rng.random() < 0.5 else type(old)(old / 2)
        return NUMBERS[int(rng.integers(len(NUMBERS)))] if rng.random() < 0.6 else FRACTIONS[int(rng.integers(len(FRACTIONS)))]
    return OTHERS[int(rng.integers(len(OTHERS)))]


def _places(tree: Tree) -> list[tuple[Tree, str]]:
    """Every mapping with each of its keys."""
    places = [(tree, key) for key in tree]
    return places + [place for value in tree.values() if isinstance(value, dict) for place in _places(value)]
