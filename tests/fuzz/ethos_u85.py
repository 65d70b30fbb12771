"""Broken command streams of Ethos-U85, from Vela's: what verifies is executed, and whatever is read has a time and a text."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from npu.errors import UserError
from npu.hardware.catalogue import load_variant
from npu.isa.decode import decode
from npu.isa.summary import summarise
from npu.tflite.reader import read_model
from sim.container import NpuJob, jobs_of
from sim.functional.prepared import best_tier
from sim.machine import Machine
from sim.memory import NpuMemory
from sim.timing import schedule
from sim.verify.verifier import verify

from tests.fuzz.answer import attempt
from tests.support import operator_cases as base
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import VELA_CASES, with_shapes

SIZES = tuple(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048))
NAMES = (
    *("CONV_2D-int8", "DEPTHWISE_CONV_2D-int16", "SOFTMAX-int8", "RESIZE_BILINEAR-int8", "TRANSPOSE-int8", "ARG_MAX-int8"),
    *("AVERAGE_POOL_2D-int8", "UNIDIRECTIONAL_SEQUENCE_LSTM-int8", "SELECT_V2-int8", "FULLY_CONNECTED-int8"),
    *("BATCH_MATMUL-int8", "CONV_2D-int16", "SUM-int16", "GREATER-int8", "EXP-int16"),
)
PARAMETERS = (0, 1, 2, 3, 7, 15, 255, 0x7FFF, 0x8000, 0xFFFF)


@dataclass(frozen=True, slots=True)
class Whole:
    """A stream to break, with the constants that it reads."""

    target: str
    job: NpuJob
    constants: npt.NDArray[np.uint8]


@cache
def _whole(name: str, seed: int) -> Whole | None:
    model = with_shapes((base.CASES | VELA_CASES)[name](np.random.default_rng([seed, 7])))
    target = SIZES[seed % len(SIZES)]
    compiled = read_model(compile_forked(model, target))
    for job in jobs_of(compiled):
        graph = compiled.graphs[job.graph]
        data = graph.tensors[graph.ops[job.index].inputs[1]].data
        return Whole(target, job, np.zeros(0, np.uint8) if data is None else np.asarray(data).reshape(-1).view(np.uint8))
    return None


def case(number: int) -> str:
    rng = np.random.default_rng([number, 11])
    whole = _whole(NAMES[number % len(NAMES)], number // 50 % 5)
    if whole is None:
        return "no stream to break"
    job, variant = whole.job, load_variant(whole.target)
    words = _broken(np.array(job.payload.words, np.uint32), rng)
    decoded = attempt("decode", lambda: decode(words, variant))
    operations = [one.operation for one in decoded]
    assert all(summarise(operation).isprintable() for operation in operations)
    sizes = {region: max(size, 16) for region, size in job.region_bytes.items()}
    contents = {0: np.pad(whole.constants, (0, max(0, sizes.get(0, 16) - whole.constants.size)))}
    findings = attempt("verify", lambda: verify(decoded, variant, sizes, job.given, contents=contents))
    totals = attempt("time", lambda: schedule(operations, variant, stream_words=len(words)).totals)
    assert totals.total_cycles >= 0
    regions = {region: contents[0].copy() if region == 0 else np.zeros(size, np.uint8) for region, size in sizes.items()}
    refusal = ""
    try:
        Machine(variant, best_tier()).run(operations, NpuMemory(regions, variant))
    except UserError as error:
        refusal = str(error)
    if refusal:
        assert findings, f"verified, but not executed: {refusal}"
        return "execute: refused"
    return "ran, with findings" if findings else "ran, verified"


def _broken(words: npt.NDArray[np.uint32], rng: np.random.Generator) -> npt.NDArray[np.uint32]:
    """One to three words with another bit, another parameter, any value, or that of another word."""
    for _ in range(rng.integers(1, 4)):
        at, way = rng.integers(len(words)), rng.integers(4)
        changed = int(words[at])
        if way == 0:
            changed ^= 1 << int(rng.integers(32))
        elif way == 1:
            changed = changed & 0xFFFF | int(rng.choice(PARAMETERS)) << 16
        elif way == 2:
            changed = int(rng.integers(1 << 32))
        else:
            changed = int(words[rng.integers(len(words))])
        words[at] = changed
    return words
