"""inspect: look into a compiled file without running it."""

from __future__ import annotations

from pathlib import Path

from npu.isa.decode import decode
from npu.toolchain.sources import Source, load_compiled, model_name, variant_of_file
from sim.container import jobs_of
from sim.verify.verifier import Finding
from sim.verify.verifier import verify as verify_stream


def verify(
    model: Source,
    target: str | None = None,
    config: str | Path | None = None,
    *,
    memory_mode: str | None = None,
    system: str | None = None,
) -> list[tuple[int, Finding]]:
    """Judge every command stream of a compiled file; (operator index, finding) in order, empty if all is well."""
    source = load_compiled(model)
    variant = variant_of_file(source, model_name(model), target, config, memory_mode, system)
    findings = []
    for job in jobs_of(source):
        initialised = [(0, 0, job.region_bytes[0]), *job.inputs]
        decoded = decode(job.payload.words, variant)
        findings += [(job.index, each) for each in verify_stream(decoded, variant, job.region_bytes, initialised)]
    return findings
