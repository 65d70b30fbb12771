"""Run a model with batches of several sizes: python resize.py MODEL.tflite."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(model_path=sys.argv[1])
index = interpreter.get_input_details()[0]["index"]
tail = list(interpreter.get_input_details()[0]["shape"][1:])
for batch in (1, 3, 2):
    interpreter.resize_tensor_input(index, [batch, *tail])
    interpreter.allocate_tensors()
    values = np.arange(batch * int(np.prod(tail)), dtype=np.float32).reshape(batch, *tail)
    interpreter.set_tensor(index, values)
    interpreter.invoke()
    result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    print(batch, result.shape, result.ravel().tolist())
