"""Constants of the compiler that were chosen by trying: what other values give, so that each has its evidence in a table.

Usage: python -m benchmarks.compiler_constants [--first SEED] [--count N] [--write PAGE.md]

Each value stands in for the constant in this process; networks are those of `tests.support.operator_sketches`, N for each kind,
and the real models at hand, timed on this simulator. Cycles and bytes are relative to those with the value that the compiler
has: below 1.00 is better. The models took part in choosing some of the values, the networks of unused seeds did not.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import npu
from npu.errors import UserError

from tests.support.operator_sketches import OPERATORS, SMALL, sketch
from tests.support.shared import shared_models


@dataclass(frozen=True)
class Constant:
    """A number of a module of the compiler, what it decides, other values, and targets on which it matters."""

    name: str
    decides: str
    values: tuple[float, ...]
    targets: tuple[str, ...]

    @property
    def value(self) -> float:
        """The one that the compiler has."""
        module, name = self._place()
        return float(getattr(import_module(module), name))

    def change(self, value: float) -> None:
        """Let the compiler have another one."""
        module, name = self._place()
        setattr(import_module(module), name, value)

    def _place(self) -> tuple[str, str]:
        module, _, name = self.name.rpartition(".")
        return f"npu.compiler.{module}", name


CONSTANTS = (
    Constant(
        "passes.copy_boundaries._EXPOSED",
        "part of the latency of the memory behind that a copy at the boundary pays for",
        (0.0, 0.2, 0.5, 0.8, 1.0),
        ("ethos-u65-256", "ethos-u85-512"),
    ),
    Constant(
        "spared_traffic._WORTH_COMMANDS",
        "part of all cycles that twice the commands of a cascade must save",
        (0.0, 0.003, 0.01, 0.03, 0.1),
        ("ethos-u65-256", "ethos-u85-512"),
    ),
)
Sizes = tuple[int, int]
"""Total cycles, and bytes of the file."""


def measure(model: bytes, target: str) -> Sizes | None:
    """What a model takes; None if it is not compiled."""
    try:
        content = npu.compile(model, target=target).content
    except UserError:
        return None
    return npu.time_model(content, target=target).report.totals.total_cycles or 1, len(content)


def rows(constant: Constant, groups: dict[str, Sequence[bytes]]) -> Iterator[str]:
    """A row for each value and group of models."""
    own = constant.value
    for target in constant.targets:
        for group, models in groups.items():
            usual = [measure(model, target) for model in models]
            for value in constant.values:
                constant.change(value)
                try:
                    sizes = usual if value == own else [measure(model, target) for model in models]
                finally:
                    constant.change(own)
                pairs = [(a, b) for a, b in zip(sizes, usual, strict=True) if a and b]
                cycles, size = (math.exp(sum(math.log(a[i] / b[i]) for a, b in pairs) / len(pairs)) for i in (0, 1))
                worst, best = max(a[0] / b[0] for a, b in pairs), min(a[0] / b[0] for a, b in pairs)
                shown = f"**{value:g}**" if value == own else f"{value:g}"
                yield f"| {shown} | {target} | {group} | {cycles:.4f} | {best:.3f} to {worst:.3f} | {size:.4f} |"
                sys.stderr.write(f"{constant.name} {value:g} {target} {group}\n")


def page(groups: dict[str, Sequence[bytes]], command: str) -> Iterator[str]:
    """The published page."""
    yield "# Constants of the compiler\n"
    yield "Numbers that no document gives and that were chosen by trying. A row is what another value makes of total cycles and"
    yield f"of the file, in the geometric mean, relative to the one that the compiler has, which is bold. Made by `{command}`;"
    yield f"{', '.join(f'{len(models)} {group}' for group, models in groups.items())}."
    for constant in CONSTANTS:
        yield f"\n## `{constant.name}`\n\nThe {constant.decides}.\n"
        yield "| value | target | models | cycles | best to worst | file |\n| ---: | --- | --- | ---: | ---: | ---: |"
        yield from rows(constant, groups)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--first", type=int, default=906000, help="the seed of the first network")
    parser.add_argument("--count", type=int, default=2, help="networks of each kind")
    parser.add_argument("--write", type=Path, help="page to write instead of printing it")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.count * len(OPERATORS))
    groups: dict[str, Sequence[bytes]] = {
        "random networks": [sketch(seed, SMALL).content for seed in seeds],
        "real models": [path.read_bytes() for path in shared_models().values()],
    }
    command = f"python -m benchmarks.compiler_constants --first {given.first} --count {given.count}"
    text = "\n".join(page({group: models for group, models in groups.items() if models}, command)) + "\n"
    if given.write:
        given.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
