"""Partitions: a literal twin of the epoch rule, and the properties that make a partition executable."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu.graph.attributes import VarHandleOptions
from npu.graph.dtype import DType
from npu.graph.graph import ABSENT, Graph, Op, Tensor
from npu.graph.partition import NodeSubset, Partition, orders, partition, partition_nodes
from npu.graph.verify import verify

from tests.support.work_done import lines_run

Step = tuple[tuple[int, ...], tuple[int, ...]]


def graph_of(steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], kinds: Sequence[str] = ()) -> Graph:
    """A graph of unary numbers: every tensor that is neither an input nor written is a constant."""
    written = {tensor for _, outs in steps for tensor in outs}
    count = 1 + max([*inputs, *outputs, *written, *(t for ins, _ in steps for t in ins)], default=-1)
    tensors = tuple(
        Tensor(f"t{i}", (1,), DType.INT8, data=None if i in written or i in inputs else np.zeros(1, np.int8))
        for i in range(count)
    )
    ops = tuple(Op(kinds[i] if kinds else "ADD", ins, outs) for i, (ins, outs) in enumerate(steps))
    return Graph("main", tensors, ops, tuple(inputs), tuple(outputs))


@st.composite
def random_steps(draw: st.DrawFn) -> tuple[list[Step], int, set[int]]:
    """Operators in execution order over a few inputs, some with two outputs, absent or repeated inputs; and the accepted."""
    inputs = draw(st.integers(1, 3))
    known = inputs
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, 14))):
        read = draw(st.lists(st.integers(ABSENT, known - 1), min_size=0, max_size=3))
        outputs = tuple(range(known, known + draw(st.integers(1, 2))))
        known += len(outputs)
        steps.append((tuple(read), outputs))
    accepted = draw(st.sets(st.integers(0, max(0, len(steps) - 1))))
    return steps, inputs, {index for index in accepted if index < len(steps)}


def naive_epochs(steps: list[Step], accepted: set[int]) -> list[tuple[bool, list[int]]]:
    """Sweeps over all operators until nothing changes, as the TFLite partitioner is described to do."""
    produced = {tensor for _, outputs in steps for tensor in outputs}
    there: set[int] = set()
    done: set[int] = set()
    epochs: list[tuple[bool, list[int]]] = []
    while len(done) < len(steps):
        kind: bool | None = None
        nodes: list[int] = []
        changed = True
        while changed:
            changed = False
            for index, (inputs, outputs) in enumerate(steps):
                if index in done or any(tensor in produced and tensor not in there for tensor in inputs):
                    continue
                kind = index in accepted if kind is None else kind
                if (index in accepted) == kind:
                    done.add(index)
                    nodes.append(index)
                    there.update(outputs)
                    changed = True
        assert kind is not None
        epochs.append((kind, nodes))
    return epochs


@given(random_steps())
def test_epochs_equal_those_of_repeated_sweeps(case: tuple[list[Step], int, set[int]]) -> None:
    steps, _, accepted = case
    found = [(subset.delegated, list(subset.nodes)) for subset in partition_nodes(steps, accepted, ())]
    assert found == naive_epochs(steps, accepted)


@given(random_steps(), st.data())
def test_boundaries_are_exact(case: tuple[list[Step], int, set[int]], data: st.DataObject) -> None:
    steps, inputs, accepted = case
    tensors = inputs + sum(len(outputs) for _, outputs in steps)
    graph_outputs = data.draw(st.lists(st.integers(0, tensors - 1), max_size=3))
    for subset in partition_nodes(steps, accepted, graph_outputs):
        members = set(subset.nodes)
        own = {tensor for index in members for tensor in steps[index][1]}
        read = {tensor for index in members for tensor in steps[index][0] if tensor != ABSENT}
        elsewhere = {tensor for index in set(range(len(steps))) - members for tensor in steps[index][0]}
        assert list(subset.inputs) == sorted(read - own)
        assert list(subset.outputs) == sorted(own & (elsewhere | set(graph_outputs)))


@given(random_steps())
def test_subsets_run_in_the_order_given(case: tuple[list[Step], int, set[int]]) -> None:
    """Which is the same as: contracting them leaves no cycle."""
    steps, _, accepted = case
    subsets = partition_nodes(steps, accepted, ())
    assert sorted(index for subset in subsets for index in subset.nodes) == list(range(len(steps)))
    produced = {tensor for _, outputs in steps for tensor in outputs}
    there: set[int] = set()
    for subset in subsets:
        assert list(subset.nodes) == sorted(subset.nodes)
        for index in subset.nodes:
            assert {tensor for tensor in steps[index][0] if tensor in produced} <= there
            there.update(steps[index][1])


@given(random_steps())
def test_every_accepted_operator_is_in_exactly_one_partition(case: tuple[list[Step], int, set[int]]) -> None:
    steps, inputs, accepted = case
    found = partition(graph_of(steps, range(inputs), []), accepted)
    assert sorted(index for group in found for index in group.ops) == sorted(accepted)


@given(random_steps())
def test_neighbouring_subsets_are_of_different_kinds(case: tuple[list[Step], int, set[int]]) -> None:
    """Maximal: nothing could join the previous group."""
    subsets = partition_nodes(case[0], case[2], ())
    assert all(a.delegated != b.delegated for a, b in itertools.pairwise(subsets))


@pytest.mark.seed("D-C-3", "D-C-4", "D-C-8")
def test_convolutions_on_both_sides_of_a_mean_form_one_group_around_the_rest() -> None:
    # 0 input; conv -> 1; mean -> 2; relu(1) -> 3; conv(2) -> 4; add(3, 4) -> 5
    steps: list[Step] = [((0,), (1,)), ((1,), (2,)), ((1,), (3,)), ((2,), (4,)), ((3, 4), (5,))]
    assert partition(graph_of(steps, [0], [5]), {0, 1, 3}) == [Partition((0, 1, 3), (0,), (1, 4))]


@pytest.mark.seed("D-C-3")
def test_an_operator_is_not_grouped_across_a_refused_one_in_between() -> None:
    # 0 -> A -> 1 -> refused -> 2; B(1, 2) -> 3: A and B together would wait for each other
    steps: list[Step] = [((0,), (1,)), ((1,), (2,)), ((1, 2), (3,))]
    assert partition(graph_of(steps, [0], [3]), {0, 2}) == [
        Partition((0,), (0,), (1,)),
        Partition((2,), (1, 2), (3,)),
    ]


def test_constants_are_listed_apart_from_inputs() -> None:
    assert partition(graph_of([((0, 1), (2,))], [0], [2]), {0}) == [Partition((0,), (0,), (2,), (1,))]


def test_reads_and_writes_of_variables_keep_their_order() -> None:
    # read the variable, convolve, write it back, read it again: the second read must not move before the write
    steps: list[Step] = [((0,), (1,)), ((1,), (2,)), ((0, 2), ()), ((0,), (3,)), ((3,), (4,))]
    kinds = ["READ_VARIABLE", "CONV_2D", "ASSIGN_VARIABLE", "READ_VARIABLE", "CONV_2D"]
    graph = graph_of(steps, [0], [4], kinds)
    assert [group.ops for group in partition(graph, {1, 4})] == [(1,), (4,)]


def stateful(*steps: tuple[str, tuple[int, ...], tuple[int, ...]], names: str = "ab") -> list[tuple[int, int]]:
    """What `orders` says of a handle for each of `names` (tensors 0, 1...) and then these operators; 0 is the first of them."""
    handles = [Op("VAR_HANDLE", (), (index,), VarHandleOptions("", name)) for index, name in enumerate(names)]
    pairs = orders([*handles, *(Op(*step) for step in steps)])
    return sorted((before - len(handles), after - len(handles)) for before, after in pairs)


def test_operators_of_different_variables_may_pass_each_other() -> None:
    read, write = "READ_VARIABLE", "ASSIGN_VARIABLE"
    assert stateful((read, (0,), (2,)), (write, (1, 2), ()), (read, (0,), (3,))) == []
    assert stateful((read, (0,), (2,)), (read, (0,), (3,)), (write, (0, 3), ()), (read, (0,), (4,))) == [(0, 2), (1, 2), (2, 3)]
    assert stateful((write, (0, 3), ()), (write, (0, 2), ())) == [(0, 1)]


def test_two_handles_of_one_name_are_one_variable() -> None:
    assert stateful(("ASSIGN_VARIABLE", (0, 3), ()), ("READ_VARIABLE", (1,), (2,)), names="aa") == [(0, 1)]


@pytest.mark.parametrize("barrier", [("CALL_ONCE", (), ()), ("READ_VARIABLE", (9,), (8,)), ("WHILE", (7,), (8,))])
def test_operators_whose_variable_is_unknown_keep_their_place(barrier: tuple[str, tuple[int, ...], tuple[int, ...]]) -> None:
    pairs = stateful(("READ_VARIABLE", (0,), (2,)), ("READ_VARIABLE", (1,), (3,)), barrier, ("READ_VARIABLE", (0,), (4,)))
    assert pairs == [(0, 2), (1, 2), (2, 3)]


def test_variables_that_are_read_and_written_in_turn_leave_one_group() -> None:
    # two streams of a keyword network: each reads its state, works and writes it back before the next one reads
    ops = [Op("VAR_HANDLE", (), (index,), VarHandleOptions("", f"v{index}")) for index in range(2)]
    for handle, fresh, state, made in ((0, 2, 3, 4), (1, 4, 5, 6)):
        ops += [
            Op("READ_VARIABLE", (handle,), (state,)),
            Op("ADD", (fresh, state), (made,)),
            Op("ASSIGN_VARIABLE", (handle, made), ()),
        ]
    steps = [(op.inputs, op.outputs) for op in ops]
    groups = [subset.nodes for subset in partition_nodes(steps, {3, 6}, (6,), order=orders(ops))]
    assert groups == [(0, 1, 2, 5), (3, 6), (4, 7)]


def test_compiled_jobs_keep_their_order_and_may_complete_each_others_tensors() -> None:
    # the second job needs nothing by name, but reads what the first left in the arena; both write parts of tensor 2
    tensors = tuple(Tensor(f"t{index}", (4,), DType.INT8) for index in range(4))
    ops = (
        Op("ABS", (0,), (1,)),
        Op("CUSTOM", (1,), (2,), custom_code="ethos-u"),
        Op("CUSTOM", (0,), (2,), custom_code="ethos-u"),
        Op("ABS", (2,), (3,)),
    )
    graph = Graph("main", tensors, ops, (0,), (3,))
    verify(graph)
    assert partition(graph, {1, 2}) == [Partition((1, 2), (0, 1), (2,))]
    assert [
        subset.nodes for subset in partition_nodes([(op.inputs, op.outputs) for op in ops], {1, 2}, (3,), order=[(1, 2)])
    ] == [
        (0,),
        (1, 2),
        (3,),
    ]


def test_a_reader_between_two_writers_gets_the_first_value() -> None:
    steps = [((0,), (1,)), ((1,), (2,)), ((2,), (1,)), ((1,), (3,))]
    assert [subset.nodes for subset in partition_nodes(steps, {0, 2}, (3,))] == [(0,), (1,), (2,), (3,)]


def test_a_graph_without_operators_has_no_partition() -> None:
    assert partition(graph_of([], [0], [0]), ()) == []
    assert partition_nodes([], (), [0]) == []


def test_all_tensors_that_cross_a_delegated_subset_are_inputs_constants_included() -> None:
    assert partition_nodes([((0, 1), (2,))], {0}, [2]) == [NodeSubset((0,), (0, 1), (2,), True)]


def test_the_work_grows_with_the_number_of_operators_only() -> None:
    """Every second operator refused, on a chain: the worst case for repeated sweeps, which would take a sweep for each."""

    def chain_of(length: int) -> None:
        steps: list[Step] = [((i,), (i + 1,)) for i in range(length)]
        assert len(partition_nodes(steps, set(range(0, length, 2)), [length])) == length

    assert lines_run(lambda: chain_of(800)) < 2.2 * lines_run(lambda: chain_of(400))
