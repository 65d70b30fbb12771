"""What each command of `npu` does: one function a command, options in, exit code out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from npu.errors import InterpreterError, StreamError, UsageError, UserError
from npu.files import load_arrays, read_text, write_atomically
from npu.plain import printable
from npu.rendering import console, progress_bars
from npu.rendering.terminal import is_coloured, say, width_for

FAILED = 3
"""Exit code of a judgement that was reached, and is no: a gate, a finding, a difference."""

if TYPE_CHECKING:
    from npu.toolchain.explain import ExplainedModel
    from npu.toolchain.gate import Demands
    from npu.toolchain.origin import Origin
    from npu.toolchain.timing import TimedModel


def check(options: argparse.Namespace) -> int:
    """Print or write where every operator runs and why; FAILED if a demand is not met."""
    from npu.rendering import facts
    from npu.rendering.forms import form_of_file, render
    from npu.rendering.text import render_text
    from npu.toolchain import gate
    from npu.toolchain.check import check_report

    forms = {path: form_of_file(path) for path in options.save or ()}
    demands = _demands(options)
    is_compiled = options.exact or demands.needs_compilation
    with progress_bars.progress() as progress:
        checked = check_report(options.model, options.session, is_compiled=is_compiled, progress=progress)
    report = gate.judge(checked, demands)
    for path, form in forms.items():
        write_atomically(path, render(report, form).encode(errors="backslashreplace"))
    if options.format == "text":
        colour = options.output is None and is_coloured()
        emit(render_text(report, width_for(options.output), colour=colour), options.output)
    else:
        emit(render(report, options.format), options.output)
    for message in facts.failures(report):
        sys.stderr.write(f"npu: check failed: {printable(message)}\n")
    return FAILED if report.failed_gates else 0


def _demands(options: argparse.Namespace) -> Demands:
    """What the options ask of a model; measures what a check does not measure itself."""
    from npu.toolchain import budget as budgets
    from npu.toolchain.gate import Demands, check_conditions
    from npu.toolchain.sources import load

    conditions = check_conditions(options.fail_on, options.profile)
    budget = budgets.read_budget(options.budget) if options.budget else {}
    baseline = budgets.read_baseline(options.baseline) if options.baseline else None
    measured = {budgets.ACCURACY: budgets.read_accuracy(options.accuracy)} if options.accuracy else {}
    if budgets.DIFFERENCE in budget:
        from npu.toolchain.difference import largest_difference

        inputs = read_inputs(options)
        measured[budgets.DIFFERENCE] = largest_difference(
            options.model, options.session, inputs, seed=options.seed, source=options.source
        )
    strictly = load(options.model) if options.strict else None
    return Demands(conditions, budget, baseline, options.tolerance, measured, strictly)


def fix(options: argparse.Namespace) -> int:
    """Write the model with safe fixes, and say what was changed and gained."""
    from npu.toolchain.fix import fix as verb

    fixed = verb(options.model, options.session)
    fixed.save(options.output)
    console.print_fixed(fixed, options.output)
    return 0


def compile(options: argparse.Namespace) -> int:
    """Compile and write the file, then say what it needs."""
    from npu.compiler.watch import watching
    from npu.toolchain import compile as verb

    observers = watching(options.dump_after, verifies=options.verify_passes, write=say)
    with progress_bars.progress() as progress:
        shapes = dict(options.input_shape or ())
        compiled = verb.compile(options.model, options.session, input_shapes=shapes, progress=progress, observers=observers)
    compiled.save(options.output)
    if options.report:
        write_atomically(options.report, compiled.report.to_json().encode())
    if options.memory_map:
        table = compiled.compiled_model.memory
        is_json = options.memory_map.suffix == ".json"
        write_atomically(options.memory_map, (json.dumps(table.to_json(), indent=1) + "\n" if is_json else str(table)).encode())
    console.print_compiled(compiled.summary, options.output, len(compiled.content))
    return 0


def run(options: argparse.Namespace) -> int:
    """Execute, write what was asked for, print the summary."""
    if options.timing_only:
        return _time(options)
    from npu.toolchain import run as verb

    labels = _read_labels(options.labels) if options.labels else None
    inputs = read_inputs(options)
    with progress_bars.progress() as progress:
        answer = verb.run(
            options.model,
            options.session,
            inputs,
            seed=options.seed,
            progress=progress,
            dump=options.dump_tensors is not None,
            with_events=options.trace is not None,
            origin=origin_of(options),
        )
    if options.dump_tensors:
        _make_folder(options.dump_tensors)
        for name, tensor in answer.tensors.items():
            write_atomically(options.dump_tensors / f"{name}.npy", _npy(tensor))
    if options.output_dir:
        _make_folder(options.output_dir)
        for position, output in enumerate(answer.outputs):
            write_atomically(options.output_dir / f"output_{position}.npy", _npy(output))
    _write_times(options, answer.timed)
    if labels is not None and options.format == "text":
        scores = answer.outputs[0] if answer.outputs else None
        if scores is None or not scores.size or scores.dtype.kind not in "iufb":
            raise UserError(f"--labels {options.labels}: needs a model whose first output holds scores, got none")
        console.print_prediction(scores, answer.output_quantization[0], labels)
    return 0


def _time(options: argparse.Namespace) -> int:
    """The part of `run` that needs no data: times, trace and counters."""
    from npu.toolchain.timing import time_model

    for name in ("input", "output_dir", "labels", "dump_tensors"):
        if getattr(options, name):
            raise UserError(f"--{name.replace('_', '-')}: needs an execution; leave it or --timing-only out")
    with progress_bars.progress() as progress:
        with_events = options.trace is not None
        timed = time_model(
            options.model, options.session, progress=progress, with_events=with_events, origin=origin_of(options)
        )
    _write_times(options, timed)
    return 0


def _write_times(options: argparse.Namespace, timed: TimedModel) -> None:
    """Print the report of a run; write it and the trace where asked for."""
    report = timed.report_with_pmu() if options.pmu else timed.report
    if options.report:
        write_atomically(options.report, report.to_json().encode())
    if options.trace:
        write_atomically(options.trace, json.dumps(timed.trace(), separators=(",", ":")).encode())
    if options.format == "html":
        from npu.rendering.pages.report import run_page

        emit(run_page(timed), options.output)
    elif options.format == "json":
        emit(report.to_json(), options.output)
    else:
        emit(console.run_report(report, options.output), options.output)


def explain(options: argparse.Namespace) -> int:
    """Tell what bounds every operator, where its cycles go, and which shapes would be free."""
    from npu.rendering.explain import explain_text
    from npu.toolchain.explain import explain as verb

    with progress_bars.progress() as progress:
        explained = verb(options.model, options.session, progress=progress, origin=origin_of(options))
    if options.plot:
        _plot_model(options, explained)
    if options.format == "html":
        from npu.rendering.pages.report import explain_page
        from npu.toolchain.timing import time_model

        timed = time_model(options.model, options.session, origin=origin_of(options))  # as explain left it
        emit(explain_page(timed, explained), options.output)
    elif options.format == "json":
        emit(explained.to_json(), options.output)
    else:
        emit(explain_text(explained, width_for(options.output)), options.output)
    return 0


def _plot_model(options: argparse.Namespace, explained: ExplainedModel) -> None:
    """Write the pictures of `explain`."""
    from npu.plots import charts
    from npu.plots.write import write_charts
    from npu.toolchain.timing import time_model

    timed = time_model(options.model, options.session)  # as explain left it: compiled and timed already
    title = f"{explained.model} on {explained.target}"
    write_charts(options.plot, title, [charts.roofline(timed), charts.operator_bars(explained)])


def origin_of(options: argparse.Namespace) -> Origin:
    """What `--source` and `--debug-db` tell of a compiled file."""
    from npu.toolchain.origin import Origin

    return Origin(options.source, options.debug_db)


def disasm(options: argparse.Namespace) -> int:
    """Print the listing of every command stream in the file, of a broken one too."""
    from npu.toolchain.listing import list_streams

    text, fault = list_streams(options.model, options.session)
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


def export(options: argparse.Namespace) -> int:
    """Write C sources, and say what they hold; write the graph of the NPU's operations."""
    if options.c is None and options.expanded is None:
        raise UsageError("--c, --expanded or both must be given")
    if options.expanded is not None:
        from npu.toolchain.expand import expand, to_model_explorer, to_tflite

        graph = expand(options.model, options.session)
        is_json = options.expanded.suffix == ".json"
        write_atomically(options.expanded, to_model_explorer(graph).encode() if is_json else to_tflite(graph))
        say(f"{options.expanded}: {len(graph.nodes)} nodes\n")
    if options.c is None:
        return 0
    from npu.toolchain.export import export as verb

    exported = verb(options.model, options.session, read_inputs(options), seed=options.seed)
    _make_folder(options.c)
    exported.save(options.c)
    console.print_exported(exported, options.c)
    return 0


