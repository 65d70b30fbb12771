"""The words of the glossary's last table are not names in the code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

from tests.support.trees import tree_of

ROOT = Path(__file__).parents[1]
SOURCES = [path for package in ("npu", "sim", "constraints") for path in sorted((ROOT / package).rglob("*.py"))]
REFUSED = re.compile(r"(?<![a-z])(tens|nng|sg|arch|claim|claims|claimed)(?![a-z])|quantis|^(each|found|item)$")


def refused_names(text: str) -> set[str]:
    """The names of a module that are, or hold as a part, a word that the glossary refuses; NumPy's `.item` is not ours."""
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type != tokenize.NL]
    names = {token.string for before, token in pairwise(tokens) if token.type == tokenize.NAME and before.string != "."}
    names |= {token.string for before, token in pairwise(tokens) if before.string == "." and token.string != "item"}
    return {name for name in names if REFUSED.search(name.lower())}


def test_no_name_in_the_code_is_a_word_that_the_glossary_refuses() -> None:
    names = {str(path.relative_to(ROOT)): refused_names(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert {name: refused for name, refused in names.items() if refused} == {}


def test_a_refused_word_is_found_as_a_part_of_a_name() -> None:
    assert refused_names("import a\nsg_count = 1\nmessage = arch\n") == {"sg_count", "arch"}
    assert refused_names("import a\neach = reach.item()\nrequantised = item\n") == {"each", "requantised", "item"}


def type_names(tree: ast.Module) -> list[str]:
    """The classes of a module, those inside others too, and then its other capitalized names; without leading underscores."""
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    targets = [node.targets[0] if isinstance(node, ast.Assign) else node.target for node in tree.body if _is_assignment(node)]
    aliases = {target.id for target in targets if isinstance(target, ast.Name) and not target.id.isupper()}
    return [name.lstrip("_") for name in [*classes, *sorted(aliases)] if name.lstrip("_")[:1].isupper()]


def _is_assignment(node: ast.stmt) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    return isinstance(node, ast.Assign | ast.AnnAssign)


def test_a_type_has_its_name_for_itself() -> None:
    """Classes and aliases alike: a name that means several things, or one thing declared twice, is found by no search."""
    declared: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in type_names(tree_of(path)):
            declared.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in declared.items() if len(places) > 1} == {}


def test_types_are_found_by_their_names() -> None:
    text = "class _Plan:\n    class Step: ...\nJob = int\nBox: TypeAlias = int\nLIMIT = 1\n"
    assert type_names(ast.parse(text)) == ["Plan", "Step", "Box", "Job"]


def vague_parameters(tree: ast.Module) -> list[str]:
    """Functions that others call with a parameter whose name says nothing."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    functions = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    named = ((one.name, {a.arg for a in (*one.args.args, *one.args.kwonlyargs)}) for one in functions)
    return [name for name, arguments in named if arguments & {"item", "result"}]


def test_no_parameter_is_an_item_or_a_result() -> None:
    vague = {str(path.relative_to(ROOT)): vague_parameters(tree_of(path)) for path in SOURCES}
    assert {name: functions for name, functions in vague.items() if functions} == {}


def test_a_vague_parameter_is_found() -> None:
    assert vague_parameters(ast.parse("def f(item): ...\nclass A:\n    def g(self, *, result): ...\n")) == ["f", "g"]


MOST_HANDED_ON = 17
"""Functions that take a hardware variant and only hand it on: entries of a layer, which many call. No new one joins them."""


def hands_on(tree: ast.Module, name: str) -> list[str]:
    """Functions that do nothing with parameter `name` but give it to others."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node.name for node in functions if _takes(node, name) and _reads(node, name) == _handed(node, name)]


def _takes(function: ast.FunctionDef, name: str) -> bool:
    return name in {one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}


def _reads(function: ast.FunctionDef, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for part in function.body for node in ast.walk(part))


def _handed(function: ast.FunctionDef, name: str) -> int:
    calls = [node for part in function.body for node in ast.walk(part) if isinstance(node, ast.Call)]
    given = [value for call in calls for value in (*call.args, *(keyword.value for keyword in call.keywords))]
    return sum(isinstance(value, ast.Name) and value.id == name for value in given)


def test_few_functions_only_hand_the_hardware_on() -> None:
    handed = [name for path in SOURCES for name in hands_on(tree_of(path), "variant")]
    assert len(handed) <= MOST_HANDED_ON, f"take what is needed of the variant, or a record that owns it: {handed}"


def test_a_function_that_uses_what_it_hands_on_is_not_counted() -> None:
    text = "def f(variant): return g(variant)\ndef h(variant): return g(variant) + variant.cores\n"
    assert hands_on(ast.parse(text), "variant") == ["f"]
