"""A command stream is timed once, and never answered with the times of something else."""

from __future__ import annotations

from npu.compiler.block_config import BlockChooser
from npu.graph.graph import Model
from npu.hardware.catalogue import load_variant
from npu.toolchain.compile import compile_in_memory
from npu.toolchain.tasks import TimedStream, time_streams
from sim.container import CompiledFile

from tests.support import single_ops

VARIANT = load_variant("ethos-u55-128")


def compiled(channels: int) -> Model:
    return (
        compile_in_memory(single_ops.conv(out_channels=channels), "conv", BlockChooser(VARIANT))
        .written("conv")
        .compiled_model.model
    )


def only_stream(file: CompiledFile, *, with_events: bool = False) -> TimedStream:
    (stream,) = time_streams(file, with_events=with_events).values()
    return stream


def test_the_second_question_is_answered_from_memory() -> None:
    file = CompiledFile(compiled(8), VARIANT)
    assert only_stream(file).trace is only_stream(file).trace


def test_other_streams_and_variants_have_times_of_their_own() -> None:
    model = compiled(8)
    first = only_stream(CompiledFile(model, VARIANT)).trace.totals.npu_active_cycles
    slow = only_stream(CompiledFile(model, load_variant("ethos-u55-32"))).trace
    assert slow.variant == "ethos-u55-32"
    assert slow.totals.npu_active_cycles != first
    assert only_stream(CompiledFile(compiled(40), VARIANT)).trace.totals.npu_active_cycles != first


def test_events_are_there_when_they_are_asked_for_and_only_then() -> None:
    file = CompiledFile(compiled(8), VARIANT)
    assert only_stream(file).trace.events is None
    with_events = only_stream(file, with_events=True)
    assert with_events.trace.events is not None
    assert only_stream(file, with_events=True).trace is with_events.trace
    assert only_stream(file).trace.events is None
