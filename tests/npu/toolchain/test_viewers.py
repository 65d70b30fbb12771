"""The expanded graph, read into the classes of Model Explorer's package (make test-viewers installs it)."""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from npu.toolchain.expand import expand, to_model_explorer
from npu.toolchain.session import Session

ROOT = Path(__file__).parents[3]
INSTALLED = ROOT / "build" / "viewers"

pytestmark = pytest.mark.viewers


@pytest.fixture(scope="module")
def graph_class() -> Any:
    """`model_explorer.graph_builder.Graph`; the package as a whole would start a web server's imports."""
    path = INSTALLED / "model_explorer" / "graph_builder.py"
    spec = spec_from_file_location("graph_builder", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["graph_builder"] = module  # where its dataclasses look for the types of their fields
    spec.loader.exec_module(module)
    return module.Graph


@pytest.mark.parametrize("name", ["digits.tflite", "digits_partial.tflite"])
def test_model_explorers_classes_take_the_graph(name: str, graph_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(INSTALLED))
    import dacite

    expanded = expand(ROOT / "examples" / name, Session())
    (content,) = json.loads(to_model_explorer(expanded))["graphs"]
    graph = dacite.from_dict(graph_class, content, dacite.Config(strict=True))
    assert len(graph.nodes) >= len(expanded.nodes) > 0
    content["nodes"][0]["lable"] = "misspelt"
    with pytest.raises(dacite.UnexpectedDataError):
        dacite.from_dict(graph_class, content, dacite.Config(strict=True))
