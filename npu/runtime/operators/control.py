"""Control flow and resource variables: IF, WHILE, CALL_ONCE, CALL, VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.tensor import Array, RuntimeTensor


def _store(node: OperatorNode, values: Sequence[Array]) -> None:
    for position, value in enumerate(values):
        node.set_shape(value.shape, position)
        node.output(position).array[...] = value


def _dynamic(node: OperatorNode) -> None:
    for position in range(len(node.outputs)):
        node.set_dynamic(position)


def build_if(node: OperatorNode) -> Run:
    condition, a = node.input(0), node.attributes
    arguments = [node.input(i) for i in range(1, len(node.inputs))]
    _dynamic(node)

    def run() -> None:
        chosen = a.then_subgraph_index if bool(node.scalar(condition)) else a.else_subgraph_index
        _store(node, node.services.run_subgraph(chosen, [t.array for t in arguments]))

    return run


def build_while(node: OperatorNode) -> Run:
    a = node.attributes
    arguments = [node.input(i) for i in range(len(node.inputs))]
    _dynamic(node)

    def run() -> None:
        values = [tensor.array for tensor in arguments]
        while bool(node.services.run_subgraph(a.cond_subgraph_index, values)[0].reshape(-1)[0]):
            values = node.services.run_subgraph(a.body_subgraph_index, values)
        _store(node, values)

    return run


def build_call(node: OperatorNode) -> Run:
    arguments = [node.input(i) for i in range(len(node.inputs))]
    _dynamic(node)

    def run() -> None:
        _store(node, node.services.run_subgraph(node.attributes.subgraph, [t.array for t in arguments]))

    return run


def build_call_once(node: OperatorNode) -> Run:
    index = node.attributes.init_subgraph_index
    return lambda: node.services.run_once(index)


def build_var_handle(node: OperatorNode) -> Run:
    output, a = node.output(), node.attributes
    node.set_shape(())
    key = (a.container, a.shared_name)

    def run() -> None:
        output.array[()] = key

    return run


def _key(handle: RuntimeTensor) -> tuple[str, str]:
    key: tuple[str, str] = handle.array.reshape(-1)[0]
    return key


def build_read_variable(node: OperatorNode) -> Run:
    handle, output = node.input(0), node.output()
    node.set_dynamic()

    def run() -> None:
        value = node.services.resources.get(_key(handle))
        if value is None:
            # A variable that nobody assigned reads as zeros of the declared shape, as in LiteRT.
            node.set_shape(tuple(max(n, 0) for n in output.source.shape))
            output.array.fill(0)
            return
        node.set_shape(value.shape)
        output.array[...] = value

    return run


def build_assign_variable(node: OperatorNode) -> Run:
    handle, value = node.input(0), node.input(1)

    def run() -> None:
        node.services.resources[_key(handle)] = value.array.copy()

    return run


_ROWS: tuple[tuple[str, Callable[[OperatorNode], Run], tuple[str, ...]], ...] = (
    ("IF", build_if, ("bool any* -> any*",)),
    ("WHILE", build_while, ("any* -> any*",)),
    ("CALL", build_call, ("any* -> any*",)),
    ("CALL_ONCE", build_call_once, (" -> ",)),
    ("VAR_HANDLE", build_var_handle, (" -> res",)),
    ("READ_VARIABLE", build_read_variable, ("res -> any",)),
    ("ASSIGN_VARIABLE", build_assign_variable, ("res any -> ",)),
)

OPERATORS = tuple(Implementation(*row) for row in _ROWS)
