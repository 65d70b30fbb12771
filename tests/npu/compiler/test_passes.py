"""The compiler can be watched: texts of small models after its passes, and a verifier that finds what a pass breaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import npu
from constraints.checker import check
from npu.compiler.block_config import BlockChooser
from npu.compiler.compiler import compile_model
from npu.compiler.ir import ElementwiseStep, Program, Step, View
from npu.compiler.memory import RegionOffset
from npu.compiler.passes.refuse_misfits import exceeds_budget
from npu.compiler.pipeline import PASSES, PLANNING, WRITING, pass_names
from npu.compiler.state import GraphState, NodeStream, State
from npu.compiler.text import state_text
from npu.compiler.verify import verify_state
from npu.compiler.watch import watching
from npu.errors import CompileError, UserError
from npu.graph import attributes as at
from npu.graph.attributes import Padding
from npu.graph.dtype import DType
from npu.hardware.catalogue import load_variant
from npu.isa.operations import Layout
from npu.tflite.reader import read_model

from tests.support.builder import ModelBuilder
from tests.support.sample_models import image_classifier
from tests.support.shared import ROOT

I8 = DType.INT8


def residual() -> bytes:
    """Two convolutions and the sum of the first one's input and their result, then one operator for the CPU."""
    b = ModelBuilder()
    x = b.input((1, 8, 8, 16), I8, scale=0.05, zero_point=-3)
    rng = np.random.default_rng(3)
    y = x
    for _ in range(2):
        weights = b.constant(rng.integers(-127, 128, (16, 3, 3, 16)).astype(np.int8), scale=0.01)
        bias = b.constant(rng.integers(-500, 500, 16).astype(np.int32), scale=0.0005)
        y = b.op("CONV_2D", [y, weights, bias], (1, 8, 8, 16), I8, 0.05, 4, attributes=at.Conv2DOptions(Padding.SAME, 1, 1))
    z = b.op("ADD", [x, y], (1, 8, 8, 16), I8, 0.07, 1, attributes=at.AddOptions())
    b.output(b.op("FLOOR_DIV", [z, z], (1, 8, 8, 16), I8, 0.07, 1, attributes=at.FloorDivOptions()))
    return b.build()


MODELS: dict[str, tuple[Callable[[], bytes], str]] = {
    "classifier": (image_classifier, "ethos-u55-128"),
    "residual": (residual, "ethos-u65-512"),
    "digits": (lambda: (ROOT / "examples" / "digits.tflite").read_bytes(), "ethos-u55-64"),
}
TEXTS = ("lower_partitions", "schedule_jobs", "plan_memory", "encode_streams")


def states(content: bytes, target: str) -> dict[str, State]:
    """The state after each pass."""
    found: dict[str, State] = {}
    model, variant = read_model(content), load_variant(target)
    placement = check(model, variant=variant)
    compile_model(model, placement, BlockChooser(variant), observers=(lambda name, state: found.update({name: state}),))
    return found


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("case", MODELS)
def test_texts_are_as_recorded(case: str, name: str, golden: Callable[[str, str], None]) -> None:
    make, target = MODELS[case]
    golden(f"compiler/{case}.{name}.txt", state_text(states(make(), target)[name]))


def test_passes_are_named_by_what_they_do_and_stand_in_files_of_their_names() -> None:
    assert [step.__module__ for step in PASSES] == [f"npu.compiler.passes.{name}" for name in pass_names()]


def test_of_the_plans_that_are_tried_one_is_written() -> None:
    """A memory that the maps do not fit as they are: a plan for performance and one for size."""
    variant = load_variant("ethos-u55-128")
    tight = dataclasses.replace(variant, memory_mode=dataclasses.replace(variant.memory_mode, arena_cache_bytes=2048))
    model, seen = read_model(residual()), list[str]()
    placement = check(model, variant=tight)
    compile_model(model, placement, BlockChooser(tight), observers=(lambda name, _: seen.append(name),))
    assert seen.count("plan_memory") > 1
    assert [seen.count(step.__name__) for step in WRITING] == [1] * len(WRITING)


def test_an_unknown_pass_is_refused_with_the_names() -> None:
    with pytest.raises(
        UserError, match=r"must be one of drop_idle_jobs, .* all, got 'plan_memry' \(did you mean 'plan_memory'\?\)"
    ):
        watching("plan_memry", verifies=False, write=print)


def test_every_pass_is_dumped_in_order() -> None:
    written: list[str] = []
    for observe in watching("all", verifies=False, write=written.append):
        for name, state in states(residual(), "ethos-u55-128").items():
            observe(name, state)
    assert [text.splitlines()[0] for text in written] == [f"# after {name}" for name in pass_names()]


