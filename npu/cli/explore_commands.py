"""What the commands for many models and much hardware do: options in, tables out, exit code back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from npu.cli.commands import FAILED, emit
from npu.errors import UserError
from npu.explore import space
from npu.explore.journal import Journal
from npu.explore.sweep import Swept
from npu.explore.sweep import sweep as sweep_points
from npu.explore.table import require_form, write_table
from npu.files import check_outputs, write_atomically
from npu.hardware.shipped import list_boards
from npu.plain import printable
from npu.rendering import explore, progress_bars
from npu.rendering.terminal import say, width_for
from npu.workers import open_workers

JOURNAL = ".journal"
"""What is added to the name of the first table."""


def sweep(options: argparse.Namespace) -> int:
    """Measure every point; 1 if one of them has no result."""
    for path in options.table:
        require_form(path)
        check_outputs({"--table": path}, {}, options.models)
    chosen = space.make_space(**_space_arguments(options))
    points = list(chosen.points())
    journal = Journal(options.table[0].with_name(options.table[0].name + JOURNAL) if options.table else None)
    known = len(journal.results)
    try:
        with open_workers(options.workers, options.scheduler) as workers, progress_bars.progress(with_rate=True) as progress:
            swept = sweep_points(points, workers, journal, progress)
    except KeyboardInterrupt:
        if journal.path is not None:
            kept = f"{len(journal.results) - known:,} new points are kept in {journal.path}; the same command goes on"
            sys.stderr.write(f"npu: {printable(kept)}\n")
        raise
    for path in options.table:
        write_table(path, swept.rows)
    if options.plot:
        _plot(options.plot, swept, tuple(chosen.over))
    say(explore.sweep_text(swept, tuple(chosen.over), options.table, width_for(None)))
    for reason in swept.errors[:3]:
        sys.stderr.write(f"npu: error: {printable(reason)}\n")
    return 1 if swept.errors else 0


def _space_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `make_space`: those of the file, with what the command line says in their place."""
    given: dict[str, Any] = {
        "models": options.models,
        "targets": options.targets,
        "boards": options.boards,
        "configs": options.configs,
        "changes": options.set,
        "over": dict(space.parse_over(text) for text in options.over),
        "compares_outputs": options.compare_outputs,
        "optimise": options.optimise,
        "profile": options.profile,
    }
    if len(given["over"]) != len(options.over):
        raise UserError("--over: a field may be given only once; its values may be a list")
    study = space.read_study(options.study) if options.study else {"models": []}
    return study | {name: value for name, value in given.items() if value}


def _plot(path: Path, swept: Swept, over: tuple[str, ...]) -> None:
    """Time over each swept field with numbers, and time against SRAM with the front of both."""
    from npu.explore.pareto import pareto_rows
    from npu.plots import charts
    from npu.plots.write import write_charts

    rows = [{**row, "series": explore.series_of(row, over)} for row in swept.rows if row["error"] is None]
    drawn = [
        charts.swept_lines(
            [{**row, "series": explore.series_of(row, [other for other in over if other != field])} for row in rows],
            field,
            "time_ms",
            colour="series",
        )
        for field in over
        if all(isinstance(row[field], int | float) for row in rows)
    ]
    front = [rows[number] for number in pareto_rows(rows, "sram_bytes", "time_ms")] if rows else []
    drawn.append(charts.pareto_front(rows, front, "sram_bytes", "time_ms", colour="model"))
    write_charts(path, f"{len(swept.rows)} points", drawn)


def fit(options: argparse.Namespace) -> int:
    """Judge every model on every board; FAILED if a model fits none of them."""
    from npu.explore.fit import fit as verb
    from npu.rendering import fit as rendering

    boards = space.every_board(options.boards) or list(list_boards())
    with open_workers(options.workers, options.scheduler) as workers, progress_bars.progress(with_rate=True) as progress:
        fits = verb(
            options.models, list(dict.fromkeys(boards)), workers, finds_least_arena=options.least_arena, progress=progress
        )
    if options.format == "text":
        emit(rendering.fit_text(fits, width_for(options.output)), options.output)
    else:
        emit(rendering.fit_json(fits) if options.format == "json" else rendering.fit_page(fits), options.output)
    stranded = [
        model for model in dict.fromkeys(one.model for one in fits) if not any(one.fits for one in fits if one.model == model)
    ]
    for model in stranded:
        sys.stderr.write(f"npu: fit failed: {printable(model)} fits none of these boards\n")
    return FAILED if stranded else 0


def export_workload(options: argparse.Namespace) -> int:
    """Write the files of the form, and name the operators that are not in them."""
    from npu.explore.workloads import export
    from npu.toolchain.sources import load_plain

    files, left = export(load_plain(options.model), options.form)
    try:
        options.output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{options.output_dir}: must be a folder that can be made, got {error.strerror or error}") from error
    for name, content in files.items():
        write_atomically(options.output_dir / name, content.encode())
    say(f"{options.output_dir}: {', '.join(files)}\n")
    if left:
        say(printable(f"not in {'it' if len(files) == 1 else 'them'}: {', '.join(left)}") + "\n")
    return 0
