"""From what the user names to a model that runs: compiled first if need be, with the map of its operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from npu.errors import stream_errors_at
from npu.graph.ethos_u import is_compiled, is_npu_job
from npu.graph.graph import Graph, Model
from npu.hardware.variant import Variant
from npu.progress import Progress
from npu.reports.operator_map import OperatorMap, map_of_file, map_of_placement
from npu.tflite.reader import read_model
from npu.toolchain.compile import compile_source
from npu.toolchain.sources import Config, Source, choose_variant, digest, given, load, model_name, variant_of_file
from sim.container import payload_of


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled model, or one of which nothing runs on the NPU.

    `name` is for messages and reports; `digest` is that of the file that was given, compiled or not.
    """

    model: Model
    name: str
    variant: Variant
    operators: OperatorMap
    digest: str | None = None


def npu_operators(model: Model) -> Iterator[tuple[Graph, int]]:
    """Graph and index of every compiled operator."""
    return ((graph, index) for graph in model.graphs for index, op in enumerate(graph.ops) if is_npu_job(op))


def prepare(
    model: Source,
    target: str | None,
    config: Config | None,
    *,
    memory_mode: str | None,
    system: str | None,
    profile: str,
    progress: Progress | None,
) -> Executable:
    """A plain model is compiled; a compiled file picks its variant by its configuration word unless one is asked for."""
    model = given(model)
    source, name, origin = load(model), model_name(model), digest(model)
    if is_compiled(source):
        with stream_errors_at(name):
            variant = variant_of_file(source, name, target, config, memory_mode=memory_mode, system=system)
            for graph, index in npu_operators(source):
                payload_of(graph, index)
            return Executable(source, name, variant, map_of_file(source, name, variant), origin)
    variant = choose_variant(target, config, memory_mode=memory_mode, system=system)
    compiled = compile_source(source, name, variant, profile=profile, progress=progress)
    made = read_model(compiled.content)
    if is_compiled(made):
        return Executable(made, name, variant, map_of_file(made, name, variant), origin)
    return Executable(made, name, variant, map_of_placement(made, compiled.result.placement), origin)
