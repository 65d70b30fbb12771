# ruff: noqa
"""Classify images with a quantized network: sys.argv is the model; random images stand for files."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

interpreter = Interpreter(model_path=sys.argv[1], num_threads=2, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
interpreter.allocate_tensors()
(ifm,) = interpreter.get_input_details()
(ofm,) = interpreter.get_output_details()
scale, zero_point = ifm["quantization"]
out_scale, out_zero_point = ofm["quantization"]
rng = np.random.default_rng(1)
for number in range(3):
    image = rng.random(ifm["shape"][1:]).astype(np.float32)
    quantized = np.clip(np.round(image / scale) + zero_point, -128, 127) if scale else image
    interpreter.set_tensor(ifm["index"], quantized.astype(ifm["dtype"])[np.newaxis])
    interpreter.invoke()
    scores = interpreter.get_tensor(ofm["index"])[0]
    probabilities = (scores.astype(np.float32) - out_zero_point) * out_scale if out_scale else scores
    top = np.argsort(-probabilities, kind="stable")[:3]
    print(number, [(int(i), float(probabilities[i])) for i in top], scores.dtype, scores.shape)
