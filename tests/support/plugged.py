"""Delegates that `pytest --delegate NAME` plugs into the operator tests, and how far results may be from the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npu.graph.graph import Model
from npu.runtime.interpreter import CpuInterpreter
from npu.tflite.reader import read_model
from npu.tools.registrar import choose, default_parameters


@dataclass(frozen=True)
class Plugged:
    """The flags to set; how many float steps, at the magnitude of the largest value, and integer steps are allowed more."""

    flags: tuple[str, ...]
    float_steps: int = 0
    integer_steps: int = 0


DELEGATES = {
    "dummy": Plugged(("use_dummy_delegate",)),
    "npu": Plugged(("use_npu",), integer_steps=1),  # rescaling and averaging round differently in hardware
    "xnnpack": Plugged(("use_xnnpack",), float_steps=64),  # sums in another order
}


def plugged_interpreter(content: bytes, name: str) -> CpuInterpreter:
    """An interpreter of the model with the delegate of this name."""
    parameters = default_parameters()
    for flag in DELEGATES[name].flags:
        parameters.set(flag, True)
    chosen = choose(_with_shapes(read_model(content)), "case", parameters)
    return CpuInterpreter(model=chosen.model, experimental_delegates=chosen.delegates)


def _with_shapes(model: Model) -> Model:
    """The model with the shapes that its operators compute: those that test cases declare are placeholders."""
    interpreter = CpuInterpreter(model=model)
    interpreter.allocate_tensors()
    (graph,) = model.graphs
    details = interpreter.get_tensor_details()
    tensors = (replace(t, shape=tuple(d["shape"].tolist())) for t, d in zip(graph.tensors, details, strict=True))
    return replace(model, graphs=(replace(graph, tensors=tuple(tensors)),))
