"""Compares the timing model with measured cycles: `python benchmarks/timing_accuracy.py RECORDS.yaml [--models DIR]`.

RECORDS.yaml holds a list `records`; a record is used when it names a model that is in the models folder (and has the stated
sha256), a target that this project ships, a released Vela version and a measured cycle count; the others are counted by
what they lack. Each model is compiled with the version of `ethos-u-vela` that its record names (a version with a remark,
"3.2.0 (inferred from release)", counts as that version), from a virtual environment that is made on demand, and with
`campaign.ini` beside the records file when it holds the system; the hash of the output is compared with the record's.
Old releases need an old Python (--old-python, or python3.8 or python3.9 of the path). Prints the error per target, writes
docs/timing-accuracy.md, and with --bands the error band of each target into its configs/*.yaml; --leave-one-out adds the
errors of each model with constants that were chosen without it (half a minute more). No other state is kept outside --work.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.leave_one_out import Case, leave_one_out
from benchmarks.leave_one_out import table as left_out_table
from benchmarks.timing_page import bands, document, group_table, mean_and_worst, target_table
from benchmarks.timing_records import REASONS, Comparison, SeveralJobs, compare, read_records, reason_to_skip, variant_of
from npu.errors import UserError
from npu.isa.decode import decode
from npu.tflite.reader import read_model
from sim.container import jobs_of


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=Path)
    parser.add_argument("--models", type=Path, help="folder of the models (default: models beside the records file)")
    parser.add_argument("--work", type=Path, default=Path("build/timing-accuracy"), help="compilers and compiled models")
    parser.add_argument("--output", type=Path, default=Path("docs/timing-accuracy.md"))
    parser.add_argument("--old-python", type=Path, help="Python 3.8 or 3.9 for releases before 3.4")
    parser.add_argument("--leave-one-out", action="store_true", help="also predict each model from the records of the others")
    parser.add_argument("--bands", action="store_true", help="write the error band of each target into its configs/*.yaml")
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
            except SeveralJobs:
                reason = "jobs"
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
    left_out = left_out_table(leave_one_out(cases_of(compared))) if options.leave_one_out else None
    text = document(compared, skipped, left_out)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text)
    if options.bands:
        write_bands(compared)
    lines = [*group_table(compared), "", *target_table(compared), "", f"{len(compared)} records compared; left out:"]
    lines += [f"  {count} with {REASONS[reason]}" for reason, count in skipped.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def cases_of(compared: Iterable[Comparison]) -> list[Case]:
    """The records of known compiler versions without the sweeps, ready to be timed with other constants."""
    cases: list[Case] = []
    streams: dict[tuple[Path, str], tuple[Any, int]] = {}
    for item in compared:
        if item.is_inferred or item.compiled is None or item.record.get("timing_adapter_change"):
            continue
        variant = variant_of(item.record)
        key = item.compiled, variant.name
        if key not in streams:
            words = next(iter(jobs_of(read_model(item.compiled.read_bytes())))).payload.words
            streams[key] = decode(words, variant), len(words)
        cases.append(Case(item.record["model"], *streams[key], variant, item.error_of))
    return cases


def write_bands(compared: list[Comparison]) -> None:
    """Replaces the section `accuracy` at the end of each target's description."""
    folder = Path(__file__).parents[1] / "configs"
    for name, (system, mode, items) in bands(compared).items():
        path = folder / f"{name}.yaml"
        text = path.read_text().partition("accuracy:")[0].rstrip()
        mean, worst = mean_and_worst(items)
        fields = {"source": "docs/timing-accuracy.md", "system": system, "memory_mode": mode, "measurements": len(items)}
        fields |= {"mean_error_percent": mean, "worst_error_percent": worst}
        path.write_text(f"{text}\naccuracy:\n" + "".join(f"  {key}: {value}\n" for key, value in fields.items()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
