"""What the tools of `npu` do on the command line: options in, text or JSON out, exit code back."""

from __future__ import annotations

import argparse
import json

from npu.cli.commands import FAILED, emit, read_inputs
from npu.errors import UserError
from npu.rendering import progress_bars, tools
from npu.rendering.terminal import width_for
from npu.tools.images import Preprocessing
from npu.tools.parameters import ToolParameters, take_flags
from npu.tools.registrar import default_parameters


def benchmark(options: argparse.Namespace) -> int:
    """Measure, with --compare also without delegates."""
    from npu.tools.benchmark import Measurement, measure

    def once(parameters: ToolParameters) -> Measurement:
        with progress_bars.progress() as progress:
            return measure(
                options.model,
                parameters,
                runs=options.num_runs,
                warm_up_runs=options.warmup_runs,
                num_threads=options.num_threads,
                is_profiled=options.profile,
                inputs=read_inputs(options),
                seed=options.seed,
                progress=progress,
            )

    measurements = [once(_parameters(options))]
    if options.compare:
        measurements.append(once(default_parameters()))
    if options.csv:
        emit(measurements[0].to_csv(), options.csv)
    if options.format == "json":
        emit(_as_json([measurement.to_json() for measurement in measurements]), options.output)
    else:
        emit(tools.measurements_text(measurements, width_for(options.output)), options.output)
    return 0


def inference_diff(options: argparse.Namespace) -> int:
    """Compare; FAILED if an output differs by more than --tolerance."""
    from npu.tools.inference_diff import compare
    from npu.workers import open_workers

    with open_workers(options.workers, options.scheduler) as workers, progress_bars.progress() as progress:
        difference = compare(
            options.model,
            _parameters(options),
            options.test_model,
            runs=options.num_runs,
            inputs=read_inputs(options),
            seed=options.seed,
            num_threads=options.num_threads,
            is_bisected=options.bisect,
            workers=workers,
            plugins=options.custom_ops or (),
            progress=progress,
        )
    emit(
        difference.to_json() if options.format == "json" else tools.comparison_text(difference, width_for(options.output)),
        options.output,
    )
    return FAILED if any(output.max > options.tolerance for output in difference.outputs) else 0


def eval_classification(options: argparse.Namespace) -> int:
    """Top-k accuracy."""
    from npu.tools.classification import evaluate
    from npu.workers import open_workers

    with open_workers(options.workers, options.scheduler) as workers, progress_bars.progress() as progress:
        evaluation = evaluate(
            options.model,
            options.images,
            _parameters(options),
            labels=options.labels,
            ground_truth=options.ground_truth,
            top=options.top,
            limit=options.limit,
            preprocessing=Preprocessing(options.mean, options.std, options.crop),
            num_threads=options.num_threads,
            workers=workers,
            plugins=options.custom_ops or (),
            progress=progress,
        )
    emit(
        evaluation.to_json() if options.format == "json" else tools.classification_text(evaluation, width_for(options.output)),
        options.output,
    )
    return 0


def eval_detection(options: argparse.Namespace) -> int:
    """Mean average precision."""
    from npu.tools.detection import evaluate
    from npu.workers import open_workers

    with open_workers(options.workers, options.scheduler) as workers, progress_bars.progress() as progress:
        evaluation = evaluate(
            options.model,
            options.images,
            options.annotations,
            _parameters(options),
            class_offset=options.class_offset,
            limit=options.limit,
            preprocessing=Preprocessing(options.mean, options.std),
            num_threads=options.num_threads,
            workers=workers,
            plugins=options.custom_ops or (),
            progress=progress,
        )
    emit(
        evaluation.to_json() if options.format == "json" else tools.detection_text(evaluation, width_for(options.output)),
        options.output,
    )
    return 0


def tf_compat(options: argparse.Namespace) -> int:
    """Explain the guide's rows, or judge a file; FAILED if the file is not convertible."""
    from npu.tflite.reader import read_model
    from npu.tools.tf_compat import find_operations, judge

    if options.model is not None:
        if options.operation:
            raise UserError("tf-compat: must get operations or --model, got both")
        survivors = judge(read_model(options.model))
        emit(tools.survivors_text(options.model.name, survivors, options.format), options.output)
        return 0 if all(op.is_convertible for op in survivors) else FAILED
    rows = find_operations(options.operation)
    emit(tools.operations_text(rows, options.format, width_for(options.output)), options.output)
    return 0


def _parameters(options: argparse.Namespace) -> ToolParameters:
    parameters = default_parameters()
    take_flags(options, parameters)
    return parameters


def _as_json(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else json.dumps([json.loads(text) for text in texts], indent=2) + "\n"
