# ruff: noqa
"""List signatures, describe and call them, mix them with plain calls: sys.argv is the model."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

interpreter = Interpreter(sys.argv[1], experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
rng = np.random.default_rng(3)
for key, names in interpreter.get_signature_list().items():
    print(key, names)
    runner = interpreter.get_signature_runner(key)
    described = {**runner.get_input_details(), **runner.get_output_details()}
    for name, detail in described.items():
        parameters = {k: (v.tolist() if hasattr(v, "tolist") else v) for k, v in detail["quantization_parameters"].items()}
        print(" ", name, detail["name"], detail["index"], detail["shape"].tolist(), detail["dtype"].__name__, parameters)
    for _ in range(2):
        arguments = {}
        for name, detail in runner.get_input_details().items():
            values = rng.integers(-5, 5, detail["shape"])
            arguments[name] = values.astype(detail["dtype"])
        for name, value in runner(**arguments).items():
            print(" ", name, value.dtype, value.shape, value.ravel()[:8].tolist())
interpreter = Interpreter(sys.argv[1], experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
interpreter.allocate_tensors()
for detail in interpreter.get_input_details():
    interpreter.set_tensor(detail["index"], np.ones(detail["shape"], detail["dtype"]))
interpreter.invoke()
print([interpreter.get_tensor(detail["index"]).ravel()[:8].tolist() for detail in interpreter.get_output_details()])
