"""What a person may have meant who wrote a command or an option that does not exist."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

OF_VELA = {
    "--accelerator-config": "--target",
    "--system-config": "--system",
    "--output-dir": "-o",
    "--output-format": "npu compile writes TFLite files only",
    "--optimize": "--optimise",
    "--enable-debug-db": "npu compile keeps the names of operators in the file; --debug-db reads what Vela wrote",
    "--show-cpu-operations": "npu check",
    "--supported-ops-report": "npu supported-ops",
    "--list-config-files": "npu configs",
    "--list-configs": "npu configs",
    "--verbose-config": "npu configs",
    "--verbose-performance": "npu run --timing-only, npu explain, npu report",
    "--verbose-cycle-estimate": "npu explain",
    "--verbose-allocation": "npu compile --memory-map FILE",
    "--verbose-weights": "npu compile --memory-map FILE",
    "--verbose-schedule": "npu compile --dump-after schedule_jobs",
    "--verbose-graph": "npu compile --dump-after lower_partitions",
    "--verbose-register-command-stream": "npu disasm",
    "--verbose-high-level-command-stream": "npu compile --dump-after emit_operations",
    "--verbose-all": "npu compile --dump-after all",
    "--max-block-dependency": "the compiler works BLOCKDEP out; npu disasm shows it",
    "--cpu-tensor-alignment": "tensors are aligned to 16 bytes",
    "--recursion-limit": "not needed",
    "--ignore-ops": "no counterpart",
}
"""Options of Vela, and what to write here."""


def unknown_arguments(unknown: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """What to say of arguments that a command does not know."""
    told = f"unrecognized arguments: {' '.join(unknown)}"
    hints = list(dict.fromkeys(_hints(unknown, parser)))
    return f"{told}; {'; '.join(hints)}" if hints else told


def _hints(unknown: Sequence[str], parser: argparse.ArgumentParser) -> Iterator[str]:
    options = [option.removeprefix("--") for option in options_of(parser) if option.startswith("--")]
    for argument in unknown:
        name = argument.partition("=")[0]
        if name.startswith("--"):
            if name in OF_VELA:
                yield f"{name} is an option of Vela, here: {OF_VELA[name]}"
            else:
                yield from (f"did you mean --{near}?" for near in _nearest(name.removeprefix("--"), options))


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """The options that a parser knows."""
    return [option for action in parser._actions for option in action.option_strings]


def unknown_command(given: str, commands: Iterable[str]) -> str:
    """What to say of a command that does not exist."""
    names = list(commands)
    near = _nearest(given, names)
    hint = f"; did you mean npu {near[0]}?" if near else ""
    if given.endswith(".tflite"):
        hint = f"; npu run {given} runs a model, npu compile {given} compiles it"
    return f"there is no command {given!r}{hint}; npu --help lists the commands"


def _nearest(word: str, words: list[str]) -> list[str]:
    import difflib  # for what is refused

    return difflib.get_close_matches(word, words, n=1, cutoff=0.6)
