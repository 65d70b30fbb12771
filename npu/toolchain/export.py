"""export: a compiled file as sources of an application for a board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from npu.errors import ModelError
from npu.files import write_atomically
from npu.graph.ethos_u import Region, is_compiled
from npu.hardware.variant import Variant
from npu.records import dataclass
from npu.tflite_micro.application import Application
from npu.tflite_micro.arena import ArenaSize, arena_size, resource_variables
from npu.tflite_micro.c_files import c_files
from npu.tflite_micro.resolver import ResolverEntry, registrations
from npu.toolchain.compile import compile
from npu.toolchain.run import Inputs, run
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, contents, given, is_raw, model_name, parse
from sim.container import CompiledFile


@dataclass(frozen=True, slots=True)
class Exported:
    """The sources by file name, what they register with TensorFlow Lite Micro, and how large its arena must be."""

    files: Mapping[str, str] = field(repr=False)
    operators: tuple[ResolverEntry, ...]
    arena: ArenaSize

    def save(self, folder: str | Path) -> None:
        """Write the files into a folder that exists; each is replaced as a whole."""
        for name, text in self.files.items():
            write_atomically(Path(folder) / name, text.encode())


def export(model: Source, session: Session, inputs: Inputs = None, *, seed: int = 0) -> Exported:
    """C sources of a compiled file, with one inference as a self-test; a plain model is compiled first.

    `inputs` are those of the self-test, seeded random ones if none are given. ModelError for an operator on the CPU that
    TensorFlow Lite Micro lacks; InterpreterError for inputs that do not fit.
    """
    model = given(model)
    name, content = model_name(model), contents(model)
    if is_raw(content):
        raise ModelError(f"{name}: must be a .tflite file, since a runtime loads no other; got raw output (.npz)")
    source = parse(model, content)
    if not is_compiled(source):
        content = compile(model, session).content
        source = parse(content, content)
    operators, arena = registrations(source), arena_size(source)
    ran = run(content, session, inputs, seed=seed)
    variant = session.variant_of(source, name) if is_compiled(source) else session.variant
    application = Application(
        "model" if isinstance(model, bytes) else Path(model).stem,
        variant.name,
        content,
        operators,
        arena,
        _fast_scratch_bytes(CompiledFile(source, variant), variant),
        len(resource_variables(source)),
        {part: variant.system.memories[getattr(variant.memory_mode, part)].name for part in ("constants", "arena", "cache")},
        ran.inputs,
        ran.outputs,
    )
    return Exported(c_files(application), operators, arena)


def _fast_scratch_bytes(file: CompiledFile, variant: Variant) -> int:
    """Bytes that the driver needs beside the arena; 0 where the fast scratch lies in it."""
    if not variant.memory_mode.has_separate_cache:
        return 0
    return max((job.region_bytes[Region.FAST] for job in file.jobs()), default=0)
