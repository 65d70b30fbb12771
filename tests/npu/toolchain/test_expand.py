"""The expanded graph: every operation of the NPU a node, every edge from who wrote the bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flatbuffers import flexbuffers

import npu
from npu.cli.main import main
from npu.isa.operations import Dma, KernelOperation
from npu.toolchain.executable import prepare
from npu.toolchain.expand import Expanded, expand, to_model_explorer, to_tflite
from npu.toolchain.session import Session

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = EXAMPLES / "digits.tflite"
FIELDS = {"id", "label", "namespace", "attrs", "incomingEdges", "outputsMetadata"}
"""Fields of model_explorer.graph_builder.GraphNode that are used."""


@pytest.fixture(scope="module", params=["digits.tflite", "digits_partial.tflite"])
def expanded(request: pytest.FixtureRequest) -> Expanded:
    return expand(EXAMPLES / request.param, Session())


def test_every_operation_is_a_node_in_order() -> None:
    session = Session()
    file = prepare(DIGITS, session).file
    operations = [decoded.operation for decoded in file.operations(0, 0)]
    moving = [operation for operation in operations if isinstance(operation, Dma | KernelOperation)]
    nodes = expand(DIGITS, session).nodes
    assert len(nodes) == len(moving) + 1  # the output of the job
    assert [node.label == "DMA" for node in nodes[:-1]] == [isinstance(operation, Dma) for operation in moving]
    starts = [int(node.attributes["start cycle"]) for node in nodes[:-1]]
    assert all(start >= 0 for start in starts)


def test_edges_lead_from_the_input_to_the_output(expanded: Expanded) -> None:
    """Whoever walks back from an output comes to an input, and never to a value that is made later."""
    maker = {value: index for index, node in enumerate(expanded.nodes) for value in node.outputs}
    for index, node in enumerate(expanded.nodes):
        assert all(maker.get(value, -1) < index for value in node.inputs)
    waiting, seen = list(expanded.outputs), set[int]()
    while waiting:
        value = waiting.pop()
        seen.add(value)
        if value in maker:
            waiting.extend(set(expanded.nodes[maker[value]].inputs) - seen)
    assert set(expanded.inputs) <= seen
    kernels = [node for node in expanded.nodes if "OFM" in node.attributes]
    assert {value for node in kernels for value in node.outputs} <= seen  # nothing is computed in vain


def test_nodes_belong_to_operators_of_the_source() -> None:
    ops = npu.load(DIGITS).graphs[0].ops
    owners = {node.owner for node in expand(DIGITS, Session()).nodes[:-1]}
    numbers = {int(owner.split()[0]) for owner in owners}
    assert numbers <= set(range(len(ops)))
    assert {ops[number].kind for number in numbers} >= {"CONV_2D", "FULLY_CONNECTED", "SOFTMAX"}


def test_the_file_for_netron_is_a_model(expanded: Expanded) -> None:
    (graph,) = npu.load(to_tflite(expanded)).graphs
    assert len(graph.ops) == len(expanded.nodes)
    first = next(op for op, node in zip(graph.ops, expanded.nodes, strict=True) if "block" in node.attributes)
    assert set(flexbuffers.Loads(bytearray(first.custom_options))) >= {"operator", "block", "IFM", "OFM", "start cycle"}


def test_the_graph_for_model_explorer_has_its_fields(expanded: Expanded) -> None:
    (graph,) = json.loads(to_model_explorer(expanded))["graphs"]
    ids = {node["id"] for node in graph["nodes"]}
    assert len(ids) == len(graph["nodes"])
    for node in graph["nodes"]:
        assert set(node) <= FIELDS
        assert {edge["sourceNodeId"] for edge in node.get("incomingEdges", ())} <= ids
        assert all(isinstance(pair["value"], str) for pair in node.get("attrs", ()))


def test_the_command_writes_what_the_name_says(tmp_path: Path) -> None:
    for name, beginning in (("graph.json", b"{"), ("graph.tflite", b"")):
        assert main(["export", str(DIGITS), "--expanded", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(beginning)
    assert npu.load(tmp_path / "graph.tflite").graphs[0].ops[0].kind == "CUSTOM"


def test_export_needs_something_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(DIGITS)])
    assert (ended.value.code, "--c, --expanded or both must be given" in capsys.readouterr().err) == (2, True)
