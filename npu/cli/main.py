"""The command line: arguments in, exit codes out. Everything heavy is imported by the command that needs it.

Exit codes: 0 done, 1 the model, the configuration or the data is at fault, 2 wrong usage, 3 judged and failed.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from npu.cli import kernels
from npu.cli.arguments import Commands, HelpText, add_command, add_custom_operators, add_format, add_inputs, add_output
from npu.cli.explore import add_explore
from npu.cli.tools import TOOLS, add_tools
from npu.cli.values import board, distance, input_shape
from npu.plain import printable
from npu.rendering.terminal import prepare_streams, say
from npu.stand_ins import load_numpy
from npu.version import __version__

LONGEST_MESSAGE = 900
"""Characters of an error."""

PROFILES = ("u55-u65", "v0.1", "xnnpack")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Without `arguments` this is the program, with those of the process."""
    try:
        return _answer(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("npu: stopped\n")
        return 130
    except MemoryError:
        sys.stderr.write("npu: error: the model must fit the memory of this process, got sizes beyond it\n")
        return 1
    except BrokenPipeError:
        return 1


def _answer(arguments: Sequence[str] | None) -> int:
    prepare_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = build_parser(with_delegates=not TOOLS.isdisjoint(given), given=given)
    _refuse_unknown_command(given, parser)
    options, unknown = parser.parse_known_args(given)
    if unknown:
        known_by: argparse.ArgumentParser = getattr(options, "parser", parser)
        known_by.error(import_module("npu.cli.hints").unknown_arguments(unknown, known_by))
    if options.command is None and not options.version:
        parser.error("a command is needed; npu --help lists them")
    from npu.errors import UsageError, UserError

    try:
        if options.version:
            say(f"npulab {__version__}\n" + (kernels.describe() if options.verbose else ""))
            return 0
        if arguments is None:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy loads in half the time if its BLAS starts no threads
            load_numpy()
            kernels.prepare(options.command)
        return _run(options)
    except UsageError as error:
        options.refuse(_shown(printable(str(error))))
        return 2
    except UserError as error:
        sys.stderr.write(f"npu: error: {_shown(printable(str(error)))}\n")
        return 1


def _refuse_unknown_command(given: Sequence[str], parser: argparse.ArgumentParser) -> None:
    """Say what may have been meant by a command that does not exist."""
    first = next((argument for argument in given if not argument.startswith("-")), None)
    commands = next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    if first is not None and first not in commands:
        parser.error(import_module("npu.cli.hints").unknown_command(printable(first), commands))


def _run(options: argparse.Namespace) -> int:
    if options.command == "compile" and options.output is None:
        options.output = options.model.with_name(f"{options.model.stem}_npu.tflite")
    for source in getattr(options, "custom_ops", None) or ():
        import_module("npu.runtime.custom").import_custom_operators(source)
    handlers = import_module(getattr(options, "handlers", "npu.cli.commands"))
    handler = getattr(handlers, options.command.replace("-", "_"))
    files = _given(options, "output", "report", "memory_map", "expanded", "trace", "csv", "plot")
    folders = _given(options, "output_dir", "dump_tensors", "c")
    import_module("npu.files").check_outputs(files, folders, _read_by(options))
    if not hasattr(options, "target"):
        return int(handler(options))
    options.session = import_module("npu.cli.sessions").session_of(options)
    code = int(handler(options))
    for note in options.session.notes:
        sys.stderr.write(f"npu: note: {printable(note)}\n")
    return code


def _given(options: argparse.Namespace, *names: str) -> dict[str, Path]:
    """The paths that were given, by option."""
    paths = {f"--{name.replace('_', '-')}": getattr(options, name, None) for name in names}
    return {option: path for option, path in paths.items() if path is not None}


def _read_by(options: argparse.Namespace) -> list[Path]:
    """The files that a command reads, but for the base of asm, which may be patched in place."""
    models = ("model", "other", "listing", "reference", "test_model")
    result = [
        getattr(options, name, None)
        for name in (
            *models,
            "config",
            "source",
            "debug_db",
            "budget",
            "baseline",
            "accuracy",
            "labels",
            "annotations",
            "ground_truth",
        )
    ]
    return [path for path in (*result, *(getattr(options, "input", None) or ())) if isinstance(path, Path)]


def _shown(message: str) -> str:
    """A message that a person reads: what a broken file holds may be of any length."""
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 200]} ... {message[-190:]}"


