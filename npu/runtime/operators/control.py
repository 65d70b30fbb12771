"""Control flow and resource variables: IF, WHILE, CALL_ONCE, CALL, VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE.

Facts of the TFLite kernels of IF and WHILE: the subgraphs are prepared with the operator, and its outputs have fixed shapes if
theirs have (for IF, the same in both branches; for WHILE, those of the loop's inputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from npu.graph.dtype import DType
from npu.numerics.arrays import Array
from npu.runtime.implementation import Implementation
from npu.runtime.operator import OperatorNode, Run
from npu.runtime.tensor import RuntimeTensor

FixedShapes = list[tuple[int, ...]]


def _store(node: OperatorNode, values: Sequence[Array]) -> None:
    for position, value in enumerate(values):
        node.set_shape(value.shape, position)
        node.output(position).array[...] = value


def _prepare(
    node: OperatorNode, index: int, arguments: Sequence[RuntimeTensor], results: int | None = None
) -> FixedShapes | None:
    """Prepare a subgraph for these arguments; its output shapes, None if they are known only in the run."""
    given, made = node.services.signature_of(index)
    if [t.dtype for t in arguments] != given:
        types = _names(t.dtype for t in arguments)
        raise node.fail(f"inputs must have the types {_names(given)} of subgraph {index}, got {types}")
    if results is not None and len(made) != results:
        raise node.fail(f"subgraph {index} must have {results} outputs, got {len(made)}")
    if results == len(node.outputs) and results and made != [t.dtype for t in node.outputs]:
        types = _names(t.dtype for t in node.outputs)
        raise node.fail(f"outputs must have the types {_names(made)} of subgraph {index}, got {types}")
    return node.services.prepare_subgraph(index, [t.shape for t in arguments])


def _names(types: Iterable[DType]) -> str:
    return f"[{', '.join(str(kind) for kind in types)}]"


def _fix_shapes(node: OperatorNode, shapes: FixedShapes | None) -> None:
    """Give the outputs these shapes, or declare them dynamic."""
    for position in range(len(node.outputs)):
        if shapes is None:
            node.set_dynamic(position)
        else:
            node.set_shape(shapes[position], position)


def build_if(node: OperatorNode) -> Run:
    condition, a = node.input(0), node.attributes
    arguments = [node.input(i) for i in range(1, len(node.inputs))]
    if condition.elements != 1:
        raise node.fail(f"condition must have one element, got shape {list(condition.shape)}")
    then = _prepare(node, a.then_subgraph_index, arguments, len(node.outputs))
    other = _prepare(node, a.else_subgraph_index, arguments, len(node.outputs))
    _fix_shapes(node, then if then == other else None)

    def run() -> None:
        chosen = a.then_subgraph_index if bool(node.scalar(condition)) else a.else_subgraph_index
        _store(node, node.services.run_subgraph(chosen, [t.array for t in arguments]))

    return run


def build_while(node: OperatorNode) -> Run:
    a = node.attributes
    arguments = [node.input(i) for i in range(len(node.inputs))]
    limit = node.options.while_limit
    if a.cond_subgraph_index == a.body_subgraph_index or len(node.outputs) != len(arguments):
        raise node.fail("condition and body must be two subgraphs, and inputs as many as outputs, got others")
    if node.services.signature_of(a.cond_subgraph_index)[1] != [DType.BOOL]:
        raise node.fail(f"condition subgraph {a.cond_subgraph_index} must have one bool output, got others")
    _prepare(node, a.cond_subgraph_index, arguments)
    shapes = _prepare(node, a.body_subgraph_index, arguments, len(arguments))
    _fix_shapes(node, shapes if shapes == [t.shape for t in arguments] else None)

    def goes_on(values: Sequence[Array]) -> bool:
        (answer,) = node.services.run_subgraph(a.cond_subgraph_index, values)
        if answer.size != 1:
            raise node.fail(f"condition must have one element, got shape {list(answer.shape)}")
        return bool(answer.reshape(-1)[0])

    def run() -> None:
        values, count = [tensor.array for tensor in arguments], 0
        while goes_on(values):
            if count == limit:
                raise node.fail(f"the loop must end within {limit} iterations (option while_limit), got more")
            values, count = node.services.run_subgraph(a.body_subgraph_index, values), count + 1
        _store(node, values)

    return run


def build_call(node: OperatorNode) -> Run:
    arguments = [node.input(i) for i in range(len(node.inputs))]
    _fix_shapes(node, _prepare(node, node.attributes.subgraph, arguments, len(node.outputs)))

    def run() -> None:
        _store(node, node.services.run_subgraph(node.attributes.subgraph, [t.array for t in arguments]))

    return run


def build_call_once(node: OperatorNode) -> Run:
    index = node.attributes.init_subgraph_index
    given, made = node.services.signature_of(index)
    if given or made:
        raise node.fail(f"subgraph {index} must have neither inputs nor outputs, got {len(given)} and {len(made)}")
    return lambda: node.services.run_once(index)


def build_var_handle(node: OperatorNode) -> Run:
    output, a = node.output(), node.attributes
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
