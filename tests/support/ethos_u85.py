"""Networks compiled for every size of Ethos-U85: exact, their streams without findings, and the operations in them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import npu
from npu.api import verify
from npu.compiler.targets import compiler_targets
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Product
from npu.isa.decode import decode
from npu.isa.operations import KernelOperation
from npu.tflite.reader import read_model
from sim.container import jobs_of

from tests.support.litert import random_inputs, run_reference

TARGETS = [target for target in compiler_targets() if load_variant(target).accelerator.product is Product.ETHOS_U85]


def operations_of(content: bytes, target: str) -> Iterator[KernelOperation]:
    """Those with kernels, of all jobs of a compiled file."""
    for job in jobs_of(read_model(content)):
        for decoded in decode(job.payload.words, load_variant(target)):
            if isinstance(decoded.operation, KernelOperation):
                yield decoded.operation


def exact_operations(content: bytes, target: str, *, seed: int = 1) -> list[KernelOperation]:
    """What is on the NPU gives what the reference kernels give, in a stream without findings: its operations, if any."""
    compiled = npu.compile(content, target=target).content
    if "ethos-u" not in [op.name for op in read_model(compiled).graphs[0].ops]:
        return []
    assert list(verify(compiled)) == []
    inputs = random_inputs(content, seed)
    for ours, theirs in zip(
        npu.run(compiled, inputs).outputs, run_reference(content, inputs, fully_connected="npu"), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    return list(operations_of(compiled, target))
