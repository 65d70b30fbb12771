"""Compares the timing model with measured cycles: `python benchmarks/timing_accuracy.py RECORDS.yaml [--models DIR]`.

RECORDS.yaml holds a list `records`; a record is used when it names a model that is in the models folder (and has the stated
sha256), a target that this project ships, a released Vela version and a measured cycle count. Each model is compiled with
exactly that version of `ethos-u-vela`, from a virtual environment that is made on demand, and with `campaign.ini` beside
the records file when there is one; the hash of the output is compared with the record's. Prints the error per target and
writes docs/timing-accuracy.md. No state is kept outside --work.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from npu.hardware.loader import load_variant
from npu.hardware.variant import Port, Variant
from npu.isa.decode import decode
from npu.tflite.reader import read_model
from sim.container import jobs_of
from sim.timing import schedule
from sim.trace import Totals

RESOLUTION_CYCLES = 1000
"""Total cycles of the measurements move in steps of this size; a smaller difference is no error."""

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


@dataclass(frozen=True)
class Comparison:
    """A record and what the model says to it."""

    record: dict[str, Any]
    totals: Totals
    is_same_binary: bool | None

    @property
    def measured(self) -> int:
        return int(self.record.get("active_cycles") or self.record["total_cycles"])

    @property
    def error(self) -> float:
        """Signed error in percent; 0 within the resolution of the measurement."""
        difference = self.totals.npu_active_cycles - self.measured
        return 0.0 if abs(difference) <= RESOLUTION_CYCLES else 100.0 * difference / self.measured

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
    options = parser.parse_args(arguments)
    records = yaml.safe_load(options.records.read_text())["records"]
    models = options.models or options.records.parent / "models"
    settings = options.records.parent / "campaign.ini"
    compared, skipped = [], 0
    for record in records:
        reason = reason_to_skip(record, models)
        if reason:
            skipped += 1
            continue
        compared.append(compare(record, models, settings.resolve() if settings.exists() else None, options.work))
    text = document(compared, skipped)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(text)
    sys.stdout.write("\n".join(group_table(compared)) + f"\n{len(compared)} records, {skipped} skipped\n")
    return 0


def reason_to_skip(record: dict[str, Any], models: Path) -> str:
    """Why a record cannot be used, empty if it can."""
    if not re.fullmatch(r"ethos-u(55-(32|64|128|256)|65-(256|512))", str(record.get("accelerator"))):
        return "target"
    if not re.fullmatch(r"\d+\.\d+\.\d+", str(record.get("vela_version"))):
        return "compiler"
    if not record.get("total_cycles") or record.get("platform") != "fvp":
        return "cycles"
    path = models / record["model"]
    if not path.is_file():
        return "model"
    stated = record.get("model_sha256")
    return "hash" if stated and stated != hashlib.sha256(path.read_bytes()).hexdigest() else ""


def compare(record: dict[str, Any], models: Path, settings: Path | None, work: Path) -> Comparison:
    """Compiles the model as the record says and times its streams."""
    compiled = compile_model(record, models / record["model"], settings, work)
    data = compiled.read_bytes()
    stated = record.get("vela_output_sha256")
    same = None if not stated else stated == hashlib.sha256(data).hexdigest()
    return Comparison(record, totals_of(data, variant_of(record)), same)


def compile_model(record: dict[str, Any], model: Path, settings: Path | None, work: Path) -> Path:
    """The compiled file, from the cache in `work` if it is there."""
    version, target = record["vela_version"], record["accelerator"]
    folder = work / version / target / record["system_config"] / record["memory_mode"]
    output = folder / f"{model.stem}_vela.tflite"
    if output.exists():
        return output
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(compiler(version, work)), "--accelerator-config", target, "--system-config", record["system_config"]]
    command += ["--memory-mode", record["memory_mode"], "--output-dir", str(folder.resolve())]
    if settings is not None and f"[System_Config.{record['system_config']}]" in settings.read_text():
        command += ["--config", str(settings)]
    command += (record.get("vela_args") or "--optimise Performance").split()
    subprocess.run([*command, str(model.resolve())], check=True, capture_output=True)
    return output


def compiler(version: str, work: Path) -> Path:
    """The `vela` program of a version, installed into an environment of its own on first use."""
    home = work / f"vela-{version}"
    program = home.resolve() / "bin" / "vela"
    if not program.exists():
        venv.create(home, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", f"ethos-u-vela=={version}"]
        subprocess.run(pip, check=True, capture_output=True)
    return program


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
    (job,) = jobs_of(read_model(data))
    words = job.payload.words
    return schedule(decode(words, variant), variant, stream_words=len(words)).totals


def group_table(compared: Iterable[Comparison]) -> list[str]:
    """Rows of mean and worst error per group, the goal and Vela's error beside them."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for item in compared:
        if not item.record.get("timing_adapter_change"):
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


def document(compared: list[Comparison], skipped: int) -> str:
    """The whole of docs/timing-accuracy.md."""
    worst = sorted((item for item in compared if item.error), key=lambda item: -abs(item.error))[:8]
    same = sum(item.is_same_binary is True for item in compared)
    parts = [
        "# Accuracy of the timing model",
        "Generated by `benchmarks/timing_accuracy.py`; do not edit. Predicted cycles against measured NPU-active cycles (total "
        f"cycles where a record has no others) of {len(compared)} records; {skipped} records were left out because the model, "
        f"the target or the compiler's version is not available. {same} of the compiled files are byte for byte the files that "
        f"were measured. A difference of at most {RESOLUTION_CYCLES} cycles counts as none: the measured totals move in steps "
        "of that size.",
        "## Error per group",
        "\n".join(group_table(compared)),
        "## Traffic",
        "Differences of the beat counters, predicted minus measured.",
        "\n".join(traffic_table(compared)),
        "## Memory sensitivity",
        "Change of the cycles when only the timing adapter changes, against the same model and target with the usual one.",
        "\n".join(sweep_table(compared)),
        "## Largest errors",
        "\n".join(record_table(worst)),
        "## All records",
        "\n".join(record_table(compared)),
    ]
    return "\n\n".join(parts) + "\n"


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
    rows = ["| record | change | measured | predicted |", "|---|---|---|---|"]
    for item in compared:
        change = item.record.get("timing_adapter_change")
        base = defaults.get((item.record["model"], item.record["accelerator"], item.record["vela_version"]))
        if change and base is not None:
            what = ", ".join(f"{key} {value}" for key, value in change.items())
            measured = item.record["total_cycles"] - base.record["total_cycles"]
            predicted = item.totals.npu_active_cycles - base.totals.npu_active_cycles
            rows.append(f"| {item.record['id']} | {what} | {measured:+,} | {predicted:+,} |")
    return rows


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
