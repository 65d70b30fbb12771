"""How often a better machine makes a fixed stream slower, and by how much: worst first.

    python -m benchmarks.monotony MODEL.tflite... [--targets ethos-u55-256,ethos-u65-512]

Every model is compiled once a target. Its stream is then timed with one figure of an adapter or memory after the other made
better (the changes of `tests/sim/timing/test_monotony.py`). A rise is a time more than a cycle above the least with worse
figures.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.hardware.catalogue import load_variant
from npu.hardware.choice import Hardware
from npu.hardware.variant import Port
from npu.records import dataclass
from npu.toolchain.session import Session
from npu.toolchain.timing import time_model

from tests.sim.timing.test_monotony import BETTER, TARGETS, cycles, on_adapter


@dataclass(frozen=True, slots=True)
class Rise:
    """`cycles` more than with a worse figure, which took `least`."""

    where: str
    is_behind_adapter: bool
    cycles: int
    least: int

    @property
    def share(self) -> float:
        return self.cycles / self.least


def rises(model: Path, target: str) -> Iterator[Rise]:
    """Of one model on a target."""
    variant, timed = load_variant(target), time_model(model, Session(Hardware(target)))
    stream = [item.operation for item in timed.streams[0].decoded], 700
    for what, (make, field, values) in BETTER.items():
        for port in (Port.AXI0, Port.AXI1):
            found = [cycles(stream, make(port, field)(variant, value)) for value in values]
            for number, (value, taken) in enumerate(zip(values[1:], found[1:], strict=True), 1):
                least = min(found[:number])
                if taken > least + 1:
                    where = f"{model.stem} | {target} | {what}: {value:g} | {port.name}"
                    yield Rise(where, make is on_adapter, taken - least, least)


def main() -> int:
    """A Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--targets", default=",".join(TARGETS))
    options = parser.parse_args()
    found = [rise for target in options.targets.split(",") for model in options.models for rise in rises(model, target)]
    found.sort(key=lambda rise: -rise.share)
    for name, is_behind in (("adapters", True), ("plain memories", False)):
        shares = [rise.share for rise in found if rise.is_behind_adapter is is_behind]
        sys.stdout.write(f"{name}: {len(shares)} rises, {sum(share > 0.001 for share in shares)} above 0.1 %\n")
    sys.stdout.write("\n| model | target | better | port | cycles more | share |\n|---|---|---|---|---|---|\n")
    for rise in found:
        sys.stdout.write(f"| {rise.where} | {rise.cycles:,} | {rise.share:.2%} |\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
