# ruff: noqa
"""Feed a model with state frame by frame, reset it, and feed it again: sys.argv is the model."""

import pickle
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

interpreter = Interpreter(
    model_path=sys.argv[1],
    experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
    experimental_preserve_all_tensors=True,
)
interpreter.allocate_tensors()


def play(frames):
    rng = np.random.default_rng(5)
    results = []
    for _ in range(frames):
        for detail in interpreter.get_input_details():
            values = rng.integers(-100, 100, detail["shape"])
            interpreter.set_tensor(
                detail["index"], (values * (0.01 if detail["dtype"] is np.float32 else 1)).astype(detail["dtype"])
            )
        interpreter.invoke()
        results.append([interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()])
    return results


first = play(4)
going_on = play(4)
interpreter.reset_all_variables()
again = play(4)
print(all(np.array_equal(a, b) for x, y in zip(first, again) for a, b in zip(x, y)))
print(len(pickle.dumps((first, going_on, again))) > 0)
for name, runs in (("first", first), ("going on", going_on), ("again", again)):
    print(name, [[output.ravel()[:6].tolist() for output in outputs] for outputs in runs])
