# ruff: noqa
"""Print all that the interpreter says about a model: sys.argv is the model."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def plain(value):
    if isinstance(value, dict):
        return {key: plain(item) for key, item in sorted(value.items())}
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return getattr(value, "__name__", value)


interpreter = Interpreter(
    model_path=sys.argv[1],
    experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    experimental_disable_delegate_clustering=True,
)
print(interpreter.num_subgraphs(), interpreter.experimental_compress_quantization_zero_points)
for moment in ("before", "after"):
    print(moment)
    for detail in interpreter.get_input_details() + interpreter.get_output_details():
        print(plain(detail), type(detail["index"]).__name__, [type(part).__name__ for part in detail["quantization"]])
    interpreter.allocate_tensors()
for detail in interpreter.get_tensor_details():
    if detail["name"]:  # LiteRT adds scratch tensors, without names
        print(plain(detail))
for detail in interpreter._get_ops_details():
    print(plain(detail))
