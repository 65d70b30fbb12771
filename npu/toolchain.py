"""check, compile, run: the composition of the checker, the compiler, the interpreter and the simulator.

The functions take a path or bytes and return values; nothing here prints. The command line is a thin layer over them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from constraints.checker import check as check_model
from npu.compiler.compiled import Compiled as CompiledModel
from npu.compiler.compiler import compile_model
from npu.errors import ConfigError, InterpreterError, ModelError, StreamError
from npu.files import write_atomically
from npu.graph.graph import Graph, Model, Quantization, Tensor
from npu.graph.placement import Placement
from npu.hardware.catalogue import list_variants, load_variant
from npu.hardware.variant import Variant
from npu.isa.decode import decode
from npu.isa.disassemble import disassemble as disassemble_words
from npu.isa.payload import Configuration, config_word, find_target, is_compatible
from npu.operator_map import METADATA_NAME, OperatorMap, map_of_compiled, map_of_file, map_of_placement
from npu.report import Report, compile_report, run_report
from npu.report import check_report as report_of_check
from npu.runtime.interpreter import Interpreter
from npu.tflite.reader import read_model
from npu.tflite.writer import write_model
from sim.container import is_compiled, is_npu_job, jobs_of, payload_of
from sim.cpu import cpu_cycles
from sim.delegate import EthosUDelegate
from sim.timeline import CpuTask, Job, Timeline, build_timeline
from sim.timing import schedule
from sim.verify.verifier import Finding
from sim.verify.verifier import verify as verify_stream

DEFAULT_TARGET = "ethos-u55-128"
DEFAULT_PROFILE = "u55-u65"

Source = str | Path | bytes
Progress = Callable[[str, int, int], None]
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled model: `content` is the file's bytes, ready for the board."""

    content: bytes
    report: Report
    variant: Variant
    result: CompiledModel

    def save(self, path: str | Path) -> None:
        """Write the file; an existing one is replaced only when the new one is complete."""
        write_atomically(Path(path), self.content)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came out: `outputs` in model order with their `output_names`, the report, and the timeline it was made from."""

    outputs: list[Array]
    output_names: tuple[str, ...]
    output_quantization: tuple[Quantization | None, ...]
    report: Report
    timeline: Timeline


def load(model: Source) -> Model:
    """Read a TFLite file into the typed graph. ModelError if it is malformed."""
    return read_model(model)


def model_name(model: Source) -> str:
    """What messages and reports call the model."""
    return "<bytes>" if isinstance(model, bytes) else Path(model).name


def choose_variant(
    target: str | None = None, config: str | Path | None = None, *, memory_mode: str | None = None, system: str | None = None
) -> Variant:
    """The variant of a shipped target or of a YAML file; ConfigError for both at once or for an unknown one."""
    if target is not None and config is not None:
        raise ConfigError(f"target {target!r} with config {str(config)!r}: give only one of them; a config names its own base")
    return load_variant(config if config is not None else target or DEFAULT_TARGET, memory_mode=memory_mode, system=system)


def check(
    model: Source, target: str | None = None, config: str | Path | None = None, *, profile: str = DEFAULT_PROFILE
) -> Placement:
    """Decide NPU or CPU for every operator, with every violated limit."""
    return check_model(read_model(model), profile=profile, variant=choose_variant(target, config))


def check_report(
    model: Source, target: str | None = None, config: str | Path | None = None, *, profile: str = DEFAULT_PROFILE
) -> Report:
    """`check` as a report."""
    variant = choose_variant(target, config)
    return report_of_check(map_of_cpu(read_model(model), variant, profile), model_name(model), variant)


def compile(
    model: Source,
    target: str | None = None,
    config: str | Path | None = None,
    *,
    memory_mode: str | None = None,
    system: str | None = None,
    profile: str = DEFAULT_PROFILE,
    progress: Progress | None = None,
) -> Compiled:
    """Compile the NPU part of a model. ModelError, ConfigError or CompileError say what is at fault."""
    variant = choose_variant(target, config, memory_mode=memory_mode, system=system)
    source, name = read_model(model), model_name(model)
    if is_compiled(source):
        raise ModelError(f"{name}: must be a plain TFLite model, but it already holds compiled ethos-u operators")
    return compile_source(source, name, variant, profile=profile, progress=progress)


def compile_source(
    source: Model, name: str, variant: Variant, *, profile: str = DEFAULT_PROFILE, progress: Progress | None = None
) -> Compiled:
    """`compile` for a model that has been read, on a variant that has been chosen."""
    placement = check_model(source, profile=profile, variant=variant)
    result = compile_model(source, placement, variant, progress=progress)
    operators = map_of_compiled(result)
    model = result.model
    if result.partitions:
        model = dataclasses.replace(model, metadata={**model.metadata, METADATA_NAME: operators.to_metadata()})
    report = compile_report(operators, name, variant, result.usage)
    return Compiled(write_model(model), report, variant, result)


def run(
    model: Source,
    inputs: Sequence[Array] | Mapping[str, Array] | None = None,
    target: str | None = None,
    config: str | Path | None = None,
    *,
    seed: int = 0,
    memory_mode: str | None = None,
    system: str | None = None,
    profile: str = DEFAULT_PROFILE,
    progress: Progress | None = None,
) -> RunResult:
    """Compile a plain model if need be, execute the compiled file bit-exactly, and time it.

    `inputs` are in model order or by name; without them, seeded random data of each type's full range. A compiled file
    picks its variant by the configuration word in it unless `target` or `config` is given.
    """
    source, name = read_model(model), model_name(model)
    if is_compiled(source):
        executed, content = source, model if isinstance(model, bytes) else Path(model).read_bytes()
        variant = _variant_of_file(source, name, target, config, memory_mode, system)
    else:
        variant = choose_variant(target, config, memory_mode=memory_mode, system=system)
        content = compile_source(source, name, variant, profile=profile, progress=progress).content
        executed = read_model(content)
    operators = map_of_file(executed, name) if is_compiled(executed) else map_of_cpu(executed, variant, profile)
    interpreter = Interpreter(model_content=content, experimental_delegates=[EthosUDelegate(variant)])
    interpreter.allocate_tensors()
    outputs, names = _execute(interpreter, executed.graphs[0], inputs, seed)
    tasks = list(_tasks(executed, operators, variant))
    timeline = build_timeline(tasks, variant)
    traces = [task.trace for task in tasks if isinstance(task, Job)]
    report = run_report(operators, name, executed, timeline, traces, variant)
    graph = executed.graphs[0]
    quantization = tuple(graph.tensors[index].quantization for index in graph.outputs)
    return RunResult(outputs, names, quantization, report, timeline)


def disassemble(model: Source) -> str:
    """The listing of every command stream of a compiled file, in execution order."""
    source, name = read_model(model), model_name(model)
    if not is_compiled(source):
        raise ModelError(f"{name}: must hold compiled ethos-u operators, but it is a plain model; compile it first")
    variant = _variant_of_file(source, name, None, None, None, None)
    listings = []
    for graph in source.graphs:
        for index, op in enumerate(graph.ops):
            if is_npu_job(op):
                listings.append(
                    f"; operator {index} for {variant.name}\n{disassemble_words(payload_of(graph, index).words, variant)}"
                )
    return "\n".join(listings)


def map_of_cpu(model: Model, variant: Variant, profile: str) -> OperatorMap:
    """The map of a model of which nothing runs on the NPU."""
    placement = check_model(model, profile=profile, variant=variant)
    return map_of_placement(model, placement)


def verify(
    model: Source,
    target: str | None = None,
    config: str | Path | None = None,
    *,
    memory_mode: str | None = None,
    system: str | None = None,
) -> list[tuple[int, Finding]]:
    """Judge every command stream of a compiled file; (operator index, finding) in order, empty if all is well."""
    source, name = read_model(model), model_name(model)
    if not is_compiled(source):
        raise ModelError(f"{name}: must hold compiled ethos-u operators, but it is a plain model; compile it first")
    variant = _variant_of_file(source, name, target, config, memory_mode, system)
    findings = []
    for job in jobs_of(source):
        initialised = [(0, 0, job.region_bytes[0]), *job.inputs]
        decoded = decode(job.payload.words, variant)
        findings += [(job.index, each) for each in verify_stream(decoded, variant, job.region_bytes, initialised)]
    return findings


def _execute(
    interpreter: Interpreter, graph: Graph, inputs: Sequence[Array] | Mapping[str, Array] | None, seed: int
) -> tuple[list[Array], tuple[str, ...]]:
    details = interpreter.get_input_details()
    random = np.random.default_rng(seed)
    arrays = _ordered(inputs, [detail["name"] for detail in details])
    for position, detail in enumerate(details):
        array = arrays[position] if arrays is not None else random_input(graph.tensors[graph.inputs[position]], random)
        shape, dtype = tuple(int(extent) for extent in detail["shape"]), np.dtype(detail["dtype"])
        if array.shape != shape or array.dtype != dtype:
            raise InterpreterError(
                f"input {position} {detail['name']!r}: must be {dtype} of shape {list(shape)}, "
                f"got {array.dtype} of shape {list(array.shape)}"
            )
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    found = interpreter.get_output_details()
    return [interpreter.get_tensor(each["index"]) for each in found], tuple(each["name"] for each in found)


def _ordered(inputs: Sequence[Array] | Mapping[str, Array] | None, names: list[str]) -> list[Array] | None:
    if inputs is None:
        return None
    if isinstance(inputs, Mapping):
        wrong = sorted(set(inputs) ^ set(names))
        if wrong:
            raise InterpreterError(f"inputs: names must be {', '.join(names)}; missing or unknown: {', '.join(wrong)}")
        return [np.asarray(inputs[name]) for name in names]
    if len(inputs) != len(names):
        raise InterpreterError(f"inputs: the model has {len(names)} ({', '.join(names)}), got {len(inputs)}")
    return [np.asarray(each) for each in inputs]


def random_input(tensor: Tensor, random: np.random.Generator) -> Array:
    """Data of the tensor's type and shape: integers of the full range, floats of a standard normal distribution."""
    dtype = tensor.dtype.numpy
    if dtype is None:
        raise InterpreterError(f"input {tensor.name!r}: {tensor.dtype} cannot be made at random; give a file for it")
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, tensor.shape, dtype, endpoint=True)
    if dtype.kind == "b":
        return random.integers(0, 2, tensor.shape).astype(bool)
    return random.standard_normal(tensor.shape).astype(dtype)


