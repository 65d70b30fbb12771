"""inspect: look into a compiled file without running it."""

from __future__ import annotations

import dataclasses

from npu.graph.ethos_u import Region
from npu.isa.decode import Decoded, Refused, read_operations
from npu.toolchain.labels import known_map, label
from npu.toolchain.sources import Config, Source, load_compiled, model_name, variant_of_file
from sim.container import jobs_of
from sim.verify.verifier import Finding, written_by
from sim.verify.verifier import verify as verify_stream


def verify(
    model: Source,
    target: str | None = None,
    config: Config | None = None,
    *,
    memory_mode: str | None = None,
    system: str | None = None,
) -> list[tuple[int, Finding]]:
    """Judge every command stream of a compiled file; (operator index, finding) in order, empty if all is well.

    What earlier jobs wrote into the arena counts as data for later ones: compilers keep tensors there between two jobs.
    """
    source = load_compiled(model)
    variant = variant_of_file(source, model_name(model), target, config, memory_mode=memory_mode, system=system)
    operators = known_map(source, model_name(model))
    findings: list[tuple[int, Finding]] = []
    kept: list[tuple[int, int, int]] = []
    for job in jobs_of(source):
        initialised = [(Region.CONSTANTS, 0, job.region_bytes[Region.CONSTANTS]), *job.inputs, *kept]
        found = tuple(read_operations(job.payload.words, variant))
        refused = [each for each in found if isinstance(each, Refused)]
        decoded = [each for each in found if isinstance(each, Decoded)]
        findings += [(job.index, Finding("REFUSED", each.command_index, each.name, each.reason)) for each in refused]
        labels = {one.command_index: held for one, held in zip(decoded, label(decoded, job, operators), strict=True)}
        words = None if refused else job.payload.words
        for each in verify_stream(decoded, variant, job.region_bytes, initialised, words):
            held = labels.get(each.command_index)
            if held is not None:
                each = dataclasses.replace(each, source=held.operator, tensors=tuple(dict.fromkeys(held.names.values())))
            findings.append((job.index, each))
        kept += [place for place in written_by(decoded, variant) if place[0] == Region.ARENA]
    return findings
