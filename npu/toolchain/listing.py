"""Listings of compiled files, annotated with operators and tensors; and a listing turned back into a compiled file.

Each `ethos-u` operator is a section that begins with `.operator SUBGRAPH INDEX`; its lines are those of `npu.isa.disassemble`.
Annotations are comments, so that a listing can be edited and assembled again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from npu.errors import ModelError, StreamError, stream_errors_at
from npu.graph.ethos_u import Input, Region, is_npu_job
from npu.graph.graph import Model
from npu.hardware.variant import Variant
from npu.isa.decoded import Decoded
from npu.isa.disassemble import Listing
from npu.isa.disassemble import assemble as assemble_words
from npu.isa.disassemble import disassemble as disassemble_words
from npu.isa.operations import FeatureMap, Layout
from npu.isa.payload import decode_config, replace_words
from npu.plain import printable
from npu.tflite.writer import write_model
from npu.toolchain.labels import Label, known_map, label, maps_of, place_of
from npu.toolchain.session import Session
from npu.toolchain.sources import Source, is_raw, load_compiled, model_name
from sim.container import NpuJob, job_title, jobs_of, payload_of

_OPERATOR = ".operator"


def disassemble(model: Source, session: Session) -> str:
    """The annotated listing of every command stream of a compiled file, in file order. StreamError for words that are none."""
    text, fault = list_streams(model, session)
    if fault is not None:
        raise fault
    return text


def list_streams(model: Source, session: Session) -> tuple[str, StreamError | None]:
    """What `disassemble` returns, of broken streams too, and the first fault of one."""
    source, name = load_compiled(model), model_name(model)
    with stream_errors_at(name):
        variant = session.variant_of(source, name)
        sections, faults = [], []
        for job in jobs_of(source):
            listing = disassemble_words(job.payload.words, variant)
            sections.append(_section(listing, job, source, name, variant))
            if listing.fault is not None:
                faults.append(listing.fault.at(job_title(job.index)).at(name))
    return "\n".join(sections), faults[0] if faults else None


def _section(listing: Listing, job: NpuJob, source: Model, name: str, variant: Variant) -> str:
    labels = label(listing.operations, job, known_map(source, name))
    notes = {decoded.word_index: list(_notes(decoded, held)) for decoded, held in zip(listing.operations, labels, strict=True)}
    lines = [f"{_OPERATOR} {job.graph} {job.index} ; {printable(name)} for {variant.name}", *_places(job)]
    lines.append(f".product {listing.product.name}")
    for line in listing.lines:
        lines.append(str(line))
        lines += [f";   {printable(note)}" for note in notes.get(line.word_index, ())]
    return "\n".join(lines) + "\n"


def _places(job: NpuJob) -> Iterator[str]:
    for region, size in sorted(job.region_bytes.items()):
        yield f"; region {region} ({Region(region).name.lower()}): {size} bytes"
    for kind, maps in (("input", job.inputs), ("output", job.outputs)):
        for fm in maps:
            yield f"; {kind} {_range(fm.place)} {fm.name!r}"


def _notes(decoded: Decoded, held: Label) -> Iterator[str]:
    if held.operator:
        yield f"operator {held.operator}"
    for role, fm in maps_of(decoded.operation):
        tensor = f" {held.names[role]!r}" if role in held.names else ""
        yield f"{role.lower()} {_shape(fm)} {_range(place_of(fm))}{tensor}"


def _shape(fm: FeatureMap) -> str:
    order = f"[{fm.height}, {fm.width}, {fm.depth}]"
    return f"{order} {fm.element}{'' if fm.layout is Layout.NHWC else f' {fm.layout.name}'}"


def _range(place: tuple[int, int, int]) -> str:
    region, start, end = place
    return f"region {region} [{start:#x}, {end:#x})"


def assemble(text: str, base: Source) -> bytes:
    """The compiled file `base` with the command streams of a listing. StreamError names the line of what is wrong.

    Streams of unchanged length are patched in place, so an unedited listing gives the same bytes; others rewrite the file.
    """
    if not isinstance(base, bytes) and is_raw(base):
        raise ModelError(f"{model_name(base)}: must be a compiled .tflite file, got a raw archive")
    model = load_compiled(base)
    content = base if isinstance(base, bytes) else _read(Path(base))
    payloads = {key: _new_payload(model, key, section) for key, section in _sections(text, model).items()}
    patched = _patched(content, payloads)
    return write_model(_rewritten(model, payloads)) if patched is None else patched


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"{path}: must be a readable file, got: {error.strerror or error}") from error


def _sections(text: str, model: Model) -> dict[tuple[int, int], str]:
    """Text of each operator's section, with empty lines before it so that line numbers stay those of the listing."""
    sections: dict[tuple[int, int], list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        tokens = line.partition(";")[0].split()
        if tokens and tokens[0] == _OPERATOR:
            key = _key(tokens, model, number)
            if key in sections:
                raise StreamError(
                    f"listing line {number}: {_OPERATOR}: each operator must have one section, got {line!r} again"
                )
            current = sections[key] = [""] * number
        elif current is not None:
            current.append(line)
        elif tokens:
            raise StreamError(f"listing line {number}: must begin with {_OPERATOR} SUBGRAPH INDEX, got {tokens[0]}")
    if not sections:
        raise StreamError(f"listing: must have a section that begins with {_OPERATOR} SUBGRAPH INDEX, got none")
    return {key: "\n".join(lines) for key, lines in sections.items()}


def _key(tokens: list[str], model: Model, number: int) -> tuple[int, int]:
    known = [(g, i) for g, graph in enumerate(model.graphs) for i, op in enumerate(graph.ops) if is_npu_job(op)]
    if len(tokens) == 3 and all(token.isdecimal() and len(token) < 10 for token in tokens[1:]):
        key = int(tokens[1]), int(tokens[2])
        if key in known:
            return key
    choices = ", ".join(f"{graph} {index}" for graph, index in known)
    raise StreamError(f"listing line {number}: {_OPERATOR}: must be one of {choices}, got {' '.join(tokens[1:]) or 'nothing'}")


def _new_payload(model: Model, key: tuple[int, int], section: str) -> tuple[int, bytes, bytes]:
    """Tensor index of the command stream, its bytes now, and its bytes with the words of the section."""
    graph = model.graphs[key[0]]
    index = graph.ops[key[1]].inputs[Input.COMMANDS]
    data = graph.tensors[index].data
    if data is None:
        raise StreamError(f"operator {key[1]}: its first input must be a constant tensor with the command stream")
    old = data.tobytes()
    product = decode_config(payload_of(graph, key[1]).config_word).product
    return index, old, replace_words(old, assemble_words(section, product))


def _patched(content: bytes, payloads: dict[tuple[int, int], tuple[int, bytes, bytes]]) -> bytes | None:
    """The file with streams replaced in place; None where lengths differ or a stream's place is not unique."""
    patched = bytearray(content)
    for _, old, new in payloads.values():
        if old == new:
            continue
        if len(old) != len(new) or content.count(old) != 1:
            return None
        start = content.index(old)
        patched[start : start + len(old)] = new
    return bytes(patched)


def _rewritten(model: Model, payloads: dict[tuple[int, int], tuple[int, bytes, bytes]]) -> Model:
    graphs = []
    for number, graph in enumerate(model.graphs):
        tensors = list(graph.tensors)
        for (graph_index, _), (index, _, new) in payloads.items():
            if graph_index == number:
                data = np.frombuffer(new, np.uint8)
                tensors[index] = replace(tensors[index], shape=data.shape, data=data)
        graphs.append(replace(graph, tensors=tuple(tensors)))
    return replace(model, graphs=tuple(graphs))
