"""Names in a model that are markup, a formula, a path or source code: reports keep their form, and files their place."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from npu.cli.main import main
from npu.graph.dtype import DType
from npu.plain import cell
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.builder import ModelBuilder

NAMES = {
    "html": "<script>alert(1)</script><img src=x onerror=y>&\"'",
    "markdown": "a|b`c`[x](http://e)![i](http://e)<b>\n# head\n***",
    "formula": "=cmd|' /C calc'!A0",
    "path upwards": "../../../../evil",
    "absolute path": "/tmp/evil",
    "terminal": "\x1b]0;title\x07\x1b[31mred",
    "source code": '*/ int x; /*";\n#include </etc/passwd>',
    "zero": "a\0b",
    "folder": "..",
    "long": "n" * 5000,
}


def model(name: str) -> bytes:
    """ABS on the NPU and two operators of the CPU, every tensor and the graph with this name."""
    b = ModelBuilder()
    y = b.op("ABS", [b.input((1, 4, 4, 8), DType.INT8, scale=0.1)], (1, 4, 4, 8), DType.INT8, 0.1)
    y = b.op("DEQUANTIZE", [y], (1, 4, 4, 8), DType.FLOAT32)
    b.output(b.op("FLOOR", [y], (1, 4, 4, 8), DType.FLOAT32))
    plain = read_model(b.build())
    (graph,) = plain.graphs
    tensors = tuple(replace(tensor, name=f"{name}{index}") for index, tensor in enumerate(graph.tensors))
    return write_model(replace(plain, graphs=(replace(graph, name=name, tensors=tensors),)))


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return NAMES[str(request.param)]


class Tags(HTMLParser):
    """What a page consists of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(sorted(name for name, _ in attrs))))


def columns(text: str) -> list[int]:
    """How many cells every line of a Markdown text has, and how many lines there are."""
    return [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines()]


def rules(text: str) -> list[str]:
    return [result["ruleId"] for run in json.loads(text)["runs"] for result in run["results"]]


FORMS: dict[str, Callable[[str], object]] = {
    "html": lambda text: Tags(text).found,
    "md": columns,
    "junit": lambda text: [element.tag for element in ElementTree.fromstring(text).iter()],
    "sarif": rules,
    "json": lambda text: [row["type"] for row in json.loads(text)["operators"]],
}


def written(content: bytes, form: str, folder: Path) -> str:
    folder.mkdir()
    (folder / "m.tflite").write_bytes(content)
    assert main(["check", str(folder / "m.tflite"), "--format", form, "-o", str(folder / "out")]) == 0
    return (folder / "out").read_text("utf-8")


@pytest.mark.parametrize("form", FORMS)
def test_a_report_has_the_form_that_it_has_for_other_names(form: str, name: str, tmp_path: Path) -> None:
    text = written(model(name), form, tmp_path / "a")
    assert FORMS[form](text) == FORMS[form](written(model("harmless"), form, tmp_path / "b"))
    assert "\x1b" not in text


def test_markdown_has_neither_links_nor_markup_of_a_name(tmp_path: Path) -> None:
    text = written(model(NAMES["markdown"]), "md", tmp_path / "a")
    assert "](http" not in text.replace("\\](", "")
    assert "<b>" not in text
    assert "\n# head" not in text


def test_files_are_written_where_they_were_asked_for(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "a" / "b" / "c" / "d"
    work.mkdir(parents=True)
    monkeypatch.chdir(work)
    Path("m.tflite").write_bytes(model(name))
    assert main(["run", "m.tflite", "--output-dir", "out", "--trace", "trace.json", "--report", "report.json"]) == 0
    assert main(["export", "m.tflite", "--c", "sources"]) == 0
    assert main(["compile", "m.tflite", "-o", "c.tflite", "--report", "compile.json"]) == 0
    there = {path.relative_to(tmp_path).parts[:4] for path in tmp_path.rglob("*") if path.is_file()}
    assert there == {("a", "b", "c", "d")}
    assert sorted(path.name for path in Path("out").iterdir()) == ["output_0.npy"]
    assert not Path("/tmp/evil0").exists()
    sources = "".join(path.read_text("utf-8") for path in Path("sources").iterdir())
    assert "/etc/passwd>" not in sources
    json.loads(Path("trace.json").read_text())


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_a_spreadsheet_takes_text_for_text(text: str) -> None:
    assert cell(text) == f"'{text}"
    assert (cell("CONV_2D"), cell(-1), cell(1.5)) == ("CONV_2D", -1, 1.5)


def test_names_of_models_in_tables_are_no_formulas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("=1+1.tflite").write_bytes(model("x"))
    assert main(["sweep", "=1+1.tflite", "-o", "table.csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(Path("table.csv").read_text()))
    assert "'=1+1.tflite" in row.values()
    assert not any(value.startswith("=") for value in row.values())