def end(code: int) -> NoReturn:
    """End the process as a whole: taking its objects apart one by one is a fifth of a short run."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads any more
        code = code or 1
    atexit._run_exitfuncs()
    os._exit(code)


def build_parser(*, with_delegates: bool = True, given: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The whole command line, or what `given` arguments need if they begin with a command.

    The flags of delegates only if wanted, since finding them takes time.
    """
    only = given[0] if given and not given[0].startswith("-") else None
    parser = argparse.ArgumentParser(
        prog="npu",
        description="Check, compile and simulate TFLite models for Arm Ethos-U NPUs.",
        epilog="Example: npu run model.tflite --target ethos-u55-128\n\n"
        "npu COMMAND --help lists the options of a command.\n"
        "Exit codes: 0 done; 1 a fault in the model, the configuration or the data; 2 wrong usage; 3 a check, comparison or "
        "verification that came to an end and failed.",
        formatter_class=HelpText,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument(
        "--verbose", action="store_true", help="with --version: which compiled kernels are used, and where they are"
    )
    commands = Commands(parser, only)
    _add_check(commands)
    _add_fix(commands)
    _add_compile(commands)
    _add_run(commands)
    _add_explain(commands)
    _add_report(commands)
    _add_export(commands)
    _add_debug(commands)
    _add_disasm(commands)
    _add_asm(commands)
    _add_compare(commands)
    _add_diff(commands)
    _add_verify(commands)
    add_explore(commands)
    add_tools(commands, with_delegates=with_delegates)
    configs = add_command(commands, "configs", "list the shipped targets, systems, memory modes and CPUs")
    add_format(configs)
    operators = add_command(commands, "supported-ops", "print the supported operators and their rules as Markdown")
    _add_profile(operators)
    add_output(operators)
    _add_warm_up(commands)
    script = add_command(commands, "completion", "print what lets a shell complete commands, options and names")
    script.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")
    reference = add_command(commands, "isa", "print the reference of the command stream as Markdown")
    add_output(reference)
    return parser if only is None or only in commands else build_parser(with_delegates=with_delegates)


def _add_warm_up(commands: Commands) -> None:
    warm_up = add_command(
        commands, "warm-up", "compile the kernels, and the modules, ahead of the first run, for containers and caches"
    )
    names = "vnni, avx512, avx2, x86-64, dotprod, aarch64 or all"
    warm_up.add_argument("--cpu", metavar="NAME", help=f"{names} (default: this CPU)")
    warm_up.set_defaults(handlers="npu.cli.kernels")


def _add_check(commands: Commands) -> None:
    check = add_command(commands, "check", "show which operators run on the NPU, and why the others do not")
    _add_model(check)
    _add_memory(check)
    add_format(check, "text", "json", "md", "html", "sarif", "junit")
    check.add_argument(
        "--exact", action="store_true", help="compile and time under the profile of a document too, in place of estimates"
    )
    check.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="WHAT",
        help="exit with 3 on: cpu, reference, split or a rule id; may be repeated",
    )
    check.add_argument(
        "--strict", action="store_true", help="exit with 3 for a model that runs here, but that TFLite's interpreter refuses"
    )
    check.add_argument(
        "--budget",
        type=Path,
        metavar="FILE",
        help="YAML or JSON with max_cycles, max_sram and others (docs/gates.md); exit with 3 if one is exceeded",
    )
    check.add_argument(
        "--baseline",
        type=Path,
        metavar="FILE.json",
        help="an earlier report (--format json): exit with 3 if the model needs more than then",
    )
    check.add_argument(
        "--tolerance",
        type=distance,
        default=0.0,
        metavar="PERCENT",
        help="what it may need more than the baseline (default: 0)",
    )
    check.add_argument(
        "--accuracy", type=Path, metavar="FILE.json", help="what an evaluation wrote, for min_accuracy of the budget"
    )
    check.add_argument(
        "--save",
        type=Path,
        action="append",
        metavar="FILE",
        help="write the report there too, in the form of the suffix: .json, .md, .html, .sarif, .xml (JUnit); may be repeated",
    )
    check.add_argument(
        "--source", type=Path, metavar="MODEL.tflite", help="the model of a compiled file, for max_difference of the budget"
    )
    add_inputs(check)


def _add_fix(commands: Commands) -> None:
    fix = add_command(commands, "fix", "rewrite a model so that more operators run on the NPU, with identical results")
    _add_model(fix)
    fix.add_argument("-o", "--output", type=Path, metavar="OUT.tflite", required=True, help="the fixed model")


