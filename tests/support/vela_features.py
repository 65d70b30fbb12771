"""Which features Vela's streams have; as a program, writes docs/validated-by-execution.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from npu.errors import StreamError
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.payload import parse_payload
from npu.tflite.reader import read_model
from sim.container import jobs_of

from tests.support.executed_features import features_of, table
from tests.support.tosa_models import files as tosa_files
from tests.support.vela import only_job
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import CPU_ONLY, VELA_CASES, with_shapes
from tests.support.vela_streams import OLD, STORED, STREAMS

DOCUMENT = Path(__file__).parents[2] / "docs" / "validated-by-execution.md"
_TARGETS = ("ethos-u55-128", "ethos-u65-512")
_SEEDS = 8


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


def features_of_file(content: bytes, target: str) -> set[str]:
    """Those of every stream of a compiled file."""
    words = (job.payload.words for job in jobs_of(read_model(content)))
    return {feature for word in words for one in decode(word, load_variant(target)) for feature in features_of(one.operation)}


def features_of_vela() -> dict[str, list[str]]:
    """Cases by feature: single operators, TOSA operators, graphs with options, files of Vela 5.0."""
    found: dict[str, list[str]] = {}
    for name in sorted(set(VELA_CASES) - CPU_ONLY):
        for feature in features_of_case(name):
            found.setdefault(feature, []).append(name)
    for name, features in _other_cases():
        for feature in features:
            found.setdefault(feature, []).append(name)
    return found


def _other_cases() -> Iterator[tuple[str, set[str]]]:
    for name, model in tosa_files().items():
        yield f"TOSA {name}", features_of_file(compile_forked(model, _TARGETS[0], suffix=".tosa"), _TARGETS[0])
    for name, stream in STREAMS.items():
        yield name, features_of_file(compile_forked(stream.build(0), stream.target, *stream.options), stream.target)
    for name in STORED:
        yield f"{name} of Vela 5.0", features_of_file((OLD / f"{name}.tflite").read_bytes(), "ethos-u65-256")


if __name__ == "__main__":
    DOCUMENT.write_text(table(features_of_vela()))
