"""The words of the glossary's last table are not names in the code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = [path for package in ("npu", "sim", "constraints") for path in sorted((ROOT / package).rglob("*.py"))]
REFUSED = re.compile(r"(?<![a-z])(tens|nng|sg|arch|claim|claims|claimed)(?![a-z])")


def refused_names(text: str) -> set[str]:
    """The names of a module that are, or hold as a part, a word that the glossary refuses."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME and REFUSED.search(token.string.lower())}


def test_no_name_in_the_code_is_a_word_that_the_glossary_refuses() -> None:
    names = {str(path.relative_to(ROOT)): refused_names(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: refused for name, refused in names.items() if refused} == {}


def test_a_refused_word_is_found_as_a_part_of_a_name() -> None:
    assert refused_names("sg_count = 1\nmessage = arch\n") == {"sg_count", "arch"}


TYPES = ("Plan", "Step", "Job", "Box", "Work", "Session")
"""Names of one type at most, private ones and names for other types included; the judge's boxes are its own on purpose."""
JUDGE = ROOT / "sim" / "verify"


def type_names(tree: ast.Module) -> list[str]:
    """The types that a module declares, without a leading underscore."""
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    others = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    return [name.lstrip("_") for name in [*classes, *(one.id for one in others if isinstance(one, ast.Name))]]


def test_a_type_name_has_one_meaning() -> None:
    sources = [path for path in SOURCES if not path.is_relative_to(JUDGE)]
    declared = Counter(name for path in sources for name in type_names(ast.parse(path.read_text(encoding="utf-8"))))
    assert {name: declared[name] for name in TYPES if declared[name] > 1} == {}


def test_types_are_found_by_their_names() -> None:
    assert type_names(ast.parse("class _Plan: ...\nStep = int\n")) == ["Plan", "Step"]


def vague_parameters(tree: ast.Module) -> list[str]:
    """Functions that others call with a parameter whose name says nothing."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    functions = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    named = ((one.name, {a.arg for a in (*one.args.args, *one.args.kwonlyargs)}) for one in functions)
    return [name for name, arguments in named if arguments & {"item", "result"}]


def test_no_parameter_is_an_item_or_a_result() -> None:
    vague = {str(path.relative_to(ROOT)): vague_parameters(ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES}
    assert {name: functions for name, functions in vague.items() if functions} == {}


def test_a_vague_parameter_is_found() -> None:
    assert vague_parameters(ast.parse("def f(item): ...\nclass A:\n    def g(self, *, result): ...\n")) == ["f", "g"]
