# ruff: noqa
"""Resize the batch, strictly and freely, and write through views: sys.argv is the model, with two inputs of any batch."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter

with open(sys.argv[1], "rb") as file:
    interpreter = Interpreter(model_content=file.read(), num_threads=1, experimental_default_delegate_latest_features=True)
first, second = interpreter.get_input_details()
for batch in (1, 4, 2):
    for detail in (first, second):
        interpreter.resize_tensor_input(detail["index"], [batch, *detail["shape"][1:]], strict=True)
    interpreter.allocate_tensors()
    print("inputs", [detail["shape"].tolist() for detail in interpreter.get_input_details()])
    write = interpreter.tensor(first["index"])
    write()[:] = np.arange(batch * 4, dtype=np.float32).reshape(batch, 4)
    interpreter.tensor(second["index"])().fill(0.5)
    interpreter.invoke()
    for detail in interpreter.get_output_details():
        read = interpreter.tensor(detail["index"])
        print(detail["name"], detail["shape"].tolist(), detail["shape_signature"].tolist(), read().tolist(), read().dtype)
held = interpreter.tensor(first["index"])()
row = held[0]
del held
for call in (interpreter.invoke, interpreter.allocate_tensors, lambda: interpreter.resize_tensor_input(0, [3, 4])):
    try:
        call()
    except RuntimeError:
        print("a view is held")
del row
interpreter.invoke()
print(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).sum())
