"""Arguments of the commands that look at many models and much hardware: fit, sweep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npu.cli.arguments import add_command, add_format, add_workers

if TYPE_CHECKING:
    from npu.cli.arguments import Commands

HANDLERS = "npu.cli.explore_commands"


def add_explore(commands: Commands) -> None:
    """Add the commands."""
    _add_fit(commands)
    _add_sweep(commands)
    _add_export_workload(commands)


def _add_fit(commands: Commands) -> None:
    fit = add_command(commands, "fit", "show on which boards models fit, how fast they are there, and what is missing")
    fit.set_defaults(handlers=HANDLERS)
    fit.add_argument("models", type=Path, nargs="+", metavar="MODEL", help=".tflite files")
    fit.add_argument(
        "--board", dest="boards", action="append", default=[], metavar="NAME", help="may be repeated (default: all)"
    )
    fit.add_argument(
        "--least-arena",
        action="store_true",
        help="also find the smallest arena that costs no cycles, which takes many compilations",
    )
    add_format(fit, "text", "json", "html")
    add_workers(fit)


def _add_sweep(commands: Commands) -> None:
    sweep = add_command(commands, "sweep", "time models on many variants of hardware, into a table")
    sweep.set_defaults(handlers=HANDLERS)
    sweep.add_argument("models", type=Path, nargs="*", metavar="MODEL", help=".tflite files")
    sweep.add_argument("--study", type=Path, metavar="FILE.yaml", help="models, hardware and fields in a file instead")
    sweep.add_argument("--target", dest="targets", action="append", default=[], metavar="NAME", help="may be repeated")
    sweep.add_argument(
        "--board", dest="boards", action="append", default=[], metavar="NAME", help="may be repeated; all is every one"
    )
    sweep.add_argument(
        "--config", dest="configs", type=Path, action="append", default=[], metavar="FILE.yaml", help="may be repeated"
    )
    sweep.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change a field at every point")
    sweep.add_argument(
        "--over",
        action="append",
        default=[],
        metavar="FIELD=VALUES",
        help="vary a field of hardware, optimise or profile: A,B,C or FIRST..LAST:COUNT or FIRST..LAST:COUNT:log; K is 1024",
    )
    sweep.add_argument("--optimise", choices=("performance", "size"), help="default: performance")
    sweep.add_argument("--profile", choices=("u55-u65", "v0.1", "xnnpack"), help="rules of placement (default: u55-u65)")
    sweep.add_argument(
        "--compare-outputs", action="store_true", help="execute every point too, and compare with the CPU kernels"
    )
    sweep.add_argument(
        "-o",
        "--table",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="write .csv or .parquet; may be repeated. FILE.journal keeps what is done: the same command goes on with it",
    )
    sweep.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw time over every swept field, and time against SRAM (.html, .svg, .png)"
    )
    add_workers(sweep)


def _add_export_workload(commands: Commands) -> None:
    export = add_command(
        commands, "export-workload", "write the shapes of a model's multiplications for SCALE-Sim, Timeloop or ZigZag"
    )
    export.set_defaults(handlers=HANDLERS)
    export.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file that is not compiled")
    export.add_argument("--form", choices=("scale-sim", "timeloop", "zigzag"), required=True)
    export.add_argument("--output-dir", type=Path, metavar="DIR", required=True, help="folder of the files")
