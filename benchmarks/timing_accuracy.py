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
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.leave_one_out import Case, leave_one_out
from benchmarks.leave_one_out import table as left_out_table
from npu.errors import UserError
from npu.hardware.loader import load_variant
from npu.hardware.variant import Port, Variant
from npu.isa.decode import decode
from npu.tflite.reader import read_model
from sim.container import jobs_of
from sim.timing import schedule
from sim.trace import Totals

RESOLUTION_CYCLES = 1000
"""Total cycles of the measurements move in steps of this size; a smaller difference is no error."""

OLD_RELEASE = (3, 4, 0)
"""Releases before this one need numpy below 1.20, which needs a Python below 3.10."""

REASONS = {
    "target": "another target than the shipped ones (Ethos-U85)",
    "compiler": "no released compiler version named",
    "cycles": "no cycle count of a simulated platform",
    "model": "model not in the folder",
    "hash": "another file of that name in the folder",
    "install": "compiler could not be installed or run here",
    "fields": "a field that is missing or that nothing here knows",
    "jobs": "no single NPU job in the compiled file",
}
"""Why records are left out."""

FIELDS = ("id", "model", "accelerator", "system_config", "memory_mode", "vela_version")
"""What every record must have."""

CONSTANTS = {
    "weight_decode_bits_per_cycle": ("bits / cycle", "compressed weights that the decoder of a core parses"),
    "operation_overhead_cycles": ("cycles", "from the hand-over of a kernel operation to its first input fetch"),
    "port_beat_cycles": ("cycles / beat", "what a data beat takes on a port with ideal memory"),
    "max_burst_bytes": ("bytes", "longest AXI burst"),
    "burst_hold_fraction": ("1", "part of a burst's beats for which it still occupies an outstanding slot"),
    "weight_window_bytes": ("bytes", "compressed weights that a core asks for ahead of their use"),
}
"""Unit and meaning of the constants of `configs/base` that the measurements decide."""

MONOTONE = (
    "More latency is not always slower in this model: in sweeps of the read latency in steps of 2 or 3 cycles on rnnoise (as "
    "this compiler makes it) and Ethos-U55-128, 5 of 75 steps made the job shorter, by 0.16 % at most (with the bandwidth caps "
    "off 3 of 75, by 0.22 %). No step did on kws, nor on either when only the flash's bandwidth cap was lowered. Two of the "
    "steps were traced. From 48 to 51 cycles the copy of a table of 256 bytes starts 156 cycles later, falls otherwise into "
    "the adapter's windows of 400 cycles and takes 187 instead of 281. From 54 to 57 a table is asked for 768 cycles later, no "
    "longer before the weights of a convolution, which arrive 316 cycles earlier. The other steps were not traced, and no "
    "measurement shows whether hardware does the same."
)

PLATFORMS = (
    "FVP is Arm's Fixed Virtual Platform for Corstone, a closed simulator whose NPU counts cycles, not silicon; no pair of "
    "published measurements shows how far the two are apart on Ethos-U55 and Ethos-U65. The records are not part of this "
    "project; `benchmarks/timing_accuracy.py` describes the file that it takes. Platforms of the records compared: "
)

LEFT_OUT = (
    "For each model the constants below were chosen anew from the records of the other models (without the sweeps of the "
    "memories), and the records of the model itself were predicted with them: of all combinations of a coarse grid the one "
    "with the smallest mean error (`benchmarks/leave_one_out.py`). The other constants keep their values, because only a few "
    "records tell anything about each. Both families share the constants. The rules of the model were written with all "
    "measurements in view, which cannot be left out. A network of many small operators tells what the others do not: where "
    "rnnoise is left out, nothing bounds the overhead of an operation and little the decoder, and the choice ends at or near "
    "the border of the grid."
)

SWEEPS = (
    "Change of the total cycles when only the timing adapter changes, against the same model and target with the usual one. "
    f"Measured totals move in steps of {RESOLUTION_CYCLES:,} cycles and are up to one step above the cycles at work, so that a "
    "difference of two of them may be off by a step either way: `between` is the range that this leaves for the true change. "
    "`holds` says whether the prediction has the sign and 80 % of the size of the measured change; where it has not, how far "
    "it lies outside the range."
)

TARGETS = {"U55-32, -64, -128": (2.0, 6.0), "U55-256": (4.0, 10.0), "U65": (6.0, 12.0), "no memory delays": (3.0, 8.0)}
"""Goals in percent: mean and worst error of a group."""