def _tasks(model: Model, operators: OperatorMap, variant: Variant) -> Iterator[Job | CpuTask]:
    graph = model.graphs[0]
    for index, op in enumerate(graph.ops):
        sources = operators.sources.get(index, ())
        if is_npu_job(op):
            words = payload_of(graph, index).words
            decoded = decode(words, variant)
            if len(sources) != len(decoded):
                sources = (sources[0] if sources else -1,) * len(decoded)
            yield Job(schedule(decoded, variant, stream_words=len(words)), sources)
        else:
            yield CpuTask(sources[0], cpu_cycles(graph, op, variant.cpu))


def _variant_of_file(
    model: Model, name: str, target: str | None, config: str | Path | None, memory_mode: str | None, system: str | None
) -> Variant:
    """The asked-for variant, or the shipped one with the configuration word of the file; StreamError if they differ."""
    graph_index, op_index = next(
        (g, i) for g, graph in enumerate(model.graphs) for i, op in enumerate(graph.ops) if is_npu_job(op)
    )
    found = payload_of(model.graphs[graph_index], op_index)
    shipped = [load_variant(each, memory_mode=memory_mode, system=system) for each in _fitting(found.config)]
    if target is None and config is None:
        return find_target(found.config, shipped)
    variant = choose_variant(target, config, memory_mode=memory_mode, system=system)
    if not is_compatible(found.config, variant.accelerator):
        made_for = shipped[0].name if shipped else "no shipped target"
        raise StreamError(
            f"{name}: was compiled for configuration word {found.config_word:#010x} ({made_for}), but {variant.name} has "
            f"{config_word(variant):#010x}; leave the target out or compile the source model for it"
        )
    return variant


def _fitting(config: Configuration) -> list[str]:
    return [name for name in list_variants() if is_compatible(config, load_variant(name).accelerator)]
