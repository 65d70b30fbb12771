"""Hostile files: valid plain and compiled models with a few things broken, and a process that gives them to `npu`.

`mutants(first, count)` depends on its numbers alone. `python -m tests.support.hostile FIRST COUNT FOLDER` runs every command on
each of them under a memory limit and writes one JSON line a command: what is about to run, then how it ended.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import io
import json
import resource
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from npu.compiler.block_config import BlockChooser
from npu.errors import UserError
from npu.graph.dtype import DType
from npu.graph.graph import Graph, Model, Op, Quantization, Tensor
from npu.graph.ops import OPS
from npu.graph.placement import OpPlacement, Placement, Violation
from npu.hardware.catalogue import load_variant
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model

from tests.support.random_graphs import OPERATORS, cases, chains
from tests.support.sample_models import SAMPLES

ADDRESS_SPACE_BYTES = 6 << 30
"""Virtual memory of the process: JIT and thread pools reserve a few hundred megabytes before any model is read."""

EXTENTS = (0, 0, 1, 2, 3, 5, 17, 64, 255, 256, 257)
HUGE_EXTENTS = (65535, 65536, 65537, 1 << 28, (1 << 31) - 1, -1, -7)
SCALES = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e38, 3e38, 1e-38, 1e-45, 1e10, 1e-10, 2.0**31, 2.0**-63, 1.0)
ZERO_POINTS = (-129, 128, 255, 1000, -(1 << 31), (1 << 31) - 1, 1 << 40, -128, 127, 0)
INTEGERS = (0, -1, 1, 2, 3, 4, 64, 65, 127, 255, 256, 65535, 65536, (1 << 31) - 1, -(1 << 31))
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e30, 1e-30, 0.5)
WORDS = (0, 1, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x31504F43)
DIGITS = Path(__file__).parents[2] / "examples" / "digits.tflite"

Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file, what was done to it, and the commands that are to be tried on it."""

    name: str
    content: bytes
    commands: tuple[str, ...]