ADAPTER_FIELDS = {
    "MAXR": "max_outstanding_reads",
    "MAXW": "max_outstanding_writes",
    "RLATENCY": "read_latency_cycles",
    "WLATENCY": "write_latency_cycles",
    "PULSE_ON": "pulse_on_cycles",
    "PULSE_OFF": "pulse_off_cycles",
    "BWCAP": "beats_per_window",
}


TARGET = r"ethos-u(55-(32|64|128|256)|65-(256|512))"


class SeveralJobs(Exception):
    """A compiled file does not hold exactly one NPU job, which is what a record measures."""


@dataclass(frozen=True)
class Comparison:
    """A record and what the model says to it."""

    record: dict[str, Any]
    totals: Totals
    is_same_binary: bool | None
    compiled: Path | None = None

    @property
    def measured(self) -> int:
        return int(self.record.get("active_cycles") or self.record["total_cycles"])

    @property
    def error(self) -> float:
        """Signed error in percent; 0 within the resolution of the measurement."""
        return self.error_of(self.totals.npu_active_cycles)

    def error_of(self, predicted: int) -> float:
        """The error that a prediction would have."""
        difference = predicted - self.measured
        return 0.0 if abs(difference) <= RESOLUTION_CYCLES else 100.0 * difference / self.measured

    @property
    def is_inferred(self) -> bool:
        """Whether the compiler's version, and so the binary, is a guess: shown, but not part of any mean."""
        return version_of(self.record) != str(self.record["vela_version"])

    @property
    def vela_error(self) -> float | None:
        estimate = self.record.get("vela_estimate")
        return 100.0 * (estimate["total"] - self.measured) / self.measured if estimate else None

    @property
    def group(self) -> str:
        if self.record.get("timing_adapter") == "off":
            return "no memory delays"
        family, macs = self.record["accelerator"].removeprefix("ethos-").split("-")
        if family == "u65":
            return "U65"
        return "U55-256" if macs == "256" else "U55-32, -64, -128"


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


def read_records(path: Path) -> list[Any]:
    """The list `records` of a YAML file; ends the program with one line if there is none."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise SystemExit(f"{path}: must be a readable YAML file, got: {' '.join(str(error).split())[:300]}") from error
    records = content.get("records") if isinstance(content, dict) else None
    if not isinstance(records, list) or not records:
        raise SystemExit(f"{path}: must hold a list `records` with at least one record")
    return records


def version_of(record: dict[str, Any]) -> str:
    """The release of Vela that a record names, without remarks; empty if there is none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?(?=$|[\s?(])", str(record.get("vela_version")))
    return f"{found[1]}.{found[2]}.{found[3] or 0}" if found else ""


def reason_to_skip(record: dict[str, Any], models: Path) -> str:
    """Why a record cannot be used, empty if it can."""
    if not isinstance(record, dict):
        return "fields"
    missing = [field for field in FIELDS if not isinstance(record.get(field), str)]
    if missing:
        is_unnamed = missing == ["vela_version"] and "vela_version" in record and record["vela_version"] is None
        return "compiler" if is_unnamed else "fields"
    if not is_known_system(record):
        return "fields" if re.fullmatch(TARGET, record["accelerator"]) else "target"
    if not re.fullmatch(TARGET, record["accelerator"]):
        return "target"
    if not version_of(record):
        return "compiler"
    if not (record.get("active_cycles") or record.get("total_cycles")) or record.get("platform") != "fvp":
        return "cycles"
    path = models / record["model"]
    if not path.is_file():
        return "model"
    stated = record.get("model_sha256")
    return "hash" if stated and stated != hashlib.sha256(path.read_bytes()).hexdigest() else ""


def is_known_system(record: dict[str, Any]) -> bool:
    """Whether the record's target, system, memory mode and change of adapters are known here, with whole numbers."""
    for field in ("active_cycles", "total_cycles"):
        if not isinstance(record.get(field), int | None) or (record.get(field) or 0) < 0:
            return False
    try:
        variant_of(record)
    except (UserError, KeyError, ValueError, TypeError, AttributeError):
        return False
    return True


def compare(record: dict[str, Any], models: Path, settings: Path | None, options: argparse.Namespace) -> Comparison:
    """Compiles the model as the record says and times its streams."""
    compiled = compile_model(record, models / record["model"], settings, options)
    data = compiled.read_bytes()
    stated = record.get("vela_output_sha256")
    same = None if not stated else stated == hashlib.sha256(data).hexdigest()
    return Comparison(record, totals_of(data, variant_of(record)), same, compiled)


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


def compile_model(record: dict[str, Any], model: Path, settings: Path | None, options: argparse.Namespace) -> Path:
    """The compiled file, from the cache in the work folder if it is there."""
    version, target = version_of(record), record["accelerator"]
    arguments = (record.get("vela_args") or "--optimise Performance").split()
    plain = arguments == ["--optimise", "Performance"]
    folder = options.work / version / target / record["system_config"] / record["memory_mode"]
    if not plain:
        folder /= re.sub(r"\W+", "_", " ".join(arguments))
    output = folder / f"{model.stem}_vela.tflite"
    if output.exists():
        return output
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(compiler(version, options)), "--accelerator-config", target, "--system-config", record["system_config"]]
    command += ["--memory-mode", record["memory_mode"], "--output-dir", str(folder.resolve())]
    if settings is not None and f"[System_Config.{record['system_config']}]" in settings.read_text():
        command += ["--config", str(settings)]
    if plain and release(version) < (3, 0, 0):
        arguments = []  # Before 3.0 there was no choice.
    subprocess.run([*command, *arguments, str(model.resolve())], check=True, capture_output=True)
    return output


