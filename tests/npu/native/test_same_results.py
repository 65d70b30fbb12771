"""The same bytes and cycles from the libraries of every tier and from numba's own compilation of the same kernels."""

from __future__ import annotations

import functools

import pytest

from npu.native import cpu

from tests.support.processes import ROOT, python

PROGRAM = """
import hashlib, itertools, sys
if sys.argv[1] == "plain":
    from tests.support import plain_kernels
    plain_kernels.install()
import npu
from npu.native import library

for target in ("ethos-u55-128", "ethos-u65-512"):
    compiled = npu.compile(sys.argv[2], target).content
    result = npu.run(compiled)
    outputs = [array.tobytes() for array in result.outputs]
    print(*(hashlib.sha256(part).hexdigest() for part in (compiled, *outputs)), result.report.to_json())

from tests.support.litert import random_inputs, run
from tests.support.xnnpack import INT8, Layers, delegated

for pixels, channels in itertools.product((1, 2, 3, 4, 5, 6, 7, 13), (3, 8, 16, 24, 33, 80)):
    net = Layers(INT8, (1, 1, pixels, 20))
    net.conv(channels)
    net.depthwise(3)
    content = net.build()
    interpreter, _ = delegated(content, qs8=True)
    print(pixels, channels, hashlib.sha256(run(interpreter, random_inputs(content, 0))[0].tobytes()).hexdigest())
print("numba" in sys.modules, file=sys.stderr)
"""
PLAIN = "plain"


@functools.cache
def results(way: str) -> str:
    """What the shipped model and layers of few pixels give with the libraries of a tier, or with numba alone."""
    done = python(PROGRAM, way, ROOT / "examples" / "digits.tflite", **({} if way == PLAIN else {"NPULAB_CPU": way}))
    assert (done.returncode, done.stderr) == (0, f"{way == PLAIN}\n")
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("tier", [tier.name for tier in cpu.usable()])
def test_bytes_and_cycles_of_a_library_are_those_of_numba(tier: str) -> None:
    assert results(tier) == results(PLAIN)