def pick(rng: Rng, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


# Changes to a model. Each returns a changed model; what cannot be changed comes back as it is.


def _with_tensor(model: Model, rng: Rng, change: Callable[[Tensor, Rng], Tensor]) -> Model:
    number = int(rng.integers(len(model.graphs)))
    graph = model.graphs[number]
    if not graph.tensors:
        return model
    index = int(rng.integers(len(graph.tensors)))
    tensors = (*graph.tensors[:index], change(graph.tensors[index], rng), *graph.tensors[index + 1 :])
    return _with_graph(model, number, replace(graph, tensors=tensors))


def _with_graph(model: Model, number: int, graph: Graph) -> Model:
    return replace(model, graphs=(*model.graphs[:number], graph, *model.graphs[number + 1 :]))


def _with_op(model: Model, rng: Rng, change: Callable[[Op, Graph, Rng], Op]) -> Model:
    number = int(rng.integers(len(model.graphs)))
    graph = model.graphs[number]
    if not graph.ops:
        return model
    index = int(rng.integers(len(graph.ops)))
    ops = (*graph.ops[:index], change(graph.ops[index], graph, rng), *graph.ops[index + 1 :])
    return _with_graph(model, number, replace(graph, ops=ops))


def _resized(tensor: Tensor, shape: tuple[int, ...], *, keeps_data: bool) -> Tensor:
    data = tensor.data
    elements = int(np.prod([max(extent, 0) for extent in shape], dtype=np.float64))
    if data is not None and not keeps_data and elements <= 1 << 20:
        data = np.resize(data, [max(extent, 0) for extent in shape])
    return replace(tensor, shape=shape, data=data, shape_signature=None)


def extent(tensor: Tensor, rng: Rng) -> Tensor:
    if not tensor.shape:
        return tensor
    values = HUGE_EXTENTS if rng.random() < 0.25 else EXTENTS
    shape = list(tensor.shape)
    shape[int(rng.integers(len(shape)))] = pick(rng, values)
    return _resized(tensor, tuple(shape), keeps_data=rng.random() < 0.2)


def rank(tensor: Tensor, rng: Rng) -> Tensor:
    shape = list(tensor.shape)
    if shape and rng.random() < 0.5:
        shape.pop(int(rng.integers(len(shape))))
    else:
        shape.insert(int(rng.integers(len(shape) + 1)), pick(rng, (0, 1, 1, 1, 2)))
    return _resized(tensor, tuple(shape), keeps_data=rng.random() < 0.5)


def dtype(tensor: Tensor, rng: Rng) -> Tensor:
    new = pick(rng, [item for item in DType if item.numpy is not None])
    data = tensor.data
    if data is not None and data.dtype.kind in "iufb" and rng.random() < 0.8:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = data.astype(new.numpy)
    return replace(tensor, dtype=new, data=data)


def scale(tensor: Tensor, rng: Rng) -> Tensor:
    if tensor.quantization is None:
        count = pick(rng, (1, 1, 2, 7))
        return replace(tensor, quantization=Quantization(np.full(count, 0.1, np.float32), np.zeros(count, np.int64), 0))
    scales = tensor.quantization.scales.copy()
    if scales.size:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scales[int(rng.integers(scales.size))] = pick(rng, SCALES)
    if rng.random() < 0.2:
        scales = scales[:-1] if rng.random() < 0.5 else np.append(scales, np.float32(0.1)).astype(np.float32)
    return replace(tensor, quantization=replace(tensor.quantization, scales=scales))


def zero_point(tensor: Tensor, rng: Rng) -> Tensor:
    if tensor.quantization is None:
        return tensor
    points = tensor.quantization.zero_points.copy()
    if points.size:
        points[int(rng.integers(points.size))] = pick(rng, ZERO_POINTS)
    axis = pick(rng, (-1, 0, 1, 3, 9)) if rng.random() < 0.3 else tensor.quantization.axis
    return replace(tensor, quantization=replace(tensor.quantization, zero_points=points, axis=axis))


def no_quantization(tensor: Tensor, _rng: Rng) -> Tensor:
    return replace(tensor, quantization=None)


def contents(tensor: Tensor, rng: Rng) -> Tensor:
    data = tensor.data
    if data is None:
        return replace(tensor, data=np.zeros([min(max(n, 0), 16) for n in tensor.shape], tensor.dtype.numpy or np.uint8))
    if rng.random() < 0.2:
        return replace(tensor, data=None)
    if not data.size or data.dtype.kind not in "iuf":
        return tensor
    data = data.copy()
    values = FLOATS if data.dtype.kind == "f" else INTEGERS
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.flat[int(rng.integers(data.size))] = np.array(pick(rng, values)).astype(data.dtype)
    return replace(tensor, data=data)


def variable(tensor: Tensor, _rng: Rng) -> Tensor:
    return replace(tensor, is_variable=not tensor.is_variable)


def _indices(indices: tuple[int, ...], count: int, rng: Rng, *, optional: bool) -> tuple[int, ...]:
    changed = list(indices)
    way = int(rng.integers(5))
    any_tensor = int(rng.integers(count)) if count else 0
    if way == 0 and changed:
        changed.pop(int(rng.integers(len(changed))))
    elif way == 1:
        changed.insert(int(rng.integers(len(changed) + 1)), any_tensor)
    elif way == 2 and changed:
        changed.append(pick(rng, changed))
    elif changed:
        odd = (-1,) if optional and rng.random() < 0.7 else (-1, -2, count, 1 << 30)
        changed[int(rng.integers(len(changed)))] = pick(rng, odd) if way == 3 else any_tensor
    return tuple(changed)


def op_inputs(op: Op, graph: Graph, rng: Rng) -> Op:
    return replace(op, inputs=_indices(op.inputs, len(graph.tensors), rng, optional=True))


def op_outputs(op: Op, graph: Graph, rng: Rng) -> Op:
    return replace(op, outputs=_indices(op.outputs, len(graph.tensors), rng, optional=False))


def op_kind(op: Op, _graph: Graph, rng: Rng) -> Op:
    if rng.random() < 0.2:
        code = pick(rng, ("ethos-u", "", "my op", "TFLite_Detection_PostProcess"))
        options = pick(rng, (b"", b"\x01\x04\x01", bytes(range(40))))
        return replace(op, kind="CUSTOM", custom_code=code, custom_options=options, attributes=None)
    kind = pick(rng, [*OPERATORS, *(item.name for item in OPS if item.name != "CUSTOM")])
    return replace(op, kind=kind, custom_code=None)


def op_version(op: Op, _graph: Graph, rng: Rng) -> Op:
    return replace(op, version=pick(rng, (0, 1, 2, 5, 9, 1000)))


def op_attributes(op: Op, _graph: Graph, rng: Rng) -> Op:
    attributes = op.attributes
    if attributes is None or rng.random() < 0.1:
        return replace(op, attributes=None)
    fields = dataclasses.fields(attributes)
    if not fields:
        return op
    chosen = pick(rng, fields)
    return replace(op, attributes=replace(attributes, **{chosen.name: _odd(getattr(attributes, chosen.name), rng)}))


def _odd(value: Any, rng: Rng) -> Any:
    if isinstance(value, enum.Enum):
        return pick(rng, list(type(value)))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return pick(rng, INTEGERS)
    if isinstance(value, float):
        return float(pick(rng, FLOATS))
    if isinstance(value, tuple):
        return tuple(pick(rng, INTEGERS) for _ in range(int(rng.integers(6))))
    return value


def graph_outputs(model: Model, rng: Rng) -> Model:
    graph = model.graphs[0]
    return _with_graph(model, 0, replace(graph, outputs=_indices(graph.outputs, len(graph.tensors), rng, optional=False)))


def graph_inputs(model: Model, rng: Rng) -> Model:
    graph = model.graphs[0]
    return _with_graph(model, 0, replace(graph, inputs=_indices(graph.inputs, len(graph.tensors), rng, optional=False)))


def op_order(model: Model, rng: Rng) -> Model:
    graph = model.graphs[0]
    ops = list(graph.ops)
    if len(ops) < 2 or rng.random() < 0.3:
        ops = [*ops, *ops[:1]] if rng.random() < 0.5 else ops[:-1]
    else:
        rng.shuffle(ops)  # type: ignore[arg-type]
    return _with_graph(model, 0, replace(graph, ops=tuple(ops)))


def signatures(model: Model, rng: Rng) -> Model:
    if not model.signatures:
        return model
    first = replace(model.signatures[0], graph=pick(rng, (0, 1, 7, -1)), inputs={"x": pick(rng, (0, 1, 99, -1))})
    return replace(model, signatures=(first, *model.signatures[1:]))


def metadata(model: Model, rng: Rng) -> Model:
    """Words of an entry changed, cut or removed."""
    if not model.metadata:
        return replace(model, metadata={"OfflineMemoryAllocation": struct.pack("<4i", 0, 1, 1, pick(rng, INTEGERS))})
    name = pick(rng, list(model.metadata))
    content = bytearray(model.metadata[name])
    way = rng.random()
    if way < 0.2 or len(content) < 4:
        return replace(model, metadata={key: value for key, value in model.metadata.items() if key != name})
    if way < 0.4:
        content = content[: int(rng.integers(len(content)))]
    else:
        position = int(rng.integers(len(content) // 4)) * 4
        content[position : position + 4] = struct.pack("<I", pick(rng, INTEGERS) & 0xFFFFFFFF)
    return replace(model, metadata={**model.metadata, name: bytes(content)})


def payload(model: Model, rng: Rng) -> Model:
    """Words of a command stream changed, inserted, removed or cut."""
    graph = model.graphs[0]
    for op in graph.ops:
        if op.custom_code == "ethos-u" and op.inputs and 0 <= op.inputs[0] < len(graph.tensors):
            tensor = graph.tensors[op.inputs[0]]
            if tensor.data is None or tensor.data.size < 64:
                continue
            content = np.frombuffer(tensor.data.tobytes(), np.uint8)
            words = content[: content.size // 4 * 4].view("<u4").copy()
            for _ in range(int(rng.integers(1, 4))):
                words = _damaged(words, rng)
            data = words.view(np.uint8)
            changed = replace(tensor, data=data, shape=(data.size,))
            tensors = (*graph.tensors[: op.inputs[0]], changed, *graph.tensors[op.inputs[0] + 1 :])
            return _with_graph(model, 0, replace(graph, tensors=tensors))
    return model


def _damaged(words: np.ndarray, rng: Rng) -> np.ndarray:
    position, way = int(rng.integers(words.size)), rng.random()
    if way < 0.45:
        words[position] ^= np.uint32(1 << int(rng.integers(32)))
    elif way < 0.6:
        words[position] = pick(rng, WORDS)
    elif way < 0.75:
        words[position] = words[int(rng.integers(words.size))]
    elif way < 0.85:
        words = np.delete(words, position)
    elif way < 0.95:
        words = np.insert(words, position, words[int(rng.integers(words.size))])
    else:
        words = words[: max(position, 16)].copy()
    return words


def scratch(model: Model, rng: Rng) -> Model:
    """The size of the arena tensor changed."""
    graph = model.graphs[0]
    for index, tensor in enumerate(graph.tensors):
        if tensor.name.startswith("ethos-u/scratch") and tensor.shape:
            shape = (pick(rng, (0, 1, 16, tensor.shape[0] // 2, tensor.shape[0] - 1, 1 << 30, (1 << 31) - 1)),)
            changed = replace(tensor, shape=shape)
            tensors = (*graph.tensors[:index], changed, *graph.tensors[index + 1 :])
            return _with_graph(model, 0, replace(graph, tensors=tensors))
    return model


_TENSOR_CHANGES = (extent, extent, rank, dtype, scale, scale, zero_point, no_quantization, contents, contents, variable)
_OP_CHANGES = (op_inputs, op_outputs, op_kind, op_version, op_attributes, op_attributes, op_attributes)
_MODEL_CHANGES = (graph_outputs, graph_inputs, op_order, signatures, metadata)
_COMPILED_CHANGES = (payload, payload, payload, metadata, scratch)


def _change(model: Model, rng: Rng, *, is_compiled: bool) -> tuple[Model, str]:
    kind = rng.random()
    if is_compiled and kind < 0.6:
        one = pick(rng, _COMPILED_CHANGES)
        return one(model, rng), one.__name__
    if kind < 0.75:
        if rng.random() < 0.55:
            chosen = pick(rng, _TENSOR_CHANGES)
            return _with_tensor(model, rng, chosen), chosen.__name__
        chosen = pick(rng, _OP_CHANGES)
        return _with_op(model, rng, chosen), chosen.__name__
    chosen = pick(rng, _MODEL_CHANGES)
    return chosen(model, rng), chosen.__name__


def changed_model(model: Model, rng: Rng) -> Model:
    """A model with one to three changes of its tensors and operators, which stay of their kind."""
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3)))):
        if rng.random() < 0.55:
            model = _with_tensor(model, rng, pick(rng, _TENSOR_CHANGES))
        else:
            model = _with_op(model, rng, pick(rng, [change for change in _OP_CHANGES if change is not op_kind]))
    return model


# Valid files to start from


@functools.cache
def _plain(number: int) -> tuple[str, bytes]:
    rng = np.random.default_rng([number, 5])
    way = number % 8
    if way == 6:
        return "digits", DIGITS.read_bytes()
    if way == 7:
        name = pick(rng, sorted(SAMPLES))
        return name, SAMPLES[name]()
    case = chains(1, number)[0] if way == 5 else cases(OPERATORS[number % len(OPERATORS)], 1, number)[0]
    return case.name, write_model(case.model)


@functools.cache
def _compiled(number: int) -> tuple[str, bytes]:
    from npu.api import compile

    name, content = _plain(number)
    return f"compiled {name}", compile(content, "ethos-u65-256" if number % 3 == 0 else "ethos-u55-64").content


def broken(content: bytes, rng: Rng) -> bytes:
    """A valid plain file with one to three changes."""
    model = read_model(content)
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3)))):
        model, _ = _change(model, rng, is_compiled=False)
    try:
        return write_model(model)
    except (UserError, OverflowError, ValueError, struct.error):
        return _overwritten(content, rng)


