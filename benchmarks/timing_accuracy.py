"""Compares the timing model with measured cycles: `python benchmarks/timing_accuracy.py RECORDS.yaml [--models DIR]`.

RECORDS.yaml holds a list `records`; a record is used when it names a model that is in the models folder (and has the stated
sha256), a target that this project ships, a released Vela version and a measured cycle count; the others are counted by
what they lack. Each model is compiled with the version of `ethos-u-vela` that its record names (a version with a remark,
"3.2.0 (inferred from release)", counts as that version), from a virtual environment that is made on demand, and with
`campaign.ini` beside the records file when it holds the system; the hash of the output is compared with the record's.
Old releases need an old Python (--old-python, or python3.8 or python3.9 of the path). Prints the error per target, and with
--write makes docs/timing-accuracy.md and configs/accuracy/timing.yaml: for these every model is predicted with constants that
were chosen without it (`benchmarks/calibration.py`, half a minute). No other state is kept outside --work.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.calibration import Calibration, Case, leave_one_out, pin_constants, shipped
from benchmarks.timing_page import Study, by_family, document, group_table, target_table
from benchmarks.timing_records import (
    REASONS,
    RESOLUTION_CYCLES,
    Comparison,
    compare,
    read_records,
    reason_to_skip,
    streams_of,
    variant_of,
)
from benchmarks.timing_u85 import errors_by_target, leave_networks_out
from npu.errors import UserError
from npu.hardware.accuracy import FILE
from sim.timing import schedule
from sim.work import work_shares

MEASURED_SHARE = 0.01
"""Part of the cycles of a network from which on its measurement says something of a kind of operation."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--models", type=Path, help="folder of the models (default: models beside the records file)")
    parser.add_argument("--work", type=Path, default=Path("build/timing-accuracy"), help="compilers and compiled models")
    parser.add_argument("--old-python", type=Path, help="Python 3.8 or 3.9 for releases before 3.4")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the page and the bands below this folder")
    options = parser.parse_args(arguments)
    records = read_records(options.records)
    models = options.models or options.records.parent / "models"
    settings = options.records.parent / "campaign.ini"
    compared: list[Comparison] = []
    skipped: dict[str, int] = defaultdict(int)
    for record in records:
        reason = reason_to_skip(record, models)
        if not reason:
            try:
                found = compare(record, models, settings.resolve() if settings.exists() else None, options)
                compared.append(found)
            except UserError as error:
                sys.stderr.write(f"{record['id']}: {error}\n")
                reason = "stream"
            except (OSError, subprocess.CalledProcessError) as error:
                detail = getattr(error, "stderr", None) or str(error).encode()
                told = detail.decode(errors="replace").strip().splitlines() or ["failed without a word"]
                sys.stderr.write(f"{record['id']}: {told[-1]}\n")
                reason = "install"
        if reason:
            skipped[reason] += 1
    if options.write is not None:
        write(options.write, compared, skipped)
    lines = [*group_table(compared), "", *target_table(compared), "", f"{len(compared)} records compared; left out:"]
    lines += [f"  {count} with {REASONS[reason]}" for reason, count in skipped.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def write(folder: Path, compared: list[Comparison], skipped: dict[str, int]) -> None:
    """The page and the table of the bands."""
    shared, of_u85 = by_family(compared)
    calibration = Calibration([case_of(item) for item in shared if not item.is_inferred])
    values = shipped(calibration.cases[0].variant)
    chosen = calibration.choose(range(len(calibration.cases)))
    study = Study(values, chosen, leave_one_out(calibration), pin_constants(calibration, values), leave_networks_out(of_u85))
    (folder / "docs" / "timing-accuracy.md").write_text(document(compared, skipped, study))
    (folder / "configs" / FILE).write_text(bands(compared, study))


def case_of(item: Comparison) -> Case:
    """A record as the calibration takes it. A difference of a step of the measured totals is none."""
    variant = variant_of(item.record)
    slack = 0 if item.record.get("active_cycles") else RESOLUTION_CYCLES
    low, high = item.measured - slack, item.measured + slack
    is_sweep = bool(item.record.get("timing_adapter_change"))
    return Case(
        item.name, item.record["model"], variant, streams_of(item.compiled, variant), low, high, item.error_of, is_sweep
    )


def bands(compared: Iterable[Comparison], study: Study) -> str:
    """The table `configs/accuracy/timing.yaml`: errors of left-out models by target, and what they hold for."""
    kinds, memories = set(), []
    for item in compared:
        variant = variant_of(item.record)
        if item.is_inferred:
            continue
        memory = f"{{system: {variant.system.name}, memory_mode: {variant.memory_mode.name}}}"
        if not item.record.get("timing_adapter_change") and memory not in memories:
            memories.append(memory)
        jobs = [(operations, schedule(operations, variant, stream_words=words))
                for operations, words in streams_of(item.compiled, variant)]  # fmt: skip
        kinds |= {kind for kind, share in work_shares(jobs).items() if share >= MEASURED_SHARE}
    lines = [
        "# Written by `benchmarks/timing_accuracy.py --write`; do not edit.",
        "source: docs/timing-accuracy.md",
        "targets:",
    ]
    rows = [*study.left_out, *study.of_u85]
    for target, errors in (study.errors_by_target() | errors_by_target(study.of_u85)).items():
        mean, worst = sum(errors) / len(errors), max(errors)
        models = sum(target in row.errors for row in rows)
        figures = f"mean_error_percent: {mean:.1f}, worst_error_percent: {worst:.1f}"
        lines.append(f"  {target}: {{models: {models}, measurements: {len(errors)}, {figures}}}")
    lines += ["memories:", *(f"- {memory}" for memory in memories), "kinds:", *(f"- {kind}" for kind in sorted(kinds))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
