"""What operations and bytes cost in energy: ranges between published figures, each with its source in the file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from npu.hardware.build import build_record
from npu.hardware.document import read_document
from npu.hardware.shipped import configs_folder
from npu.records import dataclass

FILE = Path("energy") / "published.yaml"
"""In the folder of the shipped descriptions."""
PICO = 1e-12
MAC = "MAC"


@dataclass(frozen=True, slots=True)
class EnergyRange:
    """The lowest and the highest that is published."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class EnergyTable:
    """Picojoules of a multiply-accumulate, and of a byte of each memory by the name of its role."""

    mac_pj: EnergyRange
    byte_pj: Mapping[str, EnergyRange]


@dataclass(frozen=True, slots=True)
class Energy:
    """Of one inference: `low_mj` to `high_mj` of what has a published figure; `dominant` takes most of the high end.

    `unknown` are memories that were used but have no figure: their energy comes on top.
    """

    low_mj: float
    high_mj: float
    dominant: str
    unknown: tuple[str, ...]


def load_energy_table(folder: Path | None = None) -> EnergyTable:
    """The shipped table. ConfigError for a file that is none."""
    return _load(folder or configs_folder())


@lru_cache(maxsize=4)
def _load(folder: Path) -> EnergyTable:
    path = folder / FILE
    document = read_document(path, "a table of energies", example="mac_pj: {low: 0.1, high: 0.3}")
    return build_record(EnergyTable, document, (), lambda key: f"{path}: {'.'.join(key)}")


def energy_of(macs: int, traffic: Mapping[str, int], table: EnergyTable) -> Energy:
    """The energy of multiply-accumulates and of bytes by the name of their memory."""
    parts = {MAC: (macs, table.mac_pj)} | {
        memory: (size, table.byte_pj[memory]) for memory, size in traffic.items() if memory in table.byte_pj
    }
    high = {name: count * part.high * PICO * 1e3 for name, (count, part) in parts.items()}
    low = sum(count * part.low * PICO * 1e3 for count, part in parts.values())
    unknown = tuple(sorted(memory for memory, size in traffic.items() if size and memory not in table.byte_pj))
    return Energy(low, sum(high.values()), max(high, key=lambda name: high[name]), unknown)