def mutant(number: int) -> Mutant:
    """File `number`: one or more changes to a valid file, or bytes overwritten in it."""
    rng = np.random.default_rng([number, 9])
    is_compiled = number % 3 == 2
    base = number // 3 % 40
    name, content = _compiled(base) if is_compiled else _plain(base + 40 * (number // 400))
    commands = ("run", "verify", "disasm", "check") if is_compiled else ("check", "compile", "run", "force")
    if number % 10 == 9:
        return Mutant(f"{number}: {name}, bytes", _overwritten(content, rng), commands)
    model, done = read_model(content), []
    for _ in range(int(pick(rng, (1, 1, 1, 2, 3)))):
        model, what = _change(model, rng, is_compiled=is_compiled)
        done.append(what)
    try:
        changed = write_model(model)
    except (UserError, OverflowError, ValueError, struct.error):
        changed = _overwritten(content, rng)
        done = ["bytes"]
    return Mutant(f"{number}: {name}, {', '.join(done)}", changed, commands)


def _overwritten(content: bytes, rng: Rng) -> bytes:
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        position = int(rng.integers(len(data)))
        if rng.random() < 0.5:
            data[position] = int(rng.integers(256))
        else:
            word = struct.pack("<I", pick(rng, WORDS))
            data[position : position + 4] = word[: len(data) - position]
    return bytes(data[: int(rng.integers(len(data)))] if rng.random() < 0.1 else data)


# The process that runs them


def _force(content: bytes) -> int:
    """Compile with every operator that has a lowering on the NPU, whatever the rules say."""
    from npu.compiler.compiler import compile_model
    from npu.compiler.lower.table import LOWERED

    try:
        model = read_model(content)
        cpu = (Violation("TEST", "left out", "-", "-"),)
        ops = tuple(
            OpPlacement(number, index, op.kind, op.name, () if op.kind in LOWERED else cpu)
            for number, graph in enumerate(model.graphs)
            for index, op in enumerate(graph.ops)
        )
        compile_model(model, Placement("test", ops), BlockChooser(load_variant("ethos-u55-128")))
    except UserError as error:
        sys.stderr.write(f"npu: error: {error}\n")
        return 1
    return 0


def attack(one: Mutant, folder: Path) -> Iterator[dict[str, Any]]:
    """Run every command in this process; yields a record before and after each."""
    from npu.cli.main import main

    path = folder / "model.tflite"
    path.write_bytes(one.content)
    for command in one.commands:
        yield {"name": one.name, "command": command}
        arguments = [command, str(path), *(["-o", str(folder / "out.tflite")] if command == "compile" else [])]
        out, err = io.StringIO(), io.StringIO()
        start = time.monotonic()
        failure = ""
        code: int | None = None
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = _force(one.content) if command == "force" else main(arguments)
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            failure = f"{type(error).__name__}: {error} at {frame.filename}:{frame.lineno}"
        text = err.getvalue()
        is_error = command != "verify" and code == 1 and not text.startswith(("npu: error: ", "npu: check failed"))
        if not failure and (
            code not in ((0, 1, 3) if command in ("verify", "check") else (0, 1)) or is_error or "Traceback" in text
        ):
            failure = f"exit code {code}: {text[:300]}"
        seconds = round(time.monotonic() - start, 2)
        yield {"name": one.name, "command": command, "code": code, "failure": failure, "seconds": seconds, "text": text[:200]}


def run(first: int, count: int, folder: Path) -> None:
    """Attack with mutants `first` to `first + count - 1`; JSON lines to standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    warnings.simplefilter("error")
    for number in range(first, first + count):
        for record in attack(mutant(number), folder):
            sys.stdout.write(json.dumps(record) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
