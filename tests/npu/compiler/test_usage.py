"""What is live at once when steps become stripes: looked at alone it is what a look at all steps finds."""

from __future__ import annotations

import pytest

from npu.compiler.ir import Program
from npu.compiler.lifetime import PlanNode
from npu.compiler.stripes import Overlap, in_stripes
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Op, Tensor
from npu.records import replace

from tests.naive.chains import chains_around, is_line
from tests.naive.live_maps import CutWindow, live_maps
from tests.npu.compiler.test_cascade import folded, long_chain, program, residual_blocks, squeeze_and_excite, two_peaks

PROGRAMS = {
    "program": program,
    "residual": residual_blocks,
    "long": long_chain,
    "squeeze": squeeze_and_excite,
    "peaks": two_peaks,
    "folded": folded,
}


def graph_of(made: Program) -> Graph:
    """A graph of one operator whose tensors are the maps that the program has in common with it."""
    ends = [dict(made.inputs), dict(made.outputs)]
    shapes = {index: storage.shape for side in ends for index, storage in side.items()}
    tensors = tuple(Tensor(f"t{index}", shapes.get(index, (1,)), DType.INT8) for index in range(max(shapes) + 1))
    return Graph("g", tensors, (Op("CUSTOM", *map(tuple, ends)),), *map(tuple, ends))


@pytest.mark.parametrize("hidden_only", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_window_finds_what_a_look_at_all_steps_finds(name: str, *, hidden_only: bool) -> None:
    made: Program = PROGRAMS[name]()
    node, tried = PlanNode((0,), made, is_npu=True), 0
    live = live_maps(graph_of(made), [node], hidden_only=hidden_only)
    chains = {chain for number in range(len(made.steps)) for chain in chains_around(made.steps, number, has_branches=True)}
    for first, last in sorted(chains):
        window = CutWindow(live, 0, first, last)
        for count in (2, 3, 4, 8):
            for overlap in Overlap if is_line(made.steps[first : last + 1]) else (Overlap.KEPT, Overlap.KEPT_AHEAD):
                stripes = in_stripes(made.steps[first : last + 1], count, overlap)
                if stripes is None:
                    continue
                steps = (*made.steps[:first], *stripes, *made.steps[last + 1 :])
                cut = [replace(node, program=replace(made, steps=steps))]
                whole = live_maps(graph_of(made), cut, hidden_only=hidden_only).usage[first : first + len(stripes)]
                assert window.usage(stripes) == list(whole), (first, last, count, overlap)
                tried += 1
    assert tried >= 8
