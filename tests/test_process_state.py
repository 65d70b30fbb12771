"""Nothing is global to the process but what is named here, with its reason: a session owns the rest."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.trees import tree_of

ROOT = Path(__file__).parents[1]
MODULES = [path for name in ("npu", "sim", "constraints") for path in sorted((ROOT / name).rglob("*.py"))]
_PLUGGED = "what another package plugs in, as modules are; `unregister` takes it back"
_MACHINE_CODE = "code of this process: what was loaded cannot be unloaded"
_TYPES = "by classes of this project, of which there are so many and no more"
STATE = {
    "npu/native/cpu.py _forced": "the CPU that a process of its own makes machine code for",
    "npu/native/kernel.py DECLARED": _MACHINE_CODE,
    "npu/native/library.py _loaded": _MACHINE_CODE,
    "npu/native/library.py _makers": _MACHINE_CODE,
    "npu/native/library.py _told": "what was said once is not said again",
    "npu/native/requests.py expected": _MACHINE_CODE,
    "npu/runtime/custom.py _registered": _PLUGGED,
    "npu/runtime/defaults.py _factories": _PLUGGED,
    "npu/tools/registrar.py _providers": _PLUGGED,
    "npu/graph/wire.py _KNOWN": _TYPES,
    "npu/tflite/flatbuffer.py _KNOWN_FIELDS": _TYPES,
    "npu/tflite/flatbuffer.py _KNOWN_TABLES": _TYPES,
}
UNBOUNDED = {
    "npu/graph/operands.py parse": "by the signatures that the operator table writes",
    "npu/hardware/build.py _fields": _TYPES,
    "npu/records.py _given": _TYPES,
    "npu/records.py _initialisation": _TYPES,
    "npu/records.py _numbered": _TYPES,
}
"""Kept results of functions with arguments, without a bound; `npu/native` keeps machine code, by its kernels."""


def _callee(node: ast.expr) -> str:
    """The last name of what is called or decorates."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_empty_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    names = {
        "dict",
        "list",
        "set",
        "defaultdict",
        "OrderedDict",
        "Counter",
        "deque",
        "WeakKeyDictionary",
        "WeakValueDictionary",
    }
    return isinstance(value, ast.Call) and _callee(value) in names and not [one for one in value.args if _callee(one) != "list"]


def filled_later(tree: ast.Module) -> Iterator[str]:
    """Names of a module that are empty containers, or are bound again by functions."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _is_empty_container(node.value):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


def memos(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Functions whose results are kept, and whether their number is bounded."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if _callee(decorator) == "cache":
                    yield node.name, not (node.args.args or node.args.kwonlyargs or node.args.vararg)
                if _callee(decorator) == "lru_cache":
                    yield node.name, isinstance(decorator, ast.Call) and bool(decorator.args or decorator.keywords)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): tree_of(path) for path in MODULES}


def test_every_state_of_the_process_is_named(trees: dict[str, ast.Module]) -> None:
    assert {f"{path} {name}" for path, tree in trees.items() for name in filled_later(tree)} == set(STATE)


def test_kept_results_are_bounded(trees: dict[str, ast.Module]) -> None:
    elsewhere = ((path, tree) for path, tree in trees.items() if not path.startswith("npu/native/"))
    unbounded = {f"{path} {name}" for path, tree in elsewhere for name, is_bounded in memos(tree) if not is_bounded}
    assert unbounded == set(UNBOUNDED)


@pytest.mark.parametrize("text", ["x = {}", "x: dict[str, int] = {}", "x = set()", "def f():\n    global x\n    x = 1"])
def test_state_is_recognised(text: str) -> None:
    assert list(filled_later(ast.parse(text))) == ["x"]


def test_an_unbounded_memo_is_recognised() -> None:
    text = "@cache\ndef f(a): ...\n@functools.cache\ndef g(): ...\n@lru_cache(16)\ndef h(a): ...\n@lru_cache\ndef k(a): ...\n"
    assert list(memos(ast.parse(text))) == [("f", False), ("g", True), ("h", True), ("k", False)]
