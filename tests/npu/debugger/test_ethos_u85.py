"""Stepping through streams of Ethos-U85: maps and sums that no memory holds come back with everything else."""

from __future__ import annotations

import numpy as np
import pytest

from npu.debugger.debugger import Debugger
from npu.isa.operations import KernelOperation, MapStorage
from npu.toolchain.session import Session

from tests.support.operator_sketches import sketch
from tests.support.vela_fork import compile_forked
from tests.support.vela_operators import VELA_CASES, with_shapes


def content_of(what: str | int) -> bytes:
    model = sketch(what).content if isinstance(what, int) else with_shapes(VELA_CASES[what](np.random.default_rng([2, 7])))
    return compile_forked(model, "ethos-u85-128")


def memory(debugger: Debugger) -> bytes:
    return b"".join(data.tobytes() for _, data in sorted(debugger.memory.regions.items())) + debugger.memory.shram.tobytes()


@pytest.mark.parametrize("interval", [1, 1000])
@pytest.mark.parametrize("what", ["SOFTMAX-int8", "TRANSPOSE-int8", 0], ids=["chains", "transposed maps", "sums that stay"])
def test_the_way_back_and_single_blocks_pass_the_same_memory(what: str | int, interval: int) -> None:
    debugger = Debugger(content_of(what), Session())
    debugger._interval = interval
    seen = [memory(debugger)]
    while debugger.following is not None:
        debugger.step()
        seen.append(memory(debugger))
    last = len(seen) - 1
    for position in (*range(last, 0, -3), last):
        debugger.goto(position)
        assert memory(debugger) == seen[position]
    debugger.goto(0)
    while debugger.following is not None:
        position = debugger.position
        debugger.step_block()
        if debugger.position > position:
            assert memory(debugger) == seen[debugger.position]


def test_maps_that_no_memory_holds_are_not_shown() -> None:
    debugger = Debugger(content_of("SOFTMAX-int8"), Session())
    kernels = {n: one.operation for n, one in enumerate(debugger.operations) if isinstance(one.operation, KernelOperation)}
    shown = ["OFM" in debugger.maps(n) for n in kernels]
    assert shown == [operation.ofm.storage is MapStorage.TILES_2X2 for operation in kernels.values()]
    assert False in shown
