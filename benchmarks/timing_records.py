"""Records of measured cycles: what one must hold, the compiled file that it names, and what the timing model says to it."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from npu.errors import UserError
from npu.hardware.build import build_record
from npu.hardware.catalogue import load_variant
from npu.hardware.variant import Port, TimingAdapter, Variant
from npu.isa.decode import decode
from npu.isa.operations import Operation
from npu.tflite.reader import read_model
from sim.container import jobs_of
from sim.timing import schedule
from sim.trace import JobTotals

RESOLUTION_CYCLES = 1000
"""Total cycles of the measurements move in steps of this size; a smaller difference is no error."""

OLD_RELEASE = (3, 4, 0)
"""Releases before this one need numpy below 1.20, which needs a Python below 3.10."""

REASONS = {
    "target": "another target than the shipped ones",
    "compiler": "no released compiler version named",
    "cycles": "no cycle count of a simulated platform",
    "model": "model not in the folder",
    "hash": "another file of that name in the folder",
    "install": "compiler could not be installed or run here",
    "fields": "a field that is missing or that nothing here knows",
    "stream": "a compiled file that nothing here can read",
}
"""Why records are left out."""

FIELDS = ("id", "model", "accelerator", "system_config", "memory_mode", "vela_version")
"""What every record must have."""

ADAPTER_FIELDS = {
    "MAXR": "max_outstanding_reads",
    "MAXW": "max_outstanding_writes",
    "RLATENCY": "read_latency_cycles",
    "WLATENCY": "write_latency_cycles",
    "PULSE_ON": "pulse_on_cycles",
    "PULSE_OFF": "pulse_off_cycles",
    "BWCAP": "beats_per_window",
}

ADAPTERS = {
    "Ethos_U55_High_End_Embedded": "u55_high_end",
    "Ethos_U65_High_End": "u65_high_end",
    **{f"Ethos_U85_SYS_DRAM_{size}": f"u85_sys_dram_{size.lower()}" for size in ("Low", "Mid", "High")},
    "Ethos_U85_SYS_DRAM_Mid_1024": "u85_sys_dram_mid",
}
"""Name of the adapters that shipped systems carry."""

CONFIGURATION = {"ethos-u85": ["--config", "Arm/vela.ini", "--arena-cache-size", str(384 * 1024)]}
"""With what the measured files of a family were compiled besides what their records say: systems of Vela's own, and a cache."""

TWO_PORTS = "Ethos_U85_SYS_DRAM_Mid_1024"
TWO_PORTS_INI = f"[System_Config.{TWO_PORTS}]\ninherit=System_Config.Ethos_U85_SYS_DRAM_Mid\nDram_ports_used=2\n"
"""A system of Arm's evaluation kit that Vela does not bring."""

_SLOTS = 64
"""Outstanding transactions have 6 bits in an adapter's registers: 64 means 0, as many as wanted."""

NUMBERS = (
    *("active_cycles", "total_cycles", "axi0_rd_beats", "axi0_wr_beats", "axi1_rd_beats"),
    *("sram_rd_plus_wr_beats", "ext_rd_plus_wr_beats"),
)
"""Fields that are whole numbers from 0 up, or missing."""

COUNTS = (
    *("total_cycles", "npu_active_cycles", "macs"),
    *("axi0_read_beats", "axi0_write_beats", "axi1_read_beats", "axi1_write_beats"),
)
"""Totals that add up over jobs."""

TARGET = r"ethos-u(55-(32|64|128|256)|65-(256|512)|85-(128|256|512|1024|2048))"


@dataclass(frozen=True)
class Comparison:
    """A record and what the model says to it."""

    record: dict[str, Any]
    totals: JobTotals
    is_same_binary: bool | None
    compiled: Path | None = None

    @property
    def name(self) -> str:
        """The record's id as the cell of a table."""
        return " ".join(self.record["id"].split()).replace("|", "\\|")

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
        if is_ideal(self.record):
            return "no memory delays"
        family, macs = self.record["accelerator"].removeprefix("ethos-").split("-")
        if family != "u55":
            return str(family.upper())
        return "U55-256" if macs == "256" else "U55-32, -64, -128"


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
    estimate = record.get("vela_estimate")
    numbers = [record.get(field) for field in NUMBERS]
    if estimate is not None:
        numbers.append(estimate.get("total", "") if isinstance(estimate, dict) else "")
    if not all(number is None or (type(number) is int and number >= 0) for number in numbers):
        return False
    if Path(record["model"]).name != record["model"] or not isinstance(record.get("vela_args"), str | None):
        return False
    try:
        variant_of(record)
    except (UserError, KeyError, ValueError, TypeError, AttributeError):
        return False
    return True


