"""inspect: look into a compiled file without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from npu.errors import stream_errors_at
from npu.graph.ethos_u import Input, Region
from npu.graph.graph import Model
from npu.isa.decode import RefusedOperation, read_operations
from npu.isa.decoded import Decoded
from npu.reports.operator_map import OperatorMap
from npu.toolchain.labels import known_map, label
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, load_compiled, model_name
from sim.container import CompiledFile, NpuJob, Place, job_title
from sim.verify.verifier import Finding, written_by
from sim.verify.verifier import verify as verify_stream


def verify(model: Source, session: Session) -> list[tuple[int, Finding]]:
    """Judge every command stream of a compiled file; (operator index, finding) in order, empty if all is well.

    What earlier jobs wrote into the arena counts as data for later ones: compilers keep tensors there between two jobs.
    """
    source, name = load_compiled(model), model_name(model)
    with stream_errors_at(name):
        return _verify(CompiledFile(source, session.variant_of(source, name)), known_map(source, name))


def _verify(file: CompiledFile, operators: OperatorMap | None) -> list[tuple[int, Finding]]:
    findings: list[tuple[int, Finding]] = []
    kept: list[tuple[int, int, int]] = []
    for job in file.jobs():
        with stream_errors_at(job_title(job.index)):
            of_job, left = _verify_job(file, job, kept, operators)
        findings += [(job.index, finding) for finding in of_job]
        kept += left
    return findings


ConstantsByRegion = Mapping[int, npt.NDArray[np.uint8]]


def _constants(source: Model, job: NpuJob) -> ConstantsByRegion:
    """The bytes of the region of constants of a job."""
    graph = source.graphs[job.graph]
    data = graph.tensors[graph.ops[job.index].inputs[Input.CONSTANTS]].data
    return {} if data is None else {Region.CONSTANTS: np.ascontiguousarray(data).reshape(-1).view(np.uint8)}


def _verify_job(
    file: CompiledFile, job: NpuJob, kept: Sequence[Place], operators: OperatorMap | None
) -> tuple[list[Finding], list[Place]]:
    """What is wrong with one job, given what earlier ones left in the arena; and what it leaves there."""
    variant, contents = file.variant, _constants(file.model, job)
    started = tuple(read_operations(job.payload.words, variant))
    refused = [value for value in started if isinstance(value, RefusedOperation)]
    decoded = [kick_off for kick_off in started if isinstance(kick_off, Decoded)]
    findings = [Finding("REFUSED", value.command_index, value.word_index, value.name, value.reason) for value in refused]
    labels = {one.command_index: held for one, held in zip(decoded, label(decoded, job, operators), strict=True)}
    words = None if refused else job.payload.words
    given, read_only = [*job.given, *kept], (Region.CONSTANTS,)
    judged = verify_stream(decoded, variant, job.region_bytes, given, words, read_only=read_only, contents=contents or None)
    for finding in judged:
        held = labels.get(finding.command_index)
        if held is not None:
            finding = dataclasses.replace(finding, source=held.operator, tensors=tuple(dict.fromkeys(held.names.values())))
        findings.append(finding)
    return findings, [place for place in written_by(decoded, variant) if place[0] == Region.ARENA]
