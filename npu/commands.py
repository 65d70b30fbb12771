"""What each command of `npu` does: one function a command, options in, exit code out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from npu import console
from npu.errors import InterpreterError, UserError
from npu.files import write_atomically


def check(options: argparse.Namespace) -> int:
    """Print or write the placement of every operator."""
    from npu.toolchain.check import check_report

    report = check_report(options.model, options.target, options.config, profile=options.profile)
    if options.format == "json":
        _emit(report.to_json(), options.output)
    elif options.format == "md":
        _emit(console.placement_markdown(report), options.output)
    else:
        _emit(console.placement_text(report, console.width_for(options.output)), options.output)
    return 0


def compile(options: argparse.Namespace) -> int:
    """Compile and write the file, then say what it needs."""
    from npu.toolchain import compile as verb

    with console.progress() as progress:
        compiled = verb.compile(
            options.model,
            options.target,
            options.config,
            memory_mode=options.memory_mode,
            system=options.system,
            profile=options.profile,
            progress=progress,
        )
    compiled.save(options.output)
    if options.report:
        write_atomically(options.report, compiled.report.to_json().encode())
    console.print_compiled(compiled.report, options.output, len(compiled.content))
    return 0


def run(options: argparse.Namespace) -> int:
    """Execute, write what was asked for, print the summary."""
    from npu.toolchain import run as verb

    labels = options.labels and _read_labels(options.labels)
    inputs = [_read_array(path) for path in options.input] if options.input else None
    with console.progress() as progress:
        result = verb.run(
            options.model,
            inputs,
            options.target,
            options.config,
            seed=options.seed,
            memory_mode=options.memory_mode,
            system=options.system,
            profile=options.profile,
            progress=progress,
        )
    if options.output_dir:
        _make_folder(options.output_dir)
        for position, output in enumerate(result.outputs):
            write_atomically(options.output_dir / f"output_{position}.npy", _npy(output))
    if options.report:
        write_atomically(options.report, result.report.to_json().encode())
    console.print_run(result.report)
    if labels:
        console.print_prediction(result.outputs[0], result.output_quantization[0], labels)
    return 0


def disasm(options: argparse.Namespace) -> int:
    """Print the listing of every command stream in the file."""
    from npu.toolchain.inspect import disassemble

    _emit(disassemble(options.model), options.output)
    return 0


def verify(options: argparse.Namespace) -> int:
    """List what is wrong with a compiled file; 1 if anything is."""
    from npu.toolchain import inspect

    hardware = {"memory_mode": options.memory_mode, "system": options.system}
    findings = inspect.verify(options.model, options.target, options.config, **hardware)
    if options.format == "json":
        rows = [{"operator": index, **dataclasses.asdict(finding)} for index, finding in findings]
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        console.print_findings(options.model.name, findings)
    return 1 if findings else 0


def configs(options: argparse.Namespace) -> int:
    """List the shipped variants."""
    from npu.hardware.catalogue import list_variants, load_variant

    variants = [load_variant(name) for name in list_variants()]
    if options.format == "json":
        sys.stdout.write(json.dumps([console.variant_row(variant) for variant in variants], indent=2) + "\n")
    else:
        console.print_variants(variants)
    return 0


def supported_ops(options: argparse.Namespace) -> int:
    """Write the document that is generated from the rules."""
    from constraints.document import supported_ops_document

    _emit(supported_ops_document(options.profile), options.output)
    return 0


def isa(options: argparse.Namespace) -> int:
    """Write the reference page that is generated from the command table."""
    from npu.isa.document import reference_page

    _emit(reference_page(), options.output)
    return 0


def _emit(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text.encode())


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: must be a folder that can be made, got {error.strerror or error}") from error


def _read_array(path: Path) -> npt.NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise InterpreterError(f"{path}: must be a readable .npy file of numbers, got: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InterpreterError(f"{path}: must be one array (.npy), got an archive of several")
    return array


def _read_labels(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: must be a text file with one class a line, got: {error}") from error


def _npy(array: npt.NDArray[Any]) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
