# ruff: noqa
"""Everything the public guide of LiteRT does in Python, one part after the other: sys.argv is the model."""

import sys
from pathlib import Path

import numpy as np

from ai_edge_litert.interpreter import Interpreter, InterpreterWithCustomOps, OpResolverType, load_delegate

MODEL = sys.argv[1]
random = np.random.default_rng(7)


def quantize(values, detail):
    """Real values as the tensor holds them."""
    scale, zero_point = detail["quantization"]
    if not scale:
        return values.astype(detail["dtype"])
    limits = np.iinfo(detail["dtype"])
    return np.clip(np.round(values / scale) + zero_point, limits.min, limits.max).astype(detail["dtype"])


def dequantize(values, detail):
    scale, zero_point = detail["quantization"]
    return (values.astype(np.float32) - zero_point) * scale if scale else values


def show(title, values):
    array = np.asarray(values)
    print(f"{title}: {array.dtype} {array.shape} {array.ravel()[:8].tolist()}")


def make(kind=Interpreter, **options):
    return kind(experimental_op_resolver_type=OpResolverType.BUILTIN_REF, **options)


# Load and run a model
interpreter = make(model_path=MODEL, num_threads=1)
interpreter.allocate_tensors()
input_details = interpreter.get_input_details()
output_details = interpreter.get_output_details()
for detail in [*input_details, *output_details]:
    print(detail["index"], detail["name"], detail["shape"], detail["shape_signature"], detail["dtype"].__name__)
    print(
        " ", detail["quantization"], {key: np.asarray(one).tolist() for key, one in detail["quantization_parameters"].items()}
    )
    print(" ", detail["sparsity_parameters"])
inputs = [quantize(random.standard_normal(tuple(detail["shape"])), detail) for detail in input_details]
for detail, values in zip(input_details, inputs):
    interpreter.set_tensor(detail["index"], values)
interpreter.invoke()
for detail in output_details:
    result = interpreter.get_tensor(detail["index"])
    show(detail["name"], dequantize(result, detail))
    print("  highest", np.argsort(-result.ravel(), kind="stable")[:3].tolist())

# The same from memory, and with views of the tensors in place of copies
from_memory = make(model_content=Path(MODEL).read_bytes())
from_memory.allocate_tensors()
for detail, values in zip(from_memory.get_input_details(), inputs):
    from_memory.tensor(detail["index"])()[...] = values
from_memory.invoke()
for detail in output_details:
    view = from_memory.tensor(detail["index"])
    print("equal", np.array_equal(view(), interpreter.get_tensor(detail["index"])))
    del view

# Signatures
signatures = interpreter.get_signature_list()
for key in sorted(signatures):
    runner = make(model_path=MODEL).get_signature_runner(key)
    details = runner.get_input_details()
    arguments = {name: quantize(np.full(tuple(one["shape"]), 0.5), one) for name, one in sorted(details.items())}
    for name, values in sorted(runner(**arguments).items()):
        show(f"{key} {name}", values)
    print(sorted(details), sorted(runner.get_output_details()))

# Another batch
batch = make(model_path=MODEL)
for detail in batch.get_input_details():
    batch.resize_tensor_input(detail["index"], [2, *detail["shape"][1:]])
batch.allocate_tensors()
for detail, values in zip(batch.get_input_details(), inputs):
    batch.set_tensor(detail["index"], np.concatenate([values, values]))
batch.invoke()
for detail in batch.get_output_details():
    show("batch", batch.get_tensor(detail["index"]))

# What is inside: operators, and every tensor between them
inside = make(InterpreterWithCustomOps, model_path=MODEL, custom_op_registerers=[], experimental_preserve_all_tensors=True)
inside.allocate_tensors()
for detail, values in zip(inside.get_input_details(), inputs):
    inside.set_tensor(detail["index"], values)
inside.invoke()
for op in inside._get_ops_details():
    print(op["index"], op["op_name"], np.asarray(op["inputs"]).tolist(), np.asarray(op["outputs"]).tolist())
    for index in op["outputs"]:
        show("  made", inside.get_tensor(int(index)))
names = [detail["name"] for detail in inside.get_tensor_details() if detail["name"]]  # scratch tensors have none
print(inside._get_op_details(0)["op_name"], names, inside.num_subgraphs())
inside.reset_all_variables()

# A delegate that is not there, and what is refused
try:
    load_delegate("no_such_delegate.so")
except (ValueError, OSError) as error:
    print("no delegate:", isinstance(error, OSError))
for wrong in (
    lambda: interpreter.set_tensor(input_details[0]["index"], np.zeros((9, 9, 9), input_details[0]["dtype"])),
    lambda: interpreter.get_signature_runner("nowhere"),
    lambda: make(model_path="no_such_file.tflite"),
):
    try:
        wrong()
    except ValueError:
        print("refused")
