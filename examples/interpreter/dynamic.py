"""A model whose output shape depends on the data: python dynamic.py MODEL.tflite."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1])
interpreter.allocate_tensors()
detail = interpreter.get_input_details()[0]
for seed in range(3):
    mask = np.random.default_rng(seed).integers(0, 2, detail["shape"]).astype(detail["dtype"])
    interpreter.tensor(detail["index"])()[...] = mask
    interpreter.invoke()
    found = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    print(found.dtype, found.shape, found.tolist())
