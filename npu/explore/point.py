"""One point of a space: a model, hardware, options of the compiler; what it measures is what `npu run --timing-only` says."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from npu.digests import sha256
from npu.errors import UserError
from npu.hardware.board import BOARD
from npu.hardware.choice import Hardware
from npu.hardware.energy import Energy, energy_of, load_energy_table
from npu.hardware.shipped import BOARDS_FOLDER
from npu.native.sources import PACKAGES, ROOT
from npu.records import dataclass
from npu.reports.report import Report, Totals
from npu.toolchain.session import DEFAULT_PROFILE, Session
from npu.toolchain.sources import Source, contents, model_name
from npu.toolchain.timing import time_model
from npu.version import __version__

PointRow = dict[str, Any]
"""Columns by name."""

RESULTS = (
    *(field.name for field in dataclasses.fields(Totals)),
    *("operators", "cpu_operators", "cpu_share"),
    *("energy_low_mj", "energy_high_mj", "energy_dominant"),
    *("npu_error_mean_percent", "npu_error_worst_percent"),
    *("outputs_equal", "error"),
)
"""What is measured at a point: the totals of a report, operators (of them on the CPU), the CPU's share of the cycles, energy of
the NPU part between published figures (`npu.hardware.energy` says of what), how far predictions of the NPU's cycles were from
measurements (None if there are none), whether the outputs equal those of the CPU kernels
(None if not asked), and why there is no result (None if there is one).
"""
TEXTS = {"error", "energy_dominant"}
"""Results that are no numbers."""
_SESSIONS = 8


@dataclass(frozen=True, slots=True)
class Point:
    """A point: `swept` are the fields that vary over the space, with the values here. Outputs are compared if asked."""

    model: Source
    hardware: Hardware
    profile: str = DEFAULT_PROFILE
    optimise: str = "performance"
    compares_outputs: bool = False
    swept: tuple[tuple[str, Any], ...] = ()

    @property
    def target(self) -> str:
        """The name of the target or board that was asked for."""
        return self.hardware.name.removeprefix(f"{BOARDS_FOLDER}/")

    @property
    def command(self) -> str:
        """The command line that gives these numbers."""
        model = model_name(self.model) if isinstance(self.model, bytes) else str(self.model)
        words = ["npu", "run", model, "--timing-only"]
        chosen = self.hardware
        words += ["--target", str(chosen.target)] if chosen.target is not None else []
        words += ["--config", str(chosen.config)] if chosen.config is not None else []
        words += ["--memory-mode", str(chosen.memory_mode)] if chosen.memory_mode is not None else []
        words += ["--system", str(chosen.system)] if chosen.system is not None else []
        words += [word for change in chosen.changes for word in ("--set", change)]
        words += ["--profile", self.profile] if self.profile != DEFAULT_PROFILE else []
        words += ["--optimise", self.optimise] if self.optimise != "performance" else []
        return shlex.join(words)

    def labels(self) -> PointRow:
        """The columns that say which point this is."""
        about = {"model": model_name(self.model), "target": self.target, "profile": self.profile, "optimise": self.optimise}
        return {**about, **dict(self.swept), "command": self.command, "npulab_version": __version__}

    def key(self, models: Mapping[Source, str]) -> str:
        """SHA-256 of everything that the result depends on; `models` has the digests of the files."""
        try:
            values = self.hardware.describe().values
            hardware: Any = {name: value for name, value in values.items() if name not in ("name", BOARD)}
        except UserError as error:
            hardware = str(error)
        options = (self.profile, self.optimise, self.compares_outputs)
        content = json.dumps([code_digest(), models[self.model], hardware, options], sort_keys=True)
        return sha256(content.encode())


def model_digest(model: Source) -> str:
    """SHA-256 of a model's file, or of the reason why it cannot be read."""
    try:
        return sha256(contents(model))
    except UserError as error:
        return str(error)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of the sources of this project: another version may give other numbers."""
    whole = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            whole.update(path.read_bytes())
    return whole.hexdigest()


def measure(point: Point) -> PointRow:
    """The results of a point; an error of the model or the hardware is one of them."""
    try:
        return _measured(point)
    except UserError as error:
        return failed(str(error))
    except MemoryError:
        return failed("the model must fit the memory of the process")


def failed(reason: str) -> PointRow:
    """The results of a point that has none."""
    return {**dict.fromkeys(RESULTS), "error": reason}


def _measured(point: Point) -> PointRow:
    session = _session(point.hardware, point.profile, point.optimise)
    timed = time_model(point.model, session)
    totals = dataclasses.asdict(timed.report.totals)
    rows = timed.report.operators
    on_cpu = sum(row.placement == "cpu" for row in rows)
    share = totals["cpu_cycles"] / totals["total_cycles"] if totals["total_cycles"] else None
    energy, band = npu_energy(timed.report), timed.report.timing_error
    return {
        **totals,
        "operators": len(rows),
        "cpu_operators": on_cpu,
        "cpu_share": share,
        "energy_low_mj": energy.low_mj,
        "energy_high_mj": energy.high_mj,
        "energy_dominant": energy.dominant,
        "npu_error_mean_percent": None if band is None else band.mean_error_percent,
        "npu_error_worst_percent": None if band is None else band.worst_error_percent,
        "outputs_equal": _outputs_equal(point.model, session) if point.compares_outputs else None,
        "error": None,
    }


def npu_energy(report: Report) -> Energy:
    """The energy of what the NPU multiplies and moves in one inference."""
    traffic: dict[str, int] = {}
    for row in report.operators:
        for memory, crossed in row.bytes.items():
            traffic[memory] = traffic.get(memory, 0) + crossed.read + crossed.write
    return energy_of(sum(row.macs for row in report.operators if row.placement == "npu"), traffic, load_energy_table())


def _outputs_equal(model: Source, session: Session) -> bool:
    """Whether every tensor of the compiled model equals that of the CPU kernels, on seeded random inputs."""
    from npu.toolchain.compile import compile as compile_verb
    from npu.toolchain.diff import diff

    return diff(model, compile_verb(model, session).content, session).first is None


@lru_cache(maxsize=_SESSIONS)
def _session(hardware: Hardware, profile: str, optimise: str) -> Session:
    """Points of the same hardware share what has been worked out, for as long as the process lives."""
    return Session(hardware, profile, optimise)