def is_ideal(record: dict[str, Any]) -> bool:
    """Whether a record was made without memory delays; YAML reads a bare `off` as false."""
    adapter = record.get("timing_adapter")
    return adapter == "off" or adapter is False


def system_of(record: dict[str, Any]) -> str:
    """The shipped system of a record: of those with the size of an array behind the name, one is another than without it."""
    return re.sub(
        r"^(Ethos_U85_SYS_DRAM_(?:Mid_512|High_2048))$", lambda name: name[1].rpartition("_")[0], record["system_config"]
    )


def variant_of(record: dict[str, Any]) -> Variant:
    """The shipped target with the record's system, its adapters changed as the record says.

    Raises UserError, KeyError, ValueError, TypeError or AttributeError for what nothing here knows.
    """
    system, target = system_of(record), record["accelerator"]
    changes = dict(record.get("timing_adapter_change") or {})
    if is_ideal(record):
        if changes:
            raise ValueError("a record without adapters must not change them")
        return load_variant(target, system=f"{system}_Ideal", memory_mode=record["memory_mode"])
    variant = load_variant(target, system=system, memory_mode=record["memory_mode"])
    adapters = dict(variant.system.adapters)
    if (record.get("timing_adapter") or ADAPTERS[system]) != ADAPTERS[system]:
        raise ValueError("adapters that no shipped system has")
    for key, value in changes.items():
        side, _, field = key.partition("_")
        port = {"SRAM": Port.AXI0, "EXT": Port.AXI1}[side]
        value = value % _SLOTS if field in ("MAXR", "MAXW") else value
        fields = asdict(adapters[port]) | {ADAPTER_FIELDS[field]: value}
        adapters[port] = build_record(TimingAdapter, fields, (key,), lambda _: str(record["id"]))
    return replace(variant, system=replace(variant.system, adapters=adapters))


def compare(record: dict[str, Any], models: Path, settings: Path | None, options: argparse.Namespace) -> Comparison:
    """Compiles the model as the record says and times its streams."""
    compiled = compile_model(record, models / record["model"], settings, options)
    data = compiled.read_bytes()
    stated = record.get("vela_output_sha256")
    same = None if not stated else stated == hashlib.sha256(data).hexdigest()
    return Comparison(record, totals_of(data, variant_of(record)), same, compiled)


def compile_model(record: dict[str, Any], model: Path, settings: Path | None, options: argparse.Namespace) -> Path:
    """The compiled file, from the cache in the work folder if it is there."""
    version, target = version_of(record), record["accelerator"]
    arguments = (record.get("vela_args") or "--optimise Performance").split()
    plain = arguments == ["--optimise", "Performance"]
    system = system_of(record)
    folder = options.work / version / target / system / record["memory_mode"]
    if not plain:
        folder /= re.sub(r"\W+", "_", " ".join(arguments))
    output = folder / f"{model.stem}_vela.tflite"
    made_from = [model] if settings is None else [model, settings]
    if output.exists() and all(output.stat().st_mtime >= source.stat().st_mtime for source in made_from):
        return output
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(compiler(version, options)), "--accelerator-config", target, "--system-config", system]
    command += ["--memory-mode", record["memory_mode"], "--output-dir", str(folder.resolve())]
    command += CONFIGURATION.get(target[:9], [])
    if system == TWO_PORTS:
        (folder / "system.ini").write_text(TWO_PORTS_INI)
        command += ["--config", str((folder / "system.ini").resolve())]
    if settings is not None and f"[System_Config.{system}]" in settings.read_text():
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


def totals_of(data: bytes, variant: Variant) -> JobTotals:
    """Totals of all NPU jobs of a compiled model, one after the other."""
    found = [schedule(operations, variant, stream_words=words).totals for operations, words in jobs_in(data, variant)]
    if not found:
        raise UserError("a measured file must hold an NPU job, got none")
    counts = {name: sum(getattr(totals, name) for totals in found) for name in COUNTS}
    return replace(found[0], **counts, memory_read_bytes={}, memory_write_bytes={})


def streams_of(compiled: Path | None, variant: Variant) -> list[tuple[list[Operation], int]]:
    """Operations and words of the stream of each NPU job of a compiled file."""
    assert compiled is not None
    return jobs_in(compiled.read_bytes(), variant)


def jobs_in(data: bytes, variant: Variant) -> list[tuple[list[Operation], int]]:
    """Operations and words of the stream of each NPU job."""
    streams = [job.payload.words for job in jobs_of(read_model(data))]
    return [([item.operation for item in decode(words, variant)], len(words)) for words in streams]
