"""Call every signature of a model by name: python signatures.py MODEL.tflite."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1])
for key, names in sorted(interpreter.get_signature_list().items()):
    print(key, names["inputs"], names["outputs"])
    runner = interpreter.get_signature_runner(key)
    details = runner.get_input_details()
    arguments = {name: np.full(details[name]["shape"], 1.5, details[name]["dtype"]) for name in names["inputs"]}
    for name, value in sorted(runner(**arguments).items()):
        print(" ", name, value.dtype, value.shape, value.ravel().tolist())
try:
    interpreter.get_signature_runner("no such signature")
except ValueError:
    print("there is no such signature")