def with_node(state: GraphState, number: int, **changes: object) -> GraphState:
    nodes = list(state.nodes)
    nodes[number] = dataclasses.replace(nodes[number], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(state, nodes=tuple(nodes))


def with_step(state: GraphState, position: int, change: Callable[[Step], Step]) -> GraphState:
    program = state.nodes[0].program
    assert isinstance(program, Program)
    steps = list(program.steps)
    steps[position] = change(steps[position])
    return with_node(state, 0, program=dataclasses.replace(program, steps=tuple(steps)))


def lower(step: Step) -> Step:
    """The step with its IFM one row further down."""
    view = step.ifm
    return dataclasses.replace(step, ifm=dataclasses.replace(view, offset=(view.offset[0] + 1, *view.offset[1:])))


def repeated(step: Step) -> Step:
    """With an IFM of one row, which Ethos-U55 does not repeat."""
    return dataclasses.replace(step, ifm=dataclasses.replace(step.ifm, shape=(1, 8, 16)))


def broadcast(step: Step) -> Step:
    assert isinstance(step, ElementwiseStep)
    assert isinstance(step.ifm2, View)
    return dataclasses.replace(step, ifm2=dataclasses.replace(step.ifm2, shape=(3, 8, 16)))


def without_first_step(state: GraphState) -> GraphState:
    program = state.nodes[0].program
    assert isinstance(program, Program)
    return with_node(state, 0, program=dataclasses.replace(program, steps=program.steps[1:]))


def on_top(state: GraphState) -> GraphState:
    """All copies at the same place, all read to the end."""
    plan = state.planned
    transfers = tuple(tuple(dataclasses.replace(one, last=99) for one in row) for row in plan.transfers)
    buffers = tuple(tuple(RegionOffset(one.region, 0) for one in row) for row in plan.buffers)
    return dataclasses.replace(state, memory=dataclasses.replace(plan, transfers=transfers, buffers=buffers))


def without_end(state: GraphState) -> GraphState:
    stream = state.streams[0]
    assert isinstance(stream, NodeStream)
    return dataclasses.replace(state, streams=(dataclasses.replace(stream, operations=stream.operations[:-1]), None))


BROKEN: dict[str, tuple[str, Callable[[GraphState], GraphState], str]] = {
    "operator_lost": (
        "partition_graphs",
        lambda state: dataclasses.replace(state, nodes=state.nodes[:1]),
        r"nodes: must hold each of 4 operators once, got \[0, 1, 2\]",
    ),
    "order": (
        "partition_graphs",
        lambda state: dataclasses.replace(state, nodes=state.nodes[::-1]),
        r"operator 3: must run after the one that makes tensor 7",
    ),
    "box": ("lower_partitions", lambda state: with_step(state, 0, lower), r"step 0: box \(1, 0, 0\) .* must lie in"),
    "broadcast": (
        "lower_partitions",
        lambda state: with_step(state, 2, broadcast),
        r"step 2: IFM2 must be of the OFM's extent \(8, 8, 16\) or 1, got \(3, 8, 16\)",
    ),
    "repeated": (
        "lower_partitions",
        lambda state: with_step(state, 2, repeated),
        r"step 2: IFM must be of the OFM's extent \(8, 8, 16\), got \(1, 8, 16\)",
    ),
    "unwritten": ("lower_partitions", without_first_step, r"step 0: .* must be written before it is read"),
    "job_lost": (
        "schedule_jobs",
        lambda state: dataclasses.replace(state, jobs=(state.jobs[0][1:], ())),
        r"node 0: (jobs must compute|a job must begin)",
    ),
    "no_stop": ("emit_operations", without_end, r"operations must end with Stop"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_a_pass_breaks_is_found(case: str) -> None:
    name, damage, message = BROKEN[case]
    state = states(residual(), "ethos-u55-128")[name]
    verify_state(name, state)
    with pytest.raises(CompileError, match=f"after {name}: graph 0: .*{message}"):
        verify_state(name, state.with_graphs(tuple(damage(graph) for graph in state.graphs)))


def test_bricks_that_others_would_see_are_found() -> None:
    state = states(image_classifier(), "ethos-u55-128")["assign_layouts"]
    bricked = [dataclasses.replace(graph, layouts=dict.fromkeys(graph.layouts, Layout.NHCWB16)) for graph in state.graphs]
    with pytest.raises(CompileError, match="must be NHWC for what reads or writes it"):
        verify_state("assign_layouts", state.with_graphs(tuple(bricked)))


def test_a_copy_over_one_that_is_still_read_is_found() -> None:
    make, target = MODELS["digits"]
    state = states(make(), target)["plan_memory"]
    with pytest.raises(CompileError, match=r"after plan_memory: .* a copy must not overwrite one that is still read"):
        verify_state("plan_memory", state.with_graphs(tuple(on_top(graph) for graph in state.graphs)))


@pytest.mark.parametrize("case", MODELS)
def test_the_jobs_that_were_priced_are_those_that_are_made(case: str) -> None:
    make, target = MODELS[case]
    (graph,) = states(make(), target)["schedule_jobs"].graphs
    assert graph.job_maker is not None
    priced = graph.job_maker.jobs(graph.copies_bytes)
    assert priced is graph.job_maker.jobs(graph.copies_bytes)
    pairs = [
        (one, other) for row, others in zip(priced, graph.jobs, strict=True) for one, other in zip(row, others, strict=True)
    ]
    assert len(pairs) >= 3
    assert all(one.step is other.step and one.choice is other.choice for one, other in pairs)


def test_what_lies_between_maps_counts_against_the_arena() -> None:
    """Maps that are live together may fit where no packing of them does."""
    make, target = MODELS["digits"]
    state = states(make(), target)["plan_memory"]
    plan, mode = state.graphs[0].planned, state.variant.memory_mode
    assert plan.arena_end > max(plan.feature_bytes)
    for size, is_exceeded in ((plan.arena_end, False), (plan.arena_end - 16, True)):
        variant = dataclasses.replace(state.variant, memory_mode=dataclasses.replace(mode, arena_cache_bytes=size))
        assert exceeds_budget(dataclasses.replace(state, chooser=BlockChooser(variant))) == is_exceeded


def test_all_compilations_of_the_tests_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    def overlook(state: State) -> State:
        return state.with_graphs(tuple(without_first_step(graph) for graph in state.graphs))

    passes = tuple(overlook if step.__name__ == "cut_cascades" else step for step in PLANNING)
    monkeypatch.setattr("npu.compiler.pipeline.PLANNING", passes)
    with pytest.raises(CompileError, match=r"after overlook: graph 0: .* must be written before it is read"):
        npu.compile(residual())