def _add_compile(commands: Commands) -> None:
    compile_ = add_command(commands, "compile", "compile the NPU operators of a model to command streams")
    _add_model(compile_)
    _add_memory(compile_)
    compile_.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the compiled .tflite file, as a board loads it (default: MODEL_npu.tflite beside the model)",
    )
    compile_.add_argument(
        "--input-shape",
        type=input_shape,
        action="append",
        metavar="NAME=N,H,W,C",
        help="shape of an input in place of the file's, once per input; all other shapes follow from it",
    )
    compile_.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON")
    compile_.add_argument(
        "--memory-map",
        type=Path,
        metavar="FILE",
        help="write what lies where in memory and when, the peak, and how far weights were compressed, as text or .json",
    )
    compile_.add_argument(
        "--dump-after", metavar="PASS", help="print what the compiler has after this pass, or after each with 'all'"
    )
    compile_.add_argument("--verify-passes", action="store_true", help="verify what the compiler has after every pass")


def _add_run(commands: Commands) -> None:
    run = add_command(commands, "run", "execute a model bit-exactly and time every operator; compiles it first if needed")
    _add_model(run)
    _add_origin(run)
    _add_memory(run)
    add_inputs(run)
    run.add_argument("--output-dir", type=Path, metavar="DIR", help="write output_0.npy, output_1.npy, ... there")
    run.add_argument(
        "--labels", type=Path, metavar="FILE", help="text file, one class per line; prints the class with the highest score"
    )
    run.add_argument("--report", type=Path, metavar="FILE", help="write the report as JSON")
    run.add_argument(
        "--timing-only", action="store_true", help="time every operator without executing the model; needs no data"
    )
    run.add_argument("--trace", type=Path, metavar="FILE", help="write the timeline as a Chrome trace, for ui.perfetto.dev")
    add_format(run, "text", "json", "html")
    run.add_argument("--pmu", action="store_true", help="print the performance counters and add them to the report")
    run.add_argument(
        "--dump-tensors", type=Path, metavar="DIR", help="write every tensor and every feature map of the NPU there as .npy"
    )


def _add_explain(commands: Commands) -> None:
    explain = add_command(commands, "explain", "show what bounds every operator and where its cycles go")
    _add_model(explain)
    _add_origin(explain)
    _add_memory(explain)
    add_format(explain, "text", "json", "html")
    explain.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw the roofline and the cycles of every operator into a page (.html) or a picture (.svg, .png)",
    )


def _add_report(commands: Commands) -> None:
    report = add_command(
        commands, "report", "write a page that needs nothing else: placement, timeline, memory, roofline, traffic, weights"
    )
    _add_model(report)
    _add_origin(report)
    _add_memory(report)
    report.add_argument(
        "-o", "--output", type=Path, metavar="FILE.html", default=Path("report.html"), help="the page (default: %(default)s)"
    )
    report.set_defaults(handlers="npu.cli.pages")


def _add_export(commands: Commands) -> None:
    export = add_command(
        commands, "export", "write a compiled file as C sources for a board with a self-test, or as a graph for viewers"
    )
    _add_model(export)
    _add_memory(export)
    add_inputs(export)
    export.add_argument("--c", type=Path, metavar="DIR", help="write C sources into this folder, made if need be")
    export.add_argument(
        "--expanded",
        type=Path,
        metavar="FILE",
        help="write every operation of the NPU as a node of a graph: .tflite for Netron, .json for Model Explorer",
    )


def _add_debug(commands: Commands) -> None:
    debug = add_command(commands, "debug", "step through the NPU jobs of a model in the terminal, forwards and back")
    _add_model(debug)
    _add_memory(debug)
    add_inputs(debug)


def _add_disasm(commands: Commands) -> None:
    disasm = add_command(commands, "disasm", "list the commands of a compiled file")
    disasm.add_argument("model", type=Path, metavar="COMPILED", help="a compiled .tflite file")
    _add_hardware(disasm)
    add_output(disasm)


def _add_asm(commands: Commands) -> None:
    asm = add_command(commands, "asm", "assemble a listing of disasm into a compiled file")
    asm.add_argument("listing", type=Path, metavar="LISTING", help="text that npu disasm wrote, edited or not")
    asm.add_argument("--base", type=Path, metavar="COMPILED.tflite", required=True, help="the compiled file that was listed")
    asm.add_argument("-o", "--output", type=Path, metavar="OUT.tflite", required=True, help="the new compiled file")


