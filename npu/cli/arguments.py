"""Arguments that several commands have, worded once."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from npu.cli.values import count, positive


class HelpText(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse asks `shutil`, which imports every kind of compression, for each option."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **{"width": _columns() - 2, **options})


def _columns() -> int:
    with suppress(ValueError, KeyError):
        if (columns := int(os.environ["COLUMNS"])) > 0:
            return columns
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


class Commands:
    """The commands of a parser, or one alone: to declare the options of all takes longer than to read a model."""

    def __init__(self, parser: argparse.ArgumentParser, only: str | None) -> None:
        self._action = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
        self._only = only

    def __contains__(self, name: str) -> bool:
        return name in self._action.choices

    def add(self, name: str, summary: str, description: str) -> argparse.ArgumentParser:
        """The parser of a command; one that forgets what is declared if another command alone is wanted."""
        if self._only not in (None, name):
            return cast("argparse.ArgumentParser", _Forgetful())
        return self._action.add_parser(
            name, help=summary, description=description, allow_abbrev=False, formatter_class=HelpText
        )


class _Forgetful:
    def __getattr__(self, _method: str) -> Callable[..., _Forgetful]:
        return lambda *_arguments, **_options: self


def add_command(commands: Commands, name: str, summary: str) -> argparse.ArgumentParser:
    """Add a command whose summary is its line in the list of commands and the description in its own help.

    Options must be written out: an abbreviation may be the name of another command's option.
    """
    description = f"{summary[0].upper()}{summary[1:]}."
    parser = commands.add(name, summary, description)
    parser.set_defaults(refuse=parser.error, parser=parser)
    return parser


def add_custom_operators(parser: argparse.ArgumentParser) -> None:
    """Where the kernels of custom operators come from."""
    parser.add_argument(
        "--custom-ops",
        action="append",
        metavar="MODULE",
        help="Python module, or .py file, that registers custom operators when it is imported; may be repeated",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """What a model is run on."""
    parser.add_argument(
        "--input",
        type=Path,
        action="append",
        metavar="FILE.npy",
        help="data of an input; once per input, in model order (default: random)",
    )
    parser.add_argument("--seed", type=count, default=0, metavar="N", help="seed of the random inputs (default: %(default)s)")


def add_format(parser: argparse.ArgumentParser, *formats: str) -> None:
    """`--format` of a report, the first form being text (JSON is the other one unless `formats` say more), and `-o`."""
    parser.add_argument("--format", choices=formats or ("text", "json"), default="text", help="default: %(default)s")
    add_output(parser)


def _file_or_terminal(text: str) -> Path | None:
    return None if text == "-" else Path(text)


def add_output(parser: argparse.ArgumentParser) -> None:
    """`-o` of what can also go to the terminal, with `-` too."""
    parser.add_argument(
        "-o", "--output", type=_file_or_terminal, metavar="FILE", help="write to FILE instead of the terminal (-)"
    )


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Where work is done."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--workers", type=positive, metavar="N", help="processes of this machine (default: 1)")
    where.add_argument("--scheduler", metavar="tcp://HOST:PORT", help="the workers of a running Dask scheduler")
