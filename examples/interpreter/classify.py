"""Classify an image with the digits model: python classify.py MODEL.tflite IMAGE.npy."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

interpreter = Interpreter(model_path=sys.argv[1], num_threads=1, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
interpreter.allocate_tensors()
(detail,) = interpreter.get_input_details()
image = np.load(sys.argv[2]).reshape(detail["shape"])
if image.dtype != detail["dtype"]:
    scale, zero_point = detail["quantization"]
    image = np.clip(np.round(image / scale) + zero_point, -128, 127).astype(detail["dtype"])
interpreter.set_tensor(detail["index"], image)
interpreter.invoke()
output = interpreter.get_output_details()[0]
scores = interpreter.get_tensor(output["index"])[0]
scale, zero_point = output["quantization"]
for digit in np.argsort(-scores.astype(int), kind="stable")[:3]:
    print(digit, f"{(int(scores[digit]) - zero_point) * scale:.4f}")
