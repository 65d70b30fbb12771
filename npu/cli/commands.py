"""What each command of `npu` does: one function a command, options in, exit code out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npu.errors import ConfigError, InterpreterError, StreamError, UserError
from npu.files import load_arrays, read_text, write_atomically
from npu.plain import printable
from npu.rendering import console
from npu.rendering.terminal import is_coloured, say, width_for

if TYPE_CHECKING:
    from npu.hardware.variant import Variant
    from npu.toolchain.timing import TimedModel


@contextmanager
def changed_hardware(options: argparse.Namespace) -> Iterator[None]:
    """Put the fields of `--set` over the target or description that was asked for, as a description of its own."""
    from npu.hardware.catalogue import load_variant
    from npu.hardware.shipped import SECTION_FOLDERS
    from npu.toolchain.sources import default_target

    base = options.config.resolve() if options.config else options.target
    base = default_target(options.model) if base is None else base
    content: dict[str, Any] = {"extends": str(base), "name": f"{load_variant(base).name} (changed)"}
    for section in SECTION_FOLDERS:
        chosen = getattr(options, section, None)
        if chosen is not None:  # the changes are laid over it
            content[section] = {"extends": _value(chosen, is_section=True)}
            setattr(options, section, None)
    for change in options.set:
        key, separator, value = change.partition("=")
        if not separator or not all(key.split(".")):
            raise UserError(f"--set: must be KEY=VALUE with a dotted key, got {change!r}")
        if key == "extends":  # the report would name the other one
            raise UserError(f"--set: another target must be given as --target or --config, got {change!r}")
        *path, last = key.split(".")
        place = content
        for name in path:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise UserError(f"--set {change}: must not go below a value that another --set gives")
        given = _value(value, is_section=key in SECTION_FOLDERS or last == "extends")
        place[last] = {"extends": given} if key in SECTION_FOLDERS and isinstance(given, str) else given
    with tempfile.TemporaryDirectory() as folder:
        options.config, options.target = Path(folder) / "command-line.yaml", None
        options.config.write_text(json.dumps(content, indent=1), encoding="utf-8")
        try:
            _tell_hidden_memories(content, load_variant(options.config), "--set system.adapters.{}=null")
            yield
        except ConfigError as error:  # nobody knows the file that was made here
            shown = re.sub(rf"{re.escape(str(options.config))}(:\d+)?", "--set", str(error))
            raise ConfigError(shown) from error


def tell_of_config(path: Path) -> None:
    """Say on standard error what a person who wrote a description may not expect of it. ConfigError if it is none."""
    from npu.hardware.catalogue import load_variant
    from npu.hardware.document import read_document

    variant = load_variant(path)
    _tell_hidden_memories(read_document(path), variant, "adapters: {{{}: null}} in system")


def _tell_hidden_memories(changes: dict[str, Any], variant: Variant, remedy: str) -> None:
    """Say which memories were changed whose time an adapter from elsewhere decides."""
    system = changes.get("system")
    parts = [system.get(part) if isinstance(system, dict) else None for part in ("memories", "adapters")]
    memories, adapters = (part if isinstance(part, dict) else {} for part in parts)
    for name in (port.value for port in variant.system.adapters):
        changed = memories.get(name)
        if isinstance(changed, dict) and not changed.keys() <= {"name", "size_bytes", "burst_bytes"} and name not in adapters:
            sys.stderr.write(f"npu: note: the adapter of {name}, not system.memories.{name}, decides how long accesses take; ")
            sys.stderr.write(f"{remedy.format(name)} takes it away\n")


def _value(text: str, *, is_section: bool) -> Any:
    """A number, boolean or mapping as JSON writes it; anything else is text. Paths of sections start at the current folder."""
    from npu.hardware.shipped import is_path

    try:
        return json.loads(text.replace("_", "") if text[:1].isdigit() else text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise UserError(f"--set: a value must not nest so deeply, got {text[:40]}...") from error
    except ValueError:
        return os.path.abspath(text) if is_section and is_path(text) else text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"--set: {twice[:80]}: must stand once in a mapping, got it twice")
    return found


def check(options: argparse.Namespace) -> int:
    """Print or write where every operator runs and why; 1 if a condition or the budget is not met."""
    from npu.rendering.forms import FORMS
    from npu.rendering.text import render_text
    from npu.toolchain import gate
    from npu.toolchain.check import check_report

    conditions = gate.check_conditions(options.fail_on, options.profile)
    budget = gate.read_budget(options.budget) if options.budget else None
    is_compiled = options.exact or (budget is not None and budget.needs_compilation)
    report = check_report(options.model, **_choices(options), is_compiled=is_compiled)
    if options.format == "text":
        colour = options.output is None and is_coloured()
        emit(render_text(report, width_for(options.output), colour=colour), options.output)
    else:
        emit(FORMS[options.format](report), options.output)
    failed = gate.failures(report, conditions, budget)
    for message in failed:
        sys.stderr.write(f"npu: check failed: {printable(message)}\n")
    return 1 if failed else 0


def fix(options: argparse.Namespace) -> int:
    """Write the model with safe fixes, and say what was changed and gained."""
    from npu.toolchain.fix import fix as verb

    fixed = verb(options.model, options.target, options.config, profile=options.profile)
    fixed.save(options.output)
    console.print_fixed(fixed, options.output)
    return 0


def _choices(options: argparse.Namespace) -> dict[str, Any]:
    """Hardware, memories and rules of placement, as the verbs take them."""
    return {name: getattr(options, name) for name in ("target", "config", "memory_mode", "system", "profile")}


def compile(options: argparse.Namespace) -> int:
    """Compile and write the file, then say what it needs."""
    from npu.toolchain import compile as verb

    with console.progress() as progress:
        compiled = verb.compile(options.model, **_choices(options), progress=progress)
    compiled.save(options.output)
    if options.report:
        write_atomically(options.report, compiled.report.to_json().encode())
    console.print_compiled(compiled.report, options.output, len(compiled.content))
    return 0


def run(options: argparse.Namespace) -> int:
    """Execute, write what was asked for, print the summary."""
    if options.timing_only:
        return _time(options)
    from npu.toolchain import run as verb

    labels = _read_labels(options.labels) if options.labels else None
    inputs = read_inputs(options)
    with console.progress() as progress:
        result = verb.run(
            options.model,
            inputs,
            **_choices(options),
            seed=options.seed,
            progress=progress,
            dump=options.dump_tensors is not None,
            with_events=options.trace is not None,
        )
    if options.dump_tensors:
        _make_folder(options.dump_tensors)
        for name, tensor in result.tensors.items():
            write_atomically(options.dump_tensors / f"{name}.npy", _npy(tensor))
    if options.output_dir:
        _make_folder(options.output_dir)
        for position, output in enumerate(result.outputs):
            write_atomically(options.output_dir / f"output_{position}.npy", _npy(output))
    _write_times(options, result.timed)
    if labels is not None:
        scores = result.outputs[0] if result.outputs else None
        if scores is None or not scores.size or scores.dtype.kind not in "iufb":
            raise UserError(f"--labels {options.labels}: needs a model whose first output holds scores, got none")
        console.print_prediction(scores, result.output_quantization[0], labels)
    return 0


def _time(options: argparse.Namespace) -> int:
    """The part of `run` that needs no data: times, trace and counters."""
    from npu.toolchain.timing import time_model

    for name in ("input", "output_dir", "labels", "dump_tensors"):
        if getattr(options, name):
            raise UserError(f"--{name.replace('_', '-')}: needs an execution; leave it or --timing-only out")
    with console.progress() as progress:
        with_events = options.trace is not None
        timed = time_model(options.model, **_choices(options), progress=progress, with_events=with_events)
    _write_times(options, timed)
    return 0


def _write_times(options: argparse.Namespace, timed: TimedModel) -> None:
    """Print the report of a run; write it and the trace where asked for."""
    report = timed.report_with_pmu() if options.pmu else timed.report
    if options.report:
        write_atomically(options.report, report.to_json().encode())
    if options.trace:
        write_atomically(options.trace, json.dumps(timed.trace(), separators=(",", ":")).encode())
    console.print_run(report)
    if report.pmu is not None:
        console.print_pmu(report.pmu)


def explain(options: argparse.Namespace) -> int:
    """Tell what bounds every operator, where its cycles go, and which shapes would be free."""
    from npu.rendering.explain import explain_text
    from npu.toolchain.explain import explain_model

    with console.progress() as progress:
        explained = explain_model(options.model, **_choices(options), progress=progress)
    if options.format == "json":
        emit(explained.to_json(), options.output)
    else:
        emit(explain_text(explained, width_for(options.output)), options.output)
    return 0


def disasm(options: argparse.Namespace) -> int:
    """Print the listing of every command stream in the file, of a broken one too."""
    from npu.toolchain.listing import list_streams

    text, fault = list_streams(options.model, options.target, options.config)
    emit(text, options.output)
    if fault is not None:
        raise fault
    return 0


def asm(options: argparse.Namespace) -> int:
    """Write a compiled file with the command streams of a listing."""
    from npu.toolchain.listing import assemble

    listing = _read_text(options.listing, "a listing of npu disasm")
    try:
        content = assemble(listing, options.base)
    except StreamError as error:
        raise StreamError(re.sub("^listing", lambda _: str(options.listing), str(error))) from error
    is_same = options.base.read_bytes() == content  # before the write: it may be the same file
    write_atomically(options.output, content)
    console.print_assembled(options.output, options.base, len(content), is_same=is_same)
    return 0


def diff(options: argparse.Namespace) -> int:
    """Name the first operator whose output differs from the reference; 1 if one does."""
    from npu.toolchain import diff as verb

    inputs = read_inputs(options)
    result = verb.diff(options.reference, options.model, inputs, options.target, options.config, seed=options.seed)
    if options.format == "json":
        emit(json.dumps(dataclasses.asdict(result), indent=2) + "\n", options.output)
    else:
        emit(console.difference_text(options.reference.name, options.model.name, result), options.output)
    return 1 if result.first is not None else 0


def verify(options: argparse.Namespace) -> int:
    """List what is wrong with a compiled file; 1 if anything is."""
    from npu.toolchain import inspect

    hardware = {"memory_mode": options.memory_mode, "system": options.system}
    findings = inspect.verify(options.model, options.target, options.config, **hardware)
    if options.format == "json":
        rows = [{"operator": index, **dataclasses.asdict(finding)} for index, finding in findings]
        emit(json.dumps(rows, indent=2) + "\n", options.output)
    else:
        emit(console.findings_text(options.model.name, findings, width_for(options.output)), options.output)
    return 1 if findings else 0


def configs(options: argparse.Namespace) -> int:
    """List the shipped variants, and the names of what descriptions are made of."""
    from npu.hardware.catalogue import list_examples, list_section, list_variants, load_variant

    variants = [load_variant(name) for name in list_variants()]
    if options.format == "json":
        emit(json.dumps([console.variant_row(variant) for variant in variants], indent=2) + "\n", options.output)
    else:
        others = {
            "What-if examples (--target)": [f"examples/{name}" for name in list_examples()],
            "Systems (--system)": list_section("system"),
            "Memory modes (--memory-mode)": list_section("memory_mode"),
            "CPUs (--set cpu=NAME)": list_section("cpu"),
        }
        emit(console.variants_text(variants, others, width_for(options.output)), options.output)
    return 0


def supported_ops(options: argparse.Namespace) -> int:
    """Write the document that is generated from the rules."""
    from constraints.document import supported_ops_document

    emit(supported_ops_document(options.profile), options.output)
    return 0


def isa(options: argparse.Namespace) -> int:
    """Write the reference page that is generated from the command table."""
    from npu.isa.document import reference_page

    emit(reference_page(), options.output)
    return 0


def emit(text: str, output: Path | None) -> None:
    """Write to a file, without the colours of a terminal, or to standard output if it is None."""
    if output is None:
        say(text)
    else:
        write_atomically(output, re.sub("\x1b\\[[0-9;]*m", "", text).encode(errors="backslashreplace"))


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: must be a folder that can be made, got {error.strerror or error}") from error


def read_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file; InterpreterError if it is none."""
    try:
        array = load_arrays(path)
    except (OSError, ValueError) as error:
        raise InterpreterError(f"{path}: must be a readable .npy file of numbers, got: {_reason(error)}") from error
    if not isinstance(array, np.ndarray):
        raise InterpreterError(f"{path}: must be one array (.npy), got an archive of several")
    return array


def read_inputs(options: argparse.Namespace) -> list[npt.NDArray[Any]] | None:
    """The arrays of `--input`, None if none were given."""
    return [read_array(path) for path in options.input] if options.input else None


def _read_labels(path: Path) -> list[str]:
    labels = _read_text(path, what := "a text file with one class a line").splitlines()
    if not labels:
        raise UserError(f"{path}: must be {what}, got an empty file")
    return labels


def _read_text(path: Path, what: str) -> str:
    try:
        return read_text(path)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: must be {what}, got: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    """Why a file could not be read, without its name."""
    return getattr(error, "strerror", None) or str(error)


def _npy(array: npt.NDArray[Any]) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