def _add_origin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source",
        type=Path,
        metavar="MODEL.tflite",
        help="the model that a file of another compiler was made from: its operators are looked for in the file",
    )
    _add_database(parser)


def _add_database(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug-db", type=Path, metavar="FILE.xml", help="what vela --enable-debug-db wrote: names the operators of its file"
    )


def _add_diff(commands: Commands) -> None:
    diff = add_command(
        commands, "diff", "find the first operator of a compiled file whose output differs from the source model"
    )
    diff.add_argument("reference", type=Path, metavar="REFERENCE.tflite", help="the source model")
    diff.add_argument("model", type=Path, metavar="COMPILED.tflite", help="the file compiled from it")
    add_custom_operators(diff)
    _add_hardware(diff)
    _add_gates(diff)
    _add_database(diff)
    add_inputs(diff)
    add_format(diff)


def _add_compare(commands: Commands) -> None:
    compare = add_command(
        commands, "compare", "compare two models, compiled files, targets or sets of options, operator by operator"
    )
    compare.add_argument("model", type=Path, metavar="A", help="a .tflite file, compiled or not")
    compare.add_argument("other", type=Path, metavar="B", nargs="?", help="another one (default: A, with the options for B)")
    _add_hardware(compare)
    _add_profile(compare)
    _add_memory(compare)
    _add_origin(compare)
    other = compare.add_argument_group("options for B, where it takes others than A")
    _add_hardware(other, prefix="b-")
    _add_memory(other, prefix="b-")
    add_format(compare, "text", "json", "md", "html")
    compare.set_defaults(handlers="npu.cli.comparison")


def _add_verify(commands: Commands) -> None:
    verify = add_command(
        commands, "verify", "search a compiled file for accesses out of bounds, hazards and uninitialised reads"
    )
    verify.add_argument("model", type=Path, metavar="COMPILED", help="a compiled .tflite file")
    _add_hardware(verify)
    _add_memory(verify)
    add_format(verify)


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file")
    add_custom_operators(parser)
    _add_hardware(parser)
    _add_profile(parser)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", choices=PROFILES, default="u55-u65", help="rules of placement (default: %(default)s)")


def _add_hardware(parser: argparse._ActionsContainer, prefix: str = "") -> None:
    hardware = parser.add_mutually_exclusive_group()
    hardware.add_argument(
        f"--{prefix}target",
        metavar="NAME",
        help="shipped target, see npu configs (default: ethos-u55-128; for a compiled file, its own)",
    )
    hardware.add_argument(
        f"--{prefix}board",
        dest=f"{prefix}target".replace("-", "_"),
        type=board,
        metavar="NAME",
        help="a board that can be bought, in place of a target; see npu configs",
    )
    hardware.add_argument(f"--{prefix}config", type=Path, metavar="FILE.yaml", help="your own hardware description")
    parser.add_argument(
        f"--{prefix}set",
        action="append",
        metavar="KEY=VALUE",
        help="change a field, e.g. system.adapters.axi1.read_latency_cycles=16; may be repeated",
    )


def _add_memory(parser: argparse._ActionsContainer, prefix: str = "") -> None:
    parser.add_argument(
        f"--{prefix}memory-mode", metavar="NAME", help="where constants and arena lie, e.g. Sram_Only; see npu configs"
    )
    parser.add_argument(f"--{prefix}system", metavar="NAME", help="clock and memories, e.g. Deep_Embedded; see npu configs")
    parser.add_argument(
        f"--{prefix}arena-cache-size",
        type=int,
        metavar="BYTES",
        help="bytes for feature maps and copies of constants, in place of the mode's",
    )
    parser.add_argument(
        f"--{prefix}optimise",
        type=str.lower,  # Vela writes Performance and Size
        choices=("performance", "size"),
        default=None if prefix else "performance",
        help="compile for few cycles within the arena's bytes (the default), or for little SRAM",
    )
    _add_gates(parser, prefix)


def _add_gates(parser: argparse._ActionsContainer, prefix: str = "") -> None:
    parser.add_argument(
        f"--{prefix}lstm-gates",
        choices=("exact", "table"),
        default=None if prefix else "exact",
        help="gates of int8 LSTM cells: as LiteRT's reference (the default), or by the hardware's table: faster, not exact",
    )
