"""Which features Vela 5.2's streams of single operators have; as a program, writes docs/validated-by-execution.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.payload import parse_payload

from tests.support.executed_features import features_of, table
from tests.support.vela import only_job
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import CPU_ONLY, VELA_CASES, with_shapes

DOCUMENT = Path(__file__).parents[2] / "docs" / "validated-by-execution.md"
_TARGETS = ("ethos-u55-128", "ethos-u65-512")
_SEEDS = 6


def features_of_case(name: str) -> frozenset[str]:
    """Those of a case's first models, on one target with one core and one with two."""
    found: set[str] = set()
    for seed in range(_SEEDS):
        target = _TARGETS[seed % 2]
        try:
            job = only_job(compile_forked(with_shapes(VELA_CASES[name](np.random.default_rng([seed, 7]))), target))
            for decoded in decode(parse_payload(job.payload).words, load_variant(target)):
                found |= features_of(decoded.operation)
        except (RuntimeError, ValueError, StreamError):  # no model, nothing for the NPU, or a stream that is refused
            continue
    return frozenset(found)


def features_of_vela() -> dict[str, list[str]]:
    """Cases by feature."""
    found: dict[str, list[str]] = {}
    for name in sorted(set(VELA_CASES) - CPU_ONLY):
        for feature in features_of_case(name):
            found.setdefault(feature, []).append(name)
    return found


if __name__ == "__main__":
    DOCUMENT.write_text(table(features_of_vela()))