def release(version: str) -> tuple[int, ...]:
    """A version as numbers, to compare."""
    return tuple(int(part) for part in version.split("."))


def compiler(version: str, options: argparse.Namespace) -> Path:
    """The `vela` program of a version, installed into an environment of its own on first use."""
    home = (options.work / f"vela-{version}").resolve()
    program = home / "bin" / "vela"
    if not program.exists():
        requirements = [f"ethos-u-vela=={version}"]
        python = sys.executable
        if release(version) < OLD_RELEASE:
            python = old_python(options.old_python)
            requirements.append("numpy<1.24")
        subprocess.run([python, "-m", "venv", "--clear", str(home)], check=True, capture_output=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
        subprocess.run(pip, check=True, capture_output=True)
    return program


def old_python(given: Path | None) -> str:
    """An interpreter that old releases install into. OSError if there is none."""
    found = given or shutil.which("python3.8") or shutil.which("python3.9")
    if not found or not os.access(found, os.X_OK):
        raise FileNotFoundError("releases of Vela before 3.4 need Python 3.8 or 3.9: give one with --old-python")
    return str(found)


def variant_of(record: dict[str, Any]) -> Variant:
    """The shipped target with the record's system, its adapters changed as the record says."""
    system = record["system_config"]
    if record.get("timing_adapter") == "off":
        return load_variant(record["accelerator"], system=f"{system}_Ideal", memory_mode=record["memory_mode"])
    variant = load_variant(record["accelerator"], system=system, memory_mode=record["memory_mode"])
    adapters = dict(variant.system.adapters)
    for key, value in (record.get("timing_adapter_change") or {}).items():
        side, _, field = key.partition("_")
        port = Port.AXI0 if side == "SRAM" else Port.AXI1
        adapters[port] = replace(adapters[port], **{ADAPTER_FIELDS[field]: int(value)})
    return replace(variant, system=replace(variant.system, adapters=adapters))


def totals_of(data: bytes, variant: Variant) -> Totals:
    """Totals of the one NPU job of a compiled model."""
    jobs = list(jobs_of(read_model(data)))
    if len(jobs) != 1:
        raise SeveralJobs
    words = jobs[0].payload.words
    return schedule(decode(words, variant), variant, stream_words=len(words)).totals


def group_table(compared: Iterable[Comparison]) -> list[str]:
    """Rows of mean and worst error per group, the goal and Vela's error beside them."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for item in compared:
        if not item.record.get("timing_adapter_change") and not item.is_inferred:
            groups[item.group].append(item)
    rows = [
        "| group | records | mean error | worst | goal mean | goal worst | Vela's mean | Vela's worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (goal_mean, goal_worst) in TARGETS.items():
        errors = [abs(item.error) for item in groups[name]]
        vela = [abs(item.vela_error) for item in groups[name] if item.vela_error is not None]
        if errors:
            ours = f"{sum(errors) / len(errors):.1f} % | {max(errors):.1f} %"
            theirs = f"{sum(vela) / len(vela):.1f} % | {max(vela):.1f} %" if vela else " | "
            rows.append(f"| {name} | {len(errors)} | {ours} | {goal_mean:g} % | {goal_worst:g} % | {theirs} |")
    return rows


def bands(compared: Iterable[Comparison]) -> dict[str, tuple[str, str, list[Comparison]]]:
    """Per target: the system and memory mode of most records with the usual timing adapter, and those records."""
    found: dict[str, dict[tuple[str, str], list[Comparison]]] = defaultdict(lambda: defaultdict(list))
    for item in compared:
        is_usual = item.record.get("timing_adapter") != "off" and not item.record.get("timing_adapter_change")
        if is_usual and not item.is_inferred:
            variant = variant_of(item.record)
            found[variant.name][variant.system.name, variant.memory_mode.name].append(item)
    most = {name: max(kinds.items(), key=lambda kind: len(kind[1])) for name, kinds in found.items()}
    return {name: (*kind, items) for name, (kind, items) in most.items()}


def mean_and_worst(items: list[Comparison]) -> tuple[float, float]:
    """Absolute errors in percent, to one digit."""
    errors = [abs(item.error) for item in items]
    return round(sum(errors) / len(errors), 1), round(max(errors), 1)


def target_table(compared: list[Comparison]) -> list[str]:
    """Rows of mean and worst error per target with its memories, Vela's estimate beside it, and without memory delays."""
    errors = ("records", "mean error", "worst")
    titles = ("target", *errors, "Vela's mean", "Vela's worst", *(f"no delays: {error}" for error in errors))
    rows = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    ideal: dict[str, list[Comparison]] = defaultdict(list)
    for item in compared:
        if item.record.get("timing_adapter") == "off":
            ideal[item.record["accelerator"]].append(item)
    for name, (_, _, items) in bands(compared).items():
        mean, worst = mean_and_worst(items)
        vela = [abs(item.vela_error) for item in items if item.vela_error is not None]
        theirs = f"{sum(vela) / len(vela):.1f} % | {max(vela):.1f} %" if vela else " | "
        without = mean_and_worst(ideal[name]) if ideal[name] else None
        last = f"{len(ideal[name])} | {without[0]:.1f} % | {without[1]:.1f} %" if without else "0 | | "
        rows.append(f"| {name} | {len(items)} | {mean:.1f} % | {worst:.1f} % | {theirs} | {last} |")
    return rows


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


def document(compared: list[Comparison], skipped: dict[str, int], left_out: list[str] | None = None) -> str:
    """The whole of docs/timing-accuracy.md."""
    worst = sorted((item for item in compared if item.error), key=lambda item: -abs(item.error))[:8]
    same = sum(item.is_same_binary is True for item in compared)
    platforms = Counter(str(item.record.get("platform", "an unknown platform")) for item in compared)
    parts = [
        "# Accuracy of the timing model",
        "Generated by `benchmarks/timing_accuracy.py`; do not edit. Predicted cycles against measured NPU-active cycles (total "
        f"cycles where a record has no others) of {len(compared)} of {len(compared) + sum(skipped.values())} records. {same} "
        f"of the compiled files are byte for byte the files that were measured. A difference of at most {RESOLUTION_CYCLES} "
        "cycles counts as none: the measured totals move in steps of that size.",
        PLATFORMS + ", ".join(f"`{name}` {count}" for name, count in platforms.most_common()) + ".",
        "Most of these records were also used to calibrate the constants whose `source` in `configs/base/*.yaml` says so: the "
        "figures say how well these physical constants fit all of them at once"
        + (", the table of left-out models how far a new model will be off" if left_out else ", not how far a new model is off")
        + ". Records "
        "of other compiler versions than 5.0.0 took no part in the calibration.",
        "\n".join(constant_table()),
        "Left out: "
        + "; ".join(f"{count} with {REASONS[reason]}" for reason, count in sorted(skipped.items(), key=lambda each: -each[1]))
        + ".",
        "## Error per target",
        "With the timing adapters of the measurement campaign, and without memory delays. The first three figures are the "
        "error band that reports print beside the total.",
        "\n".join(target_table(compared)),
        "## Error per group",
        "\n".join(group_table(compared)),
        *(["## Models that took no part in the calibration", LEFT_OUT, "\n".join(left_out)] if left_out else []),
        "## Traffic",
        "Differences of the beat counters, predicted minus measured.",
        "\n".join(traffic_table(compared)),
        "## Memory sensitivity",
        SWEEPS,
        "\n".join(sweep_table(compared)),
        MONOTONE,
        "## Records of guessed compiler versions",
        "The records state the release that was most likely used; the measured binaries are not known. They count in no mean.",
        "\n".join(record_table(item for item in compared if item.is_inferred)),
        "## Largest errors",
        "\n".join(record_table(worst)),
        "## All records",
        "\n".join(record_table(compared)),
    ]
    return "\n\n".join(parts) + "\n"


def constant_table() -> list[str]:
    """Rows of the constants that are calibrated: values, unit, meaning, and what decided them."""
    folder = Path(__file__).parents[1] / "configs" / "base"
    sources = {
        name: yaml.safe_load((folder / f"{name}.yaml").read_text())["timing"]["source"] for name in ("ethos-u55", "ethos-u65")
    }
    values = [load_variant(name).timing for name in ("ethos-u55-128", "ethos-u65-256")]
    rows = ["| constant | U55 | U65 | unit | meaning | source |", "|---|---|---|---|---|---|"]
    for name, (unit, meaning) in CONSTANTS.items():
        told = "; U65: ".join(sources[base][name] for base in sources if name in sources[base])
        u55, u65 = (getattr(timing, name) for timing in values)
        rows.append(f"| `{name}` | {u55:g} | {u65:g} | {unit} | {meaning} | {told} |")
    return rows


def record_table(compared: Iterable[Comparison]) -> list[str]:
    rows = ["| record | measured | predicted | error | Vela's error | same binary |", "|---|---|---|---|---|---|"]
    for item in compared:
        vela = "" if item.vela_error is None else f"{item.vela_error:+.1f} %"
        same = {True: "yes", False: "no", None: ""}[item.is_same_binary]
        cycles = f"{item.measured:,} | {item.totals.npu_active_cycles:,}"
        rows.append(f"| {item.record['id']} | {cycles} | {item.error:+.1f} % | {vela} | {same} |")
    return rows


def traffic_table(compared: Iterable[Comparison]) -> list[str]:
    rows = ["| record | AXI0 read | AXI0 write | AXI1 read |", "|---|---|---|---|"]
    for item in compared:
        record, totals = item.record, item.totals
        pairs = (
            (totals.axi0_read_beats, record.get("axi0_rd_beats")),
            (totals.axi0_write_beats, record.get("axi0_wr_beats")),
            (totals.axi1_read_beats, record.get("axi1_rd_beats")),
        )
        if all(measured is not None for _, measured in pairs):
            cells = " | ".join(f"{ours - theirs:+d} of {theirs:,}" for ours, theirs in pairs)
            rows.append(f"| {record['id']} | {cells} |")
    return rows


def sweep_table(compared: list[Comparison]) -> list[str]:
    defaults = {
        (item.record["model"], item.record["accelerator"], item.record["vela_version"]): item
        for item in compared
        if not item.record.get("timing_adapter_change") and item.record.get("timing_adapter") != "off"
    }
    rows = ["| record | change | measured | between | predicted | holds |", "|---|---|---|---|---|---|"]
    for item in compared:
        change = item.record.get("timing_adapter_change")
        base = defaults.get((item.record["model"], item.record["accelerator"], item.record["vela_version"]))
        if change and base is not None:
            what = ", ".join(f"{key} {value}" for key, value in change.items())
            measured = item.record["total_cycles"] - base.record["total_cycles"]
            predicted = item.totals.npu_active_cycles - base.totals.npu_active_cycles
            low, high = measured - RESOLUTION_CYCLES, measured + RESOLUTION_CYCLES
            cells = f"{measured:+,} | {low:+,} to {high:+,} | {predicted:+,} | {sweep_verdict(measured, predicted)}"
            rows.append(f"| {item.record['id']} | {what} | {cells} |")
    return rows


def sweep_verdict(measured: int, predicted: int) -> str:
    """Whether a predicted change has the sign and 80 % of the size of the measured one, else how it lies to its range."""
    if measured * predicted >= 0 and abs(predicted) * 10 >= abs(measured) * 8:
        return "yes"
    outside = abs(predicted - measured) - RESOLUTION_CYCLES
    return f"no, {outside:,} cycles outside" if outside > 0 else "within the steps"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
