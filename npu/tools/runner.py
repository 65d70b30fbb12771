"""Interpreters and inputs for tools: a model file with whatever delegates the parameters ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npu.errors import UserError
from npu.graph.graph import Model
from npu.numerics.arrays import Array
from npu.records import dataclass
from npu.runtime.batch import infer_many
from npu.runtime.delegate import Delegate, SimpleDelegate
from npu.runtime.interpreter import CpuInterpreter, OpResolverType
from npu.runtime.operator import LOOP_LIMIT, RuntimeOptions
from npu.tflite.reader import read_model
from npu.tools.parameters import ToolParameters
from npu.tools.registrar import choose, make_delegates


@dataclass(frozen=True, slots=True)
class Runner:
    """An interpreter with tensors allocated, and lines that say which delegates were asked for and what each took."""

    interpreter: CpuInterpreter
    log: tuple[str, ...]
    delegation: tuple[str, ...]
    others: tuple[CpuInterpreter, ...] = ()
    """More interpreters of the model, for inferences at the same time."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Which delegates were asked for, and what each took."""
        return (*self.log, *self.delegation)

    @property
    def interpreters(self) -> tuple[CpuInterpreter, ...]:
        return (self.interpreter, *self.others)

    def run_each(self, examples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Outputs of inferences that do not depend on one another."""
        return infer_many(self.interpreters, examples)

    def close(self) -> None:
        """Close all interpreters."""
        for interpreter in self.interpreters:
            interpreter.close()


def open_runner(path: Path, parameters: ToolParameters, *, num_threads: int = 1) -> Runner:
    """The model of a file with the delegates that the parameters ask for, tensors allocated."""
    return _open(path, parameters, num_threads, ())


def open_batch_runner(path: Path, parameters: ToolParameters, *, at_a_time: int = 1) -> Runner:
    """The same for `at_a_time` inferences side by side, of one thread each."""
    return _open(path, parameters, 1, range(1, at_a_time))


def _open(path: Path, parameters: ToolParameters, num_threads: int, others: Sequence[int]) -> Runner:
    chosen = choose(read_model(path), path.name, parameters, num_threads=num_threads)
    interpreter = open_interpreter(chosen.model, chosen.delegates, num_threads=num_threads)
    more = tuple(open_interpreter(chosen.model, make_delegates(parameters)) for _ in others)
    return Runner(interpreter, chosen.log, delegation(interpreter, chosen.delegates), more)


def open_interpreter(
    model: Model, delegates: Sequence[Delegate | SimpleDelegate], *, num_threads: int = 1, preserve_all_tensors: bool = False
) -> CpuInterpreter:
    """An interpreter with exactly these delegates, tensors allocated."""
    interpreter = CpuInterpreter(
        model=model,
        num_threads=num_threads,
        experimental_delegates=delegates,
        experimental_preserve_all_tensors=preserve_all_tensors,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        options=RuntimeOptions(while_limit=LOOP_LIMIT),
    )
    interpreter.allocate_tensors()
    return interpreter


def random_inputs(interpreter: CpuInterpreter, generator: np.random.Generator, *, is_gaussian: bool = False) -> list[Array]:
    """Inputs of subgraph 0: floats uniform in [-1, 1) or standard normal; integers over their range, or normal around zero.

    A Gaussian integer input is the quantized value of a standard normal number where the tensor has a scale.
    """
    return [_random(detail, generator, is_gaussian) for detail in interpreter.get_input_details()]


def _random(detail: dict[str, Any], generator: np.random.Generator, is_gaussian: bool) -> Array:
    shape, dtype = tuple(int(size) for size in detail["shape"]), np.dtype(detail["dtype"])
    if dtype.kind == "f":
        return (generator.standard_normal(shape) if is_gaussian else generator.uniform(-1, 1, shape)).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(generator.integers(0, 2, shape), bool)
    if dtype.kind not in "iu":
        raise UserError(f"input '{detail['name']}': must be numbers to be made at random, got {dtype}; give it with --input")
    limits = np.iinfo(dtype)
    scale, zero_point = detail["quantization"]
    if is_gaussian and scale:
        values = np.round(generator.standard_normal(shape) / scale) + zero_point
        return np.asarray(np.clip(values, limits.min, limits.max), dtype)
    if dtype.itemsize > 2:
        return np.asarray(generator.integers(0, 100, shape), dtype)  # indices and sizes: small and not negative
    return np.asarray(generator.integers(limits.min, limits.max, shape, dtype, endpoint=True))


def set_inputs(interpreter: CpuInterpreter, inputs: Sequence[Array]) -> None:
    """Give subgraph 0 its inputs; UserError for a wrong number, InterpreterError for a wrong shape or type."""
    details = interpreter.get_input_details()
    if len(inputs) != len(details):
        raise UserError(f"inputs: must be {len(details)}, one for each input of the model, got {len(inputs)}")
    for detail, value in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)


def outputs(interpreter: CpuInterpreter) -> list[Array]:
    """The outputs of subgraph 0."""
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def real_values(array: Array, detail: dict[str, Any]) -> Array:
    """Float64 values of a tensor: dequantized if it has a scale. UserError for strings and complex numbers."""
    if array.dtype.kind not in "iufb":
        raise UserError(f"output '{detail['name']}': must be real numbers, got {array.dtype}")
    scale, zero_point = detail["quantization"]
    values = array.astype(np.float64)
    return (values - zero_point) * scale if scale else values


def delegation(interpreter: CpuInterpreter, delegates: Sequence[Delegate | SimpleDelegate]) -> tuple[str, ...]:
    """What each delegate took of subgraph 0, one line a delegate, and which operators stayed between its partitions."""
    plan = interpreter.execution_plan()
    total = sum(len(step["replaces"]) or 1 for step in plan)
    return tuple(_share(plan, name, total) for name in dict.fromkeys(delegate.name() for delegate in delegates))


def _share(plan: list[dict[str, Any]], name: str, total: int) -> str:
    places = [place for place, step in enumerate(plan) if step["delegate"] == name]
    if not places:
        return f"{name}: none of {count_of(total, 'node')}"
    nodes = sum(len(plan[place]["replaces"]) for place in places)
    crossing = sum(len(plan[place]["inputs"]) + len(plan[place]["outputs"]) for place in places)
    between = sorted({step["op_name"] for step in plan[places[0] : places[-1]] if step["delegate"] != name})
    split = f", split by {', '.join(between)}" if between else ""
    return (
        f"{name}: {nodes} of {count_of(total, 'node')} in {count_of(len(places), 'partition')}, "
        f"{count_of(crossing, 'tensor')} cross its border{split}"
    )


def count_of(number: int, what: str) -> str:
    """A number with its noun, as in "1 node" and "2 nodes"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
