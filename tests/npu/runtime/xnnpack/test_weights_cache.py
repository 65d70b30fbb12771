"""Sharing packed weights: contents, finalising, error cases, report."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from npu.errors import InterpreterError
from npu.graph.dtype import DType
from npu.runtime.interpreter import CpuInterpreter
from npu.runtime.misuse import InterpreterStateError
from npu.runtime.xnnpack import threads
from npu.runtime.xnnpack.delegate import XnnpackDelegate
from npu.runtime.xnnpack.weights_cache import PAGE_BYTES, CacheState, WeightsCache

from tests.support.interpreters import run
from tests.support.litert import random_inputs
from tests.support.xnnpack import delegated, mobile_network, options

CONTENT, OTHER = mobile_network(blocks=2), mobile_network(blocks=2, seed=1)
INPUTS = random_inputs(CONTENT, 0)
WEIGHTED = 8
"""Five convolutions, two depthwise ones, one fully connected layer."""


def shared(cache: WeightsCache, content: bytes = CONTENT) -> tuple[CpuInterpreter, XnnpackDelegate]:
    return delegated(content, weights_cache=cache)


@pytest.mark.seed("X-W-1")
def test_weights_are_packed_when_the_delegate_is_applied_and_never_again() -> None:
    cache = WeightsCache()
    interpreter, _ = shared(cache)
    before = cache.report()
    assert before.entries == before.misses == WEIGHTED
    assert before.bytes > 0
    cache.finalize_soft()
    run(interpreter, INPUTS)
    assert (cache.report().misses, cache.report().hits) == (WEIGHTED, 0)


@pytest.mark.seed("X-W-2", "X-W-3", "X-W-9")
def test_delegates_of_one_model_share_their_packed_weights() -> None:
    cache = WeightsCache()
    pairs = [shared(cache) for _ in range(3)]
    report = cache.report()
    assert (report.entries, report.misses, report.hits, report.users) == (WEIGHTED, WEIGHTED, 2 * WEIGHTED, 3)
    assert report.saved_bytes == 2 * report.bytes
    cache.finalize_hard()
    expected = run(delegated(CONTENT)[0], INPUTS)[0]
    for interpreter, _ in pairs:
        np.testing.assert_array_equal(run(interpreter, INPUTS)[0], expected)


@pytest.mark.seed("X-W-3")
def test_other_contents_get_entries_of_their_own() -> None:
    cache = WeightsCache()
    pairs = shared(cache), shared(cache, OTHER)
    assert cache.report().entries == 2 * WEIGHTED
    assert cache.report().hits == 0
    assert len(pairs) == 2


@pytest.mark.seed("X-W-3")
def test_a_look_up_returns_the_first_array_with_the_same_bytes() -> None:
    cache = WeightsCache()
    first, same, other = (np.frombuffer(data, np.uint8).copy() for data in (b"abcd", b"abcd", b"abce"))
    assert cache.look_up(first) is first
    assert cache.look_up(same) is first
    assert cache.look_up(other) is other
    assert not first.flags.writeable


@pytest.mark.seed("X-W-4")
def test_inference_before_finalising_is_an_error() -> None:
    cache = WeightsCache()
    interpreter, _ = shared(cache)
    with pytest.raises(InterpreterError, match="weights cache must be finalised before inference, got state 'open'"):
        run(interpreter, INPUTS)
    cache.finalize_soft()
    run(interpreter, INPUTS)


@pytest.mark.seed("X-W-5", "X-W-7")
def test_no_delegate_is_made_after_hard_finalising() -> None:
    cache = WeightsCache()
    interpreter, _ = shared(cache)
    early = XnnpackDelegate(options(weights_cache=cache))
    cache.finalize_hard()
    run(interpreter, INPUTS)
    assert (cache.state, cache.report().reserve_bytes) == (CacheState.HARD, 0)
    with pytest.raises(InterpreterStateError, match="must be made before hard finalising"):
        XnnpackDelegate(options(weights_cache=cache))
    with pytest.raises(InterpreterError, match="must not be asked for weights after hard finalising"):
        CpuInterpreter(model_content=CONTENT, experimental_delegates=[early])


@pytest.mark.seed("X-W-6")
def test_after_soft_finalising_delegates_may_be_made_as_long_as_they_find_their_weights() -> None:
    cache = WeightsCache()
    first, _ = shared(cache)
    cache.finalize_soft()
    second, _ = shared(cache)
    np.testing.assert_array_equal(run(second, INPUTS)[0], run(first, INPUTS)[0])
    with pytest.raises(InterpreterError, match="must find all its weights in the cache"):
        shared(cache, OTHER)
    report = cache.report()
    largest = max(entry.nbytes for same in cache._entries.values() for entry in same)
    assert report.reserve_bytes == -(-largest // PAGE_BYTES) * PAGE_BYTES
    assert report.entries == WEIGHTED


@pytest.mark.seed("X-W-8")
def test_the_cache_is_closed_after_its_delegates() -> None:
    cache = WeightsCache()
    interpreter, delegate = shared(cache)
    cache.finalize_hard()
    with pytest.raises(InterpreterStateError, match="must be closed after the delegates that use it, got 1 left"):
        cache.close()
    interpreter.close()
    delegate.close()
    cache.close()
    assert cache.report().bytes == 0
    with pytest.raises(InterpreterStateError, match="got one in state 'closed'"):
        XnnpackDelegate(options(weights_cache=cache))


def test_a_cache_is_finalised_once() -> None:
    cache = WeightsCache()
    cache.finalize_soft()
    with pytest.raises(InterpreterStateError, match="must be finalised once, got state 'soft'"):
        cache.finalize_hard()


def test_quantized_weights_are_shared_too() -> None:
    cache = WeightsCache()
    content = mobile_network(DType.INT8, blocks=1)
    for _ in range(2):
        delegated(content, qs8=True, weights_cache=cache)
    assert cache.report().hits == cache.report().misses


@pytest.mark.seed("X-W-9")
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_delegate_that_is_gone_no_longer_uses_the_cache_nor_its_threads(
    is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_SMALLEST_SHARED", 1)
    gc.disable()  # neither must wait for the collector
    try:
        cache, before = WeightsCache(), threading.active_count()
        interpreter, delegate = delegated(CONTENT, weights_cache=cache, num_threads=2)
        cache.finalize_soft()
        run(interpreter, INPUTS)
        assert threading.active_count() == before + 1
        if is_closed:
            interpreter.close()
        del interpreter, delegate
        assert (cache.report().users, threading.active_count()) == (0, before)
        cache.close()
    finally:
        gc.enable()


def test_a_delegate_uses_the_cache_as_long_as_an_interpreter_holds_it() -> None:
    cache = WeightsCache()
    interpreter, delegate = shared(cache)
    del delegate
    with pytest.raises(InterpreterStateError, match="must be closed after the delegates"):
        cache.close()
    interpreter.close()
    cache.close()
