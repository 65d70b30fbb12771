# ruff: noqa
"""What an application catches when it makes mistakes: sys.argv is a model with two inputs of any batch."""

import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter


def attempt(what, call):
    try:
        result = call()
    except ValueError:
        print(what, "ValueError")
    except RuntimeError:
        print(what, "RuntimeError")
    except TypeError:
        print(what, "TypeError")
    else:
        print(what, "works", type(result).__name__)


one = np.ones((1, 4), np.float32)
attempt("no model", Interpreter)
attempt("two models", lambda: Interpreter(sys.argv[1], b"TFL3"))
attempt("no such file", lambda: Interpreter("/nowhere/model.tflite"))
attempt("no flatbuffer", lambda: Interpreter(model_content=b"This is text, and not a model of any kind."))
attempt("no threads", lambda: Interpreter(sys.argv[1], num_threads=0))
attempt("half a thread", lambda: Interpreter(sys.argv[1], num_threads=0.5))
attempt("no resolver", lambda: Interpreter(sys.argv[1], experimental_op_resolver_type="fast"))
interpreter = Interpreter(sys.argv[1])
attempt("invoke first", interpreter.invoke)
attempt("read first", lambda: interpreter.get_tensor(0))
attempt("write first", lambda: interpreter.set_tensor(0, one))
interpreter.allocate_tensors()
attempt("types", lambda: interpreter.set_tensor(0, one.astype(np.float64)))
attempt("shapes", lambda: interpreter.set_tensor(0, np.ones((2, 4), np.float32)))
attempt("ranks", lambda: interpreter.set_tensor(0, np.ones(4, np.float32)))
attempt("a list", lambda: interpreter.set_tensor(0, [[1, 2, 3, 4]]))
attempt("write nowhere", lambda: interpreter.set_tensor(77, one))
attempt("read nowhere", lambda: interpreter.get_tensor(77))
attempt("read before the first", lambda: interpreter.get_tensor(-3))
attempt("read elsewhere", lambda: interpreter.get_tensor(0, 5))
attempt("resize nowhere", lambda: interpreter.resize_tensor_input(77, [1, 4]))
attempt("resize strictly", lambda: interpreter.resize_tensor_input(0, [1, 9], strict=True))
attempt("resize to another rank strictly", lambda: interpreter.resize_tensor_input(0, [9], strict=True))
attempt("describe elsewhere", lambda: interpreter.get_tensor_details(3))
attempt("signature", lambda: interpreter.get_signature_runner("nothing"))
attempt("signature by number", lambda: interpreter.get_signature_runner(3))
runner = interpreter.get_signature_runner()
attempt("too few", lambda: runner(a=one))
attempt("too many", lambda: runner(a=one, b=one, c=one))
attempt("wrong name", lambda: runner(a=one, c=one))
attempt("argument type", lambda: runner(a=one, b=one.astype(np.int8)))
attempt("right", lambda: runner(a=one, b=one))
interpreter = Interpreter(sys.argv[1])
interpreter.allocate_tensors()
interpreter.resize_tensor_input(0, [1, 3])
attempt("run after a resize", interpreter.invoke)
attempt("shapes that do not fit", interpreter.allocate_tensors)