def debug(options: argparse.Namespace) -> int:
    """Step through the NPU jobs on a screen."""
    from npu import extras

    extras.load("textual", "debug")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(
            "debug: must run in a terminal, got a pipe or a file; docs/debugger.md shows how to do without a screen"
        )
    from npu.debugger.debugger import Debugger
    from npu.debugger.screen import DebuggerApp

    DebuggerApp(Debugger(options.model, options.session, read_inputs(options), seed=options.seed)).run()
    return 0


def diff(options: argparse.Namespace) -> int:
    """Name the first operator whose output differs from the reference; FAILED if one does."""
    from npu.toolchain import diff as verb

    inputs = read_inputs(options)
    difference = verb.diff(
        options.reference, options.model, options.session, inputs, seed=options.seed, database=options.debug_db
    )
    if options.format == "json":
        emit(json.dumps(dataclasses.asdict(difference), indent=2) + "\n", options.output)
    else:
        emit(console.difference_text(options.reference.name, options.model.name, difference), options.output)
    return FAILED if difference.first is not None else 0


def verify(options: argparse.Namespace) -> int:
    """List what is wrong with a compiled file; FAILED if anything is."""
    from npu.toolchain import inspect

    findings = inspect.verify(options.model, options.session)
    if options.format == "json":
        rows = [{"operator": index, **dataclasses.asdict(finding)} for index, finding in findings]
        emit(json.dumps(rows, indent=2) + "\n", options.output)
    else:
        emit(console.findings_text(options.model.name, findings, width_for(options.output)), options.output)
    return FAILED if findings else 0


def configs(options: argparse.Namespace) -> int:
    """List the shipped variants, and the names of what descriptions are made of."""
    from npu.hardware.catalogue import list_boards, list_examples, list_section, list_variants, load_variant

    variants = [load_variant(name) for name in list_variants()]
    if options.format == "json":
        emit(json.dumps([console.variant_row(variant) for variant in variants], indent=2) + "\n", options.output)
    else:
        others = {
            "Boards (--board)": list_boards(),
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
    from npu.isa.families import FAMILIES

    emit(reference_page(dict.fromkeys(FAMILIES.values())), options.output)
    return 0


def completion(options: argparse.Namespace) -> int:
    """Print the script that completes commands and options."""
    from npu.cli.completion import completion as script
    from npu.cli.main import build_parser

    say(script(options.shell, build_parser()))
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
