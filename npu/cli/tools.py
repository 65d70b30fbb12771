"""Arguments of the tools that run models: benchmark, inference-diff, eval-classification, eval-detection, tf-compat.

The flags of every registered delegate provider are part of each tool that runs models.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from npu.cli.arguments import add_command, add_custom_operators, add_format, add_inputs, add_workers
from npu.cli.values import count, distance, number, positive, whole_number
from npu.plain import printable

if TYPE_CHECKING:
    from npu.cli.arguments import Commands

HANDLERS = "npu.cli.tool_commands"


def add_tools(commands: Commands, *, with_delegates: bool) -> None:
    """Add the tools' commands. `with_delegates` loads the providers, which `npu --help` can do without."""
    if with_delegates:
        from npu.tools.registrar import load_providers

        for problem in load_providers():
            sys.stderr.write(f"npu: note: {printable(problem)}\n")
    for name, (summary, add) in _RUNNERS.items():
        parser = add_command(commands, name, summary)
        parser.set_defaults(handlers=HANDLERS)
        add(parser)
        if with_delegates:
            _add_delegates(parser)
    compat = add_command(commands, "tf-compat", "show which TFLite operators TensorFlow operations become")
    compat.set_defaults(handlers=HANDLERS)
    compat.add_argument("operation", nargs="*", metavar="OP", help="a TensorFlow operation, e.g. nn.conv2d (default: all)")
    compat.add_argument("--model", type=Path, metavar="FILE", help="check the operators of a .tflite file instead")
    add_format(compat, "text", "json", "md")


def _add_benchmark(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add_inputs(parser)
    parser.add_argument("--num-runs", type=positive, default=50, metavar="N", help="measured runs (default: %(default)s)")
    parser.add_argument(
        "--warmup-runs", type=count, default=1, metavar="N", help="unmeasured runs before them (default: %(default)s)"
    )
    parser.add_argument("--profile", action="store_true", help="time every operator")
    parser.add_argument("--compare", action="store_true", help="measure without delegates as well")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the measurements with delegates as CSV")


def _add_inference_diff(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add_workers(parser)
    add_inputs(parser)
    parser.add_argument(
        "--test-model",
        type=Path,
        metavar="FILE",
        help="the file to compare with MODEL (default: MODEL itself, with the delegates)",
    )
    parser.add_argument(
        "--num-runs", type=positive, default=10, metavar="N", help="number of random inputs (default: %(default)s)"
    )
    parser.add_argument("--bisect", action="store_true", help="find the first operator that differs")
    parser.add_argument(
        "--tolerance", type=distance, default=0.0, metavar="X", help="exit with 3 if an output differs by more (default: 0)"
    )


def _add_eval_classification(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add_workers(parser)
    _add_images(parser)
    parser.add_argument("--ground-truth", type=Path, metavar="FILE", help='lines "file class" (default: name of the subfolder)')
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help="class names, one per line, in the order of the model's outputs"
    )
    parser.add_argument(
        "--top",
        type=positive,
        default=5,
        metavar="K",
        help="report top-1 to top-K accuracy (default: %(default)s)",
    )
    parser.add_argument(
        "--crop", type=number, default=1.0, metavar="X", help="share of the image around its centre (default: 1, all of it)"
    )


def _add_eval_detection(parser: argparse.ArgumentParser) -> None:
    _add_common(parser)
    add_workers(parser)
    _add_images(parser)
    parser.add_argument("--annotations", type=Path, required=True, metavar="FILE", help="COCO annotations (JSON)")
    parser.add_argument(
        "--class-offset",
        type=whole_number,
        default=1,
        metavar="N",
        help="class id of the model's class 0 (default: %(default)s)",
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, metavar="MODEL", help="a .tflite file")
    add_custom_operators(parser)
    parser.add_argument("--num-threads", type=positive, default=1, metavar="N", help="threads (default: %(default)s)")
    add_format(parser)


def _add_images(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--images", type=Path, required=True, metavar="DIR", help="folder of images")
    parser.add_argument("--limit", type=count, default=0, metavar="N", help="only the first N images (default: all)")
    parser.add_argument("--mean", type=number, metavar="X", help="subtracted from every pixel value (default: see --std)")
    parser.add_argument(
        "--std",
        type=number,
        metavar="X",
        help="then divides it (default without both: float inputs in [-1, 1], 8-bit inputs unchanged)",
    )


def _add_delegates(parser: argparse.ArgumentParser) -> None:
    from npu.tools.parameters import add_flags
    from npu.tools.registrar import providers

    for provider in providers():
        parameters = provider.default_parameters()
        add_flags(parser.add_argument_group(provider.name()), provider.create_flags(parameters), parameters)


_RUNNERS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "benchmark": ("measure the latency of a model on this machine", _add_benchmark),
    "inference-diff": ("compare two ways to run a model, output by output", _add_inference_diff),
    "eval-classification": ("top-k accuracy of a classifier on a folder of images", _add_eval_classification),
    "eval-detection": ("mean average precision of a detector on a folder of images", _add_eval_detection),
}
TOOLS = frozenset(_RUNNERS)
